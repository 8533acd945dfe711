//! Trait of all schemes: single exchanges.

use super::context::ThreadContext;
use super::failure::Failure;
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Bytes per read of bodies without their own memory: small objects, and bytes before the requested range.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Bytes that count as progress: with the default timeout a connection may be as slow as 273 bytes per second.
pub(super) const PROGRESS_BYTES: usize = 16 << 10;

/// Version of an object. Its bytes are the same as long as its version is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// A strong entity tag, with its quotation marks.
    ETag(String),
    /// Time of the last change, where there is no strong tag.
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

/// Request for a single exchange.
#[derive(Clone, Debug)]
pub(crate) struct GetRequest {
    /// Key relative to the remote, checked by [`check_key`](super::key::check_key).
    pub(crate) key: String,
    /// `None`: the whole object.
    pub(crate) range: Option<Range<u64>>,
    pub(crate) version: Option<Version>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Offset in the object of the body's first byte.
    pub(crate) start: u64,
    /// Length of the body; `None` if the server does not announce it (chunked).
    pub(crate) promised: Option<u64>,
    /// Size of the whole object, if the response contains it.
    pub(crate) total: Option<u64>,
    pub(crate) version: Option<Version>,
}

pub(crate) struct GetResponse {
    pub(crate) head: Head,
    pub(crate) body: Box<dyn Body>,
}

#[async_trait(?Send)]
pub(crate) trait Body {
    /// Fills the front of `out`, which is not empty; returns 0 at the end.
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure>;
}

/// Body that must make progress: at least [`PROGRESS_BYTES`], or its end, arrive within each `limit` of time. Without a
/// least rate, a server that sends a byte at times could hold a fetch forever.
pub(crate) struct TimedBody<'a> {
    context: &'a ThreadContext,
    body: &'a mut dyn Body,
    limit: Duration,
    /// Time by which the next [`PROGRESS_BYTES`] must be there, and how many are.
    due: Duration,
    bytes: usize,
}

impl<'a> TimedBody<'a> {
    pub(crate) fn new(context: &'a ThreadContext, body: &'a mut dyn Body, limit: Duration) -> Self {
        Self { context, body, limit, due: context.shared.clock.now() + limit, bytes: 0 }
    }

    pub(crate) async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let clock = &self.context.shared.clock;
        let remaining = self.due.saturating_sub(clock.now());
        let n = self.context.within(remaining, self.body.read(out)).await.unwrap_or_else(|| {
            let (bytes, limit) = (self.bytes, self.limit.as_secs_f64());
            let why = match bytes {
                0 => format!("no byte arrived for {limit} s"),
                _ => format!("only {bytes} bytes arrived in {limit} s, and {PROGRESS_BYTES} are the least"),
            };
            Err(Failure::transient(Error::new(ErrorKind::Timeout, why)))
        })?;
        self.bytes += n;
        if self.bytes >= PROGRESS_BYTES {
            (self.due, self.bytes) = (clock.now() + self.limit, 0);
        }
        Ok(n)
    }

    /// Appends the rest of the body to `bytes`. Returns false once there are more than `bytes_max` bytes, and ignores
    /// the rest.
    pub(crate) async fn read_whole(&mut self, bytes_max: usize, bytes: &mut Vec<u8>) -> Result<bool, Failure> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let n = self.read(&mut chunk).await?;
            if n == 0 {
                return Ok(true);
            }
            let fitting = n.min(bytes_max - bytes.len());
            bytes.extend_from_slice(&chunk[..fitting]);
            if fitting < n {
                return Ok(false);
            }
        }
    }
}

/// Remote folder of one scheme. Its methods run on a fetch thread.
#[async_trait(?Send)]
pub(crate) trait Source: Send + Sync {
    async fn get(&self, context: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure>;

    fn has_ranges(&self) -> bool {
        true
    }

    /// Returns a reason for objects that differ from the index, if responses have shown one.
    fn advice(&self) -> Option<&'static str> {
        None
    }

    /// True if responses come over a network: a second request may be faster than the first, and a response of the wrong
    /// length may be that of a gateway.
    fn is_on_network(&self) -> bool {
        true
    }
}
