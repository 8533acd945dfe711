//! Uploads, on the caller's thread: division into parts.

use super::budget::Budget;
use super::exchanges::{Part, abandoned, run};
use super::job::Job;
use super::payload::{Payload, Rest};
use super::target::ObjectTag;
use crate::store::queue::closed_error;
use crate::store::threads::FetchQueues;
use crate::sync::Arc;
use crate::{Error, Result};
use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Object under construction. Dropping it before [`finish`](Self::finish) removes its parts from the store.
pub struct Upload {
    ticket: UploadTicket,
    budget: Arc<Budget>,
    /// `None`: the store takes objects in one request.
    part_bytes: Option<u64>,
    parts_max: u64,
    parts: u64,
    /// Bytes that are not part of a part yet: at most one part, unless the store takes none.
    rest: Rest,
}

impl Upload {
    pub(super) fn start(
        queues: &Arc<FetchQueues>,
        job: Arc<Job>,
        budget: Arc<Budget>,
        part_bytes: Option<u64>,
        parts_max: u64,
    ) -> Result<Self> {
        let (sender, receiver) = unbounded_channel();
        let ticket_job = job.clone();
        let outcome = queues.call(async move |context| run(context, job, receiver).await)?;
        let ticket = UploadTicket { job: ticket_job, parts: Some(sender), outcome: Some(outcome) };
        Ok(Self { ticket, budget, part_bytes, parts_max, parts: 0, rest: Rest::default() })
    }

    /// Appends `bytes`. It waits while too many bytes are in flight. Their memory is sent as it is, without a copy, if all
    /// of them are bytes of one part.
    ///
    /// # Errors
    ///
    /// The failure of a part, after which the upload is gone; `Config` for an object of too many parts.
    pub fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.rest.push(bytes);
        // A part is sent when there are bytes after it: the last one is marked.
        while let Some(part_bytes) = self.part_bytes.filter(|part_bytes| self.rest.bytes() > *part_bytes) {
            self.send(part_bytes, false)?;
        }
        Ok(())
    }

    pub(super) fn write_all(&mut self, pieces: Vec<Bytes>) -> Result<()> {
        pieces.into_iter().try_for_each(|piece| self.write(piece))
    }

    fn send(&mut self, bytes: u64, is_last: bool) -> Result<()> {
        self.parts += 1;
        if self.parts > self.parts_max.max(1) {
            let message = "the object has more parts than the store allows: give its largest size when it is opened";
            return Err(Error::config(message).with("key", &self.ticket.job.key));
        }
        let job = &self.ticket.job;
        let reservation = self.budget.reserve(bytes, &job.cancel).ok_or_else(|| abandoned(job))?;
        let is_only = self.parts == 1 && is_last;
        let pieces = if is_only { self.rest.take_all() } else { self.rest.take(bytes) };
        let payload = Payload::reserved(pieces, Some(reservation));
        let sender = self.ticket.parts.as_ref();
        let is_sent = sender.is_some_and(|sender| sender.send(Part { payload, is_last }).is_ok());
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
    parts: Option<UnboundedSender<Part>>,
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
