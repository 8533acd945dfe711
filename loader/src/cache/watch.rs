//! Waits until something in a directory may have changed.
//!
//! One inotify descriptor per process (a user has few of them). Of the threads that wait, one sleeps in `poll` and
//! wakes the rest; changes made by this process arrive through an eventfd. No thread sleeps longer than [`RETRY`],
//! because nothing announces the end of a process, or of its locks on a network file system.

use crate::sync::{Condvar, Mutex, sleep};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest sleep of a waiter: 4 checks a second cost nothing with thousands of waiting processes, and the shard of a
/// killed fetcher is taken over without noticeable delay.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// Most sub-directories that are watched; shards in further ones are found by [`RETRY`].
const WATCHED_MAX: usize = 1_024;

/// Wake-up calls for the threads of a process that wait for changes in directories.
#[derive(Debug)]
pub(super) struct Watch {
    /// Created by the first thread that waits. The inner `None` means that the system has no more of them.
    fds: Mutex<Option<Option<Fds>>>,
    state: Mutex<WatchState>,
    changed: Condvar,
}

#[derive(Debug)]
struct Fds {
    inotify: crate::sync::Arc<OwnedFd>,
    wake: crate::sync::Arc<OwnedFd>,
    /// Number of the watch on each folder.
    watched: BTreeMap<PathBuf, i32>,
}

#[derive(Debug, Default)]
struct WatchState {
    /// Number of changes. A waiter that has an older number need not sleep.
    version: u64,
    /// A thread sleeps in `poll`.
    is_polling: bool,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { fds: Mutex::new(None), state: Mutex::new(WatchState::default()), changed: Condvar::new() }
    }

    /// Watches `folder` (an absolute path) and returns [`changes`](Self::changes).
    pub(super) fn version(&self, folder: &Path) -> u64 {
        let mut fds = self.fds.lock();
        if let Some(fds) = fds.get_or_insert_with(Fds::new)
            && fds.watched.len() < WATCHED_MAX
            && !fds.watched.contains_key(folder)
        {
            use inotify::WatchFlags as W;
            let events = W::CREATE | W::MOVED_TO | W::DELETE | W::MOVED_FROM | W::ATTRIB | W::ONLYDIR;
            // Without a watch (too many of them, a folder that does not exist yet), the waiter still has the retry.
            if let Ok(number) = inotify::add_watch(&*fds.inotify, folder, events) {
                fds.watched.insert(folder.to_owned(), number);
            }
        }
        drop(fds);
        self.changes()
    }

    /// Ends the watch on `folder`, which nothing here uses any more.
    pub(super) fn forget(&self, folder: &Path) {
        if let Some(Some(fds)) = &mut *self.fds.lock()
            && let Some(number) = fds.watched.remove(folder)
        {
            // Fails if the folder was deleted, which has ended the watch.
            let _ = inotify::remove_watch(&*fds.inotify, number);
        }
    }

    /// Returns the number to pass to [`wait`](Self::wait), taken before the state that is waited for is checked.
    pub(super) fn changes(&self) -> u64 {
        self.state.lock().version
    }

    /// Sleeps until something changed after `version` was taken, at most `limit` and at most [`RETRY`].
    pub(super) fn wait(&self, version: u64, limit: Duration) {
        let limit = limit.min(RETRY);
        let mut state = self.state.lock();
        if state.version != version {
            return;
        }
        if state.is_polling {
            let _ = self.changed.wait_timeout(state, limit);
            return;
        }
        state.is_polling = true;
        drop(state);
        self.poll(limit);
        let mut state = self.state.lock();
        state.is_polling = false;
        state.version += 1;
        drop(state);
        // Also after a timeout: a different waiter has to start polling.
        self.changed.notify_all();
    }

    /// Wakes all waiters of this process.
    pub(super) fn wake(&self) {
        let mut state = self.state.lock();
        state.version += 1;
        let is_polling = state.is_polling;
        drop(state);
        self.changed.notify_all();
        if is_polling && let Some(Some(fds)) = &*self.fds.lock() {
            // The counter cannot overflow: it is read empty after every poll.
            let _ = rustix::io::write(&*fds.wake, &1u64.to_ne_bytes());
        }
    }

    fn poll(&self, limit: Duration) {
        let fds = match &*self.fds.lock() {
            Some(Some(fds)) => Some((fds.inotify.clone(), fds.wake.clone())),
            _ => None,
        };
        let Some((inotify, wake)) = fds else {
            sleep(limit);
            return;
        };
        let mut polled = [PollFd::new(&*inotify, PollFlags::IN), PollFd::new(&*wake, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as i64 };
        // An interrupted or failed poll is a short sleep: the caller checks its condition and waits again.
        if poll(&mut polled, Some(&timeout)).is_err() {
            sleep(Duration::from_millis(1));
        }
        // The kind of event does not matter, a queue overflow included: all waiters check their condition.
        let mut buffer = [0u8; 4096];
        while rustix::io::read(&*inotify, &mut buffer).is_ok_and(|n| n > 0) {}
        let _ = rustix::io::read(&*wake, &mut buffer[..8]);
    }
}

impl Fds {
    fn new() -> Option<Self> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        Some(Self { inotify: inotify.into(), wake: wake.into(), watched: BTreeMap::new() })
    }
}
