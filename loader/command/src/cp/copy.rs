//! Copy of one object.

use super::buffers::Buffers;
use super::jobs::Job;
use crate::output::Output;
use crate::reading::{Piece, Reading};
use forebay_loader::error::Context as _;
use forebay_loader::objects::{ObjectEntry, Objects};
use forebay_loader::store::{Upload, redact};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};
use indicatif::ProgressBar;

/// Most bytes of an object that are fetched ahead of its upload: in one round trip of 20 ms, 400 MB/s. Eight objects
/// are in flight.
const AHEAD_BYTES: u64 = 8 << 20;

/// Copies with the options of a command.
pub(super) struct Copier<'a> {
    pub(super) objects: &'a Arc<Objects>,
    pub(super) output: &'a Output,
    pub(super) bar: ProgressBar,
    pub(super) buffers: Buffers,
    pub(super) overwrites: bool,
    pub(super) skips: bool,
}

/// Result of one copy, with its bytes.
pub(super) enum Outcome {
    Copied(u64),
    /// The object was there.
    Skipped(u64),
}

impl Copier<'_> {
    /// Copies an object, unless it is there and may be skipped.
    ///
    /// # Errors
    ///
    /// `Config` for a target that exists; `Closed` after a stop; errors of the stores. Nothing is left of the copy.
    pub(super) fn copy(&self, job: &Job) -> Result<Outcome> {
        let size = job.entry.as_ref().map(|entry| entry.size);
        if !self.overwrites || self.skips {
            let found = self.objects.find(&job.target).context("target", || redact(&job.target))?;
            if let (Some(found), Some(entry), true) = (&found, &job.entry, self.skips)
                && is_same(entry, found)
            {
                self.bar.inc(found.size);
                return Ok(Outcome::Skipped(found.size));
            }
            if found.is_some() && !self.overwrites {
                let message = if self.skips {
                    "the target exists and differs, or cannot be compared: pass --overwrite to replace it"
                } else {
                    "the target exists: pass --overwrite to replace it, or --skip-existing to leave out copies that \
                     are complete"
                };
                return Err(Error::config(message).with("target", redact(&job.target)));
            }
        }
        self.write(job, size).context("source", || redact(&job.source))
    }

    fn write(&self, job: &Job, size: Option<u64>) -> Result<Outcome> {
        let reading = Reading::start(self.objects, &job.source, job.entry.as_ref(), 0, AHEAD_BYTES)?;
        let (mut upload, mut buffer, mut copied) = (None::<Upload>, self.buffers.take(size), 0);
        let to_target = |error: Error| error.with("target", redact(&job.target));
        while !self.output.is_stopped() {
            match reading.next()? {
                Piece::None => {}
                // The target is touched once the source is there.
                Piece::Begin => upload = Some(self.objects.upload(&job.target, size).map_err(to_target)?),
                Piece::Bytes(bytes) => {
                    let (Some(upload), mut rest) = (&mut upload, &bytes[..]) else { continue };
                    // A copy: the bytes are a part of a larger block, which would be held until the store has them.
                    loop {
                        rest = buffer.fill(rest);
                        if rest.is_empty() {
                            break;
                        }
                        let full = std::mem::replace(&mut buffer, self.buffers.take(None));
                        upload.write(full.into_bytes()).map_err(to_target)?;
                    }
                    copied += bytes.len() as u64;
                    self.bar.inc(bytes.len() as u64);
                }
                Piece::End => {
                    if let Some(mut upload) = upload.take() {
                        upload.write(buffer.into_bytes()).and_then(|()| upload.finish()).map_err(to_target)?;
                    }
                    return Ok(Outcome::Copied(copied));
                }
            }
        }
        Err(Error::new(ErrorKind::Closed, "the copy was stopped"))
    }
}

/// Returns true if a copy has the size of its source, and the same entity tag or no earlier time.
fn is_same(source: &ObjectEntry, copy: &ObjectEntry) -> bool {
    let has_tag = source.etag.is_some() && source.etag == copy.etag;
    let is_newer = matches!((source.modified, copy.modified), (Some(before), Some(after)) if after >= before);
    source.size == copy.size && (has_tag || is_newer)
}
