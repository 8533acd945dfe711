//! Handle of a caller on a fetch in flight.
//!
//! A [`Job`] is shared by the [`FetchTicket`] and by the parts that are being fetched. However a part ends (filled,
//! failed, cancelled, its thread ended), it reports to the job exactly once, through [`Job::part_filled`] or
//! [`Job::fail`], so no caller waits for a part that no longer exists.

use super::buffer::FetchMemory;
use super::source::{Encoded, Head, Source, Version};
use crate::{Error, ErrorKind, Result};
use bytes::BytesMut;
use forebay_core::sync::{Arc, Condvar, Mutex};
use forebay_core::versions::{self, Versions};
use std::marker::PhantomData;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Object to fetch, or a range of it.
pub struct FetchRequest<M = BytesMut> {
    /// Key relative to the remote.
    pub key: String,
    /// Memory to fill, exactly as long as the object is by the index, or as the range. It is split into a part for each
    /// ranged request, so that several write in parallel, each byte once, and joined without a copy. Buffers that are
    /// used again save page faults, which cost more than a copy.
    pub into: M,
    /// First byte of the range; 0 for the whole object.
    pub start: u64,
    /// Length that the whole object must have; `None` for a range of an object of any length.
    pub object_len: Option<u64>,
    /// Version that the object must have; `None` for any.
    pub version: Option<Version>,
    /// Entity tag of the object in the list that its length is from, without quotation marks. An object with a
    /// different tag of the same kind has changed, and no further attempt is made.
    pub listed_tag: Option<String>,
    /// Treatment of an object that is sent with an encoding.
    pub encoded: Encoded,
    /// Called on a fetch thread when the outcome is there.
    pub ended: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl<M: FetchMemory> FetchRequest<M> {
    /// Creates a request for the object `key` of exactly as many bytes as `into` has.
    pub fn with_memory(key: impl Into<String>, mut into: M) -> Self {
        let object_len = Some(into.bytes_mut().len() as u64);
        let (version, listed_tag, encoded, ended) = (None, None, Encoded::default(), None);
        Self { key: key.into(), into, start: 0, object_len, version, listed_tag, encoded, ended }
    }
}

impl FetchRequest {
    /// Creates a request for `key`, which has `len` bytes, with new memory.
    pub fn new(key: impl Into<String>, len: usize) -> Self {
        Self::with_memory(key, BytesMut::zeroed(len))
    }

    /// Creates a request like [`new`](Self::new), for a length from outside of the program.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`] if there is not as much memory.
    pub fn try_new(key: impl Into<String>, len: u64) -> Result<Self> {
        let key = key.into();
        let fits = |len: &usize| Vec::<u8>::new().try_reserve_exact(*len).is_ok();
        match usize::try_from(len).ok().filter(fits) {
            Some(len) => Ok(Self::new(key, len)),
            None => {
                let why =
                    "there is no memory for a file of this size: check the data set's index, and this process's limit";
                Err(Error::new(ErrorKind::Full, why).with("bytes", len).with("key", key))
            }
        }
    }
}

/// Progress of a fetch, for progress lines and stall reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Bytes of the request.
    pub len: u64,
    /// Highest attempt of any of its parts; 0 before the first.
    pub attempt: u32,
    /// Time since the last byte arrived, or since the request.
    pub idle: Duration,
    /// Every missing part waits for its next attempt.
    pub is_paused: bool,
}

/// State shared by a ticket and the parts of its object.
pub(crate) struct Job {
    pub(crate) source: Arc<dyn Source>,
    /// The remote, for messages.
    pub(crate) remote: Arc<str>,
    pub(crate) key: String,
    /// Bytes of the whole object, if they are known.
    pub(crate) len: Option<u64>,
    /// Entity tag of the object in a list, if it was listed.
    listed_tag: Option<String>,
    /// Versions of the objects that the job compares.
    versions: Option<Arc<Versions>>,
    pub(crate) encoded: Encoded,
    /// Bytes of the request.
    wanted: u64,
    started: Instant,
    ended: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Set when the job is cancelled; wakes parts that wait for bytes.
    is_cancelled: watch::Sender<bool>,
    state: Mutex<JobState>,
    changed: Condvar,
}

#[derive(Default)]
struct JobState {
    /// Memory of each part, in the order of the object; `None` while it is in flight.
    filled: Vec<Option<Box<dyn FetchMemory>>>,
    missing: usize,
    /// Number of parts that wait for their next attempt.
    paused: usize,
    bytes: u64,
    attempt: u32,
    /// Time from `started` to the last byte.
    last_byte: Duration,
    /// Version in the first response; all later ones must be the same.
    version: Option<Version>,
    outcome: Option<Result<Box<dyn FetchMemory>>>,
}

impl Job {
    /// Creates the job of a request with memory that is split into `parts`, or is `empty`.
    pub(crate) fn new<M>(
        (source, remote, versions): (Arc<dyn Source>, Arc<str>, Option<Arc<Versions>>),
        request: &FetchRequest<M>,
        (wanted, parts): (u64, usize),
        empty: Option<Box<dyn FetchMemory>>,
    ) -> Arc<Self> {
        let outcome = empty.map(Ok);
        Arc::new(Self {
            source,
            remote,
            key: request.key.clone(),
            len: request.object_len,
            listed_tag: request.listed_tag.clone(),
            versions,
            encoded: request.encoded,
            wanted,
            started: Instant::now(),
            ended: request.ended.clone(),
            is_cancelled: watch::Sender::new(false),
            state: Mutex::new(JobState {
                filled: (0..parts).map(|_| None).collect(),
                missing: parts,
                outcome,
                version: request.version.clone(),
                ..JobState::default()
            }),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn count_bytes(&self, n: usize) {
        let mut state = self.state.lock();
        state.bytes += n as u64;
        state.last_byte = self.started.elapsed();
    }

    pub(crate) fn note_attempt(&self, attempt: u32) {
        let mut state = self.state.lock();
        state.attempt = state.attempt.max(attempt);
    }

    /// Notes that a part waits for its next attempt, until the guard is dropped.
    pub(crate) fn pause(&self) -> Pause<'_> {
        self.state.lock().paused += 1;
        Pause(self)
    }

    pub(crate) async fn wait_for_cancel(&self) {
        // The sender lives as long as `self`.
        let _ = self.is_cancelled.subscribe().wait_for(|is_cancelled| *is_cancelled).await;
    }

    fn cancel(&self) {
        self.is_cancelled.send_replace(true);
    }

    /// Returns the version that all responses must have, which the first one sets.
    pub(crate) fn agree_on_version(&self, seen: Option<&Version>) -> Option<Version> {
        let mut state = self.state.lock();
        if state.version.is_none() {
            state.version = seen.cloned();
        }
        state.version.clone()
    }

    /// Compares the version in a response with the one that the job knows of the object.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Stale`] for an object that has changed.
    pub(crate) fn compare(&self, head: &Head) -> Result<()> {
        if let (Some(listed), Some(found)) = (&self.listed_tag, head.version.as_ref().and_then(Version::etag))
            && versions::is_different(listed, found)
        {
            let why = format!("the object was replaced after it was listed, when its entity tag was {listed}");
            return Err(Error::new(ErrorKind::Stale, why).with("now", found));
        }
        self.versions.as_ref().map_or(Ok(()), |versions| head.compare(versions, &*self.source, &self.key))
    }

    /// Returns true if the version of a response differs from earlier ones, or from the listed one.
    pub(crate) fn is_changed(&self, seen: &Version) -> bool {
        match (&self.state.lock().version, &self.listed_tag) {
            (Some(first), _) => first != seen,
            (None, Some(listed)) => seen.etag().is_some_and(|tag| tag != listed),
            (None, None) => false,
        }
    }

    /// Takes the memory of a complete part. The last one finishes the job.
    pub(crate) fn part_filled(&self, part: usize, memory: Box<dyn FetchMemory>) {
        let mut state = self.state.lock();
        state.filled[part] = Some(memory);
        state.missing -= 1;
        if state.missing == 0 && state.outcome.is_none() {
            let joined = state.filled.drain(..).flatten().reduce(|mut front, next| {
                front.join(next);
                front
            });
            state.outcome = joined.map(Ok);
            drop(state);
            self.announce();
        }
    }

    /// Wakes the threads that wait for the outcome.
    fn announce(&self) {
        self.changed.notify_all();
        if let Some(ended) = &self.ended {
            ended();
        }
    }

    /// Fails the job with the error of a part; the remaining parts stop.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        let is_first = state.outcome.is_none();
        if is_first {
            state.outcome = Some(Err(error.with("key", &self.key).with("remote", &self.remote)));
        }
        drop(state);
        if is_first {
            self.announce();
        }
        self.cancel();
    }
}

pub(crate) struct Pause<'a>(&'a Job);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.state.lock().paused -= 1;
    }
}

/// Fetch in flight. Dropping it cancels the fetch and releases its memory.
pub struct FetchTicket<M = BytesMut> {
    job: Arc<Job>,
    memory: PhantomData<fn() -> M>,
}

impl<M: FetchMemory> FetchTicket<M> {
    pub(crate) fn new(job: Arc<Job>) -> Self {
        Self { job, memory: PhantomData }
    }

    /// Waits for the object.
    ///
    /// # Errors
    ///
    /// The error of the last attempt; the message names remote, key, range and attempt.
    pub fn wait(mut self) -> Result<M> {
        loop {
            match self.wait_timeout(Duration::MAX) {
                Ok(outcome) => return outcome,
                Err(waiting) => self = waiting,
            }
        }
    }

    /// Waits for the object for at most `limit`.
    ///
    /// # Errors
    ///
    /// The ticket itself when the time is over.
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<M>, Self> {
        let start = Instant::now();
        let mut state = self.job.state.lock();
        loop {
            if let Some(outcome) = state.outcome.take() {
                let own = |memory: Box<dyn FetchMemory>| memory.into_any().downcast::<M>().map(|memory| *memory);
                return Ok(outcome.and_then(|memory| {
                    own(memory).map_err(|_| Error::internal("a fetch returned different memory than it was given"))
                }));
            }
            let remaining = limit.saturating_sub(start.elapsed());
            if remaining.is_zero() {
                drop(state);
                return Err(self);
            }
            state = self.job.changed.wait_timeout(state, remaining).0;
        }
    }

    /// Returns true once [`wait`](Self::wait) returns at once.
    pub fn is_done(&self) -> bool {
        self.job.state.lock().outcome.is_some()
    }

    /// Returns the version of the bytes that have arrived; `None` before the first ones, and where the store has none.
    pub fn version(&self) -> Option<Version> {
        self.job.state.lock().version.clone()
    }

    /// Returns the progress.
    pub fn progress(&self) -> Progress {
        let state = self.job.state.lock();
        Progress {
            bytes: state.bytes,
            len: self.job.wanted,
            attempt: state.attempt,
            idle: self.job.started.elapsed().saturating_sub(state.last_byte),
            is_paused: state.missing > 0 && state.paused >= state.missing,
        }
    }

    /// Stops the fetch; [`wait`](Self::wait) then returns [`ErrorKind::Closed`] unless it had already finished.
    pub fn cancel(&self) {
        self.job.fail(Error::new(ErrorKind::Closed, "the fetch was cancelled"));
    }
}

impl<M> Drop for FetchTicket<M> {
    fn drop(&mut self) {
        self.job.cancel();
    }
}

impl<M: FetchMemory> std::fmt::Debug for FetchTicket<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetchTicket").field("key", &self.job.key).field("progress", &self.progress()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_no_machine_has_is_an_error() {
        for len in [10u64.pow(17), u64::MAX] {
            let error = FetchRequest::try_new("shard", len).map(|_| ()).expect_err("no memory");
            assert_eq!(error.kind(), ErrorKind::Full);
            assert!(error.to_string().contains("check the data set's index"), "{error}");
        }
        assert_eq!(FetchRequest::try_new("shard", 10).expect("fine").into.len(), 10);
    }
}
