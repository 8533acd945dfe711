//! Versions of the objects that the shards of a folder were fetched from, for the processes that share it.
//!
//! Each process compares the responses of a store with the first one that it has seen. Two processes may see different
//! versions first, where no listing and no hash in the index shows the right one. So a shard on disk has the version of
//! its object as an extended attribute, and a process that opens the shard compares it with the version that it knows.
//! A shard that was published before this process has opened the folder proves nothing: it may be of an earlier job.

use crate::error::Result;
use crate::format::hash::HashAlgo;
use crate::sync::Arc;
use crate::versions::{self, Versions};
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use std::fs::File;
use std::os::fd::AsFd;
use std::time::SystemTime;

/// Name of the extended attribute.
const ATTRIBUTE: &str = "user.forebay.version";

/// Longest attribute that is read.
const ATTRIBUTE_BYTES_MAX: usize = 256;

/// Versions of the objects of a remote that a process has read.
#[derive(Clone, Debug)]
pub(crate) struct FetchedVersions {
    /// Digest of the remote's name: tags of different remotes are not compared.
    remote: String,
    versions: Arc<Versions>,
    /// Time at which the process opened the folder, in seconds since 1970.
    opened_s: i64,
}

impl FetchedVersions {
    /// Versions of the objects of the remote with this name.
    pub(crate) fn new(remote: &str, versions: Arc<Versions>) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let opened_s = now.ok().and_then(|time| i64::try_from(time.as_secs()).ok()).unwrap_or(i64::MAX);
        Self { remote: HashAlgo::Xxh3_64.hex(remote.as_bytes()), versions, opened_s }
    }

    /// Table of the versions, with which the store's responses are compared.
    pub(crate) fn versions(&self) -> &Arc<Versions> {
        &self.versions
    }

    /// Sets the version of the object `key` as an attribute of `file`, its copy.
    pub(super) fn label(&self, file: &File, key: &str) {
        let Some(record) = self.versions.record(key) else { return };
        let text = format!("{} {record}", self.remote);
        if let Err(errno) = fsetxattr(file, ATTRIBUTE, text.as_bytes(), XattrFlags::empty()) {
            log::debug!("{key} has no record of its version: {errno}");
        }
    }

    /// Compares the version of `file`, a copy of the object `key`, with the known one.
    ///
    /// # Errors
    ///
    /// `Stale` for a copy of a different version.
    pub(super) fn compare(&self, file: impl AsFd, key: &str) -> Result<()> {
        let mut text = [0; ATTRIBUTE_BYTES_MAX];
        let Ok(bytes) = fgetxattr(&file, ATTRIBUTE, &mut text[..]) else { return Ok(()) };
        let record = text.get(..bytes).and_then(|text| std::str::from_utf8(text).ok());
        let record = record.and_then(|text| text.strip_prefix(&*self.remote)?.strip_prefix(' '));
        // A file that cannot be queried has an error when it is read.
        // The time of a file may be some milliseconds behind the clock.
        let is_new = || rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_mtime + 1 >= self.opened_s);
        match record.filter(|_| is_new()) {
            Some(record) if self.versions.is_changed_record(key, record) => Err(versions::changed()),
            _ => Ok(()),
        }
    }
}
