//! An object server on loopback for tests, the bench and the example run.
//!
//! ```text
//!  ObjectServer::start(Root, Options)
//!     threads: accept -> (TLS) -> hyper http/1.1 -> serve: sigv4? script? GET HEAD PUT LIST -> body: pieces
//!  handle:  url()  counters()  seen()  script(Rule)  stalled() / release()  put()
//! ```
//!
//! * `objects` is what it serves: a folder, or a map in memory.
//! * `serve` answers requests as a web server and as S3 (path style: `/bucket/key`, listing version 2).
//! * `sigv4` checks signatures for real when the options give keys: a client that signs wrongly gets a 403.
//! * `script` makes chosen requests go wrong, without sleeping: bodies that break off or stand still until the test
//!   lets them go on, statuses, answers that contradict themselves.
//! * `body` streams pieces of a file; one thread gives more than 1 GiB/s.
//!
//! It trusts its user (a test) and nobody else: it listens on loopback only and never leaves its root.

mod body;
mod date;
mod objects;
mod script;
mod serve;
mod sigv4;

pub use objects::Root;
pub use script::{Fault, Rule};
pub use sigv4::Keys;

use forebay_loader::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Notify;

/// Requests kept for [`ObjectServer::seen`]; older ones are forgotten.
const SEEN_MAX: usize = 100_000;

/// The authority of the test certificates, in PEM: clients of a TLS server have to trust it.
pub const TEST_CA: &str = include_str!("../../data/tls/ca.pem");

/// How the server behaves from the start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Name of the bucket under which the root appears as S3: `/bucket/key`. Plain paths work beside it.
    pub bucket: Option<String>,
    /// Every request must be signed with these.
    pub keys: Option<Keys>,
    /// Serve https with the test certificate (for `localhost` and 127.0.0.1).
    pub tls: bool,
    /// Threads that serve.
    pub threads: usize,
    /// All bodies together are no faster than this.
    pub bytes_per_s: Option<u64>,
    /// Every answer starts this much later, as it does behind a real network.
    pub latency: Duration,
    /// Entries of one page of a listing.
    pub list_page: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            bucket: None,
            keys: None,
            tls: false,
            threads: 1,
            bytes_per_s: None,
            latency: Duration::ZERO,
            list_page: 1000,
        }
    }
}

/// What the server has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Requests of any kind.
    pub requests: u64,
    /// GET requests for objects.
    pub gets: u64,
    /// Listings.
    pub lists: u64,
    /// PUT requests.
    pub puts: u64,
    /// Bytes of object bodies handed to the network.
    pub bytes: u64,
}

/// One request as it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `GET`, `PUT` ...
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The `If-Match` header.
    pub if_match: Option<String>,
    /// The status that was answered.
    pub status: u16,
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct ObjectServer {
    state: Arc<State>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of one server share.
#[derive(Debug)]
struct State {
    root: Root,
    options: Options,
    connections: AtomicU64,
    requests: AtomicU64,
    gets: AtomicU64,
    lists: AtomicU64,
    puts: AtomicU64,
    bytes: AtomicU64,
    seen: Mutex<VecDeque<Seen>>,
    rules: Mutex<Vec<Rule>>,
    throttle: Mutex<body::Throttle>,
    /// Bodies that stand still.
    stalls: Mutex<usize>,
    stalled: Condvar,
    release: Notify,
    stopped: AtomicBool,
    stop: Notify,
}

impl ObjectServer {
    /// Starts serving `root`.
    ///
    /// # Errors
    ///
    /// When the port is taken, a thread is refused, or the test certificate cannot be used.
    pub fn start(root: Root, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", options.port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let tls = options.tls.then(acceptor).transpose()?;
        let threads = options.threads.max(1);
        let state = Arc::new(State {
            root,
            throttle: Mutex::new(body::Throttle::new(options.bytes_per_s)),
            options,
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            puts: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            seen: Mutex::default(),
            rules: Mutex::default(),
            stalls: Mutex::default(),
            stalled: Condvar::new(),
            release: Notify::new(),
            stopped: AtomicBool::new(false),
            stop: Notify::new(),
        });
        let mut server = Self { state, address, threads: Vec::new() };
        for index in 0..threads {
            let (listener, state, tls) = (listener.try_clone()?, server.state.clone(), tls.clone());
            let thread = forebay_loader::sync::spawn(format!("server-{index}"), move || run(listener, &state, tls))?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Serves an empty map in memory; fill it with [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn in_memory(options: Options) -> io::Result<Self> {
        Self::start(Root::memory(), options)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:port` (or `https://localhost:port`), without a slash at the end. It is the address of plain
    /// requests and the S3 endpoint.
    pub fn url(&self) -> String {
        if self.state.options.tls {
            format!("https://localhost:{}", self.address.port())
        } else {
            format!("http://{}", self.address)
        }
    }

    /// Adds or replaces an object.
    ///
    /// # Errors
    ///
    /// When the root is a folder that cannot be written to.
    pub fn put(&self, key: &str, bytes: impl Into<bytes::Bytes>) -> io::Result<()> {
        self.state.root.put(key, bytes.into())
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        let s = &self.state;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            connections: get(&s.connections),
            requests: get(&s.requests),
            gets: get(&s.gets),
            lists: get(&s.lists),
            puts: get(&s.puts),
            bytes: get(&s.bytes),
        }
    }

    /// The requests so far, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().iter().cloned().collect()
    }

    /// Makes requests that `rule` matches go wrong from now on. Of several rules the first one that matches counts.
    pub fn script(&self, rule: Rule) {
        self.state.rules.lock().push(rule);
    }

    /// Waits until at least `n` bodies stand still because of [`Fault::StallAfter`].
    pub fn stalled(&self, n: usize) {
        let mut stalls = self.state.stalls.lock();
        while *stalls < n {
            stalls = self.state.stalled.wait(stalls);
        }
    }

    /// Lets every body that stands still go on.
    pub fn release(&self) {
        *self.state.stalls.lock() = 0;
        self.state.release.notify_waiters();
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Release);
        self.state.stop.notify_waiters();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a thread of the object server panicked");
            }
        }
    }
}

fn acceptor() -> io::Result<tokio_rustls::TlsAcceptor> {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_slice_iter(include_bytes!("../../data/tls/server.pem"))
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../data/tls/server.key")).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(io::Error::other)?;
    Ok(tokio_rustls::TlsAcceptor::from(Arc::new(config)))
}

/// A thread's whole life.
fn run(listener: TcpListener, state: &Arc<State>, tls: Option<tokio_rustls::TlsAcceptor>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return log::error!("the object server has no runtime: {e}"),
    };
    runtime.block_on(async {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(e) => return log::error!("the object server cannot listen: {e}"),
        };
        let stopped = state.stop.notified();
        tokio::pin!(stopped);
        stopped.as_mut().enable();
        let mut connections = tokio::task::JoinSet::new();
        while !state.stopped.load(Ordering::Acquire) {
            tokio::select! {
                () = &mut stopped => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let _ = stream.set_nodelay(true);
                        state.connections.fetch_add(1, Ordering::Relaxed);
                        drop(connections.spawn(connection(stream, state.clone(), tls.clone())));
                    }
                    Err(e) => log::debug!("accept: {e}"),
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
        // Connections end with the runtime.
    });
}

async fn connection(stream: tokio::net::TcpStream, state: Arc<State>, tls: Option<tokio_rustls::TlsAcceptor>) {
    let service = hyper::service::service_fn(move |request| {
        let state = state.clone();
        async move { serve::answer(&state, request).await }
    });
    let server = hyper::server::conn::http1::Builder::new();
    let ended = match tls {
        None => server.serve_connection(TokioIo::new(stream), service).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => server.serve_connection(TokioIo::new(stream), service).await,
            Err(e) => return log::debug!("TLS: {e}"),
        },
    };
    if let Err(e) = ended {
        log::debug!("a connection of the object server ended: {e}");
    }
}
