//! Plain reads on a few threads, for systems without io_uring.

use super::op::ReadOp;
use super::reader::{Completion, Counters, IoConfig, ReadRequest, Reader};
use super::ready::ReadyQueue;
use crate::error::{Error, Result};
use crate::stats::Stats;
use crate::sync::{self, JoinHandle};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::time::Duration;

/// Reader with `pread`: hot data on the calling thread, cold data on threads that start with the first miss.
pub(super) struct PreadReader {
    depth: usize,
    threads: usize,
    workers: Option<Workers>,
    /// Reads that the threads have.
    submitted: usize,
    ready: ReadyQueue,
}

struct Workers {
    /// `None` during the drop: the threads end when the channel is closed.
    ops: Option<Sender<ReadOp>>,
    done: Receiver<Completion>,
    threads: Vec<JoinHandle<()>>,
    pid: u32,
}

impl PreadReader {
    /// Creates a reader with `config.pread_threads` threads. With none, `submit` makes every read itself.
    pub(super) fn new(config: &IoConfig, stats: &Stats) -> Self {
        Self {
            depth: config.depth,
            threads: config.pread_threads.min(config.depth),
            workers: None,
            submitted: 0,
            ready: ReadyQueue::new(config.page_cache, Counters::new(stats)),
        }
    }

    fn workers(&mut self) -> Result<&Workers> {
        match self.workers {
            Some(ref workers) => Ok(workers),
            None => Ok(self.workers.insert(Workers::start(self.threads, self.depth, &self.ready.counters)?)),
        }
    }
}

impl Workers {
    fn start(threads: usize, depth: usize, counters: &Counters) -> Result<Self> {
        // Both have room for every read in flight, so neither side ever waits to send.
        let (ops, queued) = bounded::<ReadOp>(depth);
        let (results, done) = bounded::<Completion>(depth);
        let mut workers = Self { ops: Some(ops), done, threads: Vec::new(), pid: std::process::id() };
        for i in 0..threads {
            let (queued, results, counters) = (queued.clone(), results.clone(), counters.clone());
            let body = move || {
                for mut op in queued {
                    let result = op.run(&counters);
                    if results.send(op.finish(result)).is_err() {
                        return;
                    }
                }
            };
            match sync::spawn(format!("fb-pread-{i}"), body) {
                Ok(thread) => workers.threads.push(thread),
                // Fewer threads than configured do the same work.
                Err(_) if i > 0 => break,
                Err(e) => return Err(Error::from_io(e, "the system rejects a thread for reading: check ulimit -u")),
            }
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.ops = None;
        // A forked child does not have these threads.
        if self.pid == std::process::id() {
            self.threads.drain(..).for_each(|thread| {
                let _ = thread.join();
            });
        }
    }
}

impl Reader for PreadReader {
    fn room(&self) -> usize {
        self.depth - self.in_flight()
    }

    fn in_flight(&self) -> usize {
        self.submitted + self.ready.done.len()
    }

    fn ready(&self) -> usize {
        self.ready.done.len()
    }

    fn submit(&mut self, request: ReadRequest) -> Result<()> {
        if self.room() == 0 {
            return Err(super::op::no_room(self.depth));
        }
        let Some(mut op) = self.ready.begin(request) else { return Ok(()) };
        if self.threads == 0 {
            let result = op.run(&self.ready.counters);
            self.ready.done.push_back(op.finish(result));
            return Ok(());
        }
        if self.workers()?.ops.as_ref().is_none_or(|ops| ops.send(op).is_err()) {
            return Err(Error::internal("the threads that read have ended"));
        }
        self.submitted += 1;
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>, limit: Duration) -> Result<usize> {
        let before = done.len();
        done.extend(self.ready.done.drain(..));
        if self.submitted > 0
            && let Some(workers) = &self.workers
        {
            if done.len() == before {
                match workers.done.recv_timeout(limit) {
                    Ok(completion) => {
                        self.submitted -= 1;
                        done.push(completion);
                    }
                    Err(RecvTimeoutError::Timeout) => return Ok(0),
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Error::internal("the threads that read have ended"));
                    }
                }
            }
            while let Ok(completion) = workers.done.try_recv() {
                self.submitted -= 1;
                done.push(completion);
            }
        }
        Ok(done.len() - before)
    }

    fn name(&self) -> &'static str {
        "pread"
    }
}
