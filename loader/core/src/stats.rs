//! Time, items and bytes of every stage.
//!
//! A thread looks its [`Stage`] up once; an event then costs one atomic addition. The time of a stage is *busy*,
//! *waiting for input* or *waiting for output*. The bottleneck is the stage that is busy while the next one waits for
//! input.
//!
//! ```
//! use forebay_core::stats::{Stats, TimeKind};
//!
//! let stats = Stats::new(false);
//! let decode = stats.stage("decode");
//! let sum: u64 = decode.timed(TimeKind::Busy, || (0..1_000).sum());
//! decode.done(1_000, sum);
//! assert_eq!(stats.snapshot().stages[0].items, 1_000);
//! ```

mod bottleneck;
mod snapshot;

pub use snapshot::{Snapshot, StageSnapshot};

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, current};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Trace events kept in memory; older ones are dropped and counted.
const TRACE_EVENTS_MAX: usize = 200_000;

/// Kinds of a stage's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// Working.
    Busy,
    /// Waiting for the stage before it.
    Input,
    /// Waiting for the stage after it.
    Output,
}

/// Counters of one stage, shared by all its threads.
#[derive(Debug)]
pub struct Stage {
    name: &'static str,
    /// Nanoseconds by [`TimeKind`].
    times_ns: [AtomicU64; 3],
    items: AtomicU64,
    bytes: AtomicU64,
    trace: Option<Arc<Trace>>,
}

impl Stage {
    /// Adds `time` without a trace event.
    #[inline]
    pub fn add_time(&self, kind: TimeKind, time: Duration) {
        self.times_ns[kind as usize].fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    fn time(&self, kind: TimeKind) -> Duration {
        Duration::from_nanos(self.times_ns[kind as usize].load(Ordering::Relaxed))
    }

    /// Runs `body` and adds its time.
    pub fn timed<T>(&self, kind: TimeKind, body: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = body();
        self.add_time_since(kind, start);
        result
    }

    /// Adds the time since `start`.
    #[inline]
    pub fn add_time_since(&self, kind: TimeKind, start: Instant) {
        let time = start.elapsed();
        self.add_time(kind, time);
        self.trace(kind, start, time);
    }

    /// Adds an event to the trace, if there is one. [`add_time`](Self::add_time) counts the time itself.
    #[inline]
    pub fn trace(&self, kind: TimeKind, start: Instant, time: Duration) {
        if let Some(trace) = &self.trace {
            trace.push(self.name, kind, start, time);
        }
    }

    /// Counts finished work.
    #[inline]
    pub fn done(&self, items: u64, bytes: u64) {
        self.items.fetch_add(items, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The stage's name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// A single number that only grows, such as requests sent or samples skipped.
#[derive(Debug)]
pub struct Counter {
    name: &'static str,
    value: AtomicU64,
}

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.value.fetch_add(n, Ordering::Relaxed);
    }

    /// The sum so far.
    #[inline]
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// All stages and counters of one loader.
#[derive(Debug)]
pub struct Stats {
    start: Instant,
    stages: Mutex<Vec<Arc<Stage>>>,
    counters: Mutex<Vec<Arc<Counter>>>,
    notes: Mutex<Vec<String>>,
    trace: Option<Arc<Trace>>,
}

impl Default for Stats {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Stats {
    /// Empty statistics; `trace` keeps every timed span for [`trace_json`](Self::trace_json).
    pub fn new(trace: bool) -> Self {
        let start = Instant::now();
        let trace = trace.then(|| Arc::new(Trace { start, events: Mutex::default() }));
        Self { start, stages: Mutex::default(), counters: Mutex::default(), notes: Mutex::default(), trace }
    }

    /// The stage called `name`, made on first use. Order of first use is the order of the table.
    pub fn stage(&self, name: &'static str) -> Arc<Stage> {
        let mut stages = self.stages.lock();
        if let Some(stage) = stages.iter().find(|s| s.name == name) {
            return stage.clone();
        }
        let stage = Arc::new(Stage {
            name,
            times_ns: Default::default(),
            items: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            trace: self.trace.clone(),
        });
        stages.push(stage.clone());
        stage
    }

    /// The counter called `name` (`snake_case`, unit last), made on first use.
    pub fn counter(&self, name: &'static str) -> Arc<Counter> {
        let mut counters = self.counters.lock();
        if let Some(counter) = counters.iter().find(|c| c.name == name) {
            return counter.clone();
        }
        let counter = Arc::new(Counter { name, value: AtomicU64::new(0) });
        counters.push(counter.clone());
        counter
    }

    /// Keeps a sentence for the reader of the statistics, once: "reads go through pread: ...".
    pub fn note(&self, text: impl Into<String>) {
        self.note_new(text);
    }

    /// As [`note`](Self::note). Returns true if the sentence is new.
    pub fn note_new(&self, text: impl Into<String>) -> bool {
        let text = text.into();
        let mut notes = self.notes.lock();
        let is_new = !notes.contains(&text);
        if is_new {
            notes.push(text);
        }
        is_new
    }

    /// Returns the current figures.
    pub fn snapshot(&self) -> Snapshot {
        let stages = self.stages.lock().clone();
        let stages = stages.iter().map(|s| StageSnapshot {
            name: s.name,
            busy: s.time(TimeKind::Busy),
            input: s.time(TimeKind::Input),
            output: s.time(TimeKind::Output),
            items: s.items.load(Ordering::Relaxed),
            bytes: s.bytes.load(Ordering::Relaxed),
        });
        Snapshot {
            elapsed: self.start.elapsed(),
            loaders: 1,
            stages: stages.collect(),
            counters: self.counters.lock().iter().map(|c| (c.name, c.get())).collect(),
            notes: self.notes.lock().clone(),
        }
    }

    /// The trace in Chrome's format (opens in Perfetto); `None` unless it is enabled.
    pub fn trace_json(&self) -> Option<String> {
        self.trace.as_ref().map(|t| t.json())
    }
}

/// Bounded queue of timed spans.
#[derive(Debug)]
struct Trace {
    start: Instant,
    events: Mutex<(VecDeque<Event>, u64)>,
}

#[derive(Debug)]
struct Event {
    stage: &'static str,
    kind: TimeKind,
    thread: String,
    at_ns: u64,
    ns: u64,
}

impl Trace {
    fn push(&self, stage: &'static str, kind: TimeKind, at: Instant, time: Duration) {
        let event = Event {
            stage,
            kind,
            thread: current().name().unwrap_or("caller").to_owned(),
            at_ns: at.saturating_duration_since(self.start).as_nanos() as u64,
            ns: time.as_nanos() as u64,
        };
        let mut events = self.events.lock();
        if events.0.len() == TRACE_EVENTS_MAX {
            events.0.pop_front();
            events.1 += 1;
        }
        events.0.push_back(event);
    }

    fn json(&self) -> String {
        let events = self.events.lock();
        let mut out = String::from("{\"traceEvents\":[");
        for (i, e) in events.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let _ = write!(
                out,
                "{comma}\n{{\"name\":\"{} {:?}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{:?},\
                 \"ts\":{:.3},\"dur\":{:.3}}}",
                e.stage,
                e.kind,
                e.stage,
                e.thread,
                e.at_ns as f64 / 1e3,
                e.ns as f64 / 1e3
            );
        }
        let _ = write!(out, "\n],\"otherData\":{{\"dropped_events\":{}}}}}\n", events.1);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_counts_each_kind_of_time_separately() {
        let stats = Stats::new(true);
        let stage = stats.stage("decode");
        stage.add_time(TimeKind::Input, Duration::from_millis(5));
        stage.timed(TimeKind::Busy, || stage.done(1, 100));
        let shot = stats.snapshot();
        assert_eq!(shot.stages[0].input, Duration::from_millis(5));
        assert_eq!((shot.stages[0].items, shot.stages[0].bytes), (1, 100));
        assert!(shot.prometheus("rank=\"0\"").contains("stage=\"decode\",spent=\"input\",rank=\"0\"} 0.005"));
        let trace: serde_json::Value = serde_json::from_str(&stats.trace_json().expect("enabled")).expect("json");
        assert_eq!(trace["traceEvents"][0]["cat"], "decode");
    }
}
