//! Uploads, on a fetch thread: the exchanges of one object, in order, with their repetitions.

use super::job::{Job, retried};
use super::payload::Payload;
use super::target::{ObjectTag, PartAt, StoredPart};
use crate::context::ThreadContext;
use crate::{Error, ErrorKind, Result};
use forebay_core::sync::{Arc, spawn};
use std::rc::Rc;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

/// Part that the caller passes to the fetch thread.
pub(super) struct UploadPart {
    pub(super) payload: Payload,
    pub(super) is_last: bool,
}

/// Parts from the caller. They end early when the caller gives up, or cancels the destination's uploads.
struct Parts {
    receiver: UnboundedReceiver<UploadPart>,
    job: Arc<Job>,
}

impl Parts {
    async fn next(&mut self) -> Option<UploadPart> {
        tokio::select! {
            biased;
            () = self.job.cancel.wait() => None,
            part = self.receiver.recv() => part,
        }
    }
}

pub(super) fn abandoned(job: &Job) -> Error {
    Error::new(ErrorKind::Closed, "the upload was cancelled").with("key", &job.key).with("destination", &job.name)
}

/// Uploads one object in parts, which arrive from the caller.
pub(super) async fn run(
    context: Rc<ThreadContext>,
    job: Arc<Job>,
    receiver: UnboundedReceiver<UploadPart>,
) -> Result<ObjectTag> {
    let mut parts = Parts { receiver, job: job.clone() };
    let Some(first) = parts.next().await else { return Err(abandoned(&job)) };
    if !first.is_last {
        return in_parts(&context, &job, first, &mut parts).await;
    }
    let payload = first.payload;
    let put = async {
        prepare(&job, &payload).await;
        retried(&context, &job, "put", async |_| job.target.put(&context, &job.key, &payload).await).await
    };
    tokio::select! {
        biased;
        _ = parts.next() => Err(abandoned(&job)),
        result = put => result,
    }
}

async fn in_parts(
    context: &Rc<ThreadContext>,
    job: &Arc<Job>,
    first: UploadPart,
    parts: &mut Parts,
) -> Result<ObjectTag> {
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
        // A response that was lost may have had the name of an unknown upload.
        match retried(context, job, "look up", async |_| job.target.unfinished(context, &job.key).await).await {
            Ok(unfinished) => {
                for upload in unfinished {
                    abort(context, job, &upload).await;
                }
            }
            Err(error) => warn_of_parts(context, job, "look up", &error),
        }
    }
    result
}

/// Warns of parts that may remain in the store, once for each step of a destination: a missing right concerns all
/// objects.
fn warn_of_parts(context: &ThreadContext, job: &Job, step: &'static str, error: &Error) {
    if job.is_first_failure_of(step) {
        let text = format!("parts of uploads that did not finish may remain in the store: {error}");
        log::warn!("{text}");
        context.shared.stats.note(text);
    }
}

async fn abort(context: &ThreadContext, job: &Job, upload: &str) {
    let aborted = retried(context, job, "abort", async |_| job.target.abort(context, &job.key, upload).await).await;
    if let Err(error) = aborted {
        warn_of_parts(context, job, "abort", &error);
    }
}

async fn send_parts(
    context: &Rc<ThreadContext>,
    job: &Arc<Job>,
    upload: &str,
    first: UploadPart,
    parts: &mut Parts,
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
            received = parts.next() => match received {
                Some(part) => next = Some(part),
                None => return Err(abandoned(job)),
            }
        }
    }
    stored.sort_unstable_by_key(|part| part.number);
    Ok(stored)
}

/// Bytes with digests that take less time than the start of a thread.
const SMALL: u64 = 128 << 10;

/// Computes the digests of a request before its attempts.
async fn prepare(job: &Arc<Job>, payload: &Payload) {
    if payload.len() < SMALL {
        return job.target.prepare(payload);
    }
    // Never closed.
    let _place = job.digests.acquire().await;
    let (job, payload) = (job.clone(), payload.clone());
    let (send, receive) = tokio::sync::oneshot::channel();
    let digest = move || {
        job.target.prepare(&payload);
        // Fails if the upload was given up.
        let _ = send.send(());
    };
    // A digest that is missing, such as where the system allows no thread, is computed where it is needed.
    if spawn("fb-digest", digest).is_ok() {
        let _ = receive.await;
    }
}

async fn send_part(
    context: Rc<ThreadContext>,
    job: Arc<Job>,
    upload: Rc<str>,
    (number, offset): (u32, u64),
    payload: Payload,
) -> Result<StoredPart> {
    prepare(&job, &payload).await;
    let at = PartAt { upload: &upload, number, offset };
    let once = async |_| job.target.put_part(&context, &job.key, at, &payload).await;
    retried(&context, &job, "part", once).await.map_err(|error| error.with("part", number))
}

/// Joins the parts. Where the upload is gone after a first attempt without a response, the object shows if that attempt
/// was successful.
async fn complete(context: &ThreadContext, job: &Job, upload: &str, stored: &[StoredPart]) -> Result<ObjectTag> {
    let once = async |attempt| {
        let mut failure = match job.target.complete(context, &job.key, upload, stored).await {
            Ok(tag) => return Ok(tag),
            Err(failure) => failure,
        };
        if attempt > 1 && failure.error.kind() == ErrorKind::NotFound {
            if let Some(object) = job.target.joined(context, &job.key, stored).await? {
                return Ok(object.etag);
            }
            let hint = "the upload is gone, and there is no object of its parts: look for another program that writes \
                        to this key, or removes uploads";
            failure.error = failure.error.with("hint", hint);
        }
        Err(failure)
    };
    retried(context, job, "complete", once).await
}
