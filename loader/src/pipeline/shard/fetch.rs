//! From a store to memory, with the hash compared before anyone sees a byte.

use crate::catalog::Stream;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::{FileInfo, HashAlgo, hash};
use crate::pipeline::shutdown::Run;
use crate::store::{FetchBuffer, FetchRequest, Progress, Remote};
use crate::sync::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// How often a thread that waits for a download looks whether the epoch has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Downloads under way, by key, for the report of a stall.
#[derive(Debug, Default)]
pub(super) struct Downloads {
    /// How far each is, as of the last look.
    under_way: Mutex<HashMap<String, Progress>>,
}

impl Downloads {
    /// Fetches `file` of `stream`, counting bytes as progress of `run`.
    ///
    /// # Errors
    ///
    /// What the store says, `Checksum` when the bytes are not the recorded ones, `Closed` when the run ends.
    pub(super) fn fetch(&self, stream: &Stream, remote: &Remote, file: &FileInfo, run: &Run) -> Result<FetchBuffer> {
        let len = usize::try_from(file.bytes).map_err(|_| {
            Error::new(ErrorKind::Unsupported, "a file does not fit this machine").with("file", &file.basename)
        })?;
        let mut ticket = remote.fetch(FetchRequest::new(file.basename.as_str(), len))?;
        let mut seen = 0;
        let fetched = loop {
            match ticket.wait_timeout(LOOK_EVERY) {
                Ok(done) => break done,
                Err(waiting) => ticket = waiting,
            }
            if run.is_stopped() {
                ticket.cancel();
                break run.check().map(|()| FetchBuffer::default());
            }
            let progress = ticket.progress();
            if progress.bytes != seen {
                seen = progress.bytes;
                run.advance();
            }
            self.under_way.lock().insert(file.basename.clone(), progress);
        };
        self.under_way.lock().remove(&file.basename);
        let buffer = fetched?;
        check(stream, file, &buffer)?;
        Ok(buffer)
    }

    /// What is known about the download of `file`.
    pub(super) fn describe(&self, file: &str) -> Option<String> {
        let under_way = self.under_way.lock();
        let p = under_way.get(file)?;
        Some(format!(
            "{file} is being downloaded: attempt {}, {} of {} bytes, no byte for {} s",
            p.attempt,
            p.bytes,
            p.len,
            p.idle.as_secs()
        ))
    }
}

/// Compares `bytes` with the hash the user asked for, or else with the cheapest that the index records.
fn check(stream: &Stream, file: &FileInfo, bytes: &[u8]) -> Result<()> {
    let algo = stream.validate_hash.or_else(|| hash::cheapest(file.hashes.iter().map(|(algo, _)| *algo)));
    let Some(algo) = algo else { return Ok(()) };
    let Some(expected) = file.hash(algo) else { return Ok(()) };
    compare(algo, expected, bytes).context("file", || &file.basename)
}

fn compare(algo: HashAlgo, expected: &str, bytes: &[u8]) -> Result<()> {
    let found = algo.hex(bytes);
    if found == expected {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Checksum, "a download does not match the hash in the index: the object in the store is damaged, or belongs to another index")
        .with("hash", algo.name())
        .with("expected", expected)
        .with("found", found))
}
