//! Timed spans of the stages, in the format of Chrome's traces.

use super::time_kind::TimeKind;
use crate::sync::{Mutex, current};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Trace events kept in memory; older ones are dropped and counted.
const EVENTS_MAX: usize = 200_000;

thread_local! {
    static BATCH: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Sets the number of the batch that this thread works on, which its next spans have; `None` for work on no batch.
#[inline]
pub fn working_on(batch: Option<u64>) {
    BATCH.set(batch);
}

/// Bounded queue of timed spans.
#[derive(Debug)]
pub(super) struct Trace {
    start: Instant,
    events: Mutex<Events>,
}

#[derive(Debug, Default)]
struct Events {
    kept: VecDeque<Event>,
    dropped: u64,
    /// Names of the threads: the index of one is its number.
    threads: Vec<String>,
}

#[derive(Debug)]
struct Event {
    stage: &'static str,
    kind: TimeKind,
    batch: Option<u64>,
    thread: usize,
    at_ns: u64,
    ns: u64,
}

impl Trace {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, events: Mutex::default() }
    }

    pub(super) fn push(&self, stage: &'static str, kind: TimeKind, at: Instant, time: Duration) {
        let thread = current();
        let name = thread.name().unwrap_or("caller");
        let mut events = self.events.lock();
        let known = events.threads.iter().position(|known| known == name);
        let thread = known.unwrap_or_else(|| {
            events.threads.push(name.to_owned());
            events.threads.len() - 1
        });
        if events.kept.len() == EVENTS_MAX {
            events.kept.pop_front();
            events.dropped += 1;
        }
        events.kept.push_back(Event {
            stage,
            kind,
            batch: BATCH.get(),
            thread,
            at_ns: at.saturating_duration_since(self.start).as_nanos() as u64,
            ns: time.as_nanos() as u64,
        });
    }

    pub(super) fn json(&self) -> String {
        let events = self.events.lock();
        let mut out = String::from(
            "{\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"forebay\"}}",
        );
        for (number, name) in events.threads.iter().enumerate() {
            let _ = write!(
                out,
                ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{number},\"args\":{{\"name\":{name:?}}}}}"
            );
        }
        for e in &events.kept {
            let batch = e.batch.map_or_else(String::new, |batch| format!("\"batch\":{batch}"));
            let _ = write!(
                out,
                ",\n{{\"name\":\"{} {:?}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\
                 \"ts\":{:.3},\"dur\":{:.3},\"args\":{{{batch}}}}}",
                e.stage,
                e.kind,
                e.stage,
                e.thread,
                e.at_ns as f64 / 1e3,
                e.ns as f64 / 1e3
            );
        }
        let _ = write!(out, "\n],\"otherData\":{{\"dropped_events\":{}}}}}\n", events.dropped);
        out
    }
}
