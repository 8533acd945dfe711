//! One loader in its own Python process, spoken to in lines (`scripts/child.py` is the other side).

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

/// A child that says nothing for this long is stuck.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// Memory is looked at this often, in the first epoch only: reading it costs the machine that is being measured.
const WATCH_EVERY: Duration = Duration::from_millis(250);
/// And this often where nothing else is measured.
const WATCH_CLOSELY_EVERY: Duration = Duration::from_millis(20);
/// Lines of the child's standard error that a failure shows.
const LOG_LINES: usize = 12;

/// The other side, to be unpacked beside the loaders' modules.
pub(super) const SCRIPT: (&str, &str) = ("child.py", include_str!("../../../scripts/child.py"));

/// What the child says.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Ready { versions: BTreeMap<String, String> },
    Converted,
    First(First),
    Epoch(Epoch),
    Skip { reason: String },
    Error { reason: String },
}

/// The first batch.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
pub(super) struct First {
    /// From the constructor to the batch; modules were imported before.
    pub(super) seconds: f64,
    /// The constructor alone.
    pub(super) open_seconds: Option<f64>,
    shape: Vec<u64>,
    dtype: String,
    /// Mean of all values: peers that do the same work come out alike.
    mean: f64,
}

/// One drained epoch.
#[derive(Clone, Copy, Debug, Deserialize, serde::Serialize)]
pub(super) struct Epoch {
    /// Samples delivered.
    pub(super) items: u64,
    /// Wall time.
    pub(super) seconds: f64,
    /// From the beginning to the first batch.
    pub(super) first_seconds: Option<f64>,
    /// CPU time of the whole process tree.
    pub(super) cpu_seconds: f64,
}

/// How the memory of a child's tree is watched in its first epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Only when it is over.
    Never,
    /// Now and then, from the first batch on.
    AfterFirst,
    /// From before the constructor on and often: for a child that nobody times.
    Closely,
}

/// A running child. Dropping it ends it.
pub(super) struct Peer {
    process: Child,
    input: Option<ChildStdin>,
    events: Receiver<Event>,
    log: PathBuf,
    /// Package: version.
    pub(super) versions: BTreeMap<String, String>,
    /// Most memory that its tree was seen to hold.
    pub(super) memory_bytes_max: u64,
}

impl Peer {
    /// Starts `module` and waits until its imports are done.
    ///
    /// # Errors
    ///
    /// `Unsupported` when the peer is not installed there; anything else is a failure.
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
        // The thread ends with the child's last line, or when nobody listens any more.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                let event = serde_json::from_str(&line)
                    .unwrap_or_else(|e| Event::Error { reason: format!("a line that is not the protocol's: {e}") });
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

    /// Makes the peer's own form of the data set.
    pub(super) fn convert(&mut self) -> Result<()> {
        self.say("convert")?;
        match self.next(SILENCE_MAX)? {
            Some(Event::Converted) => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Drains the first epoch, which builds the loader.
    pub(super) fn first_epoch(&mut self, watch: Watch) -> Result<(First, Epoch)> {
        self.say("epoch")?;
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

    /// Waits for an event, and looks at the memory meanwhile as often as `watch` says.
    fn wait<T>(&mut self, watch: Option<Duration>, take: impl Fn(Event) -> std::result::Result<T, Event>) -> Result<T> {
        let start = Instant::now();
        loop {
            if watch.is_some() {
                self.look();
            }
            match self.next(watch.unwrap_or(SILENCE_MAX))? {
                Some(event) => {
                    if watch.is_some() {
                        self.look();
                    }
                    return take(event).map_err(|other| self.unexpected(&Some(other)));
                }
                None if start.elapsed() < SILENCE_MAX => {}
                None => return Err(self.unexpected(&None)),
            }
        }
    }

    /// Drains one more epoch, undisturbed.
    pub(super) fn epoch(&mut self) -> Result<Epoch> {
        self.say("epoch")?;
        let epoch = self.wait(None, |event| match event {
            Event::Epoch(epoch) => Ok(epoch),
            other => Err(other),
        })?;
        self.look();
        Ok(epoch)
    }

    fn look(&mut self) {
        self.memory_bytes_max = self.memory_bytes_max.max(usage::memory_bytes(self.process.id()));
    }

    fn say(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().expect("open until drop");
        let sent = writeln!(input, "{line}").and_then(|()| input.flush());
        sent.map_err(|e| self.failed("it ended early").caused_by(e))
    }

    /// The next event, or `None` when `wait` passed without one.
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
            None => self.failed(&format!("it said nothing for {} s", SILENCE_MAX.as_secs())),
            Some(event) => self.failed(&format!("it answered out of turn: {event:?}")),
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
        // End of input is the polite way and lets it take its workers down; a stuck one is ended.
        drop(self.input.take());
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(5) {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // Both fail only if it has ended meanwhile, which is what we want.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
