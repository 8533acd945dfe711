//! Idle connections of one fetch thread.

use super::sent::SentBody;
use forebay_core::clock::Clock;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Sending half of a connection.
pub(crate) type Sender = hyper::client::conn::http1::SendRequest<SentBody>;

/// Age above which an idle connection is not used again. Servers close them after 5 s (S3: some 20 s, nginx: 75 s).
const IDLE_MAX: Duration = Duration::from_secs(15);

/// Server that a connection leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    pub(crate) fn of(uri: &http::Uri) -> Option<Self> {
        let tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Some(Self { tls, host: uri.host()?.to_owned(), port })
    }

    /// Returns the address of the server's root.
    pub(super) fn uri(&self) -> Option<http::Uri> {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}/", self.host, self.port).parse().ok()
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

pub(crate) struct ConnectionPool {
    idle: RefCell<HashMap<Origin, Vec<(Sender, Duration)>>>,
    /// Most idle connections per origin.
    idle_max: usize,
    clock: Clock,
}

impl ConnectionPool {
    pub(crate) fn new(idle_max: usize, clock: Clock) -> Self {
        Self { idle: RefCell::default(), idle_max, clock }
    }

    /// Takes an idle connection to `origin`, the most recently used first.
    pub(super) fn take(&self, origin: &Origin) -> Option<Sender> {
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

    /// Keeps a connection for the next request, once its body has been read to the end.
    pub(super) fn put(&self, origin: Origin, sender: Sender) {
        let mut idle = self.idle.borrow_mut();
        let senders = idle.entry(origin).or_default();
        if senders.len() < self.idle_max && !sender.is_closed() {
            senders.push((sender, self.clock.now()));
        }
    }
}
