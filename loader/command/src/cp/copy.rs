//! Copy of one object.

use super::jobs::Job;
use crate::output::Output;
use crate::reading::{Piece, Reading};
use forebay_loader::error::Context as _;
use forebay_loader::objects::{ObjectEntry, Objects};
use forebay_loader::store::{Upload, redact};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};
use indicatif::ProgressBar;

/// Copies with the options of a command.
pub(super) struct Copier<'a> {
    pub(super) objects: &'a Arc<Objects>,
    pub(super) output: &'a Output,
    pub(super) bar: ProgressBar,
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
                let message = "the target exists: pass --overwrite to replace it, or --skip-existing to leave out \
                               copies that are complete";
                return Err(Error::config(message).with("target", redact(&job.target)));
            }
        }
        self.write(job, size).context("source", || redact(&job.source))
    }

    fn write(&self, job: &Job, size: Option<u64>) -> Result<Outcome> {
        let reading = Reading::start(self.objects, &job.source, job.entry.as_ref(), 0)?;
        let mut upload: Option<Upload> = None;
        let mut copied = 0;
        let to_target = |error: Error| error.with("target", redact(&job.target));
        while !self.output.is_stopped() {
            match reading.next()? {
                Piece::None => {}
                // The target is touched once the source is there.
                Piece::Begin => upload = Some(self.objects.upload(&job.target, size).map_err(to_target)?),
                Piece::Bytes(bytes) => {
                    let len = bytes.len() as u64;
                    if let Some(upload) = &mut upload {
                        upload.write(bytes).map_err(to_target)?;
                    }
                    copied += len;
                    self.bar.inc(len);
                }
                Piece::End => {
                    if let Some(upload) = upload.take() {
                        upload.finish().map_err(to_target)?;
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
