//! The writer: cuts samples into shards, and passes full shards to threads.

use bytes::Bytes;
use crossbeam::channel::{Receiver, SendTimeoutError, Sender, bounded, unbounded};

use super::sample;
use super::shard::{Frame, Samples, split_by_sizes};
use super::sink::Sink;
use super::store::store_file;
use super::values::{ValueIndex, trailer_of, trailer_that_fits};
use crate::columns::Scratch;
use crate::encoding::Value;
use crate::index::{Index, Shard, ShardSettings};
use crate::layout::Layout;
use crate::table::too_large;
use crate::{Compression, HashAlgo};
use forebay_core::error::{Error, Result};
use forebay_core::sync::{Arc, AtomicBool, JoinHandle, Ordering, Weak, spawn};
use std::time::Duration;

/// Default limit on a shard's raw size in bytes, as in the reference.
pub const SIZE_LIMIT_DEFAULT: u64 = 1 << 26;

/// Upper bound of the worker threads. Each holds a shard and its compressed form in memory.
const THREADS_MAX: usize = 32;

/// Settings of a [`Writer`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Compression of every file.
    pub compression: Option<Compression>,
    /// Hashes to record of every file, raw and compressed. Sorted by name, without repetition.
    pub hashes: Vec<HashAlgo>,
    /// Largest raw size of a shard in bytes (inclusive), below 2^32; a larger sample gets its own shard. `None`
    /// puts all samples into one shard.
    pub size_limit: Option<u64>,
    /// Threads that hash, compress and store; 0 means as many as there are CPUs.
    ///
    /// Up to `threads + 2` shards are in memory at once: one per thread, one queued, one under construction.
    /// Compression needs a second copy of a thread's shard, and the compressed one.
    pub threads: usize,
    /// Index of values after the samples of MDS shards. It does not count against the size limit, so that the shards
    /// hold the same samples with and without it.
    pub index: Option<Arc<dyn ValueIndex>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { compression: None, hashes: Vec::new(), size_limit: Some(SIZE_LIMIT_DEFAULT), threads: 0, index: None }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        if !self.hashes.is_sorted_by(|a, b| a < b) {
            return Err(Error::config("Hashes must be unique and in sorted order"));
        }
        match self.size_limit {
            Some(limit) if limit == 0 || limit > u64::from(u32::MAX) => Err(Error::config(format!(
                "the size limit is {limit} bytes; set one from 1 to 4294967295, as offsets have 32 bits, or none"
            ))),
            _ => Ok(()),
        }
    }
}

/// Longest wait for room in the queue before the writer checks again if its threads have stopped.
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// Writer of a data set. Without [`finish`](Self::finish) there is no index, hence no data set.
pub struct Writer {
    context: Arc<WriterContext>,
    samples: Samples,
    /// Bytes that count against the size limit so far.
    limit_bytes: u64,
    scratch: Scratch,
    /// Shards that are complete, and number of the next one.
    shards: usize,
    /// Complete shard that waits for room in the queue.
    full: Option<(usize, Samples)>,
    workers: Option<Workers>,
    /// Process of the threads, which do not exist in a forked child.
    process: u32,
}

/// Data that all threads of a writer share.
struct WriterContext {
    layout: Arc<Layout>,
    options: Options,
    frame: Frame,
    sink: Box<dyn Sink>,
    /// Set by the first failure, by a writer that is dropped, and by a cancellation: queued work is then pointless.
    stopped: AtomicBool,
}

struct Workers {
    jobs: Sender<(usize, Samples)>,
    /// Unbounded: a full channel would stop the workers that empty `jobs`. Holds at most one entry per shard, which the
    /// index needs anyway.
    results: Receiver<(usize, Result<Shard>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Writer {
    /// Starts a writer of samples of `layout` into `sink`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] if `options` break the rules of their fields; [`crate::ErrorKind::Io`] if a thread
    /// cannot be started.
    pub fn new(layout: Layout, sink: Box<dyn Sink>, options: Options) -> Result<Self> {
        options.check()?;
        let frame = Frame::new(&ShardSettings {
            layout: &layout,
            compression: options.compression,
            hashes: &options.hashes,
            size_limit: options.size_limit,
        });
        let limit_bytes = frame.limit_bytes();
        let context =
            Arc::new(WriterContext { layout: Arc::new(layout), options, frame, sink, stopped: AtomicBool::new(false) });
        let workers = Some(Workers::start(&context)?);
        Ok(Self {
            context,
            samples: Samples::default(),
            limit_bytes,
            scratch: Scratch::default(),
            shards: 0,
            full: None,
            workers,
            process: std::process::id(),
        })
    }

    /// Rejects a forked child: its copy of the writer has no threads.
    fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let message = "a writer works in the process that made it, and this is a forked child: make one here, for a \
                       different folder";
        Err(Error::new(crate::ErrorKind::Closed, message))
    }

    /// Format and columns. [`write`](Self::write) takes values in the order of the columns.
    pub fn layout(&self) -> &Layout {
        &self.context.layout
    }

    /// Adds a sample: one value for each column of [`layout`](Self::layout), in its order (sorted by name).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] with the column, for a value that its column does not accept: the sample is not
    /// added, and writing can continue. Or the failure of a thread, after which nothing more can be written.
    /// [`crate::ErrorKind::Closed`] in a forked child.
    pub fn write(&mut self, values: &[Value<'_>]) -> Result<()> {
        self.add(values)?;
        self.flush()
    }

    /// Adds a sample as [`write`](Self::write), without waiting for room in the queue of the threads if this sample
    /// completes a shard. The caller calls [`drain`](Self::drain) before the next sample, or `add` waits.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn add(&mut self, values: &[Value<'_>]) -> Result<()> {
        self.check_process()?;
        self.flush()?;
        let start = self.samples.bytes.len();
        sample::encode(&self.context.layout, values, &mut self.scratch, &mut self.samples.bytes)?;
        self.count_sample(start)
    }

    /// Counts the sample that was added from `start` to the end of the samples' bytes, and completes the shard before
    /// it if it is full.
    fn count_sample(&mut self, start: usize) -> Result<()> {
        let bytes = (self.samples.bytes.len() - start) as u64;
        let counted = bytes + self.context.frame.limit_bytes_per_sample();
        let mut before = start as u64;
        let mut count = self.samples.sizes.len() as u64;
        if self.context.options.size_limit.is_some_and(|limit| limit < self.limit_bytes + counted) {
            // The reference flushes even an empty shard: a first sample that is too large leaves one.
            let sample = self.samples.bytes.split_off(start);
            self.complete_shard();
            self.samples.bytes = sample;
            (before, count) = (0, 0);
        }
        let end = self.context.frame.data_file_bytes(count + 1, before + bytes);
        match u32::try_from(bytes) {
            Ok(size) if end <= u64::from(u32::MAX) => {
                self.samples.sizes.push(size);
                self.limit_bytes += counted;
                Ok(())
            }
            _ => {
                self.samples.bytes.truncate(before as usize);
                Err(too_large(end))
            }
        }
    }

    /// Makes a shard of the samples so far. There is none that waits for room.
    fn complete_shard(&mut self) {
        let mut samples = std::mem::take(&mut self.samples);
        // Samples grow in a vector that may have twice the room.
        samples.bytes.shrink_to_fit();
        self.full = Some((self.shards, samples));
        self.limit_bytes = self.context.frame.limit_bytes();
        self.shards += 1;
    }

    /// Passes a complete shard to the threads, and waits at most `limit` for room in their queue. Returns false if it
    /// still waits for room.
    ///
    /// # Errors
    ///
    /// The failure of a thread, after which nothing more can be written. [`crate::ErrorKind::Closed`] in a forked
    /// child.
    pub fn drain(&mut self, limit: Duration) -> Result<bool> {
        self.check_process()?;
        let Some(full) = self.full.take() else { return Ok(true) };
        let is_stopped = self.context.stopped.load(Ordering::Acquire);
        match self.workers.as_ref().filter(|_| !is_stopped).map(|workers| workers.jobs.send_timeout(full, limit)) {
            Some(Ok(())) => Ok(true),
            Some(Err(SendTimeoutError::Timeout(full))) => {
                self.full = Some(full);
                Ok(false)
            }
            _ => Err(self.failure()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        while !self.drain(ROOM_WAIT)? {}
        Ok(())
    }

    /// Returns the way to end this writer while a second thread is in one of its methods.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::downgrade(&self.context))
    }

    /// Returns the failure that stopped the threads.
    fn failure(&mut self) -> Error {
        let collected = self.workers.take().map(Workers::join);
        let first = collected.and_then(|results| results.into_iter().find_map(|(_, result)| result.err()));
        first.unwrap_or_else(|| {
            Error::new(crate::ErrorKind::Closed, "the writer failed before; nothing more can be written")
        })
    }

    /// Writes the remaining samples, waits for all shards, writes the index and returns it.
    ///
    /// # Errors
    ///
    /// The first failure of a thread or of the sink. There is then no index. [`crate::ErrorKind::Closed`] in a forked
    /// child.
    pub fn finish(mut self) -> Result<Index> {
        self.flush()?;
        if !self.samples.sizes.is_empty() {
            self.complete_shard();
            self.flush()?;
        }
        let workers = self
            .workers
            .take()
            .ok_or_else(|| Error::new(crate::ErrorKind::Closed, "the writer failed before; there is no index"))?;
        let mut shards: Vec<Option<Shard>> = (0..self.shards).map(|_| None).collect();
        for (number, result) in workers.join() {
            shards[number] = Some(result?);
        }
        // Without a failure of a thread.
        if self.context.stopped.load(Ordering::Acquire) {
            return Err(Error::new(crate::ErrorKind::Closed, "the writer was cancelled; there is no index"));
        }
        let shards: Option<Vec<_>> = shards.into_iter().collect();
        let index = Index { shards: shards.ok_or_else(|| Error::internal("a thread ended without its shard"))? };
        self.context.sink.finish(index.to_json().as_bytes())?;
        Ok(index)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let workers = self.workers.take();
        if self.process == std::process::id() {
            self.context.cancel();
            drop(workers.map(Workers::join));
        } else {
            // Locks of the channels and the sink may be held by threads that do not exist here, and a sink waits for
            // its own threads.
            std::mem::forget((workers, Arc::clone(&self.context)));
        }
    }
}

/// Way to end a [`Writer`] while a second thread is in one of its methods.
#[derive(Clone)]
pub struct Canceller(Weak<WriterContext>);

impl Canceller {
    /// Ends the writer without an index, and without waiting for that: calls in progress end soon, with an error unless
    /// the index is already stored.
    pub fn cancel(&self) {
        if let Some(context) = self.0.upgrade() {
            context.cancel();
        }
    }
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}

impl Workers {
    fn start(context: &Arc<WriterContext>) -> Result<Self> {
        let threads = match context.options.threads {
            0 => forebay_core::topology::cpu_count(),
            threads => threads,
        };
        // One queued job keeps a thread busy while the next shard fills; more would only take memory.
        let (jobs, queue) = bounded::<(usize, Samples)>(1);
        let (done, results) = unbounded();
        let mut workers = Self { jobs, results, threads: Vec::new() };
        for i in 0..threads.min(THREADS_MAX) {
            let (context, queue, done) = (Arc::clone(context), queue.clone(), done.clone());
            let body = move || {
                for (number, samples) in queue {
                    if context.stopped.load(Ordering::Acquire) {
                        continue;
                    }
                    let result = context.store(number, samples);
                    if result.is_err() {
                        context.stopped.store(true, Ordering::Release);
                    }
                    // The receiver may be gone: a dropped writer needs no results.
                    let _ = done.send((number, result));
                }
            };
            let thread = spawn(format!("fb-write-{i}"), body)
                .map_err(|e| Error::from_io(e, "a thread of the writer cannot be started"))?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Waits until the threads have finished the queued shards, and returns their results in any order.
    fn join(self) -> Vec<(usize, Result<Shard>)> {
        drop(self.jobs);
        for thread in self.threads {
            // A thread that panicked has no result, which the caller detects.
            let _ = thread.join();
        }
        self.results.try_iter().collect()
    }
}

impl WriterContext {
    fn cancel(&self) {
        self.stopped.store(true, Ordering::Release);
        self.sink.cancel();
    }

    /// Builds shard `number`, stores its files, and describes it for the index.
    fn store(&self, number: usize, samples: Samples) -> Result<Shard> {
        let count = samples.sizes.len() as u64;
        let trailer = match &self.options.index {
            Some(index) => {
                let trailer = trailer_of(&**index, &self.layout, split_by_sizes(&samples.bytes, &samples.sizes))?;
                trailer_that_fits(trailer, self.frame.data_file_bytes(count, samples.bytes.len() as u64))
            }
            None => Vec::new(),
        };
        let ([head, body, trailer], meta) = samples.into_files(&self.frame, trailer)?;
        let store = |basename: &str, pieces: &[Bytes]| {
            store_file(&*self.sink, self.options.compression, &self.options.hashes, basename, pieces)
        };
        let name = format!("shard.{number:05}.{}", self.layout.format.name());
        let (raw_data, zip_data) = store(&name, &[head, body, trailer].map(Bytes::from))?;
        let meta = meta.map(|meta| store(&format!("{name}.meta"), &[meta.into()])).transpose()?;
        let (raw_meta, zip_meta) = meta.unzip();
        Ok(Shard {
            layout: Arc::clone(&self.layout),
            samples: count,
            compression: self.options.compression,
            hashes: self.options.hashes.as_slice().into(),
            size_limit: self.options.size_limit,
            raw_data,
            zip_data,
            raw_meta: raw_meta.map(Box::new),
            zip_meta: zip_meta.flatten().map(Box::new),
            recipe: None,
            slice: None,
        })
    }
}
