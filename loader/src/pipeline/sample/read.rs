//! Read stage: samples that are not in the page cache, read from disk with a deep queue.
//!
//! There is one read thread per NUMA node. Only this thread takes the node's read slots, and only for open shards. A
//! slot always goes to a decode thread, which waits for nothing but work, so slots return without help.

use super::loose_reads::LooseReads;
use super::miss::{LoadedSample, Miss};
use crate::error::Result;
use crate::io::{Completion, IoConfig, ReadRequest, Reader, reader};
use crate::memory::ReadPool;
use crate::stats::{Counter, Stage, Stats, TimeKind};
use crate::sync::{Arc, sleep};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender};
use forebay_core::flow::Run;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Longest time that a new miss waits while reads are in flight.
const POLL_EVERY: Duration = Duration::from_micros(500);

/// Interval of checks for the end of the run while nothing is in flight.
const IDLE_POLL_EVERY: Duration = Duration::from_millis(100);

/// Queues through which samples reach the read thread of a NUMA node, and return to its decode threads.
#[derive(Clone)]
pub(crate) struct ReadQueues {
    pub(crate) misses: Sender<Miss>,
    pub(crate) loaded: Sender<LoadedSample>,
}

/// Read stage of one NUMA node.
pub(crate) struct ReadStage {
    pub(crate) pool: ReadPool,
    pub(crate) run: Arc<Run>,
    pub(crate) stats: Arc<Stats>,
}

/// State of a read thread from its first miss on.
struct ReadThread<'a> {
    pool: &'a ReadPool,
    reader: Box<dyn Reader>,
    /// Reads of samples that have their own files.
    loose: LooseReads,
    /// Misses that wait for a slot, in order.
    waiting: VecDeque<Miss>,
    /// Misses being read, by token.
    in_flight: Vec<Option<Miss>>,
    /// Unused tokens.
    free: Vec<usize>,
    loaded: &'a Sender<LoadedSample>,
    /// Counts samples that are too large for a read slot.
    unpooled: Arc<Counter>,
    bytes: Arc<Counter>,
}

impl ReadStage {
    /// Reads `misses` until the run stops.
    pub(crate) fn run(&self, misses: &Receiver<Miss>, loaded: &Sender<LoadedSample>) -> Result<()> {
        // The ring is made with the first miss: an epoch that is read from the page cache needs none.
        let stage = self.stats.stage("read");
        let mut thread: Option<ReadThread<'_>> = None;
        let mut done = Vec::new();
        let mut begun = Instant::now();
        loop {
            let idle = thread.as_ref().is_none_or(|t| t.reader.in_flight() == 0 && t.waiting.is_empty());
            match misses.recv_timeout(if idle { IDLE_POLL_EVERY } else { Duration::ZERO }) {
                Ok(miss) => match &mut thread {
                    Some(thread) => thread.waiting.push_back(miss),
                    None => thread.insert(ReadThread::new(self, loaded)?).waiting.push_back(miss),
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if idle => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => {}
            }
            if self.run.is_stopped() {
                return Ok(());
            }
            if idle {
                begun = Instant::now();
            }
            if let Some(thread) = &mut thread {
                // All waiting misses are submitted together, so that the queue fills before the first wait.
                thread.waiting.extend(misses.try_iter());
                thread.submit()?;
                let kind = if thread.reader.in_flight() > 0 { TimeKind::Input } else { TimeKind::Output };
                thread.complete(&mut done, &stage)?;
                // From the end of the last turn: on a machine with too much work this thread waits for a CPU anywhere.
                let end = Instant::now();
                if kind == TimeKind::Input || !thread.waiting.is_empty() {
                    stage.add_time(kind, end - begun);
                    stage.trace(kind, begun, end - begun);
                }
                begun = end;
            }
        }
    }
}

impl<'a> ReadThread<'a> {
    fn new(stage: &'a ReadStage, loaded: &'a Sender<LoadedSample>) -> Result<Self> {
        let ReadStage { pool, stats, .. } = stage;
        // Threads that the reader starts inherit this thread's CPUs.
        let reader = reader(&IoConfig::default(), pool, stats)?;
        stats.note(format!("samples that are not in the page cache are read with {}", reader.name()));
        Ok(Self {
            pool,
            reader,
            loose: LooseReads::new(stage.run.clone(), stats, loaded.clone()),
            waiting: VecDeque::new(),
            in_flight: Vec::new(),
            free: Vec::new(),
            loaded,
            unpooled: stats.counter("samples_unpooled"),
            bytes: stats.counter("reads_bytes"),
        })
    }

    fn submit(&mut self) -> Result<()> {
        while self.reader.room() > 0
            && let Some(miss) = self.waiting.front()
        {
            let Some(slot) = self.pool.try_lease(miss.bytes)? else {
                // All slots are in flight or with decode threads, which return them.
                return Ok(());
            };
            self.unpooled.add(u64::from(slot.piece().is_none()));
            let miss = self.waiting.pop_front().expect("the queue has a front");
            let Some(file) = miss.open.file().filter(|_| miss.large.is_none()).cloned() else {
                self.loose.submit(miss, slot)?;
                continue;
            };
            let token = self.free.pop().unwrap_or_else(|| {
                self.in_flight.push(None);
                self.in_flight.len() - 1
            });
            let offset = miss.offset;
            self.in_flight[token] = Some(miss);
            self.reader.submit(ReadRequest { file, offset, into: slot, token: token as u64 })?;
        }
        Ok(())
    }

    fn complete(&mut self, done: &mut Vec<Completion>, stage: &Stage) -> Result<()> {
        if self.reader.in_flight() > 0 {
            self.reader.wait(done, POLL_EVERY)?;
        } else if !self.waiting.is_empty() {
            // Decode threads have every slot.
            sleep(POLL_EVERY);
        }
        for Completion { token, result } in done.drain(..) {
            let token = token as usize;
            let miss = self.in_flight[token].take().expect("a token completes once");
            self.free.push(token);
            stage.done(1, miss.bytes as u64);
            self.bytes.add(miss.bytes as u64);
            // Fails only when the decode threads have returned, which they do after a stop.
            let _ = self.loaded.send(LoadedSample { miss, slot: result.map(Some) });
        }
        Ok(())
    }
}
