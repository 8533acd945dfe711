//! Ranges of stored objects, fetched together.

use super::fetch_event::FetchEvent;
use crate::error::Result;
use crate::format::FileInfo;
use crate::format::recipe::ObjectRange;
use crate::store::{Encoded, FetchBuffer, FetchRequest, FetchTicket, Progress, Remote};
use forebay_core::flow::Run;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Interval at which a thread that waits for a download reads its progress and checks for the end of the epoch. Four
/// times a second, like all waits here: a machine may have thousands of them.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// Most ranges in flight: enough to hide the latency of small objects. The fetch threads limit the requests of all
/// shards.
const RANGES_AT_ONCE: usize = 64;

/// Fetch of the ranges that `file` is made of.
pub(crate) struct RangeFetch<'a> {
    pub(crate) remote: &'a Remote,
    /// A stop of this run aborts the fetch.
    pub(crate) run: &'a Run,
    pub(crate) file: &'a FileInfo,
    /// Treatment of objects that are sent with an encoding.
    pub(crate) encoded: Encoded,
    /// Called with the progress of all ranges.
    pub(crate) watch: &'a dyn Fn(FetchEvent<'_>),
}

impl RangeFetch<'_> {
    /// Returns the bytes of `ranges`, in their order.
    ///
    /// # Errors
    ///
    /// Errors of the store, `Full` without memory, `Closed` when the run stops.
    pub(crate) fn all(&self, ranges: &[ObjectRange]) -> Result<Vec<FetchBuffer>> {
        let mut fetched = Vec::with_capacity(ranges.len());
        let mut waiting = ranges.iter();
        let mut in_flight = VecDeque::new();
        let mut seen =
            Seen { done: 0, bytes: 0, len: ranges.iter().map(|range| range.bytes).sum(), at: Instant::now() };
        loop {
            while in_flight.len() < RANGES_AT_ONCE
                && let Some(range) = waiting.next()
            {
                in_flight.push_back(self.request(range)?);
            }
            if seen.at.elapsed() >= POLL_EVERY && !in_flight.is_empty() {
                self.report(&mut seen, in_flight.iter())?;
            }
            let Some(mut first) = in_flight.pop_front() else { return Ok(fetched) };
            let bytes = loop {
                match first.wait_timeout(POLL_EVERY) {
                    Ok(done) => break done?,
                    Err(ticket) => first = ticket,
                }
                self.report(&mut seen, std::iter::once(&first).chain(&in_flight))?;
            };
            seen.done += bytes.len() as u64;
            fetched.push(bytes);
        }
    }

    fn request(&self, range: &ObjectRange) -> Result<FetchTicket> {
        let request = FetchRequest::try_new(&*range.key, range.bytes)?;
        let (start, object_len) = (range.start, range.object_bytes);
        self.remote.fetch(FetchRequest { start, object_len, encoded: self.encoded, ..request })
    }

    /// Reports the progress of all ranges; `tickets` are in flight.
    fn report<'t>(&self, seen: &mut Seen, tickets: impl Iterator<Item = &'t FetchTicket>) -> Result<()> {
        self.run.check()?;
        let start = Progress { bytes: seen.done, len: seen.len, attempt: 0, idle: Duration::MAX, is_paused: true };
        let progress = tickets.map(FetchTicket::progress).fold(start, |all, one| Progress {
            bytes: all.bytes + one.bytes,
            len: all.len,
            attempt: all.attempt.max(one.attempt),
            idle: all.idle.min(one.idle),
            is_paused: all.is_paused && one.is_paused,
        });
        let moved = progress.bytes != seen.bytes;
        (seen.bytes, seen.at) = (progress.bytes, Instant::now());
        (self.watch)(FetchEvent::Bytes { file: self.file, progress, moved });
        Ok(())
    }
}

/// Progress at the last report.
struct Seen {
    /// Bytes of the ranges that are complete.
    done: u64,
    bytes: u64,
    /// Bytes of all ranges.
    len: u64,
    at: Instant,
}
