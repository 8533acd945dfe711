//! Access times of shards, which eviction by least recent use goes by.

use crate::clock::Clock;
use crate::sync::{AtomicU64, Ordering};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Shortest time between two updates of a shard's access time, in seconds. Eviction needs no better.
const REFRESH_S: u64 = 10;

/// Time at which a shard's access time was last set: seconds of the data set's clock plus one, 0 for never.
#[derive(Debug, Default)]
pub(crate) struct AccessTime(AtomicU64);

impl AccessTime {
    /// Sets the access time of `file` to now, unless that was done a moment ago.
    pub(super) fn refresh(&self, clock: &Clock, file: impl AsFd) -> rustix::io::Result<()> {
        let now = clock.now().as_secs() + 1;
        let last = self.0.load(Ordering::Relaxed);
        if last != 0 && now < last + REFRESH_S {
            return Ok(());
        }
        self.0.store(now, Ordering::Relaxed);
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        };
        rustix::fs::futimens(file, &times)
    }
}

/// Returns the access time of the file at `path`, in nanoseconds since 1970; 0 if it cannot be read.
pub(super) fn accessed_ns(path: impl AsRef<Path>) -> u128 {
    std::fs::metadata(path).map_or(0, |meta| {
        let seconds = u128::try_from(meta.atime()).unwrap_or(0);
        seconds * 1_000_000_000 + u128::try_from(meta.atime_nsec()).unwrap_or(0)
    })
}
