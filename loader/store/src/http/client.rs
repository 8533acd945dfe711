//! Requests over kept and new connections.

use super::connect::connect;
use super::pool::{Origin, Sender};
use super::sent::{SentBody, Taken};
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::{Error, ErrorKind};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use std::time::Duration;

/// Mark of a request, among its extensions, that must not be sent twice without the knowledge of its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentOnce;

/// Response with a body that has not been read, and its connection.
pub(crate) struct Exchange {
    pub(crate) response: Response<Incoming>,
    pub(crate) sender: Sender,
    pub(crate) origin: Origin,
    pub(crate) taken: Taken,
}

impl Exchange {
    /// Returns true if the connection may be used again after the response. A server may reject a request before it has
    /// read the body, and then never read the rest; after a success it has read all of it.
    pub(super) fn has_sent_all(&self) -> bool {
        self.taken.is_of_nothing() || self.response.status().is_success() && self.taken.is_all()
    }
}

/// Sends `request`, with an absolute address, and waits for the head of the response.
///
/// A kept connection that the server has closed in the meantime is replaced at once, without counting as an attempt.
pub(crate) async fn send(
    context: &ThreadContext,
    request: &Request<Bytes>,
    limit: Duration,
) -> Result<Exchange, Failure> {
    send_body(context, request, limit, || SentBody::from(request.body().clone())).await
}

/// Like [`send`], with a body from `body`, which is called for each connection that is tried.
pub(super) async fn send_body(
    context: &ThreadContext,
    request: &Request<Bytes>,
    limit: Duration,
    body: impl Fn() -> SentBody,
) -> Result<Exchange, Failure> {
    let bad = || Failure::permanent(Error::config("the address is not an absolute http(s) address"));
    let origin = Origin::of(request.uri()).ok_or_else(bad)?;
    match context.within(limit, exchange(context, &origin, request, body)).await {
        Some(result) => result,
        None => {
            let why = format!("no response for {} s", limit.as_secs_f64());
            Err(Failure::transient(Error::new(ErrorKind::Timeout, why).with("host", &origin)).absent())
        }
    }
}

async fn exchange(
    context: &ThreadContext,
    origin: &Origin,
    request: &Request<Bytes>,
    body: impl Fn() -> SentBody,
) -> Result<Exchange, Failure> {
    let is_sent_once = request.extensions().get::<SentOnce>().is_some();
    loop {
        let kept = context.connections.take(origin);
        let is_kept = kept.is_some();
        let mut sender = match kept {
            Some(sender) => sender,
            None => connect(context, origin).await?,
        };
        if is_kept && sender.ready().await.is_err() {
            continue;
        }
        context.shared.counters.requests.add(1);
        let body = body();
        let taken = body.taken();
        match sender.send_request(on_wire(context, origin, request, body)).await {
            Ok(response) => return Ok(Exchange { response, sender, origin: origin.clone(), taken }),
            Err(e) if is_kept && !is_sent_once && (e.is_canceled() || e.is_closed() || e.is_incomplete_message()) => {}
            Err(e) => {
                let why = Error::new(ErrorKind::Network, "the server gave no response");
                return Err(Failure::transient(why.caused_by(e).with("host", origin)));
            }
        }
    }
}

/// Converts a request to the form of HTTP/1.1: the path alone, the host in its header. A proxy that is not a tunnel
/// gets the whole address.
fn on_wire(context: &ThreadContext, origin: &Origin, request: &Request<Bytes>, body: SentBody) -> Request<SentBody> {
    let mut wire = Request::new(body);
    *wire.method_mut() = request.method().clone();
    *wire.headers_mut() = request.headers().clone();
    let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
    // Part of a valid address, so it is valid.
    *wire.uri_mut() = path.parse().unwrap_or_default();
    if let Ok(host) = http::HeaderValue::from_str(&origin.to_string()) {
        wire.headers_mut().insert(http::header::HOST, host);
    }
    if !origin.tls
        && let Some(proxy) = context.shared.proxies.of(origin)
    {
        *wire.uri_mut() = request.uri().clone();
        if let Some(value) = proxy.authorization() {
            wire.headers_mut().insert(http::header::PROXY_AUTHORIZATION, value.clone());
        }
    }
    wire
}
