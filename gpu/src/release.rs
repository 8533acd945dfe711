//! Threads that wait for the device, which nobody else may, and give back what it has used.

use crate::context::{CAPTURE_MAX, Context, Event, OwnStreams};
use crate::memory::{Block, Blocks};
use cudarc::driver::sys::CUstream;
use forebay_loader::memory::{BatchMemory, ReadLease};
use forebay_loader::sync::{Arc, Mutex};
use forebay_loader::{Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How often it is asked whether a stream still captures a graph.
const CAPTURE_POLL: Duration = Duration::from_millis(10);

/// A device that has not answered for so long is not waited for any more.
const ENDED_MAX: Duration = Duration::from_secs(10);

/// What has to wait on the host.
enum Kept {
    /// A slot whose copy is under way; in the order of the copies. Bounded by the pools' slots.
    Slot(Arc<Event>, HostSlot),
    /// What our streams use and no event names; after a failure alone.
    Unnamed(Option<HostSlot>, Option<(Block, Arc<Blocks>)>),
    /// Memory that a consumer has read on a stream that has no name here. Bounded, like the next, by the consumer's batches.
    Anywhere(Block),
    /// Memory that consumers have read on streams of which some capture graphs.
    Read(Read),
    /// What waits for the device when it is dropped; then the other end hears of it.
    Ended(Box<dyn Any + Send>, Sender<()>),
}

/// Memory that a copy reads.
#[expect(dead_code, reason = "a slot goes back when it is dropped")]
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

/// A batch's memory that consumers have read on these streams. An event on one that captures a graph would be the graph's, and to
/// wait for the device would end the capture: so it is waited until none does.
struct Read {
    block: Block,
    streams: Vec<i64>,
}

/// What a keeper needs of its device.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) context: Arc<Context>,
    pub(crate) streams: Arc<OwnStreams>,
    /// Where batches' memory goes.
    pub(crate) blocks: Arc<Blocks>,
}

/// The way to one of the threads, which ends when all ways to it have gone and everything is given back.
pub(crate) struct Keeper(Mutex<Sender<Kept>>);

impl Keeper {
    /// Starts the thread `name`.
    ///
    /// # Errors
    ///
    /// `Full` when the system refuses it.
    pub(crate) fn start(name: &str, site: Site) -> Result<Self> {
        let (keeper, work) = channel();
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let kept = catch_unwind(AssertUnwindSafe(|| site.keep(&work)));
                if kept.is_err() {
                    log::error!(
                        "memory of batches is given up from now on, the thread that waits for the device has panicked"
                    );
                    // The device may still use what is left in it.
                    std::mem::forget(work);
                }
            })
            .map_err(|e| Error::from_io(e, "the thread that waits for copies cannot be started"))?;
        Ok(Self(Mutex::new(keeper)))
    }

    /// Gives `slot` back when `read` has fired.
    pub(crate) fn slot(&self, read: Arc<Event>, slot: HostSlot) {
        self.keep(Kept::Slot(read, slot));
    }

    /// Gives both back, the block to this pool, when our streams have done all that they were given.
    pub(crate) fn unnamed(&self, slot: Option<HostSlot>, block: Option<(Block, Arc<Blocks>)>) {
        self.keep(Kept::Unnamed(slot, block));
    }

    /// Gives `block` back when the device has done all that it was given by anybody.
    pub(crate) fn anywhere(&self, block: Block) {
        self.keep(Kept::Anywhere(block));
    }

    /// Gives `block` back when these streams have done what they were given, once none of them captures a graph.
    pub(crate) fn read_on(&self, streams: Vec<i64>, block: Block) {
        self.keep(Kept::Read(Read { block, streams }));
    }

    /// Drops `ended`, which may wait for the device. Comes back when that is done, since a process may end then, or when the device
    /// has not answered for long.
    pub(crate) fn ended(&self, ended: Box<dyn Any + Send>) {
        let (dropped, is_dropped) = channel();
        self.keep(Kept::Ended(ended, dropped));
        if is_dropped.recv_timeout(ENDED_MAX) == Err(RecvTimeoutError::Timeout) {
            log::warn!("the CUDA device does not answer: what decodes pictures there is left behind");
        }
    }

    /// Leaves it to the thread, which ends after all ways to it. After a panic nobody takes it: the memory is given up.
    fn keep(&self, kept: Kept) {
        if let Err(lost) = self.0.lock().send(kept) {
            log::error!("a batch's memory is given up, the thread that waits for the device has ended");
            std::mem::forget(lost);
        }
    }
}

impl Site {
    /// A thread's life.
    fn keep(&self, work: &Receiver<Kept>) {
        let mut reads: Vec<Read> = Vec::new();
        let mut last = None;
        loop {
            let kept = match reads.is_empty() {
                true => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => work.recv_timeout(CAPTURE_POLL),
            };
            reads = reads.into_iter().filter_map(|read| self.end(read)).collect();
            match kept {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if reads.is_empty() => return,
                Err(RecvTimeoutError::Disconnected) => {
                    if Instant::now() > *last.get_or_insert_with(|| Instant::now() + CAPTURE_MAX) {
                        log::error!("memory of {} batches is given up, a graph is still being captured", reads.len());
                        return std::mem::forget(reads);
                    }
                    std::thread::sleep(CAPTURE_POLL);
                }
                Ok(Kept::Read(read)) => reads.push(read),
                Ok(Kept::Ended(ended, dropped)) => {
                    drop(ended);
                    let _ = dropped.send(());
                }
                Ok(Kept::Slot(copied, slot)) => drop(after(copied.wait(), slot)),
                Ok(Kept::Unnamed(slot, block)) => {
                    if let Some((_slot, Some((block, pool)))) = after(self.streams.settle(), (slot, block)) {
                        pool.give_back(block, Vec::new());
                    }
                }
                Ok(Kept::Anywhere(block)) => {
                    if let Some(block) = after(self.context.synchronize(), block) {
                        self.blocks.give_back(block, Vec::new());
                    }
                }
            }
        }
    }

    /// Gives the memory back, if that can be, or else `read`.
    fn end(&self, read: Read) -> Option<Read> {
        match readers(&self.context, &read.streams) {
            Ok(Some(readers)) => {
                self.blocks.give_back(read.block, readers);
                None
            }
            Ok(None) => Some(read),
            Err(error) => after(Err(error), read),
        }
    }
}

/// What was `kept`, when it has been `waited` for; if that failed it is given up.
fn after<T>(waited: Result<()>, kept: T) -> Option<T> {
    match waited {
        Ok(()) => Some(kept),
        Err(error) => {
            log::error!("a batch's memory is given up, the device may still use it: {error}");
            std::mem::forget(kept);
            None
        }
    }
}

/// An event on each of these streams, by DLPack's numbers, behind what they have been given; `None` while one captures a graph.
pub(crate) fn readers(context: &Arc<Context>, streams: &[i64]) -> Result<Option<Vec<Arc<Event>>>> {
    for number in streams {
        if context.is_captured(stream(*number))? {
            return Ok(None);
        }
    }
    let record = |number: &i64| {
        let event = Event::new(context)?;
        event.record(stream(*number)).map(|()| Arc::new(event))
    };
    streams.iter().map(record).collect::<Result<_>>().map(Some)
}

/// The stream of DLPack's number: 1 and 2 are the driver's own markers for the default streams.
pub(crate) fn stream(number: i64) -> CUstream {
    std::ptr::with_exposed_provenance_mut(number as usize)
}
