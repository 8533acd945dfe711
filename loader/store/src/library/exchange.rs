//! Exchange from the side of the library.

use super::request::{Operation, Reply, Request};
use super::shared::Running;
use crate::address::redact;
use crate::failure::Failure;
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use forebay_core::sync::Mutex;
use std::fmt;
use std::time::Duration;

/// Exchange that a thread of the library makes. If it is dropped without [`done`](Self::done) or
/// [`failed`](Self::failed), the attempt fails.
pub struct Exchange {
    request: Request,
    /// Position in the payload: piece and byte in it.
    taken: Mutex<(usize, usize)>,
    _running: Running,
}

impl Exchange {
    pub(super) fn new(request: Request, running: Running) -> Self {
        Self { request, taken: Mutex::default(), _running: running }
    }

    /// Returns the address of the remote folder, with its secrets.
    pub fn remote(&self) -> &str {
        &self.request.remote
    }

    /// Returns the key relative to the remote; the start of the keys for a listing.
    pub fn key(&self) -> &str {
        &self.request.key
    }

    /// Returns the name of the operation: `get`, `put`, `list`, `size` or `delete`.
    pub fn operation(&self) -> &'static str {
        match self.request.operation {
            Operation::Get { .. } => "get",
            Operation::Put(_) => "put",
            Operation::List => "list",
            Operation::Size => "size",
            Operation::Delete => "delete",
        }
    }

    /// Returns the first byte that a `get` asks for; 0 for all operations but `get`.
    pub fn start(&self) -> u64 {
        match self.request.operation {
            Operation::Get { start } => start,
            _ => 0,
        }
    }

    /// Returns the time within which the next reply must be made.
    pub fn timeout(&self) -> Duration {
        self.request.timeout
    }

    /// Replies with the size of the object, and for `get` with its version, which differs whenever its bytes do.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`] if the exchange was abandoned: stop it.
    pub fn head(&self, bytes: u64, version: Option<String>) -> Result<()> {
        self.reply(Reply::Head { bytes, version })
    }

    /// Replies with the next bytes of the object, and waits until there is room for them.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head).
    pub fn bytes(&self, bytes: Bytes) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { self.reply(Reply::Bytes(bytes)) }
    }

    /// Replies with a part of the listing: keys and sizes.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head).
    pub fn entries(&self, entries: Vec<(String, u64)>) -> Result<()> {
        self.reply(Reply::Entries(entries))
    }

    /// Returns the next bytes of the object to store, at most `bytes_max`; none at its end.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head).
    pub fn take(&self, bytes_max: usize) -> Result<Bytes> {
        let Operation::Put(payload) = &self.request.operation else { return Ok(Bytes::new()) };
        let mut taken = self.taken.lock();
        while let Some(piece) = payload.pieces().get(taken.0) {
            let (from, to) = (taken.1, piece.len().min(taken.1.saturating_add(bytes_max)));
            if from == piece.len() {
                *taken = (taken.0 + 1, 0);
                continue;
            }
            taken.1 = to;
            drop(taken);
            self.reply(Reply::Taken)?;
            return Ok(piece.slice(from..to));
        }
        Ok(Bytes::new())
    }

    /// Ends the exchange successfully. An exchange that was abandoned ends as well.
    pub fn done(&self) {
        let _ = self.reply(Reply::Done);
    }

    /// Ends the exchange with an error; a further attempt is made if `is_retried`.
    pub fn failed(&self, error: Error, is_retried: bool) {
        let _ = self.reply(Reply::Failed(Failure::new(error, is_retried)));
    }

    fn reply(&self, reply: Reply) -> Result<()> {
        let sent = self.request.replies.blocking_send(reply);
        sent.map_err(|_| Error::new(ErrorKind::Closed, "the exchange was abandoned"))
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Exchange");
        shown.field("operation", &self.operation()).field("remote", &redact(self.remote()));
        shown.field("key", &self.key()).finish_non_exhaustive()
    }
}
