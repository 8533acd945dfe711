//! Opening of resident shards.

use super::access_time::AccessTime;
use super::shards::raw_files;
use super::shared_dir::{OpenFile, OpenFiles};
use super::stream_cache::StreamCache;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::{FileInfo, Shard};
use crate::io::{self, ShardFile};
use crate::sync::{Arc, Ordering, Weak};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

impl StreamCache {
    /// Opens the raw files of `shard` and sets its access time; `None` if it is not on disk (evicted, or never
    /// fetched).
    ///
    /// Readers share one set of descriptors. The bytes count towards the limit until the last reader drops it, even if
    /// the shard is evicted before.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Checksum` when a stream without a remote lacks the shard or has it in a different size;
    /// `Permission`, `Io` when a file cannot be opened; `Stale` for a file that is read where it is and has changed.
    pub(crate) fn open_shard(&self, shard: u32) -> Result<Option<Arc<OpenFiles>>> {
        let dir = &self.dir;
        dir.check_process()?;
        let files = dir.files(shard)?;
        let mut open = dir.open.lock();
        if let Some(known) = open.get(&shard).and_then(Weak::upgrade) {
            if !known.is_evicted() {
                self.compare(files, &known)?;
                self.refresh_access_time(&known);
                return Ok(Some(known));
            }
            open.remove(&shard);
        }
        let opened: Result<Option<Vec<OpenFile>>> = raw_files(files).map(|file| self.open_file(shard, file)).collect();
        let new = opened?.map(|files| OpenFiles::new(dir, shard, files));
        // Announced first and checked afterwards, while an evictor removes the files first and looks for readers
        // afterwards: at least one of the two notices.
        let Some(new) = new.filter(|new| !self.has_remote() || !new.is_evicted()) else {
            dir.refresh_present(shard);
            return Ok(None);
        };
        self.compare(files, &new)?;
        self.refresh_access_time(&new);
        // Dead entries are removed occasionally, so the table stays as small as the number of open shards.
        if open.len() >= 64 && open.len().is_power_of_two() {
            open.retain(|_, known| known.strong_count() > 0);
        }
        open.insert(shard, Arc::downgrade(&new));
        Ok(Some(new))
    }

    fn open_file(&self, shard: u32, file: &FileInfo) -> Result<Option<OpenFile>> {
        let path = self.dir.path_of(file);
        // The remaining files are small and read once; they need no second descriptor.
        let buffered = io::DirFeatures::buffered_only();
        let is_data = std::ptr::eq(file, &raw const self.dir.shards[shard as usize].raw_data);
        let opened = match ShardFile::open(&path, if is_data { &self.dir.features } else { &buffered }) {
            Ok(opened) => opened,
            Err(e) if e.kind() == ErrorKind::NotFound && self.has_remote() => return Ok(None),
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(self.unusable_error(shard)),
            Err(e) => return Err(e.with("shard", shard)),
        };
        let bytes = opened.len();
        if self.dir.shards[shard as usize].accepts(file, bytes) {
            return Ok(Some(OpenFile { path, file: Arc::new(opened), bytes }));
        }
        if self.has_remote() {
            return Ok(None);
        }
        Err(self.unusable_error(shard))
    }

    /// Compares the versions of the files of `shard`, which are `open`.
    fn compare(&self, shard: &Shard, open: &OpenFiles) -> Result<()> {
        if let Some(fetched) = self.fetched() {
            return raw_files(shard).zip(&open.files).try_for_each(|(file, open)| {
                let compared = fetched.compare(open.file.buffered(), object_of(shard, file));
                compared.map_err(|e| e.with("file", open.path.display()))
            });
        }
        let Some(versions) = self.versions() else { return Ok(()) };
        raw_files(shard).zip(&open.files).try_for_each(|(file, open)| {
            io::compare(versions, &file.basename, open.file.buffered()).map_err(|e| e.with("file", open.path.display()))
        })
    }

    /// Opens the data file of `shard` for one read and sets its access time; `None` if it is not on disk.
    ///
    /// The descriptor is not counted: the bytes of an evicted shard are free as soon as the read is over. So a process
    /// that sleeps between two reads, as a worker does while its consumer is busy, blocks no second process.
    ///
    /// # Errors
    ///
    /// `NotFound` when a stream without a remote lacks the shard, `Permission` or `Io` when it cannot be opened,
    /// `Stale` for a file that has changed.
    pub(crate) fn open_once(&self, shard: u32, access_time: &AccessTime) -> Result<Option<OwnedFd>> {
        self.dir.check_process()?;
        self.dir.files(shard)?;
        let path = self.dir.data_path(shard);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        match rustix::io::retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty())) {
            Ok(file) => {
                if let Some(fetched) = self.fetched() {
                    let all = &self.dir.shards[shard as usize];
                    let compared = fetched.compare(&file, object_of(all, &all.raw_data));
                    compared.map_err(|e| e.with("file", path.display()))?;
                }
                if let Some(versions) = self.versions() {
                    let name = &self.dir.shards[shard as usize].raw_data.basename;
                    io::compare(versions, name, &file).map_err(|e| e.with("file", path.display()))?;
                }
                self.refresh(access_time, &file);
                Ok(Some(file))
            }
            Err(Errno::NOENT) if self.has_remote() => Ok(None),
            Err(Errno::NOENT) => Err(self.unusable_error(shard)),
            Err(errno) => Err(Error::from_io(errno.into(), "a shard cannot be opened").with("path", path.display())),
        }
    }

    /// Records the version of the object of `file` on its copy, which is `written`.
    pub(super) fn label(&self, shard: &Shard, file: &FileInfo, written: &File) {
        if let Some(fetched) = self.fetched() {
            fetched.label(written, object_of(shard, file));
        }
    }

    fn refresh_access_time(&self, open: &OpenFiles) {
        if let Some(data) = open.files.first() {
            self.refresh(&open.access_time, data.file.buffered());
        }
    }

    /// Sets the access time of `file`, which evictions by all jobs go by.
    fn refresh(&self, access_time: &AccessTime, file: impl AsFd) {
        // Without a remote nothing is evicted, and a user's own files keep their times.
        if !self.has_remote() || !self.dir.access_times.load(Ordering::Relaxed) {
            return;
        }
        if let Err(errno) = access_time.refresh(&self.config.clock, file) {
            // Read-only, or a different user's file: the kernel's own access times have to do.
            log::debug!("access times cannot be set in {}: {errno}", self.dir.path.display());
            self.dir.access_times.store(false, Ordering::Relaxed);
        }
    }
}

/// Returns the name of the object that `file` of `shard` is made of.
fn object_of<'a>(shard: &'a Shard, file: &'a FileInfo) -> &'a str {
    let pair = shard.files().find(|pair| std::ptr::eq(pair.raw, file));
    &pair.map_or(file, |pair| pair.stored()).basename
}
