//! Fetch of one part: attempts, resumption, and the checks of every response.
//!
//! An attempt requests only the bytes that are still missing. Every response is checked: it must start at the requested
//! byte and belong to the same version of the object as all others, and the object must have the length that the caller
//! expects. Only then are its bytes written to the caller's memory, once.

use super::context::ThreadContext;
use super::failure::Failure;
use super::retry;
use super::source::{GetRequest, GetResponse, Source, Version};
use super::ticket::Job;
use crate::sync::Arc;
use crate::{Error, ErrorKind};
use bytes::BytesMut;
use std::rc::Rc;

/// Bytes per read of bodies without their own memory: small objects, and bytes before the requested range.
const CHUNK_BYTES: usize = 64 << 10;

/// Range of an object, with the memory for it.
pub(crate) struct Part {
    job: Arc<Job>,
    /// Number of the part in the object.
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

    fn end(&self) -> u64 {
        self.start + self.memory.len() as u64
    }

    fn is_whole_object(&self) -> bool {
        self.start == 0 && self.end() == self.job.len
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
                Error::new(ErrorKind::Closed, "the store was closed")
            });
        }
    }
}

/// Fetches `part` with the configured number of attempts.
pub(crate) async fn run(context: Rc<ThreadContext>, mut part: Part) {
    let job = part.job.clone();
    let result = tokio::select! {
        biased;
        () = job.wait_for_cancel() => Err(Error::new(ErrorKind::Closed, "the fetch was cancelled")),
        result = fill(&context, &mut part) => result,
    };
    part.finish(result);
}

async fn fill(context: &ThreadContext, part: &mut Part) -> Result<(), Error> {
    let mut attempt = 1;
    loop {
        part.job.note_attempt(attempt);
        let Err(mut failure) = attempt_once(context, part).await else { return Ok(()) };
        failure.error = failure.error.with("range", format!("{}..{}", part.start + part.done as u64, part.end()));
        let message = format!("{}: {}, attempt {attempt}: {}", part.job.remote, part.job.key, failure.error);
        pause_before_retry(context, failure, attempt).await?;
        log::info!("{message}");
        attempt += 1;
    }
}

/// Makes exchanges until the part is full. A server may send less than requested, as long as every response has bytes.
async fn attempt_once(context: &ThreadContext, part: &mut Part) -> Result<(), Failure> {
    let job = part.job.clone();
    while part.done < part.memory.len() {
        let from = part.start + part.done as u64;
        let plain = part.is_whole_object() && part.done == 0;
        let request =
            GetRequest { key: job.key.clone(), range: (!plain).then(|| from..part.end()), version: job.version(None) };
        let mut response = job.source.get(context, &request).await?;
        check_head(&job, &response)?;
        skip(context, &mut response, from).await?;
        let promised = response.promised.map_or(u64::MAX, |n| n - (from - response.start));
        let before = part.done;
        let mut remaining = promised;
        while part.done < part.memory.len() && remaining > 0 {
            let out = &mut part.memory[part.done..];
            let n = out.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
            let n = read_some(context, &mut response, &mut out[..n]).await?;
            if n == 0 {
                break;
            }
            part.done += n;
            remaining -= n as u64;
            job.count_bytes(n);
            context.shared.counters.bytes.add(n as u64);
        }
        let is_short = part.done == before || remaining > 0 && response.promised.is_some();
        if is_short && part.done < part.memory.len() {
            return Err(Failure::network("the body ended before the bytes it promised"));
        }
    }
    Ok(())
}

/// Checks that a response belongs to the object that is being fetched.
fn check_head(job: &Job, response: &GetResponse) -> Result<(), Failure> {
    if let Some(total) = response.total.filter(|&total| total != job.len) {
        let why = format!("the object has {total} bytes, and {} were expected", job.len);
        return Err(Failure::permanent(Error::new(ErrorKind::Checksum, why)));
    }
    check_version(job.version(response.version.as_ref()), response.version.as_ref())
}

fn check_version(first: Option<Version>, now: Option<&Version>) -> Result<(), Failure> {
    match (first, now) {
        (Some(first), Some(now)) if first != *now => {
            let why = format!("the object changed while it was being fetched, from {first} to {now}");
            Err(Failure::permanent(Error::new(ErrorKind::Stale, why)))
        }
        (Some(first), None) => Err(Failure::network(format!("an answer has no version, others had {first}"))),
        _ => Ok(()),
    }
}

/// Skips the bytes before `from`, from servers that do not support ranges.
async fn skip(context: &ThreadContext, response: &mut GetResponse, from: u64) -> Result<(), Failure> {
    let mut ahead = from.checked_sub(response.start).ok_or_else(|| {
        Failure::network(format!("the answer starts at byte {}, and {from} was requested", response.start))
    })?;
    if response.promised.is_some_and(|n| n < ahead) {
        return Err(Failure::network("the answer ends before the requested byte"));
    }
    let mut scratch = vec![0; CHUNK_BYTES.min(usize::try_from(ahead).unwrap_or(CHUNK_BYTES))];
    while ahead > 0 {
        let n = scratch.len().min(usize::try_from(ahead).unwrap_or(CHUNK_BYTES));
        match read_some(context, response, &mut scratch[..n]).await? {
            0 => return Err(Failure::network("the body ended before the bytes it promised")),
            n => ahead -= n as u64,
        }
    }
    Ok(())
}

/// Reads once, under the time limit.
pub(crate) async fn read_some(
    context: &ThreadContext,
    response: &mut GetResponse,
    out: &mut [u8],
) -> Result<usize, Failure> {
    let limit = context.shared.config.download_timeout;
    match context.within(limit, response.body.read(out)).await {
        Some(result) => result,
        None => {
            let why = format!("no byte arrived for {} s", limit.as_secs_f64());
            Err(Failure::transient(Error::new(ErrorKind::Timeout, why)))
        }
    }
}

/// Fetches a small object of unknown size, at most `limit_bytes`, with the configured number of attempts.
pub(crate) async fn small(
    context: &ThreadContext,
    source: &dyn Source,
    key: &str,
    limit_bytes: usize,
) -> Result<(Vec<u8>, Option<Version>), Error> {
    let mut attempt = 1;
    loop {
        match small_once(context, source, key, limit_bytes).await {
            Ok(found) => return Ok(found),
            Err(failure) => pause_before_retry(context, failure, attempt).await?,
        }
        attempt += 1;
    }
}

/// Waits until the next attempt after number `attempt`.
///
/// # Errors
///
/// That of the failure, if it was the last attempt.
async fn pause_before_retry(context: &ThreadContext, failure: Failure, attempt: u32) -> Result<(), Error> {
    let config = &context.shared.config;
    if !failure.is_retried || attempt >= config.download_retry {
        return Err(failure.error.with("attempt", format!("{attempt} of {}", config.download_retry)));
    }
    context.shared.counters.retries.add(1);
    let wait = retry::wait(config, attempt, failure.retry_after, &mut context.draws.borrow_mut());
    context.pause(wait).await;
    Ok(())
}

async fn small_once(
    context: &ThreadContext,
    source: &dyn Source,
    key: &str,
    limit_bytes: usize,
) -> Result<(Vec<u8>, Option<Version>), Failure> {
    let request = GetRequest { key: key.to_owned(), range: None, version: None };
    let mut response = source.get(context, &request).await?;
    let too_large = || Failure::permanent(Error::format(format!("the object is larger than {limit_bytes} bytes")));
    if response.promised.is_some_and(|n| n > limit_bytes as u64) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let n = read_some(context, &mut response, &mut chunk).await?;
        if n == 0 {
            break;
        }
        if bytes.len() + n > limit_bytes {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk[..n]);
    }
    if response.promised.is_some_and(|n| n != bytes.len() as u64) {
        return Err(Failure::network("the body ended before the bytes it promised"));
    }
    context.shared.counters.bytes.add(bytes.len() as u64);
    Ok((bytes, response.version))
}
