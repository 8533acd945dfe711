//! Sample plane of one NUMA node.

use super::sample::decode::{DecodeQueues, DecodeStage, DecodeThread};
use super::sample::read::{ReadQueues, ReadStage};
use super::schedule::Chunk;
use super::threads::Threads;
use crate::error::Result;
use crate::memory::ReadPool;
use crate::stats::Stats;
use crate::sync::Arc;
use crate::topology::{CpuSet, affinity};
use crossbeam::channel::{Receiver, unbounded};

/// Resources of the sample plane on one NUMA node: a read thread with its pool of read slots, and the decode threads
/// for which it reads misses.
#[derive(Clone)]
pub(crate) struct NumaWorkers {
    pub(crate) reads: ReadPool,
    /// CPUs that the read thread is bound to.
    pub(crate) read_cpus: Option<CpuSet>,
    /// One entry per decode thread: the CPUs that it is bound to.
    pub(crate) decode_cpus: Vec<Option<CpuSet>>,
}

impl NumaWorkers {
    /// Starts the threads of `node`. Its decode threads take any chunk, and are numbered from `first_thread`; their
    /// misses stay on the node.
    ///
    /// # Errors
    ///
    /// Errors of the system when it rejects a thread.
    pub(crate) fn start(
        &self,
        node: usize,
        first_thread: usize,
        decode: &Arc<DecodeStage>,
        chunks: &Receiver<Chunk>,
        threads: &Threads,
    ) -> Result<()> {
        let (misses, miss_queue) = unbounded();
        let (loaded, loaded_queue) = unbounded();
        let DecodeStage { run, stats, .. } = &**decode;
        let (stage, cpus) =
            (ReadStage { pool: self.reads.clone(), run: run.clone(), stats: stats.clone() }, self.read_cpus.clone());
        let of_thread = loaded.clone();
        threads.start(&format!("fb-read-{node}"), "read", false, move || {
            bind(cpus.as_ref(), &stage.stats);
            stage.run(&miss_queue, &of_thread)
        })?;
        let reads = ReadQueues { misses, loaded };
        let queues = DecodeQueues { chunks: chunks.clone(), loaded: loaded_queue, reads };
        for (i, cpus) in self.decode_cpus.iter().enumerate() {
            let (decode, queues, cpus) = (decode.clone(), queues.clone(), cpus.clone());
            let name = format!("fb-decode-{}", first_thread + i);
            // These threads allocate the device's memory for direct rows, and a driver may block them.
            let has_direct_rows = decode.place.delivery.direct_rows().is_some();
            threads.start(&name, "decode", has_direct_rows, move || {
                bind(cpus.as_ref(), &decode.stats);
                DecodeThread::new(&decode, queues).run()
            })?;
        }
        Ok(())
    }
}

/// Binds the current thread to `cpus`.
fn bind(cpus: Option<&CpuSet>, stats: &Stats) {
    affinity::pin_thread_or_note(cpus, |why| stats.note(why));
}
