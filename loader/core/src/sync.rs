//! Locks and threads.
//!
//! All locks, conditions and threads of the engine come from this module. A panic while a lock is held does not poison
//! it: the panicking stage reports its failure (see [`Run`](crate::flow::Run)), and all stages must still be able
//! to stop.
//!
//! With the feature `shuttle` they are shuttle's, which runs one thread at a time and chooses the next one. Tests in
//! modules called `models` use `model`: it runs them once with real threads in the ordinary suite, and in many orders
//! under shuttle, where a lost wake-up is a deadlock instead of a rare hang. This works only for code that waits for
//! these locks alone, not for rings, files, sockets or runtimes. Timeouts never expire under shuttle, so a model also
//! shows that progress does not depend on one.

#[cfg(feature = "shuttle")]
use shuttle::{sync as base, thread};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
pub use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
#[cfg(not(feature = "shuttle"))]
use std::{sync as base, thread};

pub use base::MutexGuard;
pub use base::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use thread::{JoinHandle, current, sleep, yield_now};

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

    /// Returns the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(base::TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(base::TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the value without locking, since the borrow is exclusive.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(base::PoisonError::into_inner)
    }
}

/// A condition that ignores poisoning.
#[derive(Debug, Default)]
pub struct Condvar(base::Condvar);

impl Condvar {
    /// A condition without waiters.
    pub const fn new() -> Self {
        Self(base::Condvar::new())
    }

    /// Waits until notified.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(base::PoisonError::into_inner)
    }

    /// Waits until notified or until `limit` has passed. The returned bool is true if it has passed.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> (MutexGuard<'a, T>, bool) {
        let (guard, result) = self.0.wait_timeout(guard, limit).unwrap_or_else(base::PoisonError::into_inner);
        (guard, result.timed_out())
    }

    /// Wakes one waiter.
    #[inline]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    #[inline]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Starts a thread called `name` (at most 15 bytes are shown by the system).
///
/// # Errors
///
/// When the system refuses a further thread.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let started = thread::Builder::new().name(name.into()).spawn(|| prepared(body));
    let remedy = "raise the limit of threads (ulimit -u, or pids of the container)";
    started.map_err(|e| io::Error::new(e.kind(), format!("{e}: {remedy}")))
}

/// Calls `body` in up to `threads` threads at once, this thread included, and returns the results. Where the
/// system refuses threads there are fewer. A call that panics has an error.
pub fn in_threads<T: Send>(threads: usize, body: impl Fn() -> T + Sync) -> Vec<thread::Result<T>> {
    // Unwind safety: the caller learns of a panic by the result, as of a panic in a thread that it joins.
    let called = || catch_unwind(AssertUnwindSafe(&body));
    if threads < 2 {
        return vec![called()];
    }
    thread::scope(|scope| {
        let start = |number| start_scoped(scope, number, || prepared(called));
        let started: Vec<_> = (1..threads).map_while(start).collect();
        let joined = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(Err);
        std::iter::once(called()).chain(started.into_iter().map(joined)).collect()
    })
}

/// Starts the thread `number` of a scope; `None` if the system refuses it.
#[cfg(not(feature = "shuttle"))]
fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    number: usize,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Option<thread::ScopedJoinHandle<'scope, T>> {
    #[cfg(test)]
    if number >= tests::THREADS_MAX.get() {
        return None;
    }
    thread::Builder::new().name(format!("fb-work-{number}")).spawn_scoped(scope, body).ok()
}

#[cfg(feature = "shuttle")]
fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    _: usize,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Option<thread::ScopedJoinHandle<'scope, T>> {
    Some(scope.spawn(body))
}

fn prepared<T>(body: impl FnOnce() -> T) -> T {
    if let Some(prepare) = PREPARE.get() {
        prepare();
    }
    body()
}

static PREPARE: OnceLock<fn()> = OnceLock::new();

/// Sets a function that every thread of the engine calls when it starts, such as to block signals. The first call
/// counts.
pub fn prepare_threads(prepare: fn()) {
    PREPARE.get_or_init(|| prepare);
}

/// Runs a test's `body`, which must pass for every interleaving of its threads: once, or in many orders under shuttle.
pub fn model(body: impl Fn() + Send + Sync + 'static) {
    #[cfg(feature = "shuttle")]
    shuttle::check_random(body, ORDERS);
    #[cfg(not(feature = "shuttle"))]
    body();
}

/// Orders that shuttle tries per model; all models together take seconds.
#[cfg(feature = "shuttle")]
const ORDERS: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// Threads of a scope that the system allows, the thread of the test included.
        pub(super) static THREADS_MAX: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Returns the number of threads that took part, and the sum of 0..100 that they have computed together.
    fn shared_sum(threads: usize) -> (usize, u64) {
        let next = AtomicU64::new(0);
        let sum = || {
            let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            numbers.take_while(|number| *number < 100).sum::<u64>()
        };
        let sums = in_threads(threads, sum);
        (sums.len(), sums.into_iter().map(|sum| sum.expect("no panic")).sum())
    }

    #[test]
    #[cfg(not(feature = "shuttle"))]
    fn work_needs_no_more_threads_than_the_system_allows() {
        for (allowed, threads) in [(usize::MAX, 4), (3, 3), (1, 1), (0, 1)] {
            THREADS_MAX.set(allowed);
            assert_eq!(shared_sum(4), (threads, 4950));
        }
        assert_eq!(shared_sum(0), (1, 4950), "this thread alone");
    }

    #[test]
    #[cfg(not(feature = "shuttle"))]
    fn a_panic_in_any_of_the_threads_is_an_error() {
        for allowed in [usize::MAX, 1] {
            THREADS_MAX.set(allowed);
            let results = in_threads(2, || panic!("on purpose"));
            assert!(results.into_iter().all(|result: Result<(), _>| result.is_err()));
        }
    }
}
