//! Uploads, on the caller's thread: division into parts.

use super::budget::Budget;
use super::exchanges::{UploadPart, abandoned, run};
use super::job::Job;
use super::payload::{Payload, Rest};
use super::target::ObjectTag;
use crate::queue::closed_error;
use crate::threads::FetchQueues;
use crate::{Error, Result};
use bytes::Bytes;
use forebay_core::sync::Arc;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Object under construction. Dropping it before [`finish`](Self::finish) removes its parts from the store.
pub struct Upload {
    ticket: UploadTicket,
    budget: Arc<Budget>,
    /// `None`: the store takes objects in one request.
    part_bytes: Option<u64>,
    division: Division,
    parts: u64,
    /// Bytes of these parts.
    sent: u64,
    /// Bytes that are not part of a part yet: at most one part, unless the store takes none.
    rest: Rest,
}

/// Division of an object into parts of equal size, as long as it is not longer than expected.
///
/// Parts in memory are small, and a store limits their number. So the parts of a longer object grow after half of
/// that number: few objects are so large, and some servers demand that all parts are equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// Parts that the store allows. 0: it takes objects in one request.
    pub(super) parts_max: u64,
    /// Bytes of the object up to which its parts do not grow.
    pub(super) len_max: u64,
    /// Bytes of a part that has grown.
    pub(super) part_bytes_max: u64,
}

impl Division {
    /// Returns the bytes of the first parts; `least` of them are usual.
    pub(super) fn part_bytes(&self, least: u64) -> Option<u64> {
        (self.parts_max > 0).then(|| self.len_max.div_ceil(self.parts_max).max(least))
    }

    /// Returns the bytes of the parts after the first `parts`, which have `sent` bytes, the last one `part_bytes`.
    fn grown(&self, part_bytes: u64, parts: u64, sent: u64) -> u64 {
        let step = (self.parts_max / 10).max(1);
        let is_time = sent >= self.len_max && parts >= self.parts_max / 2 && parts.is_multiple_of(step);
        if is_time { (2 * part_bytes).min(self.part_bytes_max.max(part_bytes)) } else { part_bytes }
    }
}

impl Upload {
    pub(super) fn start(
        queues: &Arc<FetchQueues>,
        job: Arc<Job>,
        budget: Arc<Budget>,
        part_bytes: Option<u64>,
        division: Division,
    ) -> Result<Self> {
        let (sender, receiver) = unbounded_channel();
        let ticket_job = job.clone();
        let outcome = queues.call(async move |context| run(context, job, receiver).await)?;
        let ticket = UploadTicket { job: ticket_job, parts: Some(sender), outcome: Some(outcome) };
        Ok(Self { ticket, budget, part_bytes, division, parts: 0, sent: 0, rest: Rest::default() })
    }

    /// Appends `bytes`. It waits while too many bytes are in flight. Their memory is sent as it is, without a copy, if
    /// all of them are bytes of one part.
    ///
    /// # Errors
    ///
    /// The failure of a part, after which the upload is gone; `Config` for an object of too many parts.
    pub fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.rest.push(bytes);
        // A part is sent when there are bytes after it: the last one is marked.
        while let Some(part_bytes) = self.part_bytes.filter(|part_bytes| self.rest.bytes() > *part_bytes) {
            self.send(part_bytes, false)?;
            self.sent += part_bytes;
            self.part_bytes = Some(self.division.grown(part_bytes, self.parts, self.sent));
        }
        Ok(())
    }

    pub(super) fn write_all(&mut self, pieces: Vec<Bytes>) -> Result<()> {
        pieces.into_iter().try_for_each(|piece| self.write(piece))
    }

    fn send(&mut self, bytes: u64, is_last: bool) -> Result<()> {
        self.parts += 1;
        if self.parts > self.division.parts_max.max(1) {
            let message = "the object has more parts than the store allows: give larger ones, in Python by \
                           StoreOptions(part_size=\"64mb\")";
            return Err(Error::config(message).with("key", &self.ticket.job.key).with("bytes", self.sent));
        }
        let job = &self.ticket.job;
        let reservation = self.budget.reserve(bytes, &job.cancel).ok_or_else(|| abandoned(job))?;
        let is_only = self.parts == 1 && is_last;
        let pieces = if is_only { self.rest.take_all() } else { self.rest.take(bytes) };
        let payload = Payload::reserved(pieces, Some(reservation));
        let sender = self.ticket.parts.as_ref();
        let is_sent = sender.is_some_and(|sender| sender.send(UploadPart { payload, is_last }).is_ok());
        if is_sent { Ok(()) } else { Err(self.ticket.failure()) }
    }

    /// Sends the rest, and returns without waiting for the store's confirmation.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn start_finish(mut self) -> Result<UploadTicket> {
        self.send(self.rest.bytes(), true)?;
        Ok(self.ticket)
    }

    /// Sends the rest, waits until the store has the object, and returns its entity tag as in listings, if it has one.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn finish(self) -> Result<Option<String>> {
        self.start_finish()?.wait()
    }
}

/// Upload in flight. Dropping it ends the upload and removes its parts from the store.
pub struct UploadTicket {
    job: Arc<Job>,
    /// Closed when the caller gives up.
    parts: Option<UnboundedSender<UploadPart>>,
    outcome: Option<oneshot::Receiver<Result<ObjectTag>>>,
}

impl UploadTicket {
    /// Waits until the store has the object, and returns its entity tag as in listings, if it has one.
    ///
    /// # Errors
    ///
    /// The error of the last attempt; the message names destination, key, step and attempt.
    /// [`Closed`](crate::ErrorKind::Closed) after [`Destination::cancel`](super::Destination::cancel).
    pub fn wait(mut self) -> Result<Option<String>> {
        self.receive()
    }

    /// Returns the outcome if there is one.
    pub fn poll(&mut self) -> Option<Result<Option<String>>> {
        match self.outcome.as_mut()?.try_recv() {
            Ok(outcome) => {
                self.outcome = None;
                Some(outcome)
            }
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(closed_error())),
        }
    }

    fn receive(&mut self) -> Result<ObjectTag> {
        let Some(outcome) = self.outcome.take() else { return Err(closed_error()) };
        // There is none only when the thread ends.
        outcome.blocking_recv().unwrap_or_else(|_| Err(closed_error().with("destination", &self.job.name)))
    }

    /// Returns the reason for which the fetch thread accepts no more parts.
    fn failure(&mut self) -> Error {
        self.receive().err().unwrap_or_else(closed_error)
    }
}

impl Drop for UploadTicket {
    fn drop(&mut self) {
        drop(self.parts.take());
        // A fetch thread cannot wait for itself.
        if tokio::runtime::Handle::try_current().is_err() && self.outcome.is_some() {
            let _ = self.receive();
        }
    }
}

impl std::fmt::Debug for UploadTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UploadTicket").field("key", &self.job.key).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("key", &self.ticket.job.key).field("parts", &self.parts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Returns the sizes of the parts of an object that is as long as the store allows.
    fn sizes(len_max: u64, least: u64) -> Vec<u64> {
        let division = Division { parts_max: 10_000, len_max, part_bytes_max: 128 << 20 };
        let mut part_bytes = division.part_bytes(least).expect("in parts");
        let (mut sizes, mut sent) = (Vec::new(), 0);
        for parts in 1..=division.parts_max {
            sizes.push(part_bytes);
            sent += part_bytes;
            part_bytes = division.grown(part_bytes, parts, sent);
        }
        sizes
    }

    #[test]
    fn an_object_of_unknown_length_has_larger_parts_when_half_of_them_are_used() {
        for (least, gib) in [(8 << 20, 390), (16 << 20, 500)] {
            let sizes = sizes(0, least);
            assert!(sizes.iter().sum::<u64>() > gib * GIB, "{}", sizes.iter().sum::<u64>() / GIB);
            assert!(sizes[..5000].iter().all(|size| *size == least));
            assert_eq!(
                (sizes[5000], sizes[5999], sizes[6000], sizes[9999]),
                (2 * least, 2 * least, 4 * least, 128 << 20)
            );
        }
    }

    #[test]
    fn an_object_of_known_length_has_equal_parts() {
        for len_max in [100 * GIB, 156 * GIB, 5 << 40] {
            let sizes = sizes(len_max, 16 << 20);
            let needed = usize::try_from(len_max.div_ceil(sizes[0])).expect("few");
            assert!(needed <= 10_000 && sizes[..needed].iter().all(|size| *size == sizes[0]));
        }
        // It grows when it is longer nevertheless.
        assert!(sizes(100 * GIB, 16 << 20).iter().sum::<u64>() > 300 * GIB);
    }

    #[test]
    fn a_store_without_parts_has_none() {
        let division = Division { parts_max: 0, len_max: GIB, part_bytes_max: 1 };
        assert_eq!(division.part_bytes(1), None);
    }
}
