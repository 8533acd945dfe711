//! An object server on loopback for tests, the bench and the example run.
//!
//! ```text
//!  ObjectServer::start(Root, Options)
//!     threads: accept -> (TLS) -> hyper http/1.1 -> serve: sigv4? script? GET HEAD PUT LIST -> body: pieces
//!  handle:  url()  counters()  seen()  script(Rule)  stalled() / release()  put()
//! ```
//!
//! * `state` is shared by the threads of one server.
//! * `objects` is the served root: a folder, or a map in memory.
//! * `serve` and `answer` answer requests as a web server and as S3 (path style: `/bucket/key`, listing version 2).
//! * `writes`: uploads in parts, listings and removals, by the interfaces of several clouds; `unfinished` has
//!   uploads that are not objects yet.
//! * `sigv4`, `azure` and `oci` verify signatures when the options contain keys: a client that signs wrongly gets
//!   a 403. `issuer` issues bearer tokens and requires them when the options contain an issuer.
//! * `hub` redirects requests for files of a data set to a second server.
//! * `script` makes chosen requests fail, without sleeping: bodies that end early or stall until the test releases
//!   them, error statuses, contradicting headers.
//! * `body` streams pieces of a file at more than 1 GiB/s per thread; `throttle` limits the rates of
//!   all bodies and of requests.
//!
//! The server is for tests: it listens on loopback only and never leaves its root.

mod answer;
mod azure;
mod body;
mod date;
mod hub;
mod issuer;
mod objects;
mod oci;
mod script;
mod serve;
mod sigv4;
mod state;
mod throttle;
mod unfinished;
mod writes;

pub use azure::AzureAccount;
pub use hub::Hub;
pub use issuer::{Issuer, ServiceAccount};
pub use objects::Root;
pub use oci::OciKey;
pub use script::{Fault, Rule};
pub use sigv4::Keys;
pub use state::{Counters, Options, Seen};
pub use unfinished::Interface;

use forebay_loader::sync::{Arc, AtomicU64, Ordering};
use hyper_util::rt::TokioIo;
use state::ServerState;
use std::collections::BTreeMap;
use std::io;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread::JoinHandle;

/// Certificate authority of the test certificates, in PEM. Clients of a TLS server have to trust it.
pub const TEST_CA: &str = include_str!("../../data/tls/ca.pem");

/// Certificate of the test servers, in PEM, for `localhost` and 127.0.0.1.
pub const TEST_CERTIFICATE: &str = include_str!("../../data/tls/server.pem");

/// Private key of [`TEST_CERTIFICATE`], in PEM. It is public, and protects nothing.
pub const TEST_KEY: &str = include_str!("../../data/tls/server.key");

/// Access key and secret key for tests of servers that verify signatures.
pub const TEST_KEYS: (&str, &str) = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");

/// Running server; dropping it stops it.
#[derive(Debug)]
pub struct ObjectServer {
    state: Arc<ServerState>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
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
        let state = Arc::new(ServerState::new(root, options));
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

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://127.0.0.1:port` (or `https://localhost:port`), without a slash at the end: the base URL of plain
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

    /// Returns all objects, by key.
    ///
    /// # Panics
    ///
    /// When the root is a folder that cannot be read.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let listed = self.state.root.list("").expect("the root can be read");
        let bytes = |key: &str| self.state.root.get(key).map(|object| object.read()).unwrap_or_default();
        listed.into_iter().map(|entry| (entry.key.clone(), bytes(&entry.key))).collect()
    }

    /// Returns the number of uploads in parts that are neither complete nor aborted.
    pub fn unfinished_uploads(&self) -> usize {
        self.state.unfinished.uploads_len()
    }

    /// Returns the counters.
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

    /// Returns the requests so far, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().iter().cloned().collect()
    }

    /// Returns the number of tokens that were issued.
    pub fn tokens_issued(&self) -> usize {
        self.state.tokens.issued()
    }

    /// Makes all tokens that were issued so far invalid.
    pub fn revoke_tokens(&self) {
        self.state.tokens.revoke();
    }

    /// Applies `rule` to the requests that it matches from now on. The first matching rule applies.
    pub fn script(&self, rule: Rule) {
        self.state.rules.lock().push(rule);
    }

    /// Waits until at least `n` bodies have stalled because of [`Fault::StallAfter`].
    pub fn stalled(&self, n: usize) {
        let mut stalls = self.state.stalls.lock();
        while *stalls < n {
            stalls = self.state.stalled.wait(stalls);
        }
    }

    /// Returns the number of bodies that have stalled since the last [`release`](Self::release).
    pub fn stalls(&self) -> usize {
        *self.state.stalls.lock()
    }

    /// Resumes all stalled bodies.
    pub fn release(&self) {
        *self.state.stalls.lock() = 0;
        self.state.release.notify_waiters();
    }
}

impl ObjectServer {
    /// Prints the folder and the address on standard output, and serves until standard input ends, so that the server
    /// does not outlive the process that started it. Prints the traffic on standard error.
    ///
    /// # Errors
    ///
    /// When the address cannot be printed.
    pub fn serve_until_eof(self, folder: &Path) -> io::Result<()> {
        self.announce(folder)?;
        // An input that fails has ended as well.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let counters = self.counters();
        eprintln!("served {} requests, {:.1} MB", counters.requests, counters.bytes as f64 / 1e6);
        Ok(())
    }

    /// Prints the folder and the address on standard output.
    ///
    /// # Errors
    ///
    /// When standard output is closed.
    pub fn announce(&self, folder: &Path) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "serving {} at {}", folder.display(), self.url())?;
        // A reader of the address may be at the read end of a pipe, which is not flushed by the line.
        out.flush()
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

pub(crate) fn acceptor() -> io::Result<tokio_rustls::TlsAcceptor> {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_slice_iter(TEST_CERTIFICATE.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(TEST_KEY.as_bytes()).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(io::Error::other)?;
    Ok(tokio_rustls::TlsAcceptor::from(Arc::new(config)))
}

/// Body of a server thread.
fn run(listener: TcpListener, state: &Arc<ServerState>, tls: Option<tokio_rustls::TlsAcceptor>) {
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

async fn connection(stream: tokio::net::TcpStream, state: Arc<ServerState>, tls: Option<tokio_rustls::TlsAcceptor>) {
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
