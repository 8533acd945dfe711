//! Reads by io_uring: a deep queue at a tenth of the CPU that as many threads cost.
//!
//! * `probe`: whether this process may have a ring at all, and the sentence if not;
//! * `ring`: the ring itself, every call that is unsafe or has error numbers;
//! * `in_flight`: owns what the kernel may touch, until the kernel has said that it is done.
//!
//! The ring is made disabled, so that the reader can move to its thread; the first use enables it and from then on it
//! belongs to that thread. The pool's pieces are registered one by one, as the background thread has populated them: to
//! register a piece without pages would mean to touch it first, seconds for a large pool.
//!
//! Order of the end: drain, then close, then unmap.

mod in_flight;
mod probe;
mod refusal;
mod ring;
#[cfg(test)]
mod tests;

pub use probe::{Probe, probe};

use super::op::{Step, no_room};
use super::ready::Ready;
use super::{Completion, Counters, IoConfig, ReadRequest, Reader};
use crate::error::Result;
use crate::memory::ReadPool;
use crate::stats::Stats;
use in_flight::InFlight;
use ring::{Registered, Ring};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a dropped reader waits for its reads. A disk that is slower has hung; its slots are then given up for good,
/// since the kernel may still write into them.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Reads through a ring of its own.
pub struct UringReader {
    /// Closed first: fields drop in order, after `drop` has drained it.
    ring: Ring,
    in_flight: InFlight,
    ready: Ready,
    /// Reads whose next call has not been put into the ring, by their index in the table.
    unsent: VecDeque<u32>,
    depth: usize,
    /// Filled by each wait and kept for its memory.
    results: Vec<(u32, rustix::io::Result<usize>)>,
    stats: Arc<Stats>,
    pool: ReadPool,
    pid: u32,
}

impl UringReader {
    /// A reader with a ring of `config.depth` entries, whose fixed buffers are the pieces of `pool`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the process may have no ring, with the likely
    /// cause.
    pub fn new(config: &IoConfig, pool: &ReadPool, stats: &Arc<Stats>) -> Result<Self> {
        probe().into_result()?;
        let pieces = if config.fixed_buffers { pool.pieces().to_vec() } else { Vec::new() };
        Ok(Self {
            ring: Ring::new(config.depth as u32, pieces)?,
            in_flight: InFlight::new(config.depth),
            ready: Ready::new(config.page_cache, Counters::new(stats)),
            unsent: VecDeque::new(),
            depth: config.depth,
            results: Vec::new(),
            stats: stats.clone(),
            pool: pool.clone(),
            pid: std::process::id(),
        })
    }

    /// Puts calls into the ring until it is full or none is left.
    fn push(&mut self) {
        while let Some(index) = self.unsent.front().copied() {
            let Some(op) = self.in_flight.get_mut(index) else {
                self.unsent.pop_front();
                continue;
            };
            let ours = op.is_from(&self.pool);
            let mut next = op.next();
            // Another node's slot is not among our fixed buffers.
            next.piece = next.piece.filter(|_| ours);
            // SAFETY: slot and file belong to `op`, which stays in the table until `take` has its last result, or for
            // ever (`InFlight::leak`).
            if !unsafe { self.ring.push(index, next) } {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// Looks at the results of one wait.
    fn take(&mut self) {
        for (index, result) in self.results.drain(..) {
            let Some(op) = self.in_flight.get_mut(index) else { continue };
            let result = match op.step(result) {
                Step::Again => {
                    self.ready.counters.again.add(1);
                    self.unsent.push_back(index);
                    continue;
                }
                Step::Done => Ok(()),
                Step::Failed(e) => Err(e),
            };
            if let Some(op) = self.in_flight.remove(index) {
                self.ready.push(op.finish(result));
            }
        }
    }

    /// Hands calls over and looks at what has come, waiting for it until `until`.
    fn turn(&mut self, until: Option<Instant>) -> Result<()> {
        self.push();
        let waited = self.ring.wait(until, &mut self.results);
        self.take();
        waited
    }
}

impl Reader for UringReader {
    fn room(&self) -> usize {
        self.depth - Reader::in_flight(self)
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len() + self.ready.len()
    }

    fn ready(&self) -> usize {
        self.ready.len()
    }

    fn submit(&mut self, request: ReadRequest) -> Result<()> {
        if self.room() == 0 {
            return Err(no_room(self.depth));
        }
        let Some(op) = self.ready.begin(request) else { return Ok(()) };
        self.ring.enable()?;
        let index = self.in_flight.insert(op).map_err(|_| no_room(self.depth))?;
        self.unsent.push_back(index);
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>, limit: Duration) -> Result<usize> {
        if self.in_flight.len() > 0 {
            if let Registered::Refused(note) = self.ring.register_next() {
                self.stats.note(note);
            }
            // Longer waits than an hour come back empty and are asked for again.
            let until = Some(Instant::now() + limit.min(Duration::from_secs(3600)));
            self.turn(if self.ready.len() == 0 { until } else { None })?;
            // A read that goes on (short, refused O_DIRECT) is none that has finished: wait for the rest of the limit.
            while self.ready.len() == 0 && !self.unsent.is_empty() && until.is_none_or(|u| Instant::now() < u) {
                self.turn(until)?;
            }
        }
        Ok(self.ready.hand_out(done))
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }
}

impl Drop for UringReader {
    fn drop(&mut self) {
        // In a forked child the ring is the parent's: neither drain it nor touch its slots.
        let ours = self.pid == std::process::id();
        let until = Instant::now() + DRAIN_MAX;
        while ours && self.in_flight.len() > 0 && Instant::now() < until {
            // What goes on is let go: nobody waits for it.
            while let Some(index) = self.unsent.pop_front() {
                self.in_flight.remove(index);
            }
            if self.in_flight.len() > 0 && self.turn(Some(until)).is_err() {
                break;
            }
        }
        if self.in_flight.len() > 0 {
            if ours {
                log::error!("{} reads never came back; their memory is given up", self.in_flight.len());
            }
            self.in_flight.leak();
        }
    }
}
