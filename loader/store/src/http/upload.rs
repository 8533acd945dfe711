//! Signed exchanges of any method: uploads, listings, removals.

use super::body::HttpBody;
use super::client::{Exchange, SentOnce, send_body};
use super::protocol::{Protocol, Rejected};
use super::response;
use super::sent::SentBody;
use crate::address::redact;
use crate::context::ThreadContext;
use crate::destination::Payload;
use crate::failure::Failure;
use crate::source::TimedBody;
use crate::transfer::attempt_limit;
use crate::{Error, ErrorKind};
use bytes::Bytes;
use forebay_core::sync::{Arc, AtomicU64, Ordering};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode, Uri};

/// Most redirects that one request follows.
const REDIRECTS_MAX: usize = 5;

/// Largest response: a page of a listing is some 500 KB.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Codes of rejections for a missing right, as opposed to a wrong key.
const DENIED: [&str; 6] = [
    "AccessDenied",
    "AuthorizationPermissionMismatch",
    "BucketNotFoundOrNotAuthorized",
    "NotAuthorizedOrNotFound",
    "PERMISSION_DENIED",
    "ObjectNotFoundOrNotAuthorized",
];

/// Codes of rejections of bytes that changed on the way, with the status of a wrong request.
const DAMAGED: [&str; 4] = ["BadDigest", "Md5Mismatch", "UnmatchedContentMD5", "XAmzContentSHA256Mismatch"];

/// Codes of requests that may be accepted later, with the status of a wrong request or a conflict: a body that arrived
/// too slowly or not to its end, and a parallel request for the same object.
const RETRIED: [&str; 7] = [
    "ABORTED",
    "ConcurrentObjectUpdate",
    "ConditionalRequestConflict",
    "IncompleteBody",
    "OperationAborted",
    "RESOURCE_CONFLICT",
    "RequestTimeout",
];

/// Request that is not for a range of an object.
pub(crate) struct Outgoing<'a> {
    pub(crate) method: Method,
    /// Absolute address, with its query.
    pub(crate) address: String,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: &'a Payload,
    /// A second copy of the request changes the store again.
    pub(crate) is_sent_once: bool,
    /// The store may send its response byte by byte while it works.
    pub(crate) is_patient: bool,
    /// Right that the request needs, for the message about a rejection.
    pub(crate) right: String,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(method: Method, address: String, body: &'a Payload, right: impl Into<String>) -> Self {
        Self { method, address, headers: Vec::new(), body, is_sent_once: false, is_patient: false, right: right.into() }
    }

    pub(crate) fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Marks a request that would change the store again if it were repeated.
    pub(crate) fn once(mut self) -> Self {
        self.is_sent_once = true;
        self
    }

    /// Marks a request that the store may take minutes for.
    pub(crate) fn patient(mut self) -> Self {
        self.is_patient = true;
        self
    }
}

/// Response to an [`Outgoing`] request.
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns a header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Failed exchange, with the server's code for the reason.
pub(crate) struct Refusal {
    pub(crate) failure: Failure,
    pub(crate) code: Option<String>,
}

impl Refusal {
    /// True if the object, or its bucket, does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        self.failure.error.kind() == ErrorKind::NotFound
    }

    /// True if the server's code is one of `codes`.
    pub(crate) fn has_code(&self, codes: &[&str]) -> bool {
        self.code.as_deref().is_some_and(|code| codes.contains(&code))
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { failure, code: None }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        refusal.failure
    }
}

/// Exchanges with one store, signed as its [`Protocol`] does it.
pub(crate) struct Signer<P> {
    pub(crate) protocol: Arc<P>,
    user_agent: HeaderValue,
}

impl<P: Protocol> Signer<P> {
    pub(crate) fn new(protocol: P, user_agent: &str) -> Result<Self, Error> {
        let user_agent = HeaderValue::from_str(user_agent)
            .map_err(|e| Error::config("user_agent must be printable ASCII").caused_by(e))?;
        Ok(Self { protocol: Arc::new(protocol), user_agent })
    }

    /// Makes one exchange; `address` is called again where the protocol learns from a rejection.
    pub(crate) async fn call<'a>(
        &self,
        context: &ThreadContext,
        outgoing: impl Fn() -> Outgoing<'a>,
    ) -> Result<Answer, Refusal> {
        let mut next = outgoing();
        let (mut address, mut has_learned) = (parse(&next.address)?, false);
        for _ in 0..=REDIRECTS_MAX {
            let mut request = self.request(&next, &address)?;
            self.protocol.sign(context, &mut request).await?;
            request.headers_mut().insert(header::USER_AGENT, self.user_agent.clone());
            request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let exchange = send(context, &request, next.body).await?;
            let (status, received) = (exchange.response.status(), exchange.response.headers());
            if status.is_success() {
                return Ok(read(context, exchange, next.is_patient).await?);
            }
            let rejected = Rejected { address: &address, sent: request.headers(), status, received };
            if !has_learned && self.protocol.learn(&rejected) {
                has_learned = true;
                next = outgoing();
                address = parse(&next.address)?;
            } else if matches!(status.as_u16(), 307 | 308) && received.contains_key(header::LOCATION) {
                address = response::redirect_target(&address, received)?;
            } else {
                return Err(self.refusal(context, exchange, &request, &next.right).await);
            }
        }
        let error = Error::new(ErrorKind::Config, format!("more than {REDIRECTS_MAX} redirects"));
        Err(Failure::permanent(error).into())
    }

    fn request(&self, outgoing: &Outgoing<'_>, address: &Uri) -> Result<Request<Bytes>, Failure> {
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = outgoing.method.clone();
        *request.uri_mut() = address.clone();
        let is_empty = outgoing.body.is_empty() && !matches!(outgoing.method, Method::PUT | Method::POST);
        if !is_empty {
            // Signatures of Azure and Oracle cover it.
            request.headers_mut().insert(header::CONTENT_LENGTH, outgoing.body.len().into());
        }
        for (name, value) in &outgoing.headers {
            let value = HeaderValue::from_str(value)
                .map_err(|e| Failure::permanent(Error::internal("a header cannot be sent").caused_by(e)))?;
            request.headers_mut().insert(name, value);
        }
        request.extensions_mut().insert(outgoing.body.clone());
        if outgoing.is_sent_once {
            request.extensions_mut().insert(SentOnce);
        }
        Ok(request)
    }

    async fn refusal(
        &self,
        context: &ThreadContext,
        exchange: Exchange,
        request: &Request<Bytes>,
        right: &str,
    ) -> Refusal {
        let status = exchange.response.status();
        let (mut failure, code) = response::rejection(context, exchange).await;
        if let Some(code) = code.as_deref().filter(|code| DAMAGED.contains(code)) {
            let message = format!("the store received different bytes than were sent ({}, {code})", status.as_u16());
            failure = Failure::transient(Error::new(ErrorKind::Checksum, message));
        }
        let is_conflict = status == StatusCode::CONFLICT && code.is_none();
        if is_conflict || code.as_deref().is_some_and(|code| RETRIED.contains(&code)) {
            let code = code.as_deref().unwrap_or("conflict");
            let message = format!("the store did not accept the request now ({}, {code})", status.as_u16());
            failure = Failure { retry_after: failure.retry_after, ..Failure::network(message) };
        }
        let is_signed = request.headers().contains_key(header::AUTHORIZATION)
            || request.uri().query().is_some_and(|q| q.contains("sig="));
        let is_denied = matches!(status, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
            && code.as_deref().is_some_and(|code| DENIED.contains(&code))
            || status == StatusCode::FORBIDDEN && code.is_none();
        let hint = if is_signed && is_denied {
            Some(format!("the credentials need the right {right}"))
        } else {
            self.protocol.hint(status, code.as_deref())
        };
        if let Some(hint) = hint {
            failure.error = failure.error.with("hint", hint);
        }
        Refusal { failure, code }
    }
}

fn parse(address: &str) -> Result<Uri, Failure> {
    address.parse().map_err(|e| {
        Failure::permanent(Error::config("not a valid address").caused_by(e).with("address", redact(address)))
    })
}

/// Sends a request with its body, and waits for the head of the response. Each of the body's frames has to be taken
/// within `download_timeout`, and the response to arrive within it after the last one.
async fn send(context: &ThreadContext, request: &Request<Bytes>, body: &Payload) -> Result<Exchange, Failure> {
    let limit = context.shared.config.download_timeout;
    let taken = Arc::new(AtomicU64::new(0));
    let bytes = usize::try_from(body.len()).unwrap_or(usize::MAX);
    let whole = attempt_limit(limit, bytes).saturating_add(limit);
    let exchange = send_body(context, request, whole, || {
        taken.store(0, Ordering::Relaxed);
        SentBody::new(body.pieces(), &taken)
    });
    tokio::pin!(exchange);
    let mut before = 0;
    loop {
        if let Some(result) = context.within(limit, &mut exchange).await {
            return result;
        }
        let now = taken.load(Ordering::Relaxed);
        if now == before {
            let (sent, limit) = (body.len().min(now), limit.as_secs_f64());
            let why = format!("no response for {limit} s, after {sent} of {} bytes were sent", body.len());
            let host = request.uri().host().unwrap_or_default();
            return Err(Failure::transient(Error::new(ErrorKind::Timeout, why).with("host", host)));
        }
        before = now;
    }
}

async fn read(context: &ThreadContext, exchange: Exchange, is_patient: bool) -> Result<Answer, Failure> {
    let limit = context.shared.config.download_timeout;
    let headers = exchange.response.headers().clone();
    let (mut incoming, mut body) = (HttpBody::new(context, exchange), Vec::new());
    let start = if is_patient { TimedBody::patient } else { TimedBody::new };
    if let Some(encoding) = response::encoding(&headers, "") {
        let why = format!("the response has Content-Encoding: {encoding}, which was not asked for");
        return Err(Failure::permanent(
            Error::new(ErrorKind::Unsupported, why).hinting("Turn the server's compression off"),
        ));
    }
    if !start(context, &mut incoming, limit).read_whole(RESPONSE_BYTES_MAX, &mut body).await? {
        return Err(Failure::permanent(Error::format("the response is larger than 64 MiB")));
    }
    Ok(Answer { headers, body })
}
