//! What a caller holds while its object is on the way.
//!
//! A [`Job`] is shared by the [`FetchTicket`] and by the parts that are being fetched. Whichever way a part ends
//! (filled, failed, cancelled, its thread gone), it comes back to the job exactly once, through
//! [`Job::part_filled`] or [`Job::fail`], so nobody waits for a part that no longer exists.

use super::buffer::FetchBuffer;
use super::source::{Source, Version};
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, Ordering};
use crate::{Error, ErrorKind, Result};
use bytes::BytesMut;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// One object to fetch.
pub struct FetchRequest {
    /// Path relative to the remote.
    pub key: String,
    /// Memory to fill, exactly as long as the object is said to be (by the index).
    pub into: FetchBuffer,
    /// Go ahead of everything that is queued: somebody waits for this object now.
    pub urgent: bool,
    /// Called once when the ticket has an outcome, from a fetch thread; must not block.
    pub on_done: Option<Box<dyn FnOnce() + Send>>,
}

impl FetchRequest {
    /// Fetches `key`, which has `len` bytes, into fresh memory.
    pub fn new(key: impl Into<String>, len: usize) -> Self {
        Self { key: key.into(), into: FetchBuffer::zeroed(len), urgent: false, on_done: None }
    }
}

/// How far a fetch is, for progress lines and stall reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Bytes of the object.
    pub len: u64,
    /// Highest attempt any of its ranges has reached; 0 before the first.
    pub attempt: u32,
    /// Since the last byte arrived, or since the request.
    pub idle: Duration,
}

/// State shared by a ticket and the parts of its object.
pub(crate) struct Job {
    pub(crate) source: Arc<dyn Source>,
    /// The remote as the user wrote it, for messages.
    pub(crate) remote: Arc<str>,
    pub(crate) key: String,
    pub(crate) len: u64,
    started: Instant,
    bytes: AtomicU64,
    attempt: AtomicU32,
    /// Nanoseconds from `started` to the last byte.
    last_byte_ns: AtomicU64,
    cancelled: AtomicBool,
    /// Wakes parts that wait for bytes when the job is cancelled.
    cancel: Notify,
    state: Mutex<JobState>,
    changed: Condvar,
}

struct JobState {
    /// By part, in the order of the object. `None` while it is on the way.
    filled: Vec<Option<BytesMut>>,
    missing: usize,
    /// What the first answer was recognised by; all others must be the same.
    version: Option<Version>,
    outcome: Option<Result<FetchBuffer>>,
    on_done: Option<Box<dyn FnOnce() + Send>>,
}

impl Job {
    pub(crate) fn new(
        source: Arc<dyn Source>,
        remote: Arc<str>,
        key: String,
        len: u64,
        parts: usize,
        on_done: Option<Box<dyn FnOnce() + Send>>,
    ) -> Arc<Self> {
        let job = Self {
            source,
            remote,
            key,
            len,
            started: Instant::now(),
            bytes: AtomicU64::new(0),
            attempt: AtomicU32::new(0),
            last_byte_ns: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            cancel: Notify::new(),
            state: Mutex::new(JobState {
                filled: (0..parts).map(|_| None).collect(),
                missing: parts,
                version: None,
                outcome: None,
                on_done,
            }),
            changed: Condvar::new(),
        };
        if parts == 0 {
            job.state.lock().outcome = Some(Ok(FetchBuffer::default()));
        }
        Arc::new(job)
    }

    /// Counts `n` bytes that have just arrived.
    pub(crate) fn arrived(&self, n: usize) {
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        self.last_byte_ns.store(self.started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn attempted(&self, attempt: u32) {
        self.attempt.fetch_max(attempt, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Returns when the job is cancelled.
    pub(crate) async fn cancelled(&self) {
        let woken = self.cancel.notified();
        tokio::pin!(woken);
        // Registered before the flag is read: a cancel between the two is seen by one or the other.
        woken.as_mut().enable();
        if !self.is_cancelled() {
            woken.await;
        }
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.cancel.notify_waiters();
    }

    /// What later requests have to ask for; sets it from the first answer.
    pub(crate) fn version(&self, seen: Option<&Version>) -> Option<Version> {
        let mut state = self.state.lock();
        if state.version.is_none() {
            state.version = seen.cloned();
        }
        state.version.clone()
    }

    /// A part is complete. The last one finishes the job.
    pub(crate) fn part_filled(&self, part: usize, memory: BytesMut) {
        let mut state = self.state.lock();
        state.filled[part] = Some(memory);
        state.missing -= 1;
        if state.missing == 0 && state.outcome.is_none() {
            let pieces = std::mem::take(&mut state.filled);
            let whole = FetchBuffer::join(pieces.into_iter().flatten());
            self.finish(state, Ok(whole));
        }
    }

    /// A part failed for good, and with it the job; the other parts stop.
    pub(crate) fn fail(&self, error: Error) {
        let state = self.state.lock();
        if state.outcome.is_none() {
            let error = error.with("key", &self.key).with("remote", &self.remote);
            self.finish(state, Err(error));
        }
        self.cancel();
    }

    fn finish(&self, mut state: crate::sync::MutexGuard<'_, JobState>, outcome: Result<FetchBuffer>) {
        state.outcome = Some(outcome);
        let on_done = state.on_done.take();
        drop(state);
        self.changed.notify_all();
        if let Some(on_done) = on_done {
            on_done();
        }
    }
}

/// A fetch under way. Dropping it cancels the fetch and lets its memory go.
pub struct FetchTicket(pub(crate) Arc<Job>);

impl FetchTicket {
    /// Waits for the object.
    ///
    /// # Errors
    ///
    /// What the last attempt failed with; the message names remote, key, range and attempt.
    pub fn wait(self) -> Result<FetchBuffer> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            state = self.0.changed.wait(state);
        }
    }

    /// Waits for at most `limit`; gives the ticket back when the object is not there yet.
    ///
    /// # Errors
    ///
    /// The ticket itself, to go on waiting with.
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<FetchBuffer>, Self> {
        let deadline = Instant::now() + limit;
        let mut state = self.0.state.lock();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return Ok(outcome);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                return Err(self);
            }
            state = self.0.changed.wait_timeout(state, left).0;
        }
    }

    /// Whether [`wait`](Self::wait) returns at once.
    pub fn is_done(&self) -> bool {
        self.0.state.lock().outcome.is_some()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let since = self.0.started.elapsed();
        let last = Duration::from_nanos(self.0.last_byte_ns.load(Ordering::Relaxed));
        Progress {
            bytes: self.0.bytes.load(Ordering::Relaxed),
            len: self.0.len,
            attempt: self.0.attempt.load(Ordering::Relaxed),
            idle: since.saturating_sub(last),
        }
    }

    /// The object's key.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Stops the fetch; [`wait`](Self::wait) then gives [`ErrorKind::Closed`] unless it had already finished.
    pub fn cancel(&self) {
        self.0.fail(Error::new(ErrorKind::Closed, "the fetch was cancelled"));
    }
}

impl Drop for FetchTicket {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl std::fmt::Debug for FetchTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetchTicket").field("key", &self.0.key).field("progress", &self.progress()).finish()
    }
}
