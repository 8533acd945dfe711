//! Connections of one fetch thread, kept between requests.

use super::connect::connect;
use crate::clock::Clock;
use crate::store::source::Failure;
use crate::store::thread::ThreadContext;
use crate::{Error, ErrorKind};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// The sending half of a connection.
pub(crate) type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

/// Servers close idle connections after 5 s (S3: some 20 s, nginx: 75 s); one older than this is not tried again.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// Whom a connection leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    /// The origin of an absolute `http(s)` address.
    pub(crate) fn of(uri: &http::Uri) -> Option<Self> {
        let tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Some(Self { tls, host: uri.host()?.to_owned(), port })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => f.write_str(&self.host),
            (_, port) => write!(f, "{}:{port}", self.host),
        }
    }
}

/// Idle connections by origin.
pub(crate) struct Client {
    idle: RefCell<HashMap<Origin, Vec<(Sender, Duration)>>>,
    /// Idle connections per origin.
    idle_max: usize,
    clock: Clock,
}

/// An answer whose body has not been read, and the connection it came by.
pub(crate) struct Exchange {
    pub(crate) response: Response<Incoming>,
    pub(crate) sender: Sender,
    pub(crate) origin: Origin,
}

impl Client {
    pub(crate) fn new(idle_max: usize, clock: Clock) -> Self {
        Self { idle: RefCell::default(), idle_max, clock }
    }

    fn take(&self, origin: &Origin) -> Option<Sender> {
        let now = self.clock.now();
        let mut idle = self.idle.borrow_mut();
        let senders = idle.get_mut(origin)?;
        while let Some((sender, since)) = senders.pop() {
            if !sender.is_closed() && now.saturating_sub(since) < IDLE_MAX {
                return Some(sender);
            }
        }
        idle.remove(origin);
        None
    }

    /// Keeps a connection for the next request; call it when the body has been read to its end.
    pub(crate) fn keep(&self, origin: Origin, sender: Sender) {
        let mut idle = self.idle.borrow_mut();
        let senders = idle.entry(origin).or_default();
        if senders.len() < self.idle_max && !sender.is_closed() {
            senders.push((sender, self.clock.now()));
        }
    }

    /// Sends `request`, whose address is absolute, and waits for the answer's head.
    ///
    /// A kept connection that the server has closed meanwhile is replaced at once, without counting as an attempt.
    pub(crate) async fn send(
        &self,
        context: &ThreadContext,
        request: &Request<Bytes>,
        limit: Duration,
    ) -> Result<Exchange, Failure> {
        let bad = || Failure::last(Error::config("the address is not an absolute http(s) address"));
        let origin = Origin::of(request.uri()).ok_or_else(bad)?;
        match context.within(limit, self.exchange(context, &origin, request)).await {
            Some(result) => result,
            None => {
                let why = format!("no answer for {} s", limit.as_secs_f64());
                Err(Failure::transient(Error::new(ErrorKind::Timeout, why).with("host", &origin)))
            }
        }
    }

    async fn exchange(
        &self,
        context: &ThreadContext,
        origin: &Origin,
        request: &Request<Bytes>,
    ) -> Result<Exchange, Failure> {
        while let Some(mut sender) = self.take(origin) {
            if sender.ready().await.is_err() {
                continue;
            }
            context.shared.counters.requests.add(1);
            match sender.send_request(on_wire(origin, request)).await {
                Ok(response) => return Ok(Exchange { response, sender, origin: origin.clone() }),
                Err(e) if e.is_canceled() || e.is_closed() || e.is_incomplete_message() => {}
                Err(e) => return Err(broken(e, origin)),
            }
        }
        let mut sender = connect(context, origin).await?;
        context.shared.counters.requests.add(1);
        match sender.send_request(on_wire(origin, request)).await {
            Ok(response) => Ok(Exchange { response, sender, origin: origin.clone() }),
            Err(e) => Err(broken(e, origin)),
        }
    }
}

fn broken(error: hyper::Error, origin: &Origin) -> Failure {
    let why = Error::new(ErrorKind::Network, "the server gave no answer");
    Failure::transient(why.caused_by(error).with("host", origin))
}

/// The request as HTTP/1.1 wants it: the path alone, the host in its header.
fn on_wire(origin: &Origin, request: &Request<Bytes>) -> Request<Full<Bytes>> {
    let mut wire = Request::new(Full::new(request.body().clone()));
    *wire.method_mut() = request.method().clone();
    *wire.headers_mut() = request.headers().clone();
    let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
    // Taken from a valid address, so it is one itself.
    *wire.uri_mut() = path.parse().unwrap_or_default();
    if let Ok(host) = http::HeaderValue::from_str(&origin.to_string()) {
        wire.headers_mut().insert(http::header::HOST, host);
    }
    wire
}
