//! `http(s)://`: a folder on a web server. `s3://` is the same with signed requests and its own listing.
//!
//! [`HttpSource`] makes one exchange of a request, redirects included, and reads its answer as the standard says;
//! [`client`] keeps connections, [`connect`] opens them (over [`uring`] if asked), [`tls`] decides whom to trust, [`answer`] turns everything but
//! the wanted bytes into an error that says whether to try again.

mod answer;
mod client;
mod connect;
mod tls;
mod uring;

pub(crate) use answer::meaning;
pub(crate) use client::{Client, Exchange};
pub(crate) use tls::Tls;

use super::source::{Body, Failure, GetRequest, GetResponse, ObjectInfo, Source, Version};
use super::thread::ThreadContext;
use super::url::encode_path;
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use bytes::{Buf as _, Bytes};
use http::header::{self, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use std::fmt;
use std::rc::Rc;

/// Redirects that one request follows.
const REDIRECTS_MAX: usize = 5;

/// Adds what a store wants to see in a request, and lists it, which plain HTTP cannot.
#[async_trait(?Send)]
pub(crate) trait Authority: fmt::Debug + Send + Sync {
    /// Where the object `key` is.
    fn address(&self, key: &str) -> Result<Uri, Error>;

    /// Signs `request`, whose address is absolute. Called again after every redirect.
    async fn authorize(&self, at: &ThreadContext, request: &mut Request<Bytes>) -> Result<(), Failure>;

    /// Learns from an answer that is not the wanted one; true when the request should be made again as it is.
    fn learn(&self, _status: StatusCode, _headers: &http::HeaderMap) -> bool {
        false
    }

    /// What to add to an error about a refused request.
    fn hint(&self) -> Option<&'static str> {
        None
    }

    /// All objects below the remote whose key starts with `prefix`.
    async fn list(&self, at: &ThreadContext, prefix: &str) -> Result<Vec<ObjectInfo>, Failure>;
}

/// A folder on a server that speaks HTTP.
#[derive(Debug)]
pub(crate) struct HttpSource {
    authority: Arc<dyn Authority>,
    user_agent: HeaderValue,
    /// A range was answered with the whole object; from then on objects are asked for in one piece.
    ranges_refused: AtomicBool,
}

impl HttpSource {
    pub(crate) fn new(authority: Arc<dyn Authority>, user_agent: &str) -> Result<Self, Error> {
        let user_agent = HeaderValue::from_str(user_agent)
            .map_err(|e| Error::config("user_agent must be printable ASCII").caused_by(e))?;
        Ok(Self { authority, user_agent, ranges_refused: AtomicBool::new(false) })
    }

    async fn refused(&self, at: &ThreadContext, exchange: Exchange) -> Failure {
        let mut failure = answer::refused(at, exchange).await;
        if failure.error.kind() == ErrorKind::Permission
            && let Some(hint) = self.authority.hint()
        {
            failure.error = failure.error.with("hint", hint);
        }
        failure
    }

    /// Sends a request to wherever its object is by now.
    async fn send(
        &self,
        at: &ThreadContext,
        method: Method,
        key: &str,
        headers: &[(header::HeaderName, String)],
        body: Bytes,
    ) -> Result<Exchange, Failure> {
        let limit = at.shared.config.download_timeout;
        let mut address = self.authority.address(key).map_err(Failure::last)?;
        let mut relearned = false;
        for _ in 0..=REDIRECTS_MAX {
            let mut request = Request::new(body.clone());
            *request.method_mut() = method.clone();
            *request.uri_mut() = address.clone();
            for (name, value) in headers {
                let value = HeaderValue::from_str(value)
                    .map_err(|e| Failure::last(Error::internal("a header cannot be sent").caused_by(e)))?;
                request.headers_mut().insert(name, value);
            }
            // Signed last, because signatures cover the headers; the user agent is not covered.
            self.authority.authorize(at, &mut request).await?;
            request.headers_mut().insert(header::USER_AGENT, self.user_agent.clone());
            let exchange = at.client.send(at, &request, limit).await?;
            let (status, answer) = (exchange.response.status(), exchange.response.headers());
            if !relearned && !status.is_success() && self.authority.learn(status, answer) {
                relearned = true;
                address = self.authority.address(key).map_err(Failure::last)?;
            } else if answer::is_redirect(status) {
                address = answer::redirected(&address, answer)?;
            } else {
                return Ok(exchange);
            }
        }
        Err(Failure::last(Error::new(ErrorKind::Config, format!("more than {REDIRECTS_MAX} redirects"))))
    }
}

#[async_trait(?Send)]
impl Source for HttpSource {
    async fn get(&self, at: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        // Compressed on the way means other bytes than the index counted.
        let mut headers = vec![(header::ACCEPT_ENCODING, "identity".to_owned())];
        if let Some(range) = &request.range {
            headers.push((header::RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1))));
        }
        match &request.version {
            Some(Version::ETag(tag)) => headers.push((header::IF_MATCH, tag.clone())),
            Some(Version::LastModified(time)) => headers.push((header::IF_UNMODIFIED_SINCE, time.clone())),
            None => {}
        }
        let exchange = self.send(at, Method::GET, &request.key, &headers, Bytes::new()).await?;
        let status = exchange.response.status();
        let head = match status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => answer::read_head(&exchange.response, request)?,
            _ => return Err(self.refused(at, exchange).await),
        };
        if status == StatusCode::OK && request.range.as_ref().is_some_and(|r| r.start > 0) {
            self.ranges_refused.store(true, Ordering::Relaxed);
        }
        Ok(GetResponse {
            start: head.start,
            promised: head.promised,
            total: head.total,
            version: head.version,
            body: Box::new(HttpBody::new(at, exchange)),
        })
    }

    fn has_ranges(&self) -> bool {
        !self.ranges_refused.load(Ordering::Relaxed)
    }

    async fn list(&self, at: &ThreadContext, prefix: &str) -> Result<Vec<ObjectInfo>, Failure> {
        self.authority.list(at, prefix).await
    }

    async fn put(&self, at: &ThreadContext, key: &str, bytes: Bytes) -> Result<(), Failure> {
        let exchange = self.send(at, Method::PUT, key, &[], bytes).await?;
        if exchange.response.status().is_success() {
            return Ok(());
        }
        Err(self.refused(at, exchange).await)
    }
}

/// The bytes of an answer; gives its connection back when all of them are read.
pub(crate) struct HttpBody {
    client: Rc<Client>,
    incoming: Incoming,
    frame: Bytes,
    connection: Option<(client::Sender, client::Origin)>,
}

impl HttpBody {
    pub(crate) fn new(at: &ThreadContext, exchange: Exchange) -> Self {
        Self {
            client: at.client.clone(),
            incoming: exchange.response.into_body(),
            frame: Bytes::new(),
            connection: Some((exchange.sender, exchange.origin)),
        }
    }

    /// The connection is free once the last byte is out of it; dropping an unread body closes it.
    fn give_back(&mut self) {
        if let Some((sender, origin)) = self.connection.take() {
            self.client.keep(origin, sender);
        }
    }
}

#[async_trait(?Send)]
impl Body for HttpBody {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        while self.frame.is_empty() {
            match self.incoming.frame().await {
                // Frames of trailers carry no bytes.
                Some(Ok(frame)) => self.frame = frame.into_data().unwrap_or_default(),
                Some(Err(e)) => {
                    let why = Error::new(ErrorKind::Network, "the connection broke in the middle of the body");
                    return Err(Failure::transient(why.caused_by(e)));
                }
                None => {
                    self.give_back();
                    return Ok(0);
                }
            }
        }
        let n = out.len().min(self.frame.len());
        self.frame.copy_to_slice(&mut out[..n]);
        if self.frame.is_empty() && self.incoming.is_end_stream() {
            self.give_back();
        }
        Ok(n)
    }
}

/// Plain HTTP: nothing to sign, nothing to list.
#[derive(Debug)]
pub(crate) struct Plain {
    /// The folder, without a slash at the end.
    base: String,
}

impl Plain {
    pub(crate) fn new(base: &url::Url) -> Self {
        Self { base: base.as_str().trim_end_matches('/').to_owned() }
    }
}

#[async_trait(?Send)]
impl Authority for Plain {
    fn address(&self, key: &str) -> Result<Uri, Error> {
        let address = format!("{}/{}", self.base, encode_path(key));
        address.parse().map_err(|e| Error::config("not a valid address").caused_by(e).with("address", address))
    }

    async fn authorize(&self, _: &ThreadContext, _: &mut Request<Bytes>) -> Result<(), Failure> {
        Ok(())
    }

    async fn list(&self, _: &ThreadContext, _: &str) -> Result<Vec<ObjectInfo>, Failure> {
        let why = "an http(s):// remote cannot be listed: name the objects or use s3:// or a folder";
        Err(Failure::last(Error::new(ErrorKind::Unsupported, why)))
    }
}
