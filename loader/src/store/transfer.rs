//! Fetch of one part: attempts, resumption, and the checks of every response.
//!
//! An attempt requests only the bytes that are still missing. Every response is checked: it must start at the requested
//! byte and belong to the same version of the object as all others, and the object must have the length that the caller
//! expects. Only then are its bytes written to the caller's memory, once.

use super::context::ThreadContext;
use super::failure::Failure;
use super::flight::PartPlace;
use super::queue::closed_error;
use super::retry;
use super::source::{CHUNK_BYTES, GetRequest, GetResponse, Head, Source, TimedBody, Version};
use super::ticket::Job;
use crate::sync::Arc;
use crate::{Error, ErrorKind};
use bytes::BytesMut;
use std::fmt;
use std::time::Duration;

/// Range of an object, with the memory for it.
pub(crate) struct Part {
    job: Arc<Job>,
    index: usize,
    /// Offset in the object of the first byte of `memory`.
    start: u64,
    /// Bytes at the front of `memory` that have arrived.
    done: usize,
    memory: BytesMut,
    /// The job knows the outcome.
    is_reported: bool,
}

impl Part {
    pub(crate) fn new(job: Arc<Job>, index: usize, start: u64, memory: BytesMut) -> Self {
        Self { job, index, start, done: 0, memory, is_reported: false }
    }

    /// Returns the length of the range.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.len()
    }

    fn end(&self) -> u64 {
        self.start + self.memory.len() as u64
    }

    fn finish(mut self, result: Result<(), Error>) {
        self.is_reported = true;
        match result {
            Ok(()) => self.job.part_filled(self.index, std::mem::take(&mut self.memory)),
            Err(error) => self.job.fail(error),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_reported {
            self.job.fail(if std::thread::panicking() {
                Error::internal("the task that fetched this object panicked")
            } else {
                closed_error()
            });
        }
    }
}

/// Fetches `part` with the configured number of attempts. It gives up its `place` between them; returns it if it has one
/// at the end.
pub(crate) async fn run(context: &ThreadContext, mut part: Part, place: PartPlace) -> Option<PartPlace> {
    let (job, mut place) = (part.job.clone(), Some(place));
    let result = tokio::select! {
        biased;
        () = job.wait_for_cancel() => Err(Error::new(ErrorKind::Closed, "the fetch was cancelled")),
        result = fill(context, &mut part, &mut place) => result,
    };
    part.finish(result);
    place
}

async fn fill(context: &ThreadContext, part: &mut Part, place: &mut Option<PartPlace>) -> Result<(), Error> {
    let job = part.job.clone();
    let once = async |attempt| {
        job.note_attempt(attempt);
        attempt_once(context, part).await.map_err(|mut failure| {
            failure.error = failure.error.with("range", format!("{}..{}", part.start + part.done as u64, part.end()));
            failure
        })
    };
    let pause = async |time| {
        let _paused = job.pause();
        *place = None;
        context.pause(time).await;
        *place = context.flight.place_again().await;
    };
    attempts(context, format_args!("{}: {}", job.remote, job.key), once, pause).await
}

/// Makes exchanges until the part is full. A server may send less than requested, as long as every response has bytes.
async fn attempt_once(context: &ThreadContext, part: &mut Part) -> Result<(), Failure> {
    let job = part.job.clone();
    while part.done < part.memory.len() {
        let from = part.start + part.done as u64;
        let plain = from == 0 && part.end() == job.len;
        let request = GetRequest {
            key: job.key.clone(),
            range: (!plain).then(|| from..part.end()),
            version: job.agree_on_version(None),
        };
        let GetResponse { head, mut body } = job.source.get(context, &request).await?;
        check_head(&job, &head)?;
        let mut body = TimedBody::new(context, &mut *body, context.shared.config.download_timeout);
        skip(&head, &mut body, from).await?;
        let before = part.done;
        let mut remaining = head.promised.map_or(u64::MAX, |n| n - (from - head.start));
        while part.done < part.memory.len() && remaining > 0 {
            let out = &mut part.memory[part.done..];
            let n = out.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
            let n = body.read(&mut out[..n]).await?;
            if n == 0 {
                break;
            }
            part.done += n;
            remaining -= n as u64;
            job.count_bytes(n);
            context.shared.counters.bytes.add(n as u64);
        }
        let is_short = part.done == before || remaining > 0 && head.promised.is_some();
        if is_short && part.done < part.memory.len() {
            return Err(ended_early());
        }
    }
    Ok(())
}

/// Checks that a response belongs to the object that is being fetched.
fn check_head(job: &Job, head: &Head) -> Result<(), Failure> {
    if let Some(total) = head.total.filter(|&total| total != job.len) {
        let why = format!("the object has {total} bytes, and {} were expected", job.len);
        return Err(Failure::permanent(Error::new(ErrorKind::Checksum, why)));
    }
    match (job.agree_on_version(head.version.as_ref()), &head.version) {
        (Some(first), Some(now)) if first != *now => {
            let why = format!("the object changed while it was being fetched, from {first} to {now}");
            Err(Failure::permanent(Error::new(ErrorKind::Stale, why)))
        }
        (Some(first), None) => Err(Failure::network(format!("a response has no version, others had {first}"))),
        _ => Ok(()),
    }
}

/// Skips the bytes before `from`, from servers that do not support ranges.
async fn skip(head: &Head, body: &mut TimedBody<'_>, from: u64) -> Result<(), Failure> {
    let mut ahead = from.checked_sub(head.start).ok_or_else(|| {
        Failure::network(format!("the response starts at byte {}, and {from} was requested", head.start))
    })?;
    if head.promised.is_some_and(|n| n < ahead) {
        return Err(Failure::network("the response ends before the requested byte"));
    }
    let mut scratch = vec![0; CHUNK_BYTES.min(usize::try_from(ahead).unwrap_or(CHUNK_BYTES))];
    while ahead > 0 {
        let n = scratch.len().min(usize::try_from(ahead).unwrap_or(CHUNK_BYTES));
        match body.read(&mut scratch[..n]).await? {
            0 => return Err(ended_early()),
            n => ahead -= n as u64,
        }
    }
    Ok(())
}

/// Fetches a small object of unknown size, at most `limit_bytes`, with the configured number of attempts.
pub(crate) async fn small(
    context: &ThreadContext,
    source: &dyn Source,
    key: &str,
    limit_bytes: usize,
) -> Result<(Vec<u8>, Option<Version>), Error> {
    let request = GetRequest { key: key.to_owned(), range: None, version: None };
    let once = async |_| {
        let GetResponse { head, mut body } = source.get(context, &request).await?;
        let mut bytes = Vec::new();
        let mut body = TimedBody::new(context, &mut *body, context.shared.config.download_timeout);
        if head.promised.is_some_and(|n| n > limit_bytes as u64) || !body.read_whole(limit_bytes, &mut bytes).await? {
            let why = format!("the object is larger than {limit_bytes} bytes");
            return Err(Failure::permanent(Error::format(why)));
        }
        if head.promised.is_some_and(|n| n != bytes.len() as u64) {
            return Err(ended_early());
        }
        context.shared.counters.bytes.add(bytes.len() as u64);
        Ok((bytes, head.version))
    };
    attempts(context, format_args!("{key}"), once, async |time| context.pause(time).await).await
}

fn ended_early() -> Failure {
    Failure::network("the body ended before the bytes it promised")
}

/// Calls `once` with the number of each attempt, as often as configured, until it succeeds; in between it calls `pause`.
/// `name` is for the log.
async fn attempts<T>(
    context: &ThreadContext,
    name: fmt::Arguments<'_>,
    mut once: impl AsyncFnMut(u32) -> Result<T, Failure>,
    mut pause: impl AsyncFnMut(Duration),
) -> Result<T, Error> {
    let config = &context.shared.config;
    let mut attempt = 1;
    loop {
        let failure = match once(attempt).await {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        if failure.is_throttled {
            context.flight.throttle();
        }
        if !failure.is_retried || attempt >= config.download_retry {
            return Err(failure.error.with("attempt", format!("{attempt} of {}", config.download_retry)));
        }
        log::info!("{name}, attempt {attempt}: {}", failure.error);
        context.shared.counters.retries.add(1);
        let wait = retry::wait(config, attempt, failure.retry_after, &mut context.draws.borrow_mut());
        pause(wait).await;
        attempt += 1;
    }
}
