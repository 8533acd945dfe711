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
mod counter;
mod help;
mod interval;
mod overlap;
mod snapshot;
mod time_kind;
mod trace;
mod waits;

pub use bottleneck::{Bottleneck, bottleneck};
pub use counter::Counter;
pub use interval::interval;
pub use overlap::Overlap;
pub use snapshot::{Labelled, Snapshot, StageSnapshot, Threads, prometheus};
pub use time_kind::TimeKind;
pub use trace::working_on;
pub use waits::{Waits, WaitsSnapshot};

use crate::sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering};
use std::time::{Duration, Instant};
use trace::Trace;

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
    #[inline]
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

/// All stages and counters of one loader.
#[derive(Debug)]
pub struct Stats {
    start: Instant,
    stages: Mutex<Vec<Arc<Stage>>>,
    counters: Mutex<Vec<Arc<Counter>>>,
    notes: Mutex<Vec<String>>,
    threads: Mutex<Threads>,
    waits: Waits,
    fetching: OnceLock<Overlap>,
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
        let trace = trace.then(|| Arc::new(Trace::new(start)));
        let (stages, counters, notes) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (threads, waits, fetching) = (Mutex::default(), Waits::default(), OnceLock::new());
        Self { start, stages, counters, notes, threads, waits, fetching, trace }
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
        if let Some(counter) = counters.iter().find(|c| c.name() == name) {
            return counter.clone();
        }
        let counter = Arc::new(Counter::new(name));
        counters.push(counter.clone());
        counter
    }

    /// Waits of the consumer for batches.
    #[inline]
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Time in which at least one thread fetches, in the counter `fetching_us`.
    pub fn fetching(&self) -> &Overlap {
        self.fetching.get_or_init(|| Overlap::new(self.counter("fetching_us")))
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

    /// Sets the numbers of threads that work on samples.
    pub fn set_threads(&self, threads: Threads) {
        *self.threads.lock() = threads;
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
            counters: self.counters.lock().iter().map(|c| (c.name(), c.get())).collect(),
            notes: self.notes.lock().clone(),
            threads: *self.threads.lock(),
            waits: self.waits.snapshot(),
        }
    }

    /// The trace in Chrome's format (opens in Perfetto); `None` unless it is enabled.
    pub fn trace_json(&self) -> Option<String> {
        self.trace.as_ref().map(|t| t.json())
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
        let spans: Vec<_> = events(&trace).filter(|event| event["ph"] == "X").collect();
        assert_eq!(spans[0]["cat"], "decode");
    }

    fn events(trace: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
        trace["traceEvents"].as_array().expect("a list").iter()
    }

    #[test]
    fn spans_have_their_batch_and_threads_their_names() {
        let stats = Stats::new(true);
        let stage = stats.stage("place");
        let work = |batch| {
            working_on(batch);
            stage.timed(TimeKind::Busy, || ());
        };
        std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name("forebay-decode-3".to_owned());
            named.spawn_scoped(scope, || [Some(7), None].into_iter().for_each(work)).expect("a thread");
        });
        work(Some(8));
        working_on(None);
        let trace: serde_json::Value = serde_json::from_str(&stats.trace_json().expect("enabled")).expect("json");
        let spans: Vec<_> = events(&trace).filter(|event| event["ph"] == "X").collect();
        let batches: Vec<_> = spans.iter().map(|span| span["args"]["batch"].as_u64()).collect();
        assert_eq!(batches, [Some(7), None, Some(8)]);
        let names: Vec<_> = events(&trace).filter(|event| event["name"] == "thread_name").collect();
        assert_eq!(names[0]["args"]["name"], "forebay-decode-3");
        assert!(spans[0]["tid"].is_u64() && spans[0]["tid"] == names[0]["tid"] && spans[2]["tid"] != names[0]["tid"]);
    }

    #[test]
    fn every_metric_of_prometheus_has_its_help_and_type_once() {
        let stats = Stats::new(false);
        stats.stage("decode").done(1, 2);
        for name in ["samples_skipped", "of_a_second_crate"] {
            stats.counter(name).add(1);
        }
        let text = stats.snapshot().prometheus("rank=\"0\"");
        let names = |start: &str| -> Vec<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(start));
            lines.filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
        };
        assert_eq!(names("# HELP "), names("# TYPE "));
        assert_eq!(names("# HELP ").len(), 6);
        assert!(text.contains("# HELP forebay_samples_skipped_total samples left out by skip.errors\n"), "{text}");
        assert!(text.contains("# HELP forebay_of_a_second_crate_total of a second crate\n"), "{text}");
    }
}
