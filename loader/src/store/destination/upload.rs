//! Uploads: the exchanges of one object, in order, with their repetitions.

use super::budget::Budget;
use super::job::{Job, retried};
use super::payload::{Payload, take};
use super::target::{PartAt, StoredPart};
use crate::store::context::ThreadContext;
use crate::store::queue::closed_error;
use crate::store::threads::FetchQueues;
use crate::sync::Arc;
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Part that the caller passes to the fetch thread.
struct Part {
    payload: Payload,
    is_last: bool,
}

/// Object under construction. Dropping it before [`finish`](Self::finish) removes its parts from the store.
pub struct Upload {
    ticket: UploadTicket,
    budget: Arc<Budget>,
    /// `None`: the store takes objects in one request.
    part_bytes: Option<u64>,
    parts_max: u64,
    parts: u64,
    /// Bytes that are not part of a part yet: at most one part, unless the store takes none.
    rest: VecDeque<Bytes>,
    rest_bytes: u64,
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
        Ok(Self { ticket, budget, part_bytes, parts_max, parts: 0, rest: VecDeque::new(), rest_bytes: 0 })
    }

    /// Appends `bytes`, without a copy. It waits while too many bytes are in flight.
    ///
    /// # Errors
    ///
    /// The failure of a part, after which the upload is gone; `Config` for an object of too many parts.
    pub fn write(&mut self, bytes: Bytes) -> Result<()> {
        if !bytes.is_empty() {
            self.rest_bytes += bytes.len() as u64;
            self.rest.push_back(bytes);
        }
        // A part is sent when there are bytes after it: the last one is marked.
        while let Some(part_bytes) = self.part_bytes.filter(|part_bytes| self.rest_bytes > *part_bytes) {
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
        let pieces = take(&mut self.rest, bytes);
        self.rest_bytes -= bytes;
        let payload = Payload::reserved(pieces, Some(self.budget.reserve(bytes)));
        self.ticket.job.target.prepare(&payload);
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
        self.send(self.rest_bytes, true)?;
        Ok(self.ticket)
    }

    /// Sends the rest, and waits until the store has the object.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn finish(self) -> Result<()> {
        self.start_finish()?.wait()
    }
}

/// Upload in flight. Dropping it ends the upload and removes its parts from the store.
pub struct UploadTicket {
    job: Arc<Job>,
    /// Closed when the caller gives up.
    parts: Option<UnboundedSender<Part>>,
    outcome: Option<oneshot::Receiver<Result<()>>>,
}

impl UploadTicket {
    /// Waits until the store has the object.
    ///
    /// # Errors
    ///
    /// The error of the last attempt; the message names destination, key, step and attempt.
    pub fn wait(mut self) -> Result<()> {
        self.receive()
    }

    /// Ends the upload, without waiting for that. [`wait`](Self::wait) then returns [`ErrorKind::Closed`] unless it had
    /// already finished.
    pub fn cancel(&mut self) {
        self.parts = None;
    }

    /// Returns the outcome if there is one.
    pub fn poll(&mut self) -> Option<Result<()>> {
        match self.outcome.as_mut()?.try_recv() {
            Ok(outcome) => {
                self.outcome = None;
                Some(outcome)
            }
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(closed_error())),
        }
    }

    fn receive(&mut self) -> Result<()> {
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

fn abandoned(job: &Job) -> Error {
    Error::new(ErrorKind::Closed, "the upload was cancelled").with("key", &job.key).with("destination", &job.name)
}

/// Uploads one object, whose parts arrive from the caller.
async fn run(context: Rc<ThreadContext>, job: Arc<Job>, mut parts: UnboundedReceiver<Part>) -> Result<()> {
    let Some(first) = parts.recv().await else { return Err(abandoned(&job)) };
    if !first.is_last {
        return in_parts(&context, &job, first, &mut parts).await;
    }
    let payload = first.payload;
    tokio::select! {
        biased;
        _ = parts.recv() => Err(abandoned(&job)),
        result = retried(&context, &job, "put", async |_| job.target.put(&context, &job.key, &payload).await) => result,
    }
}

async fn in_parts(
    context: &Rc<ThreadContext>,
    job: &Arc<Job>,
    first: Part,
    parts: &mut UnboundedReceiver<Part>,
) -> Result<()> {
    let mut begun = 0;
    let begin = async |attempt| {
        begun = attempt;
        job.target.begin(context, &job.key).await
    };
    let begin = retried(context, job, "begin", begin).await;
    let result = match &begin {
        Ok(upload) => match send_parts(context, job, upload, first, parts).await {
            Ok(stored) => complete(context, job, upload, &stored).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error.duplicate()),
    };
    if let (Ok(upload), Err(_)) = (&begin, &result) {
        abort(context, job, upload).await;
    }
    if begun > 1 {
        // A response that was lost may have had the name of another upload.
        let unfinished = retried(context, job, "look up", async |_| job.target.unfinished(context, &job.key).await);
        for upload in unfinished.await.unwrap_or_default() {
            abort(context, job, &upload).await;
        }
    }
    result
}

async fn abort(context: &ThreadContext, job: &Job, upload: &str) {
    let aborted = retried(context, job, "abort", async |_| job.target.abort(context, &job.key, upload).await).await;
    if let Err(error) = aborted {
        log::warn!("parts of an upload that failed remain in the store: {error}");
        context.shared.stats.note(format!("parts of {} remain in {}, unfinished", job.key, job.name));
    }
}

async fn send_parts(
    context: &Rc<ThreadContext>,
    job: &Arc<Job>,
    upload: &str,
    first: Part,
    parts: &mut UnboundedReceiver<Part>,
) -> Result<Vec<StoredPart>> {
    let upload: Rc<str> = upload.into();
    let mut sending: JoinSet<Result<StoredPart>> = JoinSet::new();
    let (mut stored, mut is_last, mut number, mut offset) = (Vec::new(), false, 0, 0);
    let mut next = Some(first);
    loop {
        if let Some(part) = next.take() {
            number += 1;
            is_last = part.is_last;
            let len = part.payload.len();
            sending.spawn_local(send_part(
                context.clone(),
                job.clone(),
                upload.clone(),
                (number, offset),
                part.payload,
            ));
            offset += len;
        }
        tokio::select! {
            biased;
            Some(ended) = sending.join_next(), if !sending.is_empty() => {
                stored.push(ended.unwrap_or_else(|why| {
                    Err(Error::internal(format!("the task of a part panicked: {why}")))
                })?);
                if is_last && sending.is_empty() {
                    break;
                }
            }
            received = parts.recv() => match received {
                Some(part) => next = Some(part),
                None => return Err(abandoned(job)),
            }
        }
    }
    stored.sort_unstable_by_key(|part| part.number);
    Ok(stored)
}

async fn send_part(
    context: Rc<ThreadContext>,
    job: Arc<Job>,
    upload: Rc<str>,
    (number, offset): (u32, u64),
    payload: Payload,
) -> Result<StoredPart> {
    let at = PartAt { upload: &upload, number, offset };
    let once = async |_| job.target.put_part(&context, &job.key, at, &payload).await;
    let tag = retried(&context, &job, "part", once).await.map_err(|error| error.with("part", number))?;
    Ok(StoredPart { number, len: payload.len(), tag })
}

/// Joins the parts. Where the upload is gone after a first attempt without a response, the object shows if that attempt
/// was successful.
async fn complete(context: &ThreadContext, job: &Job, upload: &str, stored: &[StoredPart]) -> Result<()> {
    let len: u64 = stored.iter().map(|part| part.len).sum();
    let once = async |attempt| {
        let failure = match job.target.complete(context, &job.key, upload, stored).await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if attempt > 1
            && failure.error.kind() == ErrorKind::NotFound
            && job.target.size(context, &job.key).await? == Some(len)
        {
            return Ok(());
        }
        Err(failure)
    };
    retried(context, job, "complete", once).await
}
