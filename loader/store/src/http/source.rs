//! The source of all remotes on HTTP servers.

use super::body::HttpBody;
use super::client::{Exchange, send};
use super::protocol::{Protocol, Rejected};
use super::response;
use crate::address::redact;
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::source::{GetRequest, GetResponse, Source, Version};
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use forebay_core::sync::{Arc, AtomicBool, OnceLock, Ordering};
use http::header::{self, HeaderValue};
use http::{Request, StatusCode, Uri};

/// Most redirects that one request follows.
const REDIRECTS_MAX: usize = 5;

type Headers = [(header::HeaderName, String)];

pub(crate) struct HttpSource {
    protocol: Arc<dyn Protocol>,
    user_agent: HeaderValue,
    /// The server responded to a range with the whole object. From then on objects are fetched in one piece.
    has_no_ranges: AtomicBool,
    /// `Content-Encoding` of an object that was seen: its bytes in a response may not be the bytes that were written.
    encoding: OnceLock<String>,
}

impl HttpSource {
    pub(crate) fn new(protocol: Arc<dyn Protocol>, user_agent: &str) -> Result<Self, Error> {
        let user_agent = HeaderValue::from_str(user_agent)
            .map_err(|e| Error::config("user_agent must be printable ASCII").caused_by(e))?;
        Ok(Self { protocol, user_agent, has_no_ranges: AtomicBool::new(false), encoding: OnceLock::new() })
    }

    async fn rejection(&self, context: &ThreadContext, exchange: Exchange) -> Failure {
        let status = exchange.response.status();
        let (mut failure, code) = response::rejection(context, exchange).await;
        if let Some(hint) = self.protocol.hint(status, code.as_deref()) {
            failure.error = failure.error.with("hint", hint);
        }
        failure
    }

    /// Requests an object, where the store has redirected to before if that is known. Returns also the version that a
    /// redirect named.
    async fn send(
        &self,
        context: &ThreadContext,
        key: &str,
        headers: &Headers,
    ) -> Result<(Exchange, Option<Version>), Failure> {
        let Some(redirects) = self.protocol.redirects() else {
            let (exchange, version, _) = self.follow(context, key, None, headers).await?;
            return Ok((exchange, version));
        };
        let target = redirects.target(key);
        let mut known = target.lock().await;
        if let Some((address, version)) = known.clone() {
            drop(known);
            let (exchange, ..) = self.follow(context, key, Some(address.clone()), headers).await?;
            // A signed address ends.
            if !matches!(exchange.response.status().as_u16(), 400 | 401 | 403 | 404 | 410) {
                return Ok((exchange, version));
            }
            known = target.lock().await;
            if known.as_ref().is_some_and(|(same, _)| *same == address) {
                *known = None;
            }
        }
        let (exchange, version, redirected) = self.follow(context, key, None, headers).await?;
        if exchange.response.status().is_success() {
            *known = redirected.map(|address| (address, version.clone()));
        }
        Ok((exchange, version))
    }

    /// Requests an object at `start`, or at its own address, and follows redirects. Returns also the version that a
    /// redirect named, and the address of the last redirect.
    async fn follow(
        &self,
        context: &ThreadContext,
        key: &str,
        start: Option<Uri>,
        headers: &Headers,
    ) -> Result<(Exchange, Option<Version>, Option<Uri>), Failure> {
        let limit = context.shared.config.download_timeout;
        let address_of_key = || {
            let address = self.protocol.address(key);
            address.parse::<Uri>().map_err(|e| {
                Failure::permanent(Error::config("not a valid address").caused_by(e).with("address", redact(&address)))
            })
        };
        let mut address = start.map_or_else(address_of_key, Ok)?;
        let (mut has_learned, mut version, mut redirected) = (false, None, None);
        for _ in 0..=REDIRECTS_MAX {
            let mut request = Request::new(Bytes::new());
            *request.uri_mut() = address.clone();
            for (name, value) in headers {
                let value = HeaderValue::from_str(value)
                    .map_err(|e| Failure::permanent(Error::internal("a header cannot be sent").caused_by(e)))?;
                request.headers_mut().insert(name, value);
            }
            // Signed last, because signatures cover the headers; the user agent is not covered.
            self.protocol.sign(context, &mut request).await?;
            request.headers_mut().insert(header::USER_AGENT, self.user_agent.clone());
            let exchange = send(context, &request, limit).await?;
            let (status, received) = (exchange.response.status(), exchange.response.headers());
            if status.is_success() || response::is_redirect(status) {
                self.protocol.note(&address, received);
            }
            let rejected = Rejected { address: &address, sent: request.headers(), status, received };
            if !has_learned && !status.is_success() && self.protocol.learn(&rejected) {
                has_learned = true;
                address = address_of_key()?;
            } else if response::is_redirect(status) && received.contains_key(header::LOCATION) {
                version = self.protocol.version_in_redirect(received).or(version);
                address = response::redirect_target(&address, received)?;
                redirected = Some(address.clone());
            } else {
                return Ok((exchange, version, redirected));
            }
        }
        Err(Failure::permanent(Error::new(ErrorKind::Config, format!("more than {REDIRECTS_MAX} redirects"))))
    }
}

#[async_trait(?Send)]
impl Source for HttpSource {
    async fn get(&self, context: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        // Compression on the way would change the number of bytes.
        let mut headers = vec![(header::ACCEPT_ENCODING, "identity".to_owned())];
        if let Some(range) = &request.range {
            headers.push((header::RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1))));
        }
        match request.version.as_ref().filter(|_| self.protocol.has_conditions()) {
            Some(Version::ETag(tag)) => headers.push((header::IF_MATCH, tag.clone())),
            Some(Version::LastModified(time)) => headers.push((header::IF_UNMODIFIED_SINCE, time.clone())),
            None => {}
        }
        let (exchange, version) = self.send(context, &request.key, &headers).await?;
        let status = exchange.response.status();
        let mut head = match status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => response::read_head(&exchange.response, request)?,
            _ => return Err(self.rejection(context, exchange).await),
        };
        if status == StatusCode::OK && request.range.as_ref().is_some_and(|r| r.start > 0) {
            self.has_no_ranges.store(true, Ordering::Relaxed);
        }
        let unpacked = || response::unpacked_encoding(exchange.response.headers()).map(str::to_owned);
        if let Some(encoding) = head.encoding.clone().or_else(unpacked) {
            self.encoding.get_or_init(|| encoding);
        }
        head.version = version.or(head.version);
        Ok(GetResponse { head, body: Box::new(HttpBody::new(context, exchange)) })
    }

    fn advice(&self) -> Option<String> {
        let encoding = self.encoding.get()?;
        Some(format!(
            "objects are stored with a Content-Encoding ({encoding}), for which a store may send different \
             bytes than it has: upload them without it (not with `gsutil cp -z` or `gcloud storage cp \
             --gzip-local`), or remove it from their metadata"
        ))
    }

    fn has_tags_of_content(&self) -> bool {
        self.protocol.has_tags_of_content()
    }

    fn has_ranges(&self) -> bool {
        !self.has_no_ranges.load(Ordering::Relaxed)
    }
}
