//! Lock of the process that makes room.

use crate::cache::claim;
use crate::cache::shared_dir::SharedDir;
use crate::sync::sleep;
use std::time::Duration;

/// Attempts to take the lock, [`PAUSE`] apart. It is held for milliseconds.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// Right of one process to make room. Where locks do not work, several processes may have it, each with its own view.
pub(super) struct AdmissionLock<'a>(&'a SharedDir);

impl<'a> AdmissionLock<'a> {
    pub(super) fn take(dir: &'a SharedDir) -> Option<Self> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                sleep(PAUSE);
            }
            if dir.locks.lock().try_exclusive(claim::ADMISSION) {
                return Some(Self(dir));
            }
        }
        None
    }
}

impl Drop for AdmissionLock<'_> {
    fn drop(&mut self) {
        self.0.locks.lock().release(claim::ADMISSION);
    }
}
