//! Trait of all schemes: single exchanges.

use super::context::ThreadContext;
use super::failure::Failure;
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use forebay_core::versions::{self, Found, Versions};
use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

/// Bytes per read of bodies without their own memory: small objects, and bytes before the requested range.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Bytes that count as progress: with the default timeout a connection may be as slow as 273 bytes per second.
pub(super) const PROGRESS_BYTES: usize = 16 << 10;

/// Times `limit` that a [patient](TimedBody::patient) read takes at most: 20 minutes with the default timeout.
const PATIENCE: u32 = 20;

/// Version of an object. Its bytes are the same as long as its version is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// A strong entity tag, with its quotation marks.
    ETag(String),
    /// Time of the last change, where there is no strong tag.
    LastModified(String),
}

impl Version {
    /// Returns the entity tag as listings have it, without quotation marks.
    pub fn etag(&self) -> Option<&str> {
        match self {
            Self::ETag(tag) => Some(tag.trim_matches('"')),
            Self::LastModified(_) => None,
        }
    }

    /// Returns the time of the last change, in whole seconds, where that is the version.
    pub fn modified(&self) -> Option<SystemTime> {
        match self {
            Self::ETag(_) => None,
            Self::LastModified(time) => httpdate::parse_http_date(time).ok(),
        }
    }
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
    /// Encoding of the body: its bytes are not the bytes of the file then. It was not asked for.
    pub(crate) encoding: Option<String>,
    pub(crate) times: Times,
}

/// Times in a response, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// Last change of the object.
    pub(crate) modified_s: Option<u64>,
    /// Response, by the server's clock.
    pub(crate) answered_s: Option<u64>,
}

impl Head {
    /// Compares the version of the object `key` with the known one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Stale`] for an object that has changed.
    pub(crate) fn compare(&self, versions: &Versions, source: &dyn Source, key: &str) -> Result<(), Error> {
        let Some(version) = &self.version else { return Ok(()) };
        let (text, is_time) = match version {
            Version::ETag(text) => (text, false),
            Version::LastModified(text) => (text, true),
        };
        let Times { modified_s, answered_s } = self.times;
        let is_of_content = source.has_tags_of_content();
        if versions.is_changed(key, Found { text, is_time, modified_s, answered_s, is_of_content }) {
            return Err(versions::changed().with("now", version));
        }
        Ok(())
    }
}

/// Treatment of an object that is sent with an encoding, such as `Content-Encoding: gzip`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoded {
    /// It is an error.
    #[default]
    Refused,
    /// It is an error unless it has the length of the request, which is the length of the file: then the header is
    /// wrong.
    OfFile,
    /// Its bytes are returned as they are stored, for a caller that unpacks them.
    AsStored,
}

impl Encoded {
    /// Returns an error for the response `head` to a request for an object of `len` bytes, if that is known.
    pub(super) fn check(self, head: &Head, len: Option<u64>) -> Result<(), Failure> {
        let Some(encoding) = &head.encoding else { return Ok(()) };
        // A wrong length is an error in any case.
        let may_be_file = len.is_some() && head.total.is_some();
        if self == Self::AsStored || self == Self::OfFile && may_be_file {
            return Ok(());
        }
        let why =
            format!("the object is sent with Content-Encoding: {encoding}, so the bytes are not the bytes of the file");
        Err(Failure::permanent(Error::new(ErrorKind::Unsupported, why).hinting(
            "Store it without that (not with `gsutil cp -z`, `gcloud storage cp --gzip-local` or `aws s3 cp \
             --content-encoding`), or under a name with the extension of its compression, or turn the server's \
             compression off; load_lines and load_tars unpack it",
        )))
    }
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
    /// Bytes that count as progress.
    least: usize,
    /// Time by which the whole body must be there; `None` where its least rate bounds that.
    end: Option<Duration>,
}

impl<'a> TimedBody<'a> {
    pub(crate) fn new(context: &'a ThreadContext, body: &'a mut dyn Body, limit: Duration) -> Self {
        let due = context.shared.clock.now() + limit;
        Self { context, body, limit, due, bytes: 0, least: PROGRESS_BYTES, end: None }
    }

    /// Creates a body that makes progress with each byte, for at most [`PATIENCE`] times `limit`. S3 sends a blank
    /// every some seconds while it works on a request.
    pub(crate) fn patient(context: &'a ThreadContext, body: &'a mut dyn Body, limit: Duration) -> Self {
        let end = context.shared.clock.now() + limit.saturating_mul(PATIENCE);
        Self { least: 1, end: Some(end), ..Self::new(context, body, limit) }
    }

    pub(crate) async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let clock = &self.context.shared.clock;
        let until = self.end.map_or(self.due, |end| end.min(self.due));
        let remaining = until.saturating_sub(clock.now());
        let n = self.context.within(remaining, self.body.read(out)).await.unwrap_or_else(|| {
            let (bytes, limit) = (self.bytes, self.limit.as_secs_f64());
            let why = match bytes {
                0 if until < self.due => format!("the response did not end within {} s", limit * f64::from(PATIENCE)),
                0 => format!("no byte arrived for {limit} s"),
                _ => format!("only {bytes} bytes arrived in {limit} s, and {PROGRESS_BYTES} are the least"),
            };
            Err(Failure::transient(Error::new(ErrorKind::Timeout, why)))
        })?;
        self.bytes += n;
        if self.bytes >= self.least {
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
            bytes.try_reserve(fitting).map_err(|e| {
                Failure::permanent(Error::new(ErrorKind::Full, "the memory does not hold the object").caused_by(e))
            })?;
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
    fn advice(&self) -> Option<String> {
        None
    }

    /// Returns true if equal content has equal tags. Of several web servers behind one address each may have its own.
    fn has_tags_of_content(&self) -> bool {
        true
    }

    /// True if responses come over a network: a second request may be faster than the first, and a response of the
    /// wrong length may come from a gateway.
    fn is_on_network(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StoreConfig;
    use crate::context::StoreContext;
    use forebay_core::clock::Clock;
    use forebay_core::stats::Stats;
    use forebay_core::sync::Arc;

    /// Body that needs half a minute for each byte.
    struct Blanks {
        clock: Clock,
        left: usize,
    }

    #[async_trait(?Send)]
    impl Body for Blanks {
        async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
            self.clock.advance(Duration::from_secs(30));
            tokio::task::yield_now().await;
            let n = self.left.min(1);
            out[..n].fill(b' ');
            self.left -= n;
            Ok(n)
        }
    }

    /// Returns the number of bytes that were read of a body of `left`, or the reason for which it failed.
    fn read(is_patient: bool, left: usize) -> Result<usize, String> {
        let clock = Clock::manual();
        let shared = StoreContext::new(StoreConfig::default(), clock.clone(), Arc::new(Stats::default()));
        let context = ThreadContext::new(&Arc::new(shared), 0, false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (mut body, limit) = (Blanks { clock, left }, Duration::from_secs(60));
            let start = if is_patient { TimedBody::patient } else { TimedBody::new };
            let mut body = start(&context, &mut body, limit);
            let mut bytes = Vec::new();
            let result = body.read_whole(1000, &mut bytes).await;
            result.map(|_| bytes.len()).map_err(|failure| failure.error.to_string())
        })
    }

    #[test]
    fn a_blank_counts_as_progress_where_a_store_keeps_the_connection_open_with_them() {
        assert_eq!(read(true, 30), Ok(30));
        assert!(read(false, 30).expect_err("below the least rate").contains("16384 are the least"));
        assert!(read(true, 1000).expect_err("20 minutes").contains("did not end within 1200 s"));
    }
}
