//! Fetch of one part: attempts, resumption, and the checks of every response.
//!
//! An attempt requests only the bytes that are still missing. Every response is checked: it must start at the requested
//! byte and belong to the same version of the object as all responses, and the object must have the length that the
//! caller expects. Only then are its bytes written to the caller's memory, once.
//!
//! **Deadlines.** The head of a response and each [`PROGRESS_BYTES`] of a body must arrive within `download_timeout`.
//! An attempt as a whole has the time that follows from this least rate ([`attempt_limit`]): it includes redirects and
//! credentials, and a server may send a response for every few bytes. A part has `download_retry` attempts, with pauses
//! of at most `backoff_max`. So the time of every fetch has a bound.

use super::buffer::FetchMemory;
use super::context::{StoreContext, ThreadContext};
use super::failure::Failure;
use super::flight::{HeadSlot, PartSlot};
use super::queue::closed_error;
use super::retry;
use super::source::{CHUNK_BYTES, Encoded, GetRequest, GetResponse, Head, PROGRESS_BYTES, Source, TimedBody, Version};
use super::ticket::Job;
use crate::{Error, ErrorKind};
use bytes::BytesMut;
use forebay_core::sync::Arc;
use forebay_core::versions::Versions;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

/// Time after which a part no longer keeps later parts from sending their requests, although its head has not arrived.
const HEAD_LATE: Duration = Duration::from_secs(1);

/// Range of an object, with the memory for it.
pub(crate) struct ObjectPart {
    job: Arc<Job>,
    index: usize,
    /// Offset in the object of the first byte of `memory`.
    start: u64,
    /// Bytes at the front of `memory` that have arrived.
    done: usize,
    /// `None` once the job has it.
    memory: Option<Box<dyn FetchMemory>>,
    len: usize,
    /// The job knows the outcome.
    is_reported: bool,
}

impl ObjectPart {
    pub(crate) fn new(job: Arc<Job>, index: usize, start: u64, mut memory: Box<dyn FetchMemory>) -> Self {
        let len = memory.bytes_mut().len();
        Self { job, index, start, done: 0, memory: Some(memory), len, is_reported: false }
    }

    fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().map_or(&mut [], |memory| memory.bytes_mut())
    }

    fn finish(mut self, result: Result<(), Error>) {
        self.is_reported = true;
        match (result, self.memory.take()) {
            (Ok(()), Some(memory)) => self.job.part_filled(self.index, memory),
            (Ok(()), None) => self.job.fail(Error::internal("a part ended twice")),
            (Err(error), _) => self.job.fail(error),
        }
    }
}

impl Drop for ObjectPart {
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

/// Fetches `part` with the configured number of attempts. It gives up its `slot` between them; returns it if it has
/// one at the end, and the length of the part unless it failed.
pub(crate) async fn run(
    context: &ThreadContext,
    mut part: ObjectPart,
    slot: PartSlot,
) -> (Option<PartSlot>, Option<usize>) {
    let (job, mut slot) = (part.job.clone(), Some(slot));
    let result = tokio::select! {
        biased;
        () = job.wait_for_cancel() => Err(Error::new(ErrorKind::Closed, "the fetch was cancelled")),
        result = fill(context, &mut part, &mut slot) => result,
    };
    let filled = result.is_ok().then_some(part.len);
    part.finish(result);
    (slot, filled)
}

async fn fill(context: &ThreadContext, part: &mut ObjectPart, slot: &mut Option<PartSlot>) -> Result<(), Error> {
    let job = part.job.clone();
    let once = async |attempt| {
        job.note_attempt(attempt);
        attempt_once(context, part).await.map_err(|mut failure| {
            failure.error = failure.error.with("range", format!("{}..{}", part.start + part.done as u64, part.end()));
            with_advice(failure, &*job.source)
        })
    };
    let pause = async |time| {
        let _paused = job.pause();
        *slot = None;
        context.pause(time).await;
        *slot = context.flight.slot_again().await;
    };
    attempts(context, format_args!("{}: {}", job.remote, job.key), once, pause).await
}

/// Range of an object that is received, and how many of them have arrived.
struct Target<'a> {
    job: &'a Job,
    /// Offset in the object of the first byte.
    start: u64,
    done: &'a Cell<usize>,
}

/// Makes one attempt to fill the part: exchanges, and a second request for the missing bytes if the part is late.
async fn attempt_once(context: &ThreadContext, part: &mut ObjectPart) -> Result<(), Failure> {
    let done = Cell::new(part.done);
    let head = context.flight.head_slot().await;
    let limit = attempt_limit(context.shared.config.download_timeout, part.len - part.done);
    let result = context.within(limit, race(context, part, &done, head)).await;
    part.done = done.get();
    result.unwrap_or_else(|| {
        let why = format!("the attempt did not end within {} s", limit.as_secs_f64());
        Err(Failure::transient(Error::new(ErrorKind::Timeout, why)))
    })
}

/// Longest time of an attempt that receives `bytes` bytes, at the least rate: as long for the head as for each
/// [`PROGRESS_BYTES`].
pub(super) fn attempt_limit(download_timeout: Duration, bytes: usize) -> Duration {
    let pieces = u32::try_from(bytes.div_ceil(PROGRESS_BYTES)).unwrap_or(u32::MAX);
    download_timeout.saturating_mul(pieces.saturating_add(1))
}

/// Result of an attempt with a second request.
enum Winner {
    First,
    /// The second request was for the bytes from this one of the part, and has received them.
    Second(usize, BytesMut),
}

async fn race(
    context: &ThreadContext,
    part: &mut ObjectPart,
    done: &Cell<usize>,
    head: HeadSlot<'_>,
) -> Result<(), Failure> {
    let (job, end) = (part.job.clone(), part.end());
    let (begun, bytes) = (context.shared.clock.now(), part.len - done.get());
    let count = |n| {
        job.count_bytes(n);
        context.shared.counters.bytes.add(n as u64);
    };
    let winner = {
        let target = Target { job: &job, start: part.start, done };
        let start = part.start;
        let first = receive(context, &target, part.bytes_mut(), Some(head), count, |_| ());
        tokio::pin!(first);
        let is_hedged = job.source.is_on_network() && job.source.has_ranges();
        let late_after = if is_hedged { context.hedging.late_after(&job.remote, bytes) } else { None };
        let in_time = match late_after {
            Some(limit) => context.within(limit, &mut first).await,
            None => Some(first.as_mut().await),
        };
        match in_time {
            Some(result) => result.map(|()| Winner::First)?,
            None => hedge(context, &job, (start, end), done, first).await?,
        }
    };
    match winner {
        Winner::First if job.source.is_on_network() => {
            context.hedging.record(&job.remote, bytes, context.shared.clock.now() - begun);
        }
        Winner::First => {}
        // Not a peer: its time would include the wait for the first request.
        Winner::Second(from, tail) => {
            part.bytes_mut()[from..].copy_from_slice(&tail);
            job.count_bytes(part.len - done.replace(part.len));
        }
    }
    Ok(())
}

/// Requests the missing bytes a second time, if the budget allows it, and waits for the faster request. A failure of
/// the second request changes nothing; if the first one fails, the second may still succeed.
async fn hedge(
    context: &ThreadContext,
    job: &Arc<Job>,
    (start, end): (u64, u64),
    done: &Cell<usize>,
    mut first: Pin<&mut impl Future<Output = Result<(), Failure>>>,
) -> Result<Winner, Failure> {
    let from = done.get();
    let missing = (end - start) as usize - from;
    let budget = if context.flight.is_throttled() { None } else { context.hedging.budget(missing) };
    let Some(budget) = budget else { return first.await.map(|()| Winner::First) };
    let mut tail = BytesMut::zeroed(missing);
    let counters = &context.shared.counters;
    counters.hedges.add(1);
    log::info!("{}: {} is late: bytes {}..{end} are requested again", job.remote, job.key, start + from as u64);
    let budget = RefCell::new(budget);
    let count = |n| {
        budget.borrow_mut().spend(n);
        counters.bytes.add(n as u64);
        counters.hedge_bytes.add(n as u64);
    };
    let second_done = Cell::new(0);
    let target = Target { job, start: start + from as u64, done: &second_done };
    let second_wins = {
        let skipped = |n| {
            budget.borrow_mut().spend(n);
            counters.hedge_bytes.add(n as u64);
        };
        let second = receive(context, &target, &mut tail, None, count, skipped);
        tokio::pin!(second);
        tokio::select! {
            biased;
            result = &mut first => match result {
                Ok(()) => false,
                Err(failure) => second.await.map(|()| true).map_err(|_| failure)?,
            },
            result = &mut second => match result {
                Ok(()) => true,
                Err(_) => first.await.map(|()| false)?,
            },
        }
    };
    Ok(if second_wins { Winner::Second(from, tail) } else { Winner::First })
}

/// Makes exchanges until `memory` is full. A server may send less than requested, as long as every response has bytes.
/// Releases `waits` when the first head has arrived, or is late. Calls `count` for bytes that are written to `memory`,
/// and `skipped` for those before them.
async fn receive(
    context: &ThreadContext,
    target: &Target<'_>,
    memory: &mut [u8],
    mut waits: Option<HeadSlot<'_>>,
    count: impl Fn(usize),
    skipped: impl Fn(usize),
) -> Result<(), Failure> {
    let &Target { job, start, done } = target;
    let end = start + memory.len() as u64;
    while done.get() < memory.len() {
        let from = start + done.get() as u64;
        let plain = from == 0 && job.len == Some(end);
        let request = GetRequest {
            key: job.key.clone(),
            range: (!plain).then_some(from..end),
            version: job.agree_on_version(None),
        };
        let requested = context.shared.clock.now();
        let response = job.source.get(context, &request);
        tokio::pin!(response);
        let in_time = if waits.is_some() { context.within(HEAD_LATE, &mut response).await } else { None };
        drop(waits.take());
        let GetResponse { head, mut body } = match in_time {
            Some(response) => response?,
            None => response.await?,
        };
        context.flight.head(context.shared.clock.now() - requested);
        check_head(job, &head, end)?;
        let mut body = TimedBody::new(context, &mut *body, context.shared.config.download_timeout);
        skip(&head, &mut body, from, &skipped).await?;
        let before = done.get();
        let mut remaining = head.promised.map_or(u64::MAX, |n| n - (from - head.start));
        while done.get() < memory.len() && remaining > 0 {
            let out = &mut memory[done.get()..];
            let n = out.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
            let n = body.read(&mut out[..n]).await?;
            if n == 0 {
                break;
            }
            done.set(done.get() + n);
            remaining -= n as u64;
            context.flight.arrived(n);
            count(n);
        }
        if head.promised.is_none() && done.get() == memory.len() && job.len == Some(end) {
            // All expected bytes are there, so an error here is as good as an end.
            let longer = body.read(&mut [0]).await.is_ok_and(|n| n > 0);
            if longer {
                done.set(before);
                let why = format!("the response has more than the {end} bytes that were expected");
                return Err(Failure::transient(Error::new(ErrorKind::Checksum, why)));
            }
        }
        let is_short = done.get() == before || remaining > 0 && head.promised.is_some();
        if is_short && done.get() < memory.len() {
            return Err(ended_early());
        }
    }
    Ok(())
}

/// Checks that a response belongs to the object that is being fetched, and that the object has the bytes up to `end`.
fn check_head(job: &Job, head: &Head, end: u64) -> Result<(), Failure> {
    job.encoded.check(head, job.len)?;
    if let Some(total) = head.total
        && (total < end || job.len.is_some_and(|len| total != len))
    {
        let why = match job.len {
            Some(len) => format!("the object has {total} bytes, and {len} were expected"),
            None => format!("the object has {total} bytes, and those up to {end} were requested"),
        };
        if head.version.as_ref().is_some_and(|version| job.is_changed(version)) {
            return Err(Failure::permanent(Error::new(ErrorKind::Stale, why)));
        }
        // A gateway may respond with something else instead of an error.
        return Err(Failure::new(Error::new(ErrorKind::Checksum, why), job.source.is_on_network()));
    }
    job.compare(head).map_err(Failure::permanent)?;
    match (job.agree_on_version(head.version.as_ref()), &head.version) {
        (Some(first), Some(now)) if first != *now => {
            let why = format!("the object changed while it was being fetched, from {first} to {now}");
            Err(Failure::permanent(Error::new(ErrorKind::Stale, why)))
        }
        (Some(first), None) => Err(Failure::network(format!("a response has no version, earlier ones had {first}"))),
        _ => Ok(()),
    }
}

/// Skips the bytes before `from`, from servers that do not support ranges.
async fn skip(head: &Head, body: &mut TimedBody<'_>, from: u64, skipped: impl Fn(usize)) -> Result<(), Failure> {
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
            n => {
                ahead -= n as u64;
                skipped(n);
            }
        }
    }
    Ok(())
}

/// Most bytes of a document without a known length: the response may never end.
const UNANNOUNCED_BYTES_MAX: usize = 128 << 20;

/// Highest limit of a document, such as an index. A higher limit is for data.
const DOCUMENT_BYTES_MAX: usize = 1 << 30;

/// Fetches a small object of unknown size, at most `limit_bytes`, with the configured number of attempts. Bytes that
/// are not `is_whole` are only returned by the last attempt.
pub(crate) async fn small(
    context: &ThreadContext,
    source: &dyn Source,
    key: &str,
    limit_bytes: usize,
    is_whole: fn(&[u8]) -> bool,
) -> Result<(Vec<u8>, Option<Version>), Error> {
    let config = &context.shared.config;
    let request = GetRequest { key: key.to_owned(), range: None, version: None };
    let once = async |attempt| {
        let GetResponse { head, mut body } = source.get(context, &request).await?;
        Encoded::Refused.check(&head, None)?;
        let mut bytes = Vec::new();
        let mut body = TimedBody::new(context, &mut *body, config.download_timeout);
        let is_unannounced = head.promised.is_none() && limit_bytes <= DOCUMENT_BYTES_MAX;
        let limit_bytes = if is_unannounced { limit_bytes.min(UNANNOUNCED_BYTES_MAX) } else { limit_bytes };
        if head.promised.is_some_and(|n| n > limit_bytes as u64) || !body.read_whole(limit_bytes, &mut bytes).await? {
            let how = if is_unannounced { ", and the server does not report its length" } else { "" };
            let why = format!("the object is larger than {limit_bytes} bytes{how}");
            return Err(Failure::permanent(Error::format(why)));
        }
        if head.promised.is_some_and(|n| n != bytes.len() as u64) {
            return Err(ended_early());
        }
        let is_last = attempt >= config.download_retry && source.advice().is_none();
        if source.is_on_network() && !is_last && !is_whole(&bytes) {
            let failure = Failure::transient(Error::format("the response is incomplete or not the requested file"));
            return Err(with_advice(failure, source));
        }
        context.shared.counters.bytes.add(bytes.len() as u64);
        Ok((bytes, head.version))
    };
    attempts(context, format_args!("{key}"), once, async |time| context.pause(time).await).await
}

/// Start of an object, its length and its version.
#[derive(Debug)]
pub struct Peek {
    /// The first bytes, as many as were requested or as the object has.
    pub front: Vec<u8>,
    /// Length of the object.
    pub len: u64,
    /// Version, for further requests.
    pub version: Option<Version>,
    /// Encoding with which the object is stored, where that is accepted.
    pub encoding: Option<String>,
    /// Time of the response by the server's clock, in seconds since 1970.
    pub answered_s: Option<u64>,
}

/// Fetches the first `bytes` of an object of unknown length, with the configured number of attempts.
pub(crate) async fn peek(
    context: &ThreadContext,
    source: &dyn Source,
    (key, encoded, versions): (&str, Encoded, Option<&Versions>),
    bytes: usize,
) -> Result<Peek, Error> {
    let config = &context.shared.config;
    // An empty object has no range, which a server rejects. It is requested whole then.
    let mut is_whole = !source.has_ranges();
    let once = async |_| {
        let range = (!is_whole).then_some(0..bytes as u64);
        let request = GetRequest { key: key.to_owned(), range, version: None };
        let response = source.get(context, &request).await;
        let GetResponse { head, mut body } = match response {
            // 416: there is no first byte.
            Err(failure) if !is_whole && failure.error.kind() == ErrorKind::Checksum => {
                is_whole = true;
                source.get(context, &GetRequest { range: None, ..request }).await?
            }
            response => response?,
        };
        let unknown = || {
            let why =
                "the server does not report the length of this object: only stores and servers that do are supported";
            let error = Error::new(ErrorKind::Unsupported, why);
            Failure::permanent(match source.advice() {
                Some(advice) => error.with("hint", advice),
                None => error,
            })
        };
        encoded.check(&head, None)?;
        versions.map_or(Ok(()), |versions| head.compare(versions, source, key)).map_err(Failure::permanent)?;
        let len = head.total.ok_or_else(unknown)?;
        let wanted = usize::try_from(len).unwrap_or(usize::MAX).min(bytes);
        let mut front = Vec::new();
        let mut body = TimedBody::new(context, &mut *body, config.download_timeout);
        // A longer body is left: the connection ends with it.
        body.read_whole(wanted, &mut front).await?;
        if head.start != 0 || front.len() < wanted {
            return Err(ended_early());
        }
        context.shared.counters.bytes.add(front.len() as u64);
        let answered_s = head.times.answered_s;
        Ok(Peek { front, len, version: head.version, encoding: head.encoding, answered_s })
    };
    attempts(context, format_args!("{key}"), once, async |time| context.pause(time).await).await
}

/// Adds the source's reason for objects with different bytes to a failure that it may have caused.
fn with_advice(mut failure: Failure, source: &dyn Source) -> Failure {
    if let Some(advice) = source.advice().filter(|_| failure.is_of_content()) {
        failure.error = failure.error.with("hint", advice);
    }
    failure
}

fn ended_early() -> Failure {
    Failure::network("the body ended before the bytes it promised")
}

/// Calls `once` with the number of each attempt, as often as configured, until it succeeds; in between it calls
/// `pause`. `name` is for the log.
pub(super) async fn attempts<T>(
    context: &ThreadContext,
    name: fmt::Arguments<'_>,
    mut once: impl AsyncFnMut(u32) -> Result<T, Failure>,
    mut pause: impl AsyncFnMut(Duration),
) -> Result<T, Error> {
    let StoreContext { config, clock, retry_log, .. } = &*context.shared;
    let (mut attempt, mut failed_first) = (1, None);
    loop {
        let failure = match once(attempt).await {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        if failure.is_throttled {
            context.flight.throttle();
            context.shared.counters.throttled.add(1);
        }
        // Training outlasts a fault of its store. An address at which there was never a server is more likely a
        // mistake.
        let most = if failure.is_unreached { config.first_contact_retry } else { u32::MAX }.min(config.download_retry);
        if !failure.is_retried || attempt >= most {
            return Err(failure.error.with("attempt", format!("{attempt} of {most}")));
        }
        context.shared.counters.retries.add(1);
        let wait = retry::wait(config, attempt, failure.retry_after, &mut context.draws.borrow_mut());
        let now = clock.now();
        let delay = (now + wait).saturating_sub(*failed_first.get_or_insert(now));
        // A store that throttles is at work, and its counters show it.
        let level = if failure.is_throttled { log::Level::Info } else { retry_log.level(now, delay) };
        let seconds = wait.as_secs_f64();
        log::log!(level, "{name}, attempt {attempt} of {most}, the next one in {seconds:.1} s: {}", failure.error);
        pause(wait).await;
        attempt += 1;
    }
}
