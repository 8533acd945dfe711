//! The proxy: one thread, a task for each connection.

use super::message::Message;
use super::schedule::{Fault, Pause, RequestPart, Schedule};
use crate::server::acceptor;
use forebay_loader::clock::Clock;
use forebay_loader::sync::{Arc, AtomicU64, JoinHandle, Mutex, Ordering};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Step of the client's clock while a response stalls: several steps pass before a timeout of a minute, so that a
/// second request has its turn.
const STALL_STEP: Duration = Duration::from_secs(7);

/// Real time between two such steps. The client looks at its clock about as often.
const TICK: Duration = Duration::from_millis(1);

/// Pieces of a throttled or chunked body.
const PIECES: usize = 8;

/// Fault that was applied.
#[derive(Clone, Debug)]
pub struct Fired {
    /// The part.
    pub part: RequestPart,
    /// Number of the request for this part, from 0.
    pub number: u32,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for Fired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} for {}: {:?}", self.number, self.part, self.fault)
    }
}

/// Protocol of a proxy's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Without encryption.
    Http,
    /// With TLS and the test certificate. Faults then hit records of TLS as well: a cut is an end without notice.
    Https,
}

/// Connection of a client.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {
    fn tcp(&self) -> &TcpStream;
}

impl Connection for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Connection for tokio_rustls::server::TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Running proxy; dropping it stops it.
#[derive(Debug)]
pub struct ChaosProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    protocol: Protocol,
    is_stopped: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    schedule: Schedule,
    clock: Clock,
    requests: Mutex<HashMap<RequestPart, u32>>,
    fired: Mutex<Vec<Fired>>,
    /// Bytes of objects written to clients.
    bytes: AtomicU64,
}

impl ChaosProxy {
    /// Starts a proxy of the HTTP server at `upstream`, for clients that use `clock`.
    ///
    /// # Errors
    ///
    /// If the system refuses a socket or a thread, or the test certificate cannot be used.
    pub fn start(upstream: SocketAddr, protocol: Protocol, schedule: Schedule, clock: Clock) -> io::Result<Self> {
        let tls = (protocol == Protocol::Https).then(acceptor).transpose()?;
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            schedule,
            clock,
            requests: Mutex::default(),
            fired: Mutex::default(),
            bytes: AtomicU64::new(0),
        });
        let (is_stopped, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let served = shared.clone();
        let thread = forebay_loader::sync::spawn("chaos-proxy", move || {
            runtime.block_on(async move {
                if let Err(e) = serve(listener, tls, served, stopped).await {
                    log::error!("the chaos proxy cannot listen: {e}");
                }
            });
        })?;
        Ok(Self { shared, address, protocol, is_stopped, thread: Some(thread) })
    }

    /// Returns `http://127.0.0.1:port` or `https://localhost:port`.
    pub fn url(&self) -> String {
        match self.protocol {
            Protocol::Http => format!("http://{}", self.address),
            Protocol::Https => format!("https://localhost:{}", self.address.port()),
        }
    }

    /// Returns the faults so far, in the order in which they were applied.
    pub fn fired(&self) -> Vec<Fired> {
        self.shared.fired.lock().clone()
    }

    /// Returns the bytes of bodies that were written to clients so far.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.is_stopped.send_replace(true);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread of the chaos proxy panicked");
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return Ok(()),
            accepted = listener.accept() => {
                let (tls, shared) = (tls.clone(), shared.clone());
                drop(connections.spawn(async move {
                    // A client may reset its connection before it is accepted.
                    let forwarded = match accepted {
                        Ok((client, _)) => forward(client, tls, &shared).await,
                        Err(e) => Err(e),
                    };
                    if let Err(e) = forwarded {
                        log::debug!("a connection of the chaos proxy ended: {e}");
                    }
                }));
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Forwards the requests of one connection, until a fault or the client ends it.
async fn forward(client: TcpStream, tls: Option<TlsAcceptor>, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let client: &mut dyn Connection = match tls {
        Some(tls) => &mut tls.accept(client).await?,
        None => &mut { client },
    };
    let mut spare = Vec::new();
    while let Some(request) = Message::read(client, &mut spare).await? {
        let part = part_of(&request);
        let number = {
            let mut requests = shared.requests.lock();
            let count = requests.entry(part.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let fault = shared.schedule.fault(&part, number);
        if let Some(fault) = fault {
            shared.fired.lock().push(Fired { part, number, fault });
        }
        match fault {
            Some(Fault::NoResponse) => return client.tcp().set_zero_linger(),
            Some(Fault::Status(status, pause)) => {
                write(client, shared, &refusal(status, pause), &[]).await?;
                continue;
            }
            // A server compares the condition with the new entity tag.
            Some(Fault::Changed) if request.header("if-match").is_some() => {
                write(client, shared, &refusal(412, Pause::None), &[]).await?;
                continue;
            }
            _ => {}
        }
        let (mut head, body) = exchange(shared.upstream, &request).await?;
        if shared.schedule.has_weak_tags
            && let Some(tag) = head.header("etag").map(|tag| format!("W/{tag}"))
        {
            head = head.with("etag", tag);
        }
        if !respond(client, shared, fault, head, body).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the part that a request asks for.
fn part_of(request: &Message) -> RequestPart {
    let last = request.header("range").and_then(|range| range.rsplit_once('-')?.1.parse().ok());
    RequestPart { path: request.second_word().to_owned(), last }
}

/// Sends a request to the server, and returns the response with its whole body.
async fn exchange(upstream: SocketAddr, request: &Message) -> io::Result<(Message, Vec<u8>)> {
    let mut server = TcpStream::connect(upstream).await?;
    server.write_all(&request.to_bytes()).await?;
    let mut body = Vec::new();
    let head = Message::read(&mut server, &mut body).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = head.number("content-length").ok_or_else(|| io::Error::other("a response without a length"))?;
    let missing = length.saturating_sub(body.len() as u64);
    server.take(missing).read_to_end(&mut body).await?;
    Ok((head, body))
}

fn refusal(status: u16, pause: Pause) -> Message {
    let head = Message::response(status).with("content-length", 0);
    let now = SystemTime::now();
    match pause {
        Pause::None => head,
        Pause::Seconds(seconds) => head.with("retry-after", seconds),
        Pause::Date(seconds) => {
            let later = now + Duration::from_secs(seconds.into());
            head.with("date", httpdate::fmt_http_date(now)).with("retry-after", httpdate::fmt_http_date(later))
        }
    }
}

/// Writes a response with its fault. Returns true if the connection can be used again.
async fn respond(
    client: &mut dyn Connection,
    shared: &Shared,
    fault: Option<Fault>,
    head: Message,
    mut body: Vec<u8>,
) -> io::Result<bool> {
    let at = |permille: u16| body.len() * usize::from(permille) / 1000;
    match fault {
        Some(Fault::Cut(permille)) => {
            write(client, shared, &head, &body[..at(permille)]).await?;
            return Ok(false);
        }
        Some(Fault::Reset(permille)) => {
            write(client, shared, &head, &body[..at(permille)]).await?;
            client.tcp().set_zero_linger()?;
            return Ok(false);
        }
        Some(Fault::Stall(permille)) => {
            write(client, shared, &head, &body[..at(permille)]).await?;
            stall(client, &shared.clock).await;
            return Ok(false);
        }
        Some(Fault::Delay) => tokio::time::sleep(TICK).await,
        Some(Fault::Throttle) => {
            write(client, shared, &head, &[]).await?;
            for piece in pieces(&body) {
                tokio::task::yield_now().await;
                write_body(client, shared, piece).await?;
            }
            return Ok(true);
        }
        Some(Fault::Chunked | Fault::ChunkedShort(_)) => {
            let end = if let Some(Fault::ChunkedShort(permille)) = fault { at(permille) } else { body.len() };
            let head = head.without("content-length").with("transfer-encoding", "chunked");
            write(client, shared, &head, &[]).await?;
            for piece in pieces(&body[..end]) {
                client.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
                write_body(client, shared, piece).await?;
                client.write_all(b"\r\n").await?;
            }
            client.write_all(b"0\r\n\r\n").await?;
            client.flush().await?;
            return Ok(true);
        }
        Some(Fault::Empty) => {
            write(client, shared, &head.with("content-length", 0), &[]).await?;
            return Ok(true);
        }
        Some(Fault::WrongRange) => {
            let head = match head.header("content-range").map(shifted) {
                Some(range) => head.with("content-range", range),
                None => head,
            };
            write(client, shared, &head, &body).await?;
            return Ok(true);
        }
        Some(Fault::Changed) => {
            body.iter_mut().for_each(|byte| *byte = !*byte);
            write(client, shared, &head.with("etag", "\"changed\""), &body).await?;
            return Ok(true);
        }
        Some(Fault::Flip(permille)) => {
            let at = at(permille);
            if let Some(byte) = body.get_mut(at) {
                *byte ^= 1 << (permille % 8);
            }
        }
        Some(Fault::NoResponse | Fault::Status(..)) | None => {}
    }
    write(client, shared, &head, &body).await?;
    Ok(true)
}

/// Returns `bytes 10-19/100` as `bytes 11-20/101`.
fn shifted(range: &str) -> String {
    let numbers = range.trim_start_matches("bytes ").split(['-', '/']);
    let next: Vec<u64> = numbers.filter_map(|n| n.parse::<u64>().ok()).map(|n| n + 1).collect();
    match next[..] {
        [first, last, total] => format!("bytes {first}-{last}/{total}"),
        _ => range.to_owned(),
    }
}

fn pieces(body: &[u8]) -> std::slice::Chunks<'_, u8> {
    body.chunks(body.len().div_ceil(PIECES).max(1))
}

async fn write(client: &mut dyn Connection, shared: &Shared, head: &Message, body: &[u8]) -> io::Result<()> {
    client.write_all(&head.to_bytes()).await?;
    write_body(client, shared, body).await
}

async fn write_body(client: &mut dyn Connection, shared: &Shared, body: &[u8]) -> io::Result<()> {
    client.write_all(body).await?;
    client.flush().await?;
    shared.bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// Waits until the client closes the connection, while its clock advances.
async fn stall(client: &mut dyn Connection, clock: &Clock) {
    let mut unused = [0; 64];
    loop {
        tokio::select! {
            // A client that gives up closes; it sends nothing while it waits for a response.
            read = client.read(&mut unused) => if !matches!(read, Ok(n) if n > 0) { return },
            () = tokio::time::sleep(TICK) => clock.advance(STALL_STEP),
        }
    }
}
