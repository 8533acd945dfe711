//! Requests for parts and lengths of many objects, from which sources make their indexes.

use super::again::again;
use crate::error::{Error, ErrorKind, Result};
use crate::sources::tars::counts::FILE_BYTES_MAX;
use crate::store::{FetchRequest, FetchTicket, Peek, Remote};
use std::collections::VecDeque;

/// Files that are requested at the same time.
const FILES_AT_ONCE: usize = 256;

/// Small files that are fetched at the same time, each by a thread.
pub(super) const DOCUMENTS_AT_ONCE: usize = 64;

/// Ranges of files that are in flight at the same time: enough to hide a store's latency.
const RANGES_AT_ONCE: usize = 128;

/// Range of a file of known length.
#[derive(Clone, Copy)]
pub(super) struct FileRange<'a> {
    pub(super) name: &'a str,
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) file_bytes: u64,
}

impl FileRange<'_> {
    fn request(&self, remote: &Remote) -> Result<FetchTicket> {
        let request = FetchRequest::try_new(self.name, self.bytes)?;
        remote.fetch(FetchRequest { start: self.start, object_len: Some(self.file_bytes), ..request })
    }
}

/// Fetches `ranges` and calls `take` with each, its number and its content, in order. A range that `take` rejects with
/// an error of its format is fetched again; in the last attempt `take` gets true.
///
/// # Errors
///
/// Errors of the store, with the name of the file; the errors of `take`.
pub(super) fn fetch_ranges(
    remote: &Remote,
    ranges: &[FileRange<'_>],
    mut take: impl FnMut(usize, &[u8], bool) -> Result<()>,
) -> Result<()> {
    let mut waiting = ranges.iter();
    let mut in_flight: VecDeque<FetchTicket> = VecDeque::new();
    for (number, range) in ranges.iter().enumerate() {
        while in_flight.len() < RANGES_AT_ONCE
            && let Some(next) = waiting.next()
        {
            in_flight.push_back(next.request(remote)?);
        }
        let mut first = Some(in_flight.pop_front().ok_or_else(|| Error::internal("a range was not requested"))?);
        again(remote, range.name, |is_last| {
            let ticket = first.take().map_or_else(|| range.request(remote), Ok)?;
            take(number, &ticket.wait()?, is_last)
        })?;
    }
    Ok(())
}

/// Returns the first `bytes` of the file `name`, at least one, and its length.
///
/// # Errors
///
/// As [`peek_all`].
pub(super) fn peek(remote: &Remote, name: &str, bytes: usize) -> Result<Peek> {
    peek_all(remote, &[name], bytes)?.pop().ok_or_else(without_outcome)
}

/// Returns the first `bytes` of each of the files `names`, at least one, and their lengths.
///
/// # Errors
///
/// Errors of the store; `Unsupported` where a server does not report lengths.
pub(super) fn peek_all(remote: &Remote, names: &[&str], bytes: usize) -> Result<Vec<Peek>> {
    let mut all: Vec<Option<Peek>> = names.iter().map(|_| None).collect();
    for (names, found) in names.chunks(FILES_AT_ONCE).zip(all.chunks_mut(FILES_AT_ONCE)) {
        let (sender, receiver) = crossbeam::channel::bounded(names.len());
        for (number, name) in names.iter().enumerate() {
            let sender = sender.clone();
            remote.peek(name, bytes, move |outcome| drop(sender.send((number, outcome))))?;
        }
        drop(sender);
        for _ in 0..names.len() {
            let (number, outcome) = receiver.recv().map_err(|_| without_outcome())?;
            found[number] = Some(outcome?);
        }
    }
    all.into_iter().map(|peek| peek.ok_or_else(without_outcome)).collect()
}

fn without_outcome() -> Error {
    Error::internal("a request of a file's length has no outcome")
}

/// Returns the lengths of the files `names`.
///
/// # Errors
///
/// Errors of the store; `Unsupported` where a server does not report lengths.
pub(super) fn lengths(remote: &Remote, names: &[&str]) -> Result<Vec<u64>> {
    Ok(peek_all(remote, names, 1)?.into_iter().map(|peek| peek.len).collect())
}

/// Fetches a small file; `None` if it does not exist.
pub(super) fn document(remote: &Remote, key: &str) -> Result<Option<Vec<u8>>> {
    if_there(remote.get_small(key, FILE_BYTES_MAX as usize).map(|(bytes, _)| bytes))
}

/// Returns the content of a small file; `None` if it does not exist. Some stores then answer with an error of
/// permission.
fn if_there(content: Result<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    match content {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission | ErrorKind::Format) => Ok(None),
        Err(e) => Err(e),
    }
}
