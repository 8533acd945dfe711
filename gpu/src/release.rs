//! Background threads that wait on CUDA events and then release the memory in use. No second thread may block on the
//! device.

use crate::context::{CAPTURE_MAX, Context, Event, OwnStreams};
use crate::memory::{Block, BlockPool};
use cudarc::driver::sys::CUstream;
use forebay_loader::memory::{BatchMemory, ReadLease};
use forebay_loader::sync::{Arc, Mutex};
use forebay_loader::{Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Interval between queries whether a stream still captures a graph.
const CAPTURE_POLL: Duration = Duration::from_millis(10);

/// Limit of the wait for a drop on a device that does not respond.
const DROP_WAIT_MAX: Duration = Duration::from_secs(10);

/// Memory or handles to release after a wait on the host.
enum ReleaseRequest {
    /// Host slot of a copy in flight. Requests arrive in the order of the copies; the slots of the pools bound their
    /// number.
    AfterEvent(Arc<Event>, HostSlot),
    /// Memory in use on the crate's own streams with no event recorded, which happens only after a failure.
    AfterOwnStreams(Option<HostSlot>, Option<(Block, Arc<BlockPool>)>),
    /// Block that a consumer read on a stream without a known handle. The consumer's batches bound the number of these
    /// requests and of the next ones.
    AfterDevice(Block),
    /// Block that consumers read on streams that may capture graphs.
    AfterConsumers(ConsumerReads),
    /// Value with a drop that may wait for the device. The sender reports that it was dropped.
    Drop(Box<dyn Any + Send>, Sender<()>),
}

/// Host memory that a copy reads.
#[expect(dead_code, reason = "a slot returns to its pool when it is dropped")]
pub(crate) enum HostSlot {
    Batch(BatchMemory),
    Read(ReadLease),
}

impl From<BatchMemory> for HostSlot {
    fn from(slot: BatchMemory) -> Self {
        Self::Batch(slot)
    }
}

impl From<ReadLease> for HostSlot {
    fn from(slot: ReadLease) -> Self {
        Self::Read(slot)
    }
}

/// Block and the streams on which consumers read it. An event recorded on a stream that captures a graph would become a
/// part of the graph, and a wait for the device would end the capture, so the request waits until no stream captures.
struct ConsumerReads {
    block: Block,
    streams: Vec<i64>,
}

/// Handles of a device that a release thread needs.
#[derive(Clone)]
pub(crate) struct DeviceHandles {
    pub(crate) context: Arc<Context>,
    pub(crate) streams: Arc<OwnStreams>,
    /// Pool to which batch memory returns.
    pub(crate) blocks: Arc<BlockPool>,
}

/// Sender to a background thread that releases memory. The thread ends when the sender is dropped and all requests are
/// done.
pub(crate) struct ReleaseThread(Mutex<Sender<ReleaseRequest>>);

impl ReleaseThread {
    /// Starts the thread `name`.
    ///
    /// # Errors
    ///
    /// `Full` when the system cannot start a thread.
    pub(crate) fn start(name: &str, handles: DeviceHandles) -> Result<Self> {
        let (sender, requests) = channel();
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let ended = catch_unwind(AssertUnwindSafe(|| handles.run(&requests)));
                if ended.is_err() {
                    log::error!("the thread that releases batch memory has panicked: from now on this memory is lost");
                    // The device may still use the memory in the remaining requests.
                    std::mem::forget(requests);
                }
            })
            .map_err(|e| {
                Error::from_io(
                    e,
                    "the thread that releases batch memory cannot be started: raise the limit of threads (ulimit -u)",
                )
            })?;
        Ok(Self(Mutex::new(sender)))
    }

    /// Releases `slot` after `read` has fired.
    pub(crate) fn release_after(&self, read: Arc<Event>, slot: HostSlot) {
        self.send(ReleaseRequest::AfterEvent(read, slot));
    }

    /// Releases the slot, and the block to its pool, after all queued work on the crate's own streams.
    pub(crate) fn release_after_own_streams(&self, slot: Option<HostSlot>, block: Option<(Block, Arc<BlockPool>)>) {
        self.send(ReleaseRequest::AfterOwnStreams(slot, block));
    }

    /// Releases `block` after all work that is queued on the device, from any library.
    pub(crate) fn release_after_device(&self, block: Block) {
        self.send(ReleaseRequest::AfterDevice(block));
    }

    /// Releases `block` after the queued work on `streams`, once none of them captures a graph.
    pub(crate) fn release_after_consumers(&self, block: Block, streams: Vec<i64>) {
        self.send(ReleaseRequest::AfterConsumers(ConsumerReads { block, streams }));
    }

    /// Drops `value` on the thread, since the drop may wait for the device. Returns when it is dropped, because the
    /// process may exit then, or after [`DROP_WAIT_MAX`].
    pub(crate) fn drop_value(&self, value: Box<dyn Any + Send>) {
        let (dropped, is_dropped) = channel();
        self.send(ReleaseRequest::Drop(value, dropped));
        if is_dropped.recv_timeout(DROP_WAIT_MAX) == Err(RecvTimeoutError::Timeout) {
            log::warn!("the CUDA device does not respond: its picture decoder is not freed");
        }
    }

    /// Queues a request. The memory is leaked if the thread has panicked.
    fn send(&self, request: ReleaseRequest) {
        if let Err(unsent) = self.0.lock().send(request) {
            log::error!("memory of a batch is lost: the thread that releases it has ended");
            std::mem::forget(unsent);
        }
    }
}

impl DeviceHandles {
    /// Body of the thread.
    fn run(&self, requests: &Receiver<ReleaseRequest>) {
        let mut reads: Vec<ConsumerReads> = Vec::new();
        let mut last = None;
        loop {
            let request = if reads.is_empty() {
                requests.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                requests.recv_timeout(CAPTURE_POLL)
            };
            reads = reads.into_iter().filter_map(|read| self.try_release(read)).collect();
            match request {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if reads.is_empty() => return,
                Err(RecvTimeoutError::Disconnected) => {
                    if Instant::now() > *last.get_or_insert_with(|| Instant::now() + CAPTURE_MAX) {
                        log::error!("memory of {} batches is lost: a graph is still being captured", reads.len());
                        return std::mem::forget(reads);
                    }
                    std::thread::sleep(CAPTURE_POLL);
                }
                Ok(ReleaseRequest::AfterConsumers(read)) => reads.push(read),
                Ok(ReleaseRequest::Drop(value, dropped)) => {
                    drop(value);
                    let _ = dropped.send(());
                }
                Ok(ReleaseRequest::AfterEvent(copied, slot)) => drop(leak_on_error(copied.wait(), slot)),
                Ok(ReleaseRequest::AfterOwnStreams(slot, block)) => {
                    if let Ok((_slot, Some((block, pool)))) = leak_on_error(self.streams.wait(), (slot, block)) {
                        pool.release(block, Vec::new());
                    }
                }
                Ok(ReleaseRequest::AfterDevice(block)) => {
                    if let Ok(block) = leak_on_error(self.context.synchronize(), block) {
                        self.blocks.release(block, Vec::new());
                    }
                }
            }
        }
    }

    /// Releases the block if none of its streams captures a graph; otherwise returns the request.
    fn try_release(&self, read: ConsumerReads) -> Option<ConsumerReads> {
        match record_readers(&self.context, &read.streams) {
            Ok(Some(readers)) => {
                self.blocks.release(read.block, readers);
                None
            }
            Ok(None) => Some(read),
            Err(error) => leak_on_error(Err(error), read).ok(),
        }
    }
}

/// Returns `held` after a successful wait. After a failed one the device may still use it, so it is leaked.
pub(crate) fn leak_on_error<T>(waited: Result<()>, held: T) -> Result<T> {
    match waited {
        Ok(()) => Ok(held),
        Err(error) => {
            log::error!("memory of a batch is lost, since the device may still use it: {error}");
            std::mem::forget(held);
            Err(error)
        }
    }
}

/// Records an event on each of these streams, given by DLPack's numbers. Returns `None` while one of them captures a
/// graph.
pub(crate) fn record_readers(context: &Arc<Context>, streams: &[i64]) -> Result<Option<Vec<Arc<Event>>>> {
    for number in streams {
        if context.is_captured(dlpack_stream(*number))? {
            return Ok(None);
        }
    }
    let record = |number: &i64| {
        let event = Event::new(context)?;
        event.record(dlpack_stream(*number)).map(|()| Arc::new(event))
    };
    streams.iter().map(record).collect::<Result<_>>().map(Some)
}

/// Returns the stream with DLPack's number: 1 and 2 are the driver's own markers for the default streams.
pub(crate) fn dlpack_stream(number: i64) -> CUstream {
    std::ptr::with_exposed_provenance_mut(number as usize)
}
