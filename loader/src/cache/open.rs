//! Opening of resident shards.

use super::access_time::AccessTime;
use super::claim;
use super::shards::CacheFile;
use super::shared_dir::{OpenFile, OpenShard};
use super::stream_state::StreamState;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{self, ShardFile};
use crate::sync::{Arc, Ordering, Weak};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// Opens the raw files of `shard`; `None` if it is not on disk.
pub(super) fn open_shard(stream: &StreamState, shard: u32) -> Result<Option<Arc<OpenShard>>> {
    let dir = &stream.dir;
    dir.check_process()?;
    let files = dir.files(shard)?;
    let mut open = dir.open.lock();
    if let Some(known) = open.get(&shard).and_then(Weak::upgrade) {
        if !known.is_evicted() {
            refresh_access_time(stream, &known);
            return Ok(Some(known));
        }
        open.remove(&shard);
    }
    // Announced before the files are opened: an evictor that checks in between prefers another shard.
    dir.locks.lock().share(claim::OPEN + u64::from(shard));
    let opened: Result<Option<Vec<OpenFile>>> = files.raw.iter().map(|file| open_file(stream, shard, file)).collect();
    match opened {
        Ok(Some(files)) => {
            let new = OpenShard::new(dir, shard, files);
            refresh_access_time(stream, &new);
            // Dead entries are removed occasionally, so the table stays as small as the number of open shards.
            if open.len() >= 64 && open.len().is_power_of_two() {
                open.retain(|_, known| known.strong_count() > 0);
            }
            open.insert(shard, Arc::downgrade(&new));
            Ok(Some(new))
        }
        other => {
            dir.locks.lock().unshare(claim::OPEN + u64::from(shard));
            if matches!(other, Ok(None)) {
                dir.refresh_present(shard);
            }
            other.map(|_| None)
        }
    }
}

fn open_file(stream: &StreamState, shard: u32, file: &CacheFile) -> Result<Option<OpenFile>> {
    let path = stream.dir.path_of(file);
    // The other files are small and read once; they need no second descriptor.
    let buffered = io::DirFeatures::buffered_only();
    let is_data = std::ptr::eq(file, &raw const stream.dir.shards[shard as usize].raw[0]);
    let opened = match ShardFile::open(&path, if is_data { &stream.dir.features } else { &buffered }) {
        Ok(opened) => opened,
        Err(e) if e.kind() == ErrorKind::NotFound && stream.has_remote => return Ok(None),
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(stream.unusable_error(shard)),
        Err(e) => return Err(e.with("shard", shard)),
    };
    let bytes = opened.len();
    if bytes == file.bytes {
        return Ok(Some(OpenFile { path, file: Arc::new(opened), bytes }));
    }
    if stream.has_remote {
        return Ok(None);
    }
    Err(stream.unusable_error(shard))
}

/// Opens the data file of `shard` for one read; `None` if it is not on disk.
///
/// The descriptor is not counted: the bytes of an evicted shard are free as soon as the read is over. So a process that
/// sleeps between two reads, as a worker does while its consumer is busy, blocks no other one.
pub(super) fn open_once(stream: &StreamState, shard: u32, access_time: &AccessTime) -> Result<Option<OwnedFd>> {
    stream.dir.check_process()?;
    stream.dir.files(shard)?;
    let path = stream.dir.data_path(shard);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    match rustix::io::retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty())) {
        Ok(file) => {
            refresh(stream, access_time, &file);
            Ok(Some(file))
        }
        Err(Errno::NOENT) if stream.has_remote => Ok(None),
        Err(Errno::NOENT) => Err(stream.unusable_error(shard)),
        Err(errno) => Err(Error::from_io(errno.into(), "a shard cannot be opened").with("path", path.display())),
    }
}

fn refresh_access_time(stream: &StreamState, open: &OpenShard) {
    if let Some(data) = open.files.first() {
        refresh(stream, &open.access_time, data.file.buffered());
    }
}

/// Sets the access time of `file`, which evictions by other jobs go by.
fn refresh(stream: &StreamState, access_time: &AccessTime, file: impl AsFd) {
    // Without a remote nothing is evicted, and a user's own files keep their times.
    if !stream.has_remote || !stream.dir.access_times.load(Ordering::Relaxed) {
        return;
    }
    if let Err(errno) = access_time.refresh(&stream.clock, file) {
        // Read-only, or another user's file: the kernel's own access times have to do.
        log::debug!("access times cannot be set in {}: {errno}", stream.dir.path.display());
        stream.dir.access_times.store(false, Ordering::Relaxed);
    }
}
