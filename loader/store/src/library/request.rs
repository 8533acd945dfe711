//! Requests for exchanges, and the replies to them.

use crate::destination::Payload;
use crate::failure::Failure;
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Replies of an exchange that wait for the fetch thread: enough that neither side waits for each one of the second
/// side's steps.
const REPLIES_MAX: usize = 2;

/// Work of an exchange.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// Replies with the size and the version of an object, then with its bytes from `start`.
    Get { start: u64 },
    /// Stores an object.
    Put(Payload),
    /// Replies with all objects with keys that start with the key, as far as that is cheap.
    List,
    /// Replies with the size of an object, if it exists.
    Size,
    /// Removes an object, if it exists.
    Delete,
}

/// Part of the response to an exchange.
#[derive(Debug)]
pub(super) enum Reply {
    /// Size and version of the object.
    Head {
        bytes: u64,
        version: Option<String>,
    },
    Bytes(Bytes),
    /// Keys and sizes.
    Entries(Vec<(String, u64)>),
    /// A further piece of the payload was taken.
    Taken,
    Done,
    Failed(Failure),
}

/// Exchange that waits for a thread of the library.
pub(super) struct Request {
    pub(super) remote: Box<str>,
    pub(super) key: String,
    pub(super) operation: Operation,
    pub(super) timeout: Duration,
    pub(super) replies: Sender<Reply>,
}

impl Request {
    pub(super) fn new(remote: &str, key: &str, operation: Operation, timeout: Duration) -> (Self, Receiver<Reply>) {
        let (replies, receiver) = channel(REPLIES_MAX);
        (Self { remote: remote.into(), key: key.to_owned(), operation, timeout, replies }, receiver)
    }

    /// Returns true if no task waits for the replies any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.replies.is_closed()
    }
}
