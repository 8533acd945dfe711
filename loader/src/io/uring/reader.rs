//! The reader: calls into the ring, results out of it.

use super::probe::probe;
use super::ring::Ring;
use crate::error::{Error, ErrorKind, Result};
use crate::io::op::{ReadOp, Step, no_room};
use crate::io::reader::{Completion, Counters, IoConfig, ReadRequest, Reader};
use crate::io::ready::ReadyQueue;
use crate::memory::ReadPool;
use crate::stats::Stats;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait of a dropped reader for its reads. A slower disk has hung; the slots are then leaked, because the
/// kernel may still write to them.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Reader with its own ring.
pub(in crate::io) struct UringReader {
    /// Closed first: fields drop in order, after `drop` has drained it.
    pub(super) ring: Ring,
    /// Reads that the kernel may be working on; the index is the call's `user_data`. Slot and descriptor of a read are
    /// owned here from before its call enters the ring until its result is there, whether the read succeeds, fails, or
    /// is not needed any more.
    in_flight: Slab<ReadOp>,
    ready: ReadyQueue,
    /// Reads with a next call that is not in the ring yet, by their index in the table.
    unsent: VecDeque<u32>,
    depth: usize,
    /// Results of one wait, kept for its memory.
    results: Vec<(u32, rustix::io::Result<usize>)>,
    stats: Arc<Stats>,
    pool: ReadPool,
    pid: u32,
}

impl UringReader {
    /// Creates a reader with a ring of `config.depth` entries, with the pieces of `pool` as fixed buffers.
    pub(in crate::io) fn new(config: &IoConfig, pool: &ReadPool, stats: &Arc<Stats>) -> Result<Self> {
        probe().map_err(|reason| Error::new(ErrorKind::Unsupported, reason))?;
        Ok(Self {
            ring: Ring::new(config.depth as u32, pool.pieces().to_vec())?,
            in_flight: Slab::with_capacity(config.depth),
            ready: ReadyQueue::new(config.page_cache, Counters::new(stats)),
            unsent: VecDeque::new(),
            depth: config.depth,
            results: Vec::new(),
            stats: stats.clone(),
            pool: pool.clone(),
            pid: std::process::id(),
        })
    }

    /// Puts calls into the ring until it is full or all are in it.
    fn push(&mut self) {
        while let Some(index) = self.unsent.front().copied() {
            let Some(op) = self.in_flight.get_mut(index as usize) else {
                self.unsent.pop_front();
                continue;
            };
            let is_own = op.lease.is_from(&self.pool);
            let mut next = op.next();
            // A slot of a different node's pool is not among the fixed buffers.
            next.piece = next.piece.filter(|_| is_own);
            // SAFETY: slot and file belong to `op`, which stays in the table until `take_results` has its last result,
            // or forever (`drop`).
            if !unsafe { self.ring.push(index, next) } {
                return;
            }
            self.unsent.pop_front();
        }
    }

    fn take_results(&mut self) {
        for (index, result) in self.results.drain(..) {
            let Some(op) = self.in_flight.get_mut(index as usize) else { continue };
            let result = match op.step(result) {
                Step::Continue => {
                    self.ready.counters.continued.add(1);
                    self.unsent.push_back(index);
                    continue;
                }
                Step::Done => Ok(()),
                Step::Failed(e) => Err(e),
            };
            let op = self.in_flight.remove(index as usize);
            self.ready.done.push_back(op.finish(result));
        }
    }

    /// Submits calls and processes results, waiting for them until `until`.
    fn turn(&mut self, until: Option<Instant>) -> Result<()> {
        self.push();
        let waited = self.ring.wait(until, &mut self.results);
        self.take_results();
        waited
    }
}

impl Reader for UringReader {
    fn room(&self) -> usize {
        self.depth - Reader::in_flight(self)
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len() + self.ready.done.len()
    }

    fn ready(&self) -> usize {
        self.ready.done.len()
    }

    fn submit(&mut self, request: ReadRequest) -> Result<()> {
        if self.room() == 0 {
            return Err(no_room(self.depth));
        }
        let Some(op) = self.ready.begin(request) else { return Ok(()) };
        self.ring.enable()?;
        self.unsent.push_back(self.in_flight.insert(op) as u32);
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>, limit: Duration) -> Result<usize> {
        if !self.in_flight.is_empty() {
            self.ring.register_next().unwrap_or_else(|note| self.stats.note(note));
            // Waits are limited to an hour; callers repeat them.
            let until = Some(Instant::now() + limit.min(Duration::from_secs(3600)));
            self.turn(until.filter(|_| self.ready.done.is_empty()))?;
            // A read that continues (short, or without O_DIRECT) has not finished: wait for the rest of the limit.
            while self.ready.done.is_empty() && !self.unsent.is_empty() && until.is_none_or(|u| Instant::now() < u) {
                self.turn(until)?;
            }
        }
        let before = done.len();
        done.extend(self.ready.done.drain(..));
        Ok(done.len() - before)
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }
}

impl Drop for UringReader {
    fn drop(&mut self) {
        // In a forked child the ring is the parent's: neither drain it nor touch its slots.
        let is_own = self.pid == std::process::id();
        let until = Instant::now() + DRAIN_MAX;
        while is_own && !self.in_flight.is_empty() && Instant::now() < until {
            // Reads that would continue are dropped.
            while let Some(index) = self.unsent.pop_front() {
                self.in_flight.try_remove(index as usize);
            }
            if !self.in_flight.is_empty() && self.turn(Some(until)).is_err() {
                break;
            }
        }
        if !self.in_flight.is_empty() {
            if is_own {
                log::error!("{} reads never completed; their memory is leaked", self.in_flight.len());
            }
            // The kernel may still write to their slots.
            std::mem::take(&mut self.in_flight).into_iter().for_each(std::mem::forget);
        }
    }
}
