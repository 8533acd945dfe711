//! Reads of samples that have their own files or are large, on threads that wait for the disk or a file server.
//!
//! A sample with its own files costs a look-up of its name, too, which no ring does in the background on all kernels. A
//! [large](super::large) one has several parts with different destinations. The threads start with the first miss.

use super::miss::{LoadedSample, Miss};
use crate::error::{Error, Result};
use crate::memory::ReadLease;
use crate::stats::{Counter, Stage, Stats, TimeKind};
use crate::sync::{self, Arc, JoinHandle};
use crossbeam::channel::{Receiver, Sender, unbounded};
use forebay_core::flow::Run;

/// Threads of a NUMA node. A file server takes a millisecond or two for a name and its file.
const THREADS: usize = 32;

/// Samples in flight, each with its slot: so the pool bounds them.
type Read = (Miss, ReadLease);

/// Reads of one read thread.
pub(super) struct LooseReads {
    run: Arc<Run>,
    stage: Arc<Stage>,
    bytes: Arc<Counter>,
    loaded: Sender<LoadedSample>,
    /// `None` before the first read.
    reads: Option<Sender<Read>>,
    threads: Vec<JoinHandle<()>>,
}

impl LooseReads {
    /// Sends samples to `loaded`, until `run` stops.
    pub(super) fn new(run: Arc<Run>, stats: &Stats, loaded: Sender<LoadedSample>) -> Self {
        Self {
            run,
            stage: stats.stage("read"),
            bytes: stats.counter("reads_bytes"),
            loaded,
            reads: None,
            threads: Vec::new(),
        }
    }

    /// Starts to read the whole sample of `miss` into `slot`, without a large value, which goes to its row.
    ///
    /// # Errors
    ///
    /// If the system rejects a thread.
    pub(super) fn submit(&mut self, miss: Miss, slot: ReadLease) -> Result<()> {
        if self.reads.is_none() {
            self.start()?;
        }
        if self.reads.as_ref().is_some_and(|reads| reads.send((miss, slot)).is_ok()) {
            return Ok(());
        }
        Err(Error::internal("the threads that read files have ended"))
    }

    fn start(&mut self) -> Result<()> {
        let (reads, queue) = unbounded();
        for number in 0..THREADS {
            let (queue, run, loaded) = (queue.clone(), self.run.clone(), self.loaded.clone());
            let (stage, bytes) = (self.stage.clone(), self.bytes.clone());
            match sync::spawn(format!("fb-files-{number}"), move || read_all(&queue, &run, (&stage, &bytes), &loaded)) {
                Ok(thread) => self.threads.push(thread),
                // Fewer threads do the same work.
                Err(_) if number > 0 => break,
                Err(e) => return Err(Error::from_io(e, "the system rejects a thread for reading: check ulimit -u")),
            }
        }
        self.reads = Some(reads);
        Ok(())
    }
}

impl Drop for LooseReads {
    fn drop(&mut self) {
        self.reads = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn read_all(queue: &Receiver<Read>, run: &Run, (stage, bytes): (&Stage, &Counter), loaded: &Sender<LoadedSample>) {
    for (mut miss, mut slot) in queue {
        if run.is_stopped() {
            continue;
        }
        slot.set_start(0);
        let read = stage.timed(TimeKind::Input, || match miss.large {
            Some(_) => miss.read_large(slot.bytes_mut()),
            None => miss.open.read_loose(miss.offset, slot.bytes_mut()),
        });
        bytes.add(miss.bytes as u64);
        stage.done(1, miss.bytes as u64);
        // Fails only when the decode threads have returned, which they do after a stop.
        let _ = loaded.send(LoadedSample { miss, slot: read.map(|()| Some(slot)) });
    }
}
