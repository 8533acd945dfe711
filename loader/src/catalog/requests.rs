//! Requests for parts of many objects, from which sources make their indexes.

use crate::error::{Error, Result};
use crate::store::{FetchRequest, FetchTicket, Remote};
use std::collections::VecDeque;

/// Ranges of files that are in flight at the same time: enough to hide a store's latency.
const RANGES_AT_ONCE: usize = 128;

/// Range of a file of known length.
pub(super) struct FileRange<'a> {
    pub(super) name: &'a str,
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) file_bytes: u64,
}

/// Fetches `ranges` and calls `take` with each, its number and its content, in order.
///
/// # Errors
///
/// Errors of the store, with the name of the file; those of `take`.
pub(super) fn fetch_ranges(
    remote: &Remote,
    ranges: &[FileRange<'_>],
    mut take: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut waiting = ranges.iter();
    let mut in_flight: VecDeque<FetchTicket> = VecDeque::new();
    for number in 0..ranges.len() {
        while in_flight.len() < RANGES_AT_ONCE
            && let Some(range) = waiting.next()
        {
            let request = FetchRequest::try_new(range.name, range.bytes)?;
            let request = FetchRequest { start: range.start, object_len: Some(range.file_bytes), ..request };
            in_flight.push_back(remote.fetch(request)?);
        }
        let ticket = in_flight.pop_front().ok_or_else(|| Error::internal("a range was not requested"))?;
        let content = ticket.wait()?;
        take(number, &content)?;
    }
    Ok(())
}
