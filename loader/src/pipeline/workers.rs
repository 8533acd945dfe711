//! Sample plane of one NUMA node.

use super::chunk::Chunk;
use super::device::direct_storage::{StorageReader, StorageStage};
use super::sample::decode::{DecodeQueues, DecodeStage};
use super::sample::read::ReadStage;
use super::threads::Threads;
use crate::error::Result;
use crate::memory::ReadPool;
use crate::stats::Stats;
use crate::sync::Arc;
use crate::topology::{CpuSet, affinity};
use crossbeam::channel::{Receiver, unbounded};

/// Resources of the sample plane on one NUMA node: a read thread with its pool of read slots, and the decode threads
/// whose misses it reads.
#[derive(Clone)]
pub(crate) struct NumaWorkers {
    pub(crate) reads: ReadPool,
    /// CPUs that the read thread is bound to.
    pub(crate) read_cpus: Option<CpuSet>,
    /// One entry per decode thread: the CPUs that it is bound to.
    pub(crate) decode_cpus: Vec<Option<CpuSet>>,
}

impl NumaWorkers {
    /// Starts the threads of `node`, one of `nodes`. Its decode threads take any chunk, and are numbered from
    /// `first_thread`; their misses stay on the node.
    ///
    /// # Errors
    ///
    /// When the system rejects a thread.
    pub(crate) fn start(
        &self,
        (node, nodes): (usize, usize),
        first_thread: usize,
        decode: &Arc<DecodeStage>,
        chunks: &Receiver<Chunk>,
        threads: &Threads,
    ) -> Result<()> {
        let (misses, miss_queue) = unbounded();
        let (direct, direct_queue) = unbounded();
        let (loaded, loaded_queue) = unbounded();
        let DecodeStage { run, stats, .. } = &**decode;
        if let Some(reader) = &decode.device.storage {
            let count = StorageReader::threads(nodes);
            let stage = StorageStage { reader: reader.clone(), run: run.clone(), stage: stats.stage("read") };
            for i in 0..count {
                let (stage, direct_queue, loaded) = (stage.clone(), direct_queue.clone(), loaded.clone());
                let name = format!("fb-gds-{}", node * count + i);
                threads.start_for_device(&name, "storage", move || stage.run(&direct_queue, &loaded))?;
            }
        }
        let (stage, cpus) =
            (ReadStage { pool: self.reads.clone(), run: run.clone(), stats: stats.clone() }, self.read_cpus.clone());
        threads.start(&format!("fb-read-{node}"), "read", move || {
            bind(cpus.as_ref(), &stage.stats);
            stage.run(&miss_queue, &loaded)
        })?;
        let queues = DecodeQueues { chunks: chunks.clone(), misses, direct, loaded: loaded_queue };
        for (i, cpus) in self.decode_cpus.iter().enumerate() {
            let (decode, queues, cpus) = (decode.clone(), queues.clone(), cpus.clone());
            let name = format!("fb-decode-{}", first_thread + i);
            let has_direct_rows = decode.deliver.delivery.direct_rows().is_some();
            let body = move || {
                bind(cpus.as_ref(), &decode.stats);
                decode.run(queues)
            };
            // These threads allocate the device's memory for direct rows, and a driver may block them.
            match has_direct_rows {
                true => threads.start_for_device(&name, "decode", body)?,
                false => threads.start(&name, "decode", body)?,
            }
        }
        Ok(())
    }
}

/// Binds the current thread to `cpus`.
fn bind(cpus: Option<&CpuSet>, stats: &Stats) {
    affinity::place_current_thread(cpus, |why| stats.note(why));
}
