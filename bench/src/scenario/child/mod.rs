//! Loader in a separate Python process, with a protocol of lines (`scripts/child.py` is the second side).

mod usage;

use crate::python::{self, Scripts};
use forebay_loader::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time without an event after which a child is stuck.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// Interval of memory samples, in the first epoch only, since sampling costs time on the measured machine.
const WATCH_EVERY: Duration = Duration::from_millis(250);
/// Interval of memory samples when nothing else is measured.
const WATCH_CLOSELY_EVERY: Duration = Duration::from_millis(20);
/// Lines of the child's standard error in the message of a failure.
const LOG_LINES: usize = 12;

/// Script of the child, unpacked next to the loaders' modules.
pub(super) const SCRIPT: (&str, &str) = ("child.py", include_str!("../../../scripts/child.py"));

/// Event that the child reports.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Ready { versions: BTreeMap<String, String> },
    Converted,
    First(First),
    Epoch(Epoch),
    Digest(Digest),
    Skip { reason: String },
    Error { reason: String },
}

/// First batch.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
pub(super) struct First {
    /// Seconds from the constructor to the batch; modules were imported before.
    pub(super) seconds: f64,
    /// Seconds of the constructor.
    pub(super) open_seconds: Option<f64>,
    shape: Vec<u64>,
    dtype: String,
    /// Mean of all values, which is similar for peers that do the same work.
    mean: f64,
}

/// Drained epoch.
#[derive(Clone, Copy, Debug, Deserialize, serde::Serialize)]
pub(super) struct Epoch {
    /// Samples delivered.
    pub(super) items: u64,
    /// Wall time.
    pub(super) seconds: f64,
    /// Seconds from the beginning to the first batch.
    pub(super) first_seconds: Option<f64>,
    /// CPU time of the whole process tree.
    pub(super) cpu_seconds: f64,
    /// Token ids and padding, of a peer that counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slots: Option<u64>,
}

/// Digest of all token ids of an epoch. It does not depend on the order of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Digest {
    /// Number of ids.
    pub(super) tokens: u64,
    /// Differs for different ends of documents.
    documents: u64,
    /// Differs only for different ids.
    pub(super) ids: u64,
}

/// Schedule of memory samples of a child's process tree in its first epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Only after the epoch.
    Never,
    /// At intervals from the first batch on.
    AfterFirst,
    /// At short intervals from before the constructor on, for a child without measured times.
    Closely,
}

/// Running child. Dropping it ends the process.
pub(super) struct Peer {
    process: Child,
    input: Option<ChildStdin>,
    events: Receiver<Event>,
    log: PathBuf,
    /// Version by package.
    pub(super) versions: BTreeMap<String, String>,
    /// Peak of the sampled memory of its process tree.
    pub(super) memory_bytes_max: u64,
}

impl Peer {
    /// Starts `module` and waits until its imports are done.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the peer is not installed there. Every further kind is a failure.
    pub(super) fn start(scripts: &Scripts, python: &Path, module: &str, config: &serde_json::Value) -> Result<Self> {
        let (log, stderr) = scripts.log(module)?;
        let mut process = Command::new(python)
            .args([&scripts.path("child.py"), &PathBuf::from(module)])
            .arg(config.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|e| python::cannot_start(e, python))?;
        let output = process.stdout.take().expect("standard output is a pipe");
        let input = process.stdin.take();
        let (send, events) = channel();
        // The thread ends with the child's last line, or when the receiver is dropped.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|e| Event::Error {
                    reason: format!("a line that is not part of the protocol: {e}"),
                });
                if send.send(event).is_err() {
                    break;
                }
            }
        });
        let mut peer = Self { process, input, events, log, versions: BTreeMap::new(), memory_bytes_max: 0 };
        match peer.next(SILENCE_MAX)? {
            Some(Event::Ready { versions }) => peer.versions = versions,
            other => return Err(peer.unexpected(&other)),
        }
        Ok(peer)
    }

    /// Makes the peer's form of the data set.
    pub(super) fn convert(&mut self) -> Result<()> {
        self.send("convert")?;
        match self.next(SILENCE_MAX)? {
            Some(Event::Converted) => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Drains the first epoch, which builds the loader.
    pub(super) fn first_epoch(&mut self, watch: Watch) -> Result<(First, Epoch)> {
        self.send("epoch")?;
        let before = (watch == Watch::Closely).then_some(WATCH_CLOSELY_EVERY);
        let first = self.wait(before, |event| match event {
            Event::First(first) => Ok(first),
            other => Err(other),
        })?;
        let after = if watch == Watch::AfterFirst { Some(WATCH_EVERY) } else { before };
        let epoch = self.wait(after, |event| match event {
            Event::Epoch(epoch) => Ok(epoch),
            other => Err(other),
        })?;
        Ok((first, epoch))
    }

    /// Waits for an event and samples the memory at the interval `watch`.
    fn wait<T>(&mut self, watch: Option<Duration>, take: impl Fn(Event) -> std::result::Result<T, Event>) -> Result<T> {
        let start = Instant::now();
        loop {
            if watch.is_some() {
                self.sample_memory();
            }
            match self.next(watch.unwrap_or(SILENCE_MAX))? {
                Some(event) => {
                    if watch.is_some() {
                        self.sample_memory();
                    }
                    return take(event).map_err(|other| self.unexpected(&Some(other)));
                }
                None if start.elapsed() < SILENCE_MAX => {}
                None => return Err(self.unexpected(&None)),
            }
        }
    }

    /// Drains one more epoch without memory samples during it.
    pub(super) fn epoch(&mut self) -> Result<Epoch> {
        self.send("epoch")?;
        let epoch = self.wait(None, |event| match event {
            Event::Epoch(epoch) => Ok(epoch),
            other => Err(other),
        })?;
        self.sample_memory();
        Ok(epoch)
    }

    /// Drains an epoch that is not measured.
    pub(super) fn digest(&mut self) -> Result<Digest> {
        self.send("digest")?;
        self.wait(None, |event| match event {
            Event::Digest(digest) => Ok(digest),
            other => Err(other),
        })
    }

    fn sample_memory(&mut self) {
        self.memory_bytes_max = self.memory_bytes_max.max(usage::memory_bytes(self.process.id()));
    }

    fn send(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().expect("open until drop");
        let sent = writeln!(input, "{line}").and_then(|()| input.flush());
        sent.map_err(|e| self.failed("it ended early").caused_by(e))
    }

    /// Returns the next event, or `None` after `wait` without one.
    fn next(&mut self, wait: Duration) -> Result<Option<Event>> {
        match self.events.recv_timeout(wait) {
            Ok(Event::Skip { reason }) => Err(Error::new(ErrorKind::Unsupported, reason)),
            Ok(Event::Error { reason }) => Err(self.failed(&reason)),
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.failed("it ended early")),
        }
    }

    fn unexpected(&self, event: &Option<Event>) -> Error {
        match event {
            None => self.failed(&format!("no event for {} s", SILENCE_MAX.as_secs())),
            Some(event) => self.failed(&format!("unexpected event: {event:?}")),
        }
    }

    fn failed(&self, why: &str) -> Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        Error::new(ErrorKind::Io, format!("{why}\n{tail}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // At the end of its input the child stops its workers and exits. A stuck child is killed.
        drop(self.input.take());
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(5) {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // Both fail only if the child has ended meanwhile.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
