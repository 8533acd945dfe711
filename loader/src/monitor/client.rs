//! Figures of running jobs, as `forebay top` reads them.

use super::exchange::exchange;
use super::{socket_folder, socket_of};
use crate::error::{Error, ErrorKind, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, header};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Longest time for an answer of a job.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer.
const ANSWER_MAX: usize = 16 << 20;

/// A process with loaders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By its number, on this machine.
    Process(u32),
    /// By `HOST:PORT` of its `engine.metrics`.
    Address(String),
}

impl Target {
    /// Reads a number of a process or `HOST:PORT`.
    ///
    /// # Errors
    ///
    /// `Config` for a different form.
    pub fn parse(text: &str) -> Result<Self> {
        if let Ok(pid) = text.parse() {
            return Ok(Self::Process(pid));
        }
        let place = text.trim_start_matches("prometheus://").trim_start_matches("http://").trim_end_matches('/');
        match place.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self::Address(place.to_owned()))
            }
            _ => Err(Error::config(format!("{text:?} is no number of a process, and no HOST:PORT of engine.metrics"))),
        }
    }

    /// Asks the process for its figures.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such process or it has no loader, `Access` for a process of a different user, `Format`
    /// for an answer that is no figures of a loader.
    pub fn job(&self) -> Result<Job> {
        let refused = |e| Error::from_io(e, "the figures of a job cannot be read");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let answer = runtime.block_on(async { tokio::time::timeout(TIMEOUT, self.ask()).await });
        let body = answer.map_err(|_| Error::new(ErrorKind::Timeout, format!("{self} does not answer")))??;
        let figures = serde_json::from_slice(&body);
        let figures: Value =
            figures.map_err(|e| Error::format(format!("{self} answers no figures of a loader")).caused_by(e))?;
        if !figures["loaders"].is_array() {
            return Err(Error::format(format!("{self} answers no figures of a loader")));
        }
        Ok(Job { target: self.clone(), figures })
    }

    async fn ask(&self) -> Result<Bytes> {
        match self {
            Self::Process(pid) => {
                let socket = socket_of(*pid);
                let refused = |e: std::io::Error| {
                    let is_gone =
                        matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused);
                    let error = Error::from_io(e, format!("process {pid} has no open loader of this user"));
                    if is_gone { error.of_kind(ErrorKind::NotFound) } else { error }
                };
                self.exchange(UnixStream::connect(&socket).await.map_err(refused)?).await
            }
            Self::Address(address) => {
                let refused = |e| Error::from_io(e, format!("{address} does not serve the figures of a loader"));
                self.exchange(TcpStream::connect(address).await.map_err(refused)?).await
            }
        }
    }

    async fn exchange(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Bytes> {
        let request = Request::get("/stats").header(header::HOST, "forebay").body(Full::default());
        let request = request.map_err(|e| Error::internal("a plain request").caused_by(e))?;
        let answer = exchange(stream, request, ANSWER_MAX).await;
        let (status, body) =
            answer.map_err(|e| Error::new(ErrorKind::Io, format!("{self} ended its answer")).caused_by(e))?;
        if !status.is_success() {
            return Err(Error::format(format!("{self} answers {status} and no figures of a loader")));
        }
        Ok(body)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Address(address) => f.write_str(address),
        }
    }
}

/// Figures of a process at one moment.
#[derive(Clone, Debug)]
pub struct Job {
    /// The process.
    pub target: Target,
    /// `version`, `pid` and `loaders`: of each the figures of `stats()`, `rank`, `world_size`, `batch_size` and
    /// `source`.
    pub figures: Value,
}

/// Returns the processes of this user on this machine that have open loaders, or were killed with one, by their
/// numbers.
pub fn running() -> Vec<u32> {
    let pid = |path: PathBuf| path.file_name()?.to_str()?.strip_suffix(".sock")?.parse::<u32>().ok();
    let entries = std::fs::read_dir(socket_folder()).into_iter().flatten().flatten();
    let mut found: Vec<u32> = entries.filter_map(|entry| pid(entry.path())).collect();
    found.sort_unstable();
    found
}
