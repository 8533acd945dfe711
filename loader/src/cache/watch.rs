//! Sleeping until something in a directory may have changed.
//!
//! One inotify descriptor per directory and process (a user has few of them). Of the threads that wait, one sleeps in
//! `poll` and wakes the others; changes made by this process come through an eventfd. Nobody sleeps longer than
//! [`RETRY`], because the end of another process's lock is announced by nobody.

use crate::sync::{Condvar, Mutex, sleep};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a waiter looks again when nothing tells it to: 4 times a second, so that thousands of waiting processes
/// cost nothing and a shard whose fetcher was killed is taken over without delay that anyone would notice.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// Sub-directories watched at most; shards beyond are found by [`RETRY`].
const WATCHED_MAX: usize = 1_024;

#[derive(Debug)]
pub(super) struct Watch {
    /// Made by the first thread that waits; `None` inside when the system gives none.
    fds: Mutex<Option<Option<Fds>>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct Fds {
    inotify: crate::sync::Arc<OwnedFd>,
    wake: crate::sync::Arc<OwnedFd>,
    watched: HashSet<PathBuf>,
}

#[derive(Debug, Default)]
struct State {
    /// Counts changes; a waiter that saw an older number need not sleep.
    version: u64,
    /// Whether a thread sleeps in `poll`.
    polling: bool,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { fds: Mutex::new(None), state: Mutex::new(State::default()), changed: Condvar::new() }
    }

    /// The number to hand to [`wait`](Self::wait); taken before looking at what is waited for. Events in `folder` (an
    /// absolute path) are noticed from now on.
    pub(super) fn version(&self, folder: &Path) -> u64 {
        let mut fds = self.fds.lock();
        if let Some(fds) = fds.get_or_insert_with(Fds::new)
            && fds.watched.len() < WATCHED_MAX
            && !fds.watched.contains(folder)
        {
            use inotify::WatchFlags as W;
            let what = W::CREATE | W::MOVED_TO | W::DELETE | W::MOVED_FROM | W::ONLYDIR;
            // A refused watch (the limit of watches, a folder that is not there yet) leaves the retry.
            if inotify::add_watch(&*fds.inotify, folder, what).is_ok() {
                fds.watched.insert(folder.to_owned());
            }
        }
        drop(fds);
        self.state.lock().version
    }

    /// Sleeps until something changed after `version` was taken, at most `limit` and at most [`RETRY`].
    pub(super) fn wait(&self, version: u64, limit: Duration) {
        let limit = limit.min(RETRY);
        let mut state = self.state.lock();
        if state.version != version {
            return;
        }
        if state.polling {
            let _ = self.changed.wait_timeout(state, limit);
            return;
        }
        state.polling = true;
        drop(state);
        self.poll(limit);
        let mut state = self.state.lock();
        state.polling = false;
        state.version += 1;
        drop(state);
        // Also after a mere timeout: another waiter has to become the one that polls.
        self.changed.notify_all();
    }

    /// Tells all waiters of this process to look again.
    pub(super) fn wake(&self) {
        let mut state = self.state.lock();
        state.version += 1;
        let polling = state.polling;
        drop(state);
        self.changed.notify_all();
        if polling && let Some(Some(fds)) = &*self.fds.lock() {
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
        // An interrupted or failed poll is a short sleep: the caller looks again and comes back.
        if poll(&mut polled, Some(&timeout)).is_err() {
            sleep(Duration::from_millis(1));
        }
        // Which event it was does not matter, a queue overflow included: all waiters look at what they wait for.
        let mut buffer = [0u8; 4096];
        while rustix::io::read(&*inotify, &mut buffer).is_ok_and(|n| n > 0) {}
        let _ = rustix::io::read(&*wake, &mut buffer[..8]);
    }
}

impl Fds {
    fn new() -> Option<Self> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        Some(Self { inotify: inotify.into(), wake: wake.into(), watched: HashSet::new() })
    }
}
