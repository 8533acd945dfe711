//! Comparison of the versions of open files.

use crate::error::{Error, Result};
use crate::versions::{self, FileFacts, Found, Versions};
use rustix::fs::Stat;
use std::os::fd::AsFd;

/// Compares the version of an open file with the one in `versions` under its name.
///
/// # Errors
///
/// `Stale` for a file that has changed; by the error number.
pub(crate) fn compare(versions: &Versions, name: &str, file: impl AsFd) -> Result<()> {
    let stat = rustix::fs::fstat(&file).map_err(|errno| Error::from_io(errno.into(), "a file cannot be read"))?;
    let text = FileFacts::from(&stat).version_of(file);
    let found = Found { text: &text, is_time: false, modified_s: None, answered_s: None, is_of_content: true };
    if versions.is_changed(name, found) { Err(versions::changed()) } else { Ok(()) }
}

/// Length and time of the last change of an open file, by which a change of its bytes is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl Content {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { bytes: length(stat), modified_s: stat.st_mtime, modified_ns: stat.st_mtime_nsec as i64 }
    }
}

fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}
