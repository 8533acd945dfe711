//! Fetching one part: attempts, resuming, and the checks that every answer has to pass.
//!
//! An attempt asks only for the bytes that are still missing. Every answer is held against what is known already: it
//! must start at the byte that was asked for, belong to the same version of the object as all other answers, and the
//! object must be as long as the caller said. Only then do its bytes go into the caller's memory, once.

use super::retry;
use super::source::{Failure, GetRequest, GetResponse, Source, Version};
use super::thread::ThreadContext;
use super::ticket::Job;
use crate::sync::Arc;
use crate::{Error, ErrorKind};
use bytes::BytesMut;
use std::rc::Rc;

/// Bytes read and thrown away at a time when a server starts earlier than asked.
const SKIP_BYTES: usize = 64 << 10;

/// A range of an object and the memory it goes to.
pub(crate) struct Part {
    job: Arc<Job>,
    /// Its number in the object.
    index: usize,
    /// Offset in the object of the first byte of `memory`.
    start: u64,
    /// Bytes at the front of `memory` that have arrived.
    done: usize,
    memory: BytesMut,
    /// Somebody has been told how it ended.
    ended: bool,
}

impl Part {
    pub(crate) fn new(job: Arc<Job>, index: usize, start: u64, memory: BytesMut) -> Self {
        Self { job, index, start, done: 0, memory, ended: false }
    }

    fn end(&self) -> u64 {
        self.start + self.memory.len() as u64
    }

    fn is_whole_object(&self) -> bool {
        self.start == 0 && self.end() == self.job.len
    }

    fn finish(mut self, result: Result<(), Error>) {
        self.ended = true;
        match result {
            Ok(()) => self.job.part_filled(self.index, std::mem::take(&mut self.memory)),
            Err(error) => self.job.fail(error),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.ended {
            self.job.fail(if std::thread::panicking() {
                Error::internal("the task that fetched this object panicked")
            } else {
                Error::new(ErrorKind::Closed, "the store was closed")
            });
        }
    }
}

/// Fetches `part`, whatever it takes within the configured attempts.
pub(crate) async fn run(context: Rc<ThreadContext>, mut part: Part) {
    let job = part.job.clone();
    let result = tokio::select! {
        biased;
        () = job.cancelled() => Err(Error::new(ErrorKind::Closed, "the fetch was cancelled")),
        result = fill(&context, &mut part) => result,
    };
    part.finish(result);
}

async fn fill(context: &ThreadContext, part: &mut Part) -> Result<(), Error> {
    let config = &context.shared.config;
    let mut attempt = 1;
    loop {
        part.job.attempted(attempt);
        let Err(failure) = attempt_once(context, part).await else { return Ok(()) };
        let from = part.start + part.done as u64;
        if !failure.retried || attempt >= config.download_retry {
            let range = format!("{from}..{}", part.end());
            let attempt = format!("{attempt} of {}", config.download_retry);
            return Err(failure.error.with("range", range).with("attempt", attempt));
        }
        log::info!("{}: {} from byte {from}, attempt {attempt}: {}", part.job.remote, part.job.key, failure.error);
        context.shared.counters.retries.add(1);
        let wait = retry::wait(config, attempt, failure.retry_after, &mut context.draws.borrow_mut());
        context.pause(wait).await;
        attempt += 1;
    }
}

/// Exchanges until the part is full. A server may answer with less than was asked for, as long as every answer brings
/// something.
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
        let mut left = promised;
        while part.done < part.memory.len() && left > 0 {
            let out = &mut part.memory[part.done..];
            let n = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let n = read_some(context, &mut response, &mut out[..n]).await?;
            if n == 0 {
                break;
            }
            part.done += n;
            left -= n as u64;
            job.arrived(n);
            context.shared.counters.bytes.add(n as u64);
        }
        let short = part.done == before || left > 0 && response.promised.is_some();
        if short && part.done < part.memory.len() {
            return Err(Failure::network("the body ended before the bytes it promised"));
        }
    }
    Ok(())
}

/// Whether this answer belongs to the object that is being fetched.
fn check_head(job: &Job, response: &GetResponse) -> Result<(), Failure> {
    if let Some(total) = response.total.filter(|&total| total != job.len) {
        let why = format!("the object has {total} bytes, and {} were expected", job.len);
        return Err(Failure::last(Error::new(ErrorKind::Checksum, why)));
    }
    check_version(job.version(response.version.as_ref()), response.version.as_ref())
}

fn check_version(first: Option<Version>, now: Option<&Version>) -> Result<(), Failure> {
    match (first, now) {
        (Some(first), Some(now)) if first != *now => {
            let why = format!("the object changed while it was being fetched, from {first} to {now}");
            Err(Failure::last(Error::new(ErrorKind::Stale, why)))
        }
        (Some(first), None) => Err(Failure::network(format!("an answer does not say its version, others had {first}"))),
        _ => Ok(()),
    }
}

/// Reads over bytes in front of `from`, from servers that do not know ranges.
async fn skip(context: &ThreadContext, response: &mut GetResponse, from: u64) -> Result<(), Failure> {
    let mut ahead = from.checked_sub(response.start).ok_or_else(|| {
        Failure::network(format!("the answer starts at byte {}, and {from} was asked for", response.start))
    })?;
    if response.promised.is_some_and(|n| n < ahead) {
        return Err(Failure::network("the answer ends before the byte that was asked for"));
    }
    let mut scratch = vec![0; SKIP_BYTES.min(usize::try_from(ahead).unwrap_or(SKIP_BYTES))];
    while ahead > 0 {
        let n = scratch.len().min(usize::try_from(ahead).unwrap_or(SKIP_BYTES));
        match read_some(context, response, &mut scratch[..n]).await? {
            0 => return Err(Failure::network("the body ended before the bytes it promised")),
            n => ahead -= n as u64,
        }
    }
    Ok(())
}

/// One read under the time limit.
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

/// Fetches a small object of unknown size, `limit_bytes` at most.
pub(crate) async fn small(
    context: &ThreadContext,
    source: &dyn Source,
    key: &str,
    limit_bytes: usize,
) -> Result<(Vec<u8>, Option<Version>), Error> {
    again(context, async || small_once(context, source, key, limit_bytes).await).await
}

/// Makes attempts at a small job.
pub(crate) async fn again<T>(context: &ThreadContext, work: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Error> {
    let config = &context.shared.config;
    let mut attempt = 1;
    loop {
        let failure = match work().await {
            Ok(found) => return Ok(found),
            Err(failure) => failure,
        };
        if !failure.retried || attempt >= config.download_retry {
            return Err(failure.error.with("attempt", format!("{attempt} of {}", config.download_retry)));
        }
        context.shared.counters.retries.add(1);
        let wait = retry::wait(config, attempt, failure.retry_after, &mut context.draws.borrow_mut());
        context.pause(wait).await;
        attempt += 1;
    }
}

async fn small_once(
    context: &ThreadContext,
    source: &dyn Source,
    key: &str,
    limit_bytes: usize,
) -> Result<(Vec<u8>, Option<Version>), Failure> {
    let request = GetRequest { key: key.to_owned(), range: None, version: None };
    let mut response = source.get(context, &request).await?;
    let too_large = || Failure::last(Error::format(format!("the object is larger than {limit_bytes} bytes")));
    if response.promised.is_some_and(|n| n > limit_bytes as u64) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut chunk = vec![0; SKIP_BYTES];
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
