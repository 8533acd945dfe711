//! Turns of processes in a directory: one makes a file, and the rest wait for it.

use super::claim::DirectoryLock;
use super::wait_policy::WaitPolicy;
use super::watch::Watch;
use crate::clock::Clock;
use crate::error::Result;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use std::path::Path;
use std::time::SystemTime;

/// Result of a wait for a turn.
pub(crate) enum Turn<T> {
    /// A different process has made the file.
    Made(T),
    /// It is this process's turn until the lock is dropped.
    Own(DirectoryLock),
    /// Locks do not work there (NFS, no directory). Several processes may make the file.
    Unlocked,
}

/// Waits until no process makes the file in `dir`, which `made` reads if it is there. `awaited` names the file in
/// messages.
///
/// # Errors
///
/// The errors of `made`; `Closed` and `Timeout` of the wait, which begins again with each [`show_progress`].
pub(crate) fn take_turn<T>(
    dir: &Path,
    clock: &Clock,
    policy: WaitPolicy<'_>,
    awaited: &dyn Fn() -> String,
    mut made: impl FnMut() -> Result<Option<T>>,
) -> Result<Turn<T>> {
    let watch = Watch::new();
    let mut wait = policy.start(clock);
    let mut changed = changed_at(dir);
    let folder = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    loop {
        let version = watch.version(&folder);
        let Ok(lock) = DirectoryLock::try_lock(dir) else { return Ok(Turn::Unlocked) };
        // A different process or thread may have made it meanwhile.
        if let Some(made) = made()? {
            return Ok(Turn::Made(made));
        }
        if let Some(lock) = lock {
            return Ok(Turn::Own(lock));
        }
        let now = changed_at(dir);
        if now != changed {
            // The process that makes the file makes progress.
            (changed, wait) = (now, policy.start(clock));
        }
        watch.wait(version, wait.remaining(awaited)?);
    }
}

/// Shows processes that wait for a turn in `dir` that the work there makes progress.
pub(crate) fn show_progress(dir: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    // Without permission they wait for the time limit alone.
    let _ = utimensat(CWD, dir, &Timestamps { last_access: now, last_modification: now }, AtFlags::empty());
}

/// Returns the time of the last change of `dir`, or of its progress.
fn changed_at(dir: &Path) -> Option<SystemTime> {
    std::fs::metadata(dir).and_then(|meta| meta.modified()).ok()
}
