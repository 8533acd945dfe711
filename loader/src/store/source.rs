//! The one trait behind every scheme: give me this range of that object.
//!
//! Retrying, resuming and checking live above it in [`transfer`](super::transfer), once for all schemes; a source does
//! a single exchange and says what came of it.

use super::thread::ThreadContext;
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// What an answer is recognised by when the object is asked for again: its bytes are the same as long as this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// A strong entity tag, with its quotation marks.
    ETag(String),
    /// The time of the last change, where there is no strong tag.
    LastModified(String),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ETag(tag) => write!(f, "entity tag {tag}"),
            Self::LastModified(time) => write!(f, "last modified {time}"),
        }
    }
}

/// One object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Relative to the remote.
    pub key: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// A single exchange.
#[derive(Clone, Debug)]
pub(crate) struct GetRequest {
    /// Relative to the remote; checked by [`check_key`](super::url::check_key).
    pub(crate) key: String,
    /// `None`: the whole object.
    pub(crate) range: Option<Range<u64>>,
    /// The object must still be this one.
    pub(crate) version: Option<Version>,
}

/// The answer's head; the bytes follow through `body`.
pub(crate) struct GetResponse {
    /// Offset in the object of the body's first byte.
    pub(crate) start: u64,
    /// Bytes the body promises; `None` when the sender does not say (chunked).
    pub(crate) promised: Option<u64>,
    /// Size of the whole object where the answer says it.
    pub(crate) total: Option<u64>,
    pub(crate) version: Option<Version>,
    pub(crate) body: Box<dyn Body>,
}

/// The bytes of an answer.
#[async_trait(?Send)]
pub(crate) trait Body {
    /// Fills the front of `out`, which is not empty; 0 is the end.
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure>;
}

/// A remote folder of one scheme. Its methods run on a fetch thread.
#[async_trait(?Send)]
pub(crate) trait Source: fmt::Debug + Send + Sync {
    /// Asks for (a range of) one object.
    async fn get(&self, at: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure>;

    /// Whether asking for ranges is any use here.
    fn has_ranges(&self) -> bool {
        true
    }

    /// All objects whose key starts with `prefix`, sorted by key.
    async fn list(&self, at: &ThreadContext, prefix: &str) -> Result<Vec<ObjectInfo>, Failure>;

    /// Writes an object as a whole: readers see all of it or nothing.
    async fn put(&self, at: &ThreadContext, key: &str, bytes: Bytes) -> Result<(), Failure>;
}

/// Why an exchange failed and whether to try again.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Another attempt may succeed.
    pub(crate) retried: bool,
    /// The server asked for this pause.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    /// One that another attempt may cure.
    pub(crate) fn transient(error: Error) -> Self {
        Self { error, retried: true, retry_after: None }
    }

    /// One that stays.
    pub(crate) fn last(error: Error) -> Self {
        Self { error, retried: false, retry_after: None }
    }

    /// The network failed.
    pub(crate) fn network(message: impl Into<String>) -> Self {
        Self::transient(Error::new(ErrorKind::Network, message))
    }
}
