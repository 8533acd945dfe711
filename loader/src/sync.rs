//! Locks and threads, in one place.
//!
//! Every lock, condition and thread of the engine comes from here. A panic while a lock is held does not poison it:
//! the panicking stage reports itself as failed (see `pipeline::run`) and the others must still be able to stop.
//!
//! Under the feature `shuttle` they are shuttle's, which runs one thread at a time and picks the next one itself. Tests
//! in modules called `models` go through `model`: once with real threads in the ordinary suite, in many orders under
//! shuttle, where a lost wake-up shows as a deadlock instead of a test that hangs once a month. Only what waits for
//! nothing but our own locks can be driven so: not rings, files, sockets or runtimes. No limit of a wait ever passes
//! there, so a model also shows that progress does not hang on a timeout.

#[cfg(feature = "shuttle")]
use shuttle::{sync as base, thread};
pub use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
#[cfg(not(feature = "shuttle"))]
use std::{sync as base, thread};

pub use base::MutexGuard;
pub use base::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(test)]
pub(crate) use thread::yield_now;
pub use thread::{JoinHandle, current, scope, sleep};

/// A mutual exclusion lock that ignores poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(base::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(base::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(base::PoisonError::into_inner)
    }

    /// The lock, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(base::TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(base::TryLockError::WouldBlock) => None,
        }
    }

    /// The value, without a lock: nobody else has one.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(base::PoisonError::into_inner)
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(base::PoisonError::into_inner)
    }
}

/// A condition that ignores poisoning.
#[derive(Debug, Default)]
pub struct Condvar(base::Condvar);

impl Condvar {
    /// A condition nobody waits for yet.
    pub const fn new() -> Self {
        Self(base::Condvar::new())
    }

    /// Waits until notified.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(base::PoisonError::into_inner)
    }

    /// Waits until notified or until `limit` has passed; true if it has passed.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> (MutexGuard<'a, T>, bool) {
        let (guard, result) = self.0.wait_timeout(guard, limit).unwrap_or_else(base::PoisonError::into_inner);
        (guard, result.timed_out())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Starts a thread called `name` (at most 15 bytes are shown by the system).
///
/// # Errors
///
/// When the system refuses another thread.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.into()).spawn(body)
}

/// Runs a test's `body`, which must hold in whatever order its threads get on: once, or in many orders under shuttle.
#[cfg(test)]
pub(crate) fn model(body: impl Fn() + Send + Sync + 'static) {
    #[cfg(feature = "shuttle")]
    shuttle::check_random(body, ORDERS);
    #[cfg(not(feature = "shuttle"))]
    body();
}

/// Orders that shuttle draws for one model: all models together take seconds.
#[cfg(all(test, feature = "shuttle"))]
const ORDERS: usize = 2000;
