//! The one server of this process, and its start and end.

use super::registry::Watched;
use super::server::{ServedAt, Server};
use super::{Metrics, otlp};
use crate::error::Result;
use crate::sync::{Arc, Mutex, Weak};

/// A loader's part in the server, which ends with the last of them.
#[derive(Debug)]
pub(crate) struct Watch {
    // The registry forgets the loader before the server may end.
    _watched: Arc<Watched>,
    _server: Arc<Server>,
}

/// Server of this process, with the process that started it: a forked child has none.
static SERVER: Mutex<Option<(u32, Weak<Server>)>> = Mutex::new(None);

/// Serves the figures of `watched` while the result lives, by a Unix socket if it `has_socket`.
///
/// # Errors
///
/// `Io` if the system refuses a thread; `Config` for settings of OpenTelemetry that are wrong. A socket or port that
/// cannot be had is a note of the statistics, or a warning.
pub(crate) fn watch(watched: Watched, metrics: Option<Metrics>, has_socket: bool) -> Result<Watch> {
    let otlp = matches!(metrics, Some(Metrics::Otlp)).then(otlp::Settings::from_environment).transpose()?;
    let mut known = SERVER.lock();
    let this = std::process::id();
    let running = known.as_ref().filter(|(pid, _)| *pid == this).and_then(|(_, server)| server.upgrade());
    let server = match running {
        Some(server) => server,
        None => {
            let server = Server::start(Arc::default())?;
            *known = Some((this, Arc::downgrade(&server)));
            server
        }
    };
    drop(known);
    let watched = Arc::new(watched);
    server.registry().add(&watched);
    if has_socket {
        server.listen(ServedAt::Socket);
    }
    if let Some(Metrics::Prometheus(address)) = metrics {
        server.listen(ServedAt::Port(address));
    }
    if let Some(settings) = otlp {
        server.export(settings);
    }
    Ok(Watch { _watched: watched, _server: server })
}
