//! Thread of the server that `forebay top` asks for figures.

use super::otlp;
use super::registry::Registry;
use super::{socket_folder, socket_of};
use crate::error::{Error, Result};
use crate::stats::prometheus;
use crate::sync::{Arc, JoinHandle, spawn};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::fs::DirBuilder;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Longest time for the head of a request: a client that sends nothing holds no connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;

/// Address at which figures are served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ServedAt {
    /// The Unix socket of this process.
    Socket,
    Port(SocketAddr),
}

/// More work for the thread.
enum Order {
    Listen(ServedAt),
    Export(otlp::Settings),
}

/// The thread, and its socket's file. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    registry: Arc<Registry>,
    orders: mpsc::UnboundedSender<Order>,
    /// Dropped to end the thread.
    end: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
    pid: u32,
}

impl Server {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system's refusal of a thread or of descriptors.
    pub(super) fn start(registry: Arc<Registry>) -> Result<Arc<Self>> {
        let refused = |e| Error::from_io(e, "the thread that serves a loader's figures cannot be started");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let (end, ended) = oneshot::channel::<Infallible>();
        let (orders, received) = mpsc::unbounded_channel();
        let served = registry.clone();
        let thread = spawn("forebay-monitor", move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(served, received) => {}
                    _ = ended => {}
                }
            });
            // Requests to a collector do not delay the end of a loader.
            runtime.shutdown_background();
        })
        .map_err(refused)?;
        Ok(Arc::new(Self { registry, orders, end: Some(end), thread: Some(thread), pid: std::process::id() }))
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Serves HTTP at `place` too. A port that is taken is a warning: it does not end a job.
    pub(super) fn listen(&self, place: ServedAt) {
        // The thread is gone only after a panic.
        let _ = self.orders.send(Order::Listen(place));
    }

    /// Sends figures to a collector of OpenTelemetry.
    pub(super) fn export(&self, settings: otlp::Settings) {
        let _ = self.orders.send(Order::Export(settings));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            // A forked child has no such thread, and the socket belongs to the parent.
            return;
        }
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Binds the socket of this process in a folder of only its user, and removes sockets of processes that were killed.
fn bound() -> io::Result<(StdUnixListener, PathBuf)> {
    let folder = socket_folder();
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let found = std::fs::symlink_metadata(&folder)?;
    let is_private = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    if !found.is_dir() || !is_private {
        return Err(io::Error::other("it is not a folder of only this user (mode 700)"));
    }
    remove_dead(&folder);
    let path = socket_of(std::process::id());
    // It fails if a process of the same number is alive, in a container that shares the folder.
    let listener = StdUnixListener::bind(&path)?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

/// Removes the sockets of processes that were killed. A process may be in a different container, so its socket decides.
fn remove_dead(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_dead = match StdUnixStream::connect(entry.path()) {
            Ok(_) => false,
            Err(e) => e.kind() == io::ErrorKind::ConnectionRefused,
        };
        if is_dead {
            // A process that starts at the same time may have been faster.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// File of a socket, which is removed with it.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A tidier may have been here.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Serves until it is dropped.
async fn serve(registry: Arc<Registry>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (mut places, mut exports, mut files) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(order) = orders.recv().await {
        match order {
            // A second loader of the process is a part of the same answer.
            Order::Listen(place) if places.contains(&place) => {}
            Order::Listen(place) => {
                let opened = match place {
                    ServedAt::Socket => bound().and_then(|(listener, path)| {
                        files.push(SocketFile(path));
                        UnixListener::from_std(listener).map(Listener::Unix)
                    }),
                    ServedAt::Port(address) => TcpListener::bind(address).await.map(Listener::Tcp),
                };
                match (opened, place) {
                    (Ok(listener), _) => {
                        places.push(place);
                        tokio::spawn(accept(registry.clone(), listener, room.clone()));
                    }
                    (Err(e), ServedAt::Socket) => {
                        let folder = socket_folder();
                        log::info!("`forebay top` cannot see this process: no socket in {}: {e}", folder.display());
                    }
                    (Err(e), ServedAt::Port(address)) => {
                        log::warn!("engine.metrics: no figures are served at {address}, which is refused: {e}");
                    }
                }
            }
            Order::Export(settings) if exports.contains(&settings) => {}
            Order::Export(settings) => {
                exports.push(settings.clone());
                tokio::spawn(otlp::export(registry.clone(), settings));
            }
        }
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

async fn accept(registry: Arc<Registry>, listener: Listener, room: Arc<Semaphore>) {
    loop {
        let permit = room.clone().acquire_owned().await;
        let accepted = match &listener {
            Listener::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| drop(tokio::spawn(answer(registry.clone(), stream, permit))))
            }
            Listener::Tcp(listener) => {
                listener.accept().await.map(|(stream, _)| drop(tokio::spawn(answer(registry.clone(), stream, permit))))
            }
        };
        if accepted.is_err() {
            // Too many open files, for instance: some of them may be closed soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Answers the requests of a connection.
async fn answer<S, P>(registry: Arc<Registry>, stream: S, permit: P)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request: Request<Incoming>| {
        let reply = reply(&registry, request.uri().path());
        async move { Ok::<_, Infallible>(reply) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // A client that is gone needs no answer.
    let _ = served.await;
    drop(permit);
}

fn reply(registry: &Registry, path: &str) -> Response<Full<Bytes>> {
    let (status, kind, text) = match path {
        "/metrics" => (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", prometheus(&registry.figures())),
        "/stats" => (StatusCode::OK, "application/json", registry.json().to_string()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "there are /metrics and /stats\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
