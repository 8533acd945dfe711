//! A crew's read thread: samples that are not in the page cache, from disk, with a deep queue.
//!
//! It alone takes the crew's read slots, for open shards only, and a slot is always on its way to a decode thread, which waits for
//! nothing but work. So slots come back by themselves (DESIGN's second rule).

use crate::error::Result;
use crate::io::{Completion, IoConfig, ReadRequest, Reader, reader};
use crate::memory::ReadPool;
use crate::pipeline::epoch::Shared;
use crate::pipeline::{Brought, Loaded, Miss};
use crate::stats::{Counter, Stage, TimeKind};
use crate::sync::{Arc, sleep};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// While reads are in flight, how long a new miss may have to wait until it is looked at.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// While nothing is in flight, how often the end of the run is looked for.
const IDLE: Duration = Duration::from_millis(100);

/// How often shards that were evicted are closed, and those that are kept for later given up if others need the room now.
/// It is done here because this thread never waits for the shard plane: another process may wait for the room while this
/// one waits for the shard that is to have it.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

struct ReadThread<'a> {
    reads: &'a ReadPool,
    reader: Box<dyn Reader>,
    /// Misses that wait for a slot, in order.
    waiting: VecDeque<Miss>,
    /// Misses being read, by token.
    in_flight: Vec<Option<Miss>>,
    /// Tokens that are free.
    free: Vec<usize>,
    loaded: &'a Sender<Loaded>,
    /// Counts samples that no read slot holds.
    unpooled: Arc<Counter>,
}

/// Serves the `misses` of crew number `crew` until the run stops.
pub(crate) fn run(shared: &Shared, crew: usize, misses: &Receiver<Miss>, loaded: &Sender<Loaded>) -> Result<()> {
    // The ring is made with the first miss: an epoch that is read from the page cache needs none.
    let stage = shared.stats.stage("read");
    let mut thread: Option<ReadThread<'_>> = None;
    let mut done = Vec::new();
    let mut swept = Instant::now();
    loop {
        // Once for all crews.
        if crew == 0 && swept.elapsed() >= SWEEP_EVERY {
            shared.open.sweep();
            shared.source.share_room(shared);
            swept = Instant::now();
        }
        let idle = thread.as_ref().is_none_or(|t| t.reader.in_flight() == 0 && t.waiting.is_empty());
        match if idle { misses.recv_timeout(IDLE) } else { misses.try_recv().map_err(timeout) } {
            Ok(miss) => match &mut thread {
                Some(thread) => thread.waiting.push_back(miss),
                None => {
                    thread.insert(ReadThread::new(shared, &shared.crews[crew].reads, loaded)?).waiting.push_back(miss)
                }
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if idle => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => {}
        }
        if shared.run.is_stopped() {
            return Ok(());
        }
        if let Some(thread) = &mut thread {
            // Everything that has come in goes out in one go, so the queue fills before the first wait.
            thread.waiting.extend(misses.try_iter());
            thread.submit()?;
            thread.complete(&mut done, &stage)?;
        }
    }
}

fn timeout(error: TryRecvError) -> RecvTimeoutError {
    match error {
        TryRecvError::Empty => RecvTimeoutError::Timeout,
        TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
    }
}

impl<'a> ReadThread<'a> {
    fn new(shared: &Shared, reads: &'a ReadPool, loaded: &'a Sender<Loaded>) -> Result<Self> {
        // Threads that the reader starts are bound as this one is.
        let reader = reader(&IoConfig::default(), reads, &shared.stats)?;
        shared.stats.note(format!("samples that are not in the page cache are read with {}", reader.name()));
        Ok(Self {
            reads,
            reader,
            waiting: VecDeque::new(),
            in_flight: Vec::new(),
            free: Vec::new(),
            loaded,
            unpooled: shared.stats.counter("samples_unpooled"),
        })
    }

    fn submit(&mut self) -> Result<()> {
        while self.reader.room() > 0
            && let Some(miss) = self.waiting.front()
        {
            let Some(slot) = self.reads.try_lease(miss.bytes)? else {
                // All slots are with the decode threads or in flight; one comes back without our help.
                return Ok(());
            };
            self.unpooled.add(u64::from(slot.piece().is_none()));
            let miss = self.waiting.pop_front().expect("looked at just now");
            let token = self.free.pop().unwrap_or_else(|| {
                self.in_flight.push(None);
                self.in_flight.len() - 1
            });
            let (file, offset) = (miss.open.file().clone(), miss.offset);
            self.in_flight[token] = Some(miss);
            self.reader.submit(ReadRequest { file, offset, into: slot, token: token as u64 })?;
        }
        Ok(())
    }

    fn complete(&mut self, done: &mut Vec<Completion>, stage: &Stage) -> Result<()> {
        if self.reader.in_flight() > 0 {
            stage.timed(TimeKind::Input, || self.reader.wait(done, LOOK_EVERY))?;
        } else if !self.waiting.is_empty() {
            // Every slot is being decoded.
            stage.timed(TimeKind::Output, || sleep(LOOK_EVERY));
        }
        for Completion { token, result } in done.drain(..) {
            let token = token as usize;
            let miss = self.in_flight[token].take().expect("a token completes once");
            self.free.push(token);
            stage.done(1, miss.bytes as u64);
            // An error means that the decode threads are gone, which only a stop brings about.
            let _ = self.loaded.send(Loaded { miss, brought: result.map(Brought::Bytes) });
        }
        Ok(())
    }
}
