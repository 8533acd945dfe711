//! Opening of HTTP/1.1 connections.

use super::pool::{Origin, Sender};
use super::proxy::Proxy;
use super::uring::UringStream;
use crate::config::Transport;
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::{Error, ErrorKind};
use forebay_core::sync::spawn;
use hyper_util::rt::TokioIo;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Opens a connection; its background half runs on this thread until either side closes it.
pub(crate) async fn connect(context: &ThreadContext, origin: &Origin) -> Result<Sender, Failure> {
    let proxy = context.shared.proxies.of(origin);
    let server = proxy.as_ref().map_or_else(|| Ok(origin.clone()), Proxy::server)?;
    let server = &server;
    let reached = &context.shared.reached;
    let unreached = |failure| Failure { is_unreached: !reached.contains(server), ..failure };
    let addresses = addresses(context, server).await.map_err(unreached)?;
    if context.has_ring && context.shared.config.transport == Transport::Uring {
        let stream = first_open(server, addresses, UringStream::connect).await.map_err(unreached)?;
        reached.insert(server);
        return secure(context, origin, proxy.as_ref(), stream).await;
    }
    let stream = first_open(server, addresses, async |address| {
        let stream = TcpStream::connect(address).await?;
        // Requests are one small packet each: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    });
    let stream = stream.await.map_err(unreached)?;
    reached.insert(server);
    secure(context, origin, proxy.as_ref(), stream).await
}

/// Starts HTTP on a connection to `origin` or to its proxy, which may be encrypted itself.
async fn secure(
    context: &ThreadContext,
    origin: &Origin,
    proxy: Option<&Proxy>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Result<Sender, Failure> {
    context.shared.counters.connections.add(1);
    match proxy {
        Some(proxy) => match proxy.server()? {
            server if server.tls => {
                through(context, origin, Some(proxy), encrypt(context, &server, stream).await?).await
            }
            _ => through(context, origin, Some(proxy), stream).await,
        },
        None => through(context, origin, None, stream).await,
    }
}

/// Starts TLS if the address requires it, through a tunnel if there is a proxy, then HTTP.
async fn through(
    context: &ThreadContext,
    origin: &Origin,
    proxy: Option<&Proxy>,
    mut stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Result<Sender, Failure> {
    if !origin.tls {
        return handshake(stream).await;
    }
    if let Some(proxy) = proxy {
        proxy.open_tunnel(&mut stream, origin).await?;
    }
    handshake(encrypt(context, origin, stream).await?).await
}

/// Starts TLS with `origin`.
async fn encrypt<S: AsyncRead + AsyncWrite + Unpin>(
    context: &ThreadContext,
    origin: &Origin,
    stream: S,
) -> Result<tokio_rustls::client::TlsStream<S>, Failure> {
    context.shared.tls.connect(&origin.host, stream).await.map_err(|e| {
        // A certificate that is not trusted stays so; most failures may be temporary.
        let is_retried = e.kind() == ErrorKind::Network;
        Failure::new(e.with("host", origin), is_retried)
    })
}

async fn handshake(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Result<Sender, Failure> {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| Failure::transient(Error::new(ErrorKind::Network, "the HTTP connection failed").caused_by(e)))?;
    // Detached on purpose: it ends when the sender and the body are dropped, or with the thread's runtime.
    drop(tokio::task::spawn_local(async move {
        if let Err(e) = connection.await {
            log::debug!("an HTTP connection ended: {e}");
        }
    }));
    Ok(sender)
}

fn network_failure(error: std::io::Error, what: &str, origin: &Origin) -> Failure {
    let error = Error::from_io(error, what);
    // A limit of this machine keeps its kind, and its remedy is in the message.
    let kind = if error.kind() == ErrorKind::Full { ErrorKind::Full } else { ErrorKind::Network };
    Failure::transient(error.of_kind(kind).with("host", origin))
}

/// Returns the addresses of the origin's name, starting at a random one so that connections spread over its servers.
async fn addresses(context: &ThreadContext, origin: &Origin) -> Result<Vec<SocketAddr>, Failure> {
    let found = resolve(origin.host.trim_matches(['[', ']']), origin.port).await;
    let mut addresses = found.map_err(|e| {
        let why = "the host name cannot be resolved: check the address, and this machine's network";
        network_failure(e, why, origin).absent()
    })?;
    if addresses.is_empty() {
        return Err(Failure::network("the host name has no address").absent());
    }
    addresses.truncate(ADDRESSES_MAX);
    let first = (context.draws.borrow_mut().next() % addresses.len() as u64) as usize;
    addresses.rotate_left(first);
    Ok(addresses)
}

/// Opens a connection to the first address that accepts one.
async fn first_open<S>(
    origin: &Origin,
    addresses: Vec<SocketAddr>,
    open: impl AsyncFn(SocketAddr) -> std::io::Result<S>,
) -> Result<S, Failure> {
    use std::io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable, NotFound, TimedOut,
    };
    let mut last = std::io::Error::from(NotFound);
    for address in addresses {
        match open(address).await {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    let is_absent = matches!(
        last.kind(),
        AddrNotAvailable | ConnectionRefused | HostUnreachable | NetworkUnreachable | NotFound | TimedOut
    );
    let why = "cannot connect: check the address and the port, and that the server runs";
    Err(Failure { is_absent, ..network_failure(last, why, origin) })
}

/// Resolves a name with the system's resolver, on a new thread: it may hang for long, and neither this thread's
/// transfers nor its end can wait for that.
async fn resolve(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let host = host.to_owned();
    let (send, receive) = tokio::sync::oneshot::channel();
    spawn("fb-resolve", move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Fails if the connection is not needed any more.
        let _ = send.send(found);
    })?;
    receive.await.unwrap_or_else(|_| Err(std::io::Error::other("the resolver gave no response")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_no_failure_of_the_network() {
        let origin = Origin { tls: false, host: "host".into(), port: 80 };
        let failure =
            |errno| network_failure(std::io::Error::from_raw_os_error(errno), "cannot connect", &origin).error;
        assert_eq!(failure(libc::ECONNREFUSED).kind(), ErrorKind::Network);
        let limit = failure(libc::EMFILE);
        assert_eq!(limit.kind(), ErrorKind::Full);
        assert!(limit.to_string().contains("ulimit -n"), "{limit}");
    }
}
