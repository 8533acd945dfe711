//! From a store, or from who fetches outside of the engine, to memory, with size and hash compared before anyone sees a
//! byte.

use crate::catalog::Stream;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::{FileInfo, HashAlgo, hash};
use crate::pipeline::run::Run;
use crate::store::{FetchBuffer, FetchRequest, Fetcher, Length, Progress, Remote, fetch_whole};
use std::time::Duration;

/// How often a thread that waits for a download looks how far it is, and whether the epoch has ended: four times a second,
/// as all waits here, of which a machine may have thousands.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Where a stream's files come from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// The engine's own transports.
    Store(&'a Remote),
    /// Somebody else.
    Outside(&'a dyn Fetcher),
}

/// Fetches `file` of `stream`; `watch` is told how far it is, and whether that is farther than the last time.
///
/// # Errors
///
/// What the store says, `Checksum` when the bytes are not the recorded ones, `Closed` when `run` ends, which calls the
/// download off.
pub(super) fn fetch(
    stream: &Stream,
    origin: Origin<'_>,
    file: &FileInfo,
    run: &Run,
    watch: impl Fn(Progress, bool),
) -> Result<FetchBuffer> {
    let buffer = match origin {
        Origin::Store(remote) => fetch_from_store(remote, file, run, watch)?,
        Origin::Outside(fetcher) => fetch_outside(fetcher, file, run, watch)?.into(),
    };
    check(stream, file, &buffer)?;
    Ok(buffer)
}

fn fetch_from_store(
    remote: &Remote,
    file: &FileInfo,
    run: &Run,
    watch: impl Fn(Progress, bool),
) -> Result<FetchBuffer> {
    let len = usize::try_from(file.bytes).map_err(|_| {
        Error::new(ErrorKind::Unsupported, "a file does not fit this machine").with("file", &file.basename)
    })?;
    let mut ticket = remote.fetch(FetchRequest::new(&*file.basename, len))?;
    let mut seen = 0;
    loop {
        match ticket.wait_timeout(LOOK_EVERY) {
            Ok(done) => return done,
            Err(waiting) => ticket = waiting,
        }
        run.check()?;
        let progress = ticket.progress();
        let moved = progress.bytes != seen;
        seen = progress.bytes;
        watch(progress, moved);
    }
}

fn fetch_outside(fetcher: &dyn Fetcher, file: &FileInfo, run: &Run, watch: impl Fn(Progress, bool)) -> Result<Vec<u8>> {
    let look = |progress, moved| {
        run.check()?;
        watch(progress, moved);
        Ok(())
    };
    fetch_whole(fetcher, &file.basename, Length::Bytes(file.bytes), look)
}

/// Compares `bytes` with the hash the user asked for, or else with the cheapest that the index records.
pub(super) fn check(stream: &Stream, file: &FileInfo, bytes: &[u8]) -> Result<()> {
    let algo = stream.validate_hash.or_else(|| hash::cheapest(file.hashes.algos()));
    let Some(algo) = algo else { return Ok(()) };
    let Some(expected) = file.hash(algo) else { return Ok(()) };
    compare(algo, &expected, bytes).context("file", || &file.basename)
}

fn compare(algo: HashAlgo, expected: &str, bytes: &[u8]) -> Result<()> {
    let found = algo.hex(bytes);
    if found == expected {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Checksum, "a file does not match its hash in the index: it is damaged where it was read from, or belongs to another index")
        .with("hash", algo.name())
        .with("expected", expected)
        .with("found", found))
}
