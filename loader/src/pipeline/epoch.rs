//! The threads of one epoch and what they share.

use super::device::direct_rows::SlotCopies;
use super::device::direct_storage::Storage;
use super::device::split::HostShare;
use super::device::{decode as place, direct_storage as stored};
use super::refill::Refills;
use super::reorder::{Reorder, Taken};
use super::run::Run;
use super::sample::batch_builder::{BatchBuilder, BatchLayout};
use super::sample::consumer_memory::Wanted;
use super::sample::decode::DecodeThread;
use super::sample::read;
use super::schedule::{Pace, schedule};
use super::shard::open_shards::OpenShards;
use super::shard::residency::Residency;
use super::shard::{self, ShardSource};
use super::{Chunk, Task};
use crate::batch::Batch;
use crate::config::OnError;
use crate::decode::FieldPlan;
use crate::delivery::{Delivery, PictureDecoder};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{BatchPool, ReadPool};
use crate::order::{DataSetShape, RankOrder, SampleId, ShardId};
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicU64, JoinHandle, Mutex, Ordering, spawn};
use crate::topology::{CpuSet, affinity};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use std::time::{Duration, Instant};

/// Everything an epoch is made of; the parts outlive it.
pub(crate) struct EpochParts {
    pub(crate) epoch: u64,
    /// Number of the run's first batch in the epoch: not 0 after a resume.
    pub(crate) first_batch: u64,
    pub(crate) shape: DataSetShape,
    /// One plan for each layout of the data set's shards, all with the same outputs.
    pub(crate) fields: Vec<Arc<FieldPlan>>,
    pub(crate) layout: Arc<BatchLayout>,
    pub(crate) batches: BatchPool,
    pub(crate) open: Arc<OpenShards>,
    pub(crate) source: Arc<dyn ShardSource>,
    pub(crate) target: Arc<dyn Delivery>,
    /// What decodes pictures at the target, if anything is to.
    pub(crate) pictures: Option<Arc<dyn PictureDecoder>>,
    /// Which of those the decode threads take all the same, if they are to.
    pub(crate) host_share: Option<Arc<HostShare>>,
    /// What reads rows at the target, if anything is to.
    pub(crate) storage: Option<Arc<Storage>>,
    /// Copies rows to the target from where they were read to, if anything does.
    pub(crate) slot_copies: Option<Arc<SlotCopies>>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) on_error: OnError,
    pub(crate) max_errors: u64,
    /// Whether there are no other ranks, which would wait for one with fewer batches.
    pub(crate) is_alone: bool,
    /// What stands in emptied batches where there are.
    pub(crate) refills: Refills,
    pub(crate) sample_bytes_max: u64,
    /// Batches under way, the one the consumer waits for included.
    pub(crate) ahead: u64,
    pub(crate) stall_timeout: Duration,
    /// The threads of the sample plane.
    pub(crate) crews: Vec<NumaWorkers>,
    /// Threads of the shard plane.
    pub(crate) shard_threads: usize,
    pub(crate) pace: Pace,
}

/// The threads of the sample plane on one NUMA node: a read thread, and the decode threads whose misses it reads into
/// the node's slots.
#[derive(Clone)]
pub(crate) struct NumaWorkers {
    pub(crate) reads: ReadPool,
    /// The CPUs that the read thread is bound to.
    pub(crate) read_cpus: Option<CpuSet>,
    /// One entry for each decode thread: the CPUs that it is bound to.
    pub(crate) decode_cpus: Vec<Option<CpuSet>>,
}

/// What the threads of one epoch share.
pub(crate) struct Shared {
    parts: EpochParts,
    pub(crate) run: Arc<Run>,
    pub(crate) residency: Residency<Chunk>,
    pub(crate) reorder: Reorder<Result<Batch>>,
    /// Chunks that wait for the consumer's memory.
    pub(crate) wanted: Wanted,
    /// Where ready chunks go; taken away at the end so that decode threads see it.
    chunks: Mutex<Option<Sender<Chunk>>>,
    /// Where batches go whose pictures the target decodes; taken away at the end, too.
    encoded: Mutex<Option<Sender<Arc<BatchBuilder>>>>,
    skipped: AtomicU64,
    skipped_count: Arc<Counter>,
    /// Emptied batches that were delivered with a repeated sample.
    pub(crate) batches_refilled: Arc<Counter>,
    /// Batches that lie outside the pool.
    pub(crate) batches_unpooled: Arc<Counter>,
    /// Pictures that were left to the target's decoder and not refused.
    pub(crate) pictures_on_device: Arc<Counter>,
    /// Those of them that an engine made for nothing else decoded.
    pub(crate) pictures_on_engines: Arc<Counter>,
    /// Pictures that the target's decoder refused.
    pub(crate) pictures_refused: Arc<Counter>,
    /// How often something of the target's decoder was given up.
    pub(crate) device_decode_fallbacks: Arc<Counter>,
    /// Rows that the target has read from their files.
    pub(crate) rows_gpu_direct: Arc<Counter>,
    /// Rows that it did not read and the host did.
    pub(crate) rows_gpu_direct_refused: Arc<Counter>,
    /// How often the target's reading was given up: for a file, or altogether.
    pub(crate) gpu_direct_storage_fallbacks: Arc<Counter>,
}

impl std::ops::Deref for Shared {
    type Target = EpochParts;

    fn deref(&self) -> &EpochParts {
        &self.parts
    }
}

impl Shared {
    /// The shard of `sample`, and the sample's number in it.
    pub(crate) fn locate(&self, sample: SampleId) -> Result<(ShardId, u32)> {
        self.shape.locate(sample).ok_or_else(|| {
            Error::internal("the plan names a sample that the data does not have").with("sample", sample.0)
        })
    }

    /// Sends `chunk` to the decode threads, now or as soon as its shards are resident.
    pub(crate) fn dispatch(&self, chunk: Chunk) {
        if self.residency.are_resident(chunk.samples.iter().map(|task| task.shard)) {
            self.send(chunk);
            return;
        }
        for (shard, piece) in chunk.cut() {
            if let Some(ready) = self.residency.park(piece, shard) {
                self.send(ready);
            }
        }
    }

    pub(crate) fn send(&self, chunk: Chunk) {
        if let Some(chunks) = &*self.chunks.lock() {
            // An error means that the decode threads are gone, which only a stop brings about.
            let _ = chunks.send(chunk);
        }
    }

    /// Whether pictures are left to the target's decoder at the moment.
    pub(crate) fn leaves_pictures(&self) -> bool {
        self.pictures.as_ref().is_some_and(|pictures| pictures.is_open())
    }

    /// Hands a batch with files to the thread that places such.
    pub(crate) fn place_later(&self, batch: Arc<BatchBuilder>) {
        if let Some(encoded) = &*self.encoded.lock() {
            // An error means that the thread is gone, which only a stop brings about.
            let _ = encoded.send(batch);
        }
    }

    /// `error` with what it happened to.
    pub(crate) fn describe(&self, error: Error, task: &Task) -> Error {
        let error = self
            .source
            .describe(error, task.shard)
            .with("sample in shard", task.index)
            .with("sample", task.planned.sample.0);
        match self.on_error {
            OnError::Raise if is_about_sample(&error) => {
                error.with("to leave such samples out", "on_error=\"skip\" with max_errors")
            }
            _ => error,
        }
    }

    /// Forgives a bad sample, counts it and says so; gives the error back where it may not be skipped.
    pub(crate) fn forgive(&self, error: Error) -> Result<()> {
        if self.on_error != OnError::Skip || !is_about_sample(&error) {
            return Err(error);
        }
        let before = self.skipped.fetch_add(1, Ordering::Relaxed);
        if before >= self.max_errors {
            return Err(error.with("the epoch has more bad samples than max_errors", self.max_errors));
        }
        self.skipped_count.add(1);
        let level = if before < SKIPS_WARNED { log::Level::Warn } else { log::Level::Debug };
        log::log!(level, "a sample was skipped: {error}");
        if before + 1 == SKIPS_WARNED {
            log::warn!(
                "this epoch has skipped {SKIPS_WARNED} samples: further ones are counted, and logged for debugging"
            );
        }
        Ok(())
    }
}

/// So many skipped samples of an epoch have a warning each.
const SKIPS_WARNED: u64 = 10;

/// Whether a sample is bad, and not the way to it.
fn is_about_sample(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Decode | ErrorKind::Format | ErrorKind::Unsupported | ErrorKind::Checksum)
}

/// A running epoch. Dropping it stops and joins every thread, but those that wait for a device which does not answer.
pub(crate) struct Epoch {
    shared: Arc<Shared>,
    threads: Mutex<Vec<Thread>>,
    /// The process whose threads these are.
    pid: u32,
    watch: Mutex<Watch>,
}

/// One of its threads.
struct Thread {
    handle: JoinHandle<()>,
    /// Ends with the thread, if that may wait for a device.
    ended: Option<Receiver<()>>,
}

/// A device that has not answered for so long, after all others have ended, is not waited for any more.
const DEVICE_WAIT_MAX: Duration = Duration::from_secs(10);

/// What is known about a stall.
#[derive(Default)]
struct Watch {
    /// Progress seen last.
    progress: u64,
    /// How long the consumer has waited since it moved. The time between its calls is its own.
    waited: Duration,
    /// Whether the log has been told.
    warned: bool,
}

impl Epoch {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// `Full` when the system refuses a thread.
    pub(crate) fn start(parts: EpochParts, order: RankOrder) -> Result<Self> {
        let run = Run::new();
        let (chunks, chunks_end) = unbounded();
        let (encoded, encoded_end) = unbounded();
        let shared = Arc::new(Shared {
            run: run.clone(),
            residency: Residency::new(parts.shape.num_shards(), parts.open.may_be_evicted()),
            reorder: Reorder::new(parts.ahead),
            wanted: Wanted::default(),
            chunks: Mutex::new(Some(chunks)),
            encoded: Mutex::new(Some(encoded)),
            skipped: AtomicU64::new(0),
            skipped_count: parts.stats.counter("samples_skipped"),
            batches_refilled: parts.stats.counter("batches_refilled"),
            batches_unpooled: parts.stats.counter("batches_unpooled"),
            pictures_on_device: parts.stats.counter("pictures_on_device"),
            pictures_on_engines: parts.stats.counter("pictures_on_engines"),
            pictures_refused: parts.stats.counter("pictures_refused"),
            device_decode_fallbacks: parts.stats.counter("device_decode_fallbacks"),
            rows_gpu_direct: parts.stats.counter("rows_gpu_direct"),
            rows_gpu_direct_refused: parts.stats.counter("rows_gpu_direct_refused"),
            gpu_direct_storage_fallbacks: parts.stats.counter("gpu_direct_storage_fallbacks"),
            parts,
        });
        let weak = Arc::downgrade(&shared);
        run.on_stop(move || {
            if let Some(shared) = weak.upgrade() {
                shared.chunks.lock().take();
                shared.encoded.lock().take();
                shared.wanted.clear();
                shared.residency.close();
                shared.source.stop();
                shared.reorder.stop();
                shared.batches.wake();
            }
        });
        let epoch = Self { shared, threads: Mutex::default(), pid: std::process::id(), watch: Mutex::default() };
        epoch.thread("fb-schedule", "schedule", move |shared| {
            let stage = shared.stats.stage("schedule");
            schedule(shared, shared.pace, order, &stage)
        })?;
        for i in 0..epoch.shared.shard_threads {
            epoch.thread(&format!("fb-shard-{i}"), "shard", shard::run)?;
        }
        if epoch.shared.pictures.is_some() {
            epoch.device_thread("fb-place", "place", move |shared| place::run(shared, &encoded_end))?;
        }
        for number in 0..epoch.shared.crews.len() {
            epoch.crew(number, &chunks_end)?;
        }
        Ok(epoch)
    }

    /// Starts the threads of one node. Any crew takes any chunk; what it misses stays with the crew.
    fn crew(&self, number: usize, chunks: &Receiver<Chunk>) -> Result<()> {
        let (misses, misses_end) = unbounded();
        let (stored, stored_end) = unbounded();
        let (loaded, loaded_end) = unbounded();
        if self.shared.storage.is_some() {
            let threads = Storage::threads(self.shared.crews.len());
            for i in 0..threads {
                let (stored_end, loaded) = (stored_end.clone(), loaded.clone());
                self.device_thread(&format!("fb-gds-{}", number * threads + i), "storage", move |shared| {
                    stored::run(shared, &stored_end, &loaded)
                })?;
            }
        }
        let place = |shared: &Shared, cpus: &Option<CpuSet>| {
            affinity::place_current_thread(cpus.as_ref(), |why| shared.stats.note(why));
        };
        self.thread(&format!("fb-read-{number}"), "read", move |shared| {
            place(shared, &shared.crews[number].read_cpus);
            read::run(shared, number, &misses_end, &loaded)
        })?;
        let first: usize = self.shared.crews[..number].iter().map(|crew| crew.decode_cpus.len()).sum();
        for i in 0..self.shared.crews[number].decode_cpus.len() {
            let (chunks, loaded_end) = (chunks.clone(), loaded_end.clone());
            let (misses, stored) = (misses.clone(), stored.clone());
            let name = format!("fb-decode-{}", first + i);
            let body = move |shared: &Shared| {
                place(shared, &shared.crews[number].decode_cpus[i]);
                DecodeThread::new(shared, misses, stored).run(&chunks, &loaded_end)
            };
            // The device's memory for early rows is asked for there, and a driver may have that wait for the device.
            match self.shared.target.direct_rows() {
                Some(_) => self.device_thread(&name, "decode", body)?,
                None => self.thread(&name, "decode", body)?,
            }
        }
        Ok(())
    }

    fn thread(
        &self,
        name: &str,
        stage: &'static str,
        body: impl FnOnce(&Shared) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.start_thread(name, stage, None, body)
    }

    /// The same for one that may wait for a device.
    fn device_thread(
        &self,
        name: &str,
        stage: &'static str,
        body: impl FnOnce(&Shared) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (working, ended) = bounded::<()>(0);
        self.start_thread(name, stage, Some(ended), move |shared| {
            let answer = body(shared);
            drop(working);
            answer
        })
    }

    fn start_thread(
        &self,
        name: &str,
        stage: &'static str,
        ended: Option<Receiver<()>>,
        body: impl FnOnce(&Shared) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let shared = self.shared.clone();
        let handle = spawn(name, move || shared.run.clone().guard(stage, || body(&shared))).map_err(|e| {
            Error::from_io(e, "a thread could not be started: lower `threads` or raise the process limit")
        })?;
        self.threads.lock().push(Thread { handle, ended });
        Ok(())
    }

    /// The next batch, waiting at most `limit` for it.
    ///
    /// # Errors
    ///
    /// What made the batch or the epoch fail; `Timeout` when nothing has moved for the stall timeout.
    pub(crate) fn take(&self, limit: Duration) -> Result<Taken<Batch>> {
        let begun = Instant::now();
        let taken = loop {
            self.shared.give_rows()?;
            match self.shared.reorder.take(limit.saturating_sub(begun.elapsed())) {
                // Called for the sake of rows, which are given before anything else is waited for.
                Taken::Pending if !self.shared.wanted.is_empty() => {}
                taken => break taken,
            }
        };
        // Rows of later batches: they are filled while the consumer works on this one.
        self.shared.give_rows()?;
        let taken = match taken {
            Taken::Item(Ok(batch)) => Taken::Item(batch),
            Taken::Item(Err(error)) => {
                // It stays the answer from now on: the batch after this one would hide the gap.
                self.shared.run.fail(error);
                Taken::Stopped
            }
            Taken::End => Taken::End,
            Taken::Pending => Taken::Pending,
            Taken::Stopped => Taken::Stopped,
        };
        if let Some(failure) = self.shared.run.failure() {
            return Err(failure);
        }
        if matches!(taken, Taken::Pending) {
            self.watch_for_stall(begun.elapsed())?;
        }
        Ok(taken)
    }

    /// Stops and joins every thread, but those that wait for a device which does not answer; whoever waits in
    /// [`take`](Self::take) gets [`Taken::Stopped`].
    pub(crate) fn end(&self) {
        if self.pid != std::process::id() {
            // A forked child: there are no threads to join, and locks may be held by threads that do not exist here.
            std::mem::forget(self.shared.clone());
            return;
        }
        self.shared.run.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        if threads.is_empty() {
            // Ended before: what is open or kept by now is the next epoch's.
            return;
        }
        let (for_device, others): (Vec<_>, Vec<_>) = threads.into_iter().partition(|thread| thread.ended.is_some());
        // Bodies catch panics, so the only error left is one in the guard itself.
        others.into_iter().for_each(|thread| drop(thread.handle.join()));
        let last = Instant::now() + DEVICE_WAIT_MAX;
        let mut left_behind = 0;
        for Thread { handle, ended } in for_device {
            let left = last.saturating_duration_since(Instant::now());
            if ended.is_some_and(|ended| ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout)) {
                left_behind += 1;
            } else {
                let _ = handle.join();
            }
        }
        if left_behind > 0 {
            log::warn!(
                "the device does not answer: {left_behind} threads that wait for it are left behind, with their batches' memory"
            );
        }
        self.shared.source.ended();
        self.shared.open.rest();
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        self.end();
        if self.pid != std::process::id() {
            self.threads.get_mut().drain(..).for_each(std::mem::forget);
        }
    }
}

/// After a wait this long the target is asked whether it still takes work.
const CHECK_AFTER: Duration = Duration::from_secs(1);

/// A wait this long is worth a log line that names the culprit.
const STALL_WARNING: Duration = Duration::from_secs(30);

impl Epoch {
    /// Adds a wait of `waited` in vain, unless something has moved since the last one.
    fn watch_for_stall(&self, waited: Duration) -> Result<()> {
        let mut watch = self.watch.lock();
        let progress = self.shared.run.progress();
        if progress != watch.progress {
            *watch = Watch { progress, ..Watch::default() };
            return Ok(());
        }
        watch.waited += waited;
        let still = watch.waited;
        if still >= self.shared.stall_timeout {
            let message = format!("nothing has moved for {} s: {}", still.as_secs(), self.culprit());
            return Err(Error::new(ErrorKind::Timeout, message)
                .with("batch", self.shared.first_batch + self.shared.reorder.next()));
        }
        if still >= CHECK_AFTER {
            // What waits for the device would wait for ever.
            self.shared.target.check()?;
        }
        if still >= STALL_WARNING && !watch.warned {
            watch.warned = true;
            log::warn!("no progress for {} s: {}", still.as_secs(), self.culprit());
        }
        Ok(())
    }

    /// What the next batch waits for.
    fn culprit(&self) -> String {
        match self.shared.residency.awaited() {
            Some(shard) => self.shared.source.awaited(shard),
            None if self.shared.pictures.is_some() => {
                "samples of the next batch are being read, or decoded here or on the device".to_owned()
            }
            None => "samples of the next batch are being read or decoded".to_owned(),
        }
    }
}
