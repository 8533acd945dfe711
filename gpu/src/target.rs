//! The target: a copy stream, the batches it fills, and the thread that gives host slots back.

use crate::Libraries;
use crate::context::{CAPTURE_MAX, Context, Event, Stream};
use crate::cufile;
use crate::early::DeviceRows;
use crate::memory::{Block, Blocks};
use crate::nvjpeg::library::Library;
use crate::pictures::{Backends, DevicePictures};
use crate::register::HostMemory;
use crate::storage::DeviceStorage;
use cudarc::driver::sys::CUstream;
use forebay_loader::memory::{BatchMemory, ReadLease, Registrar};
use forebay_loader::sync::{Arc, Mutex};
use forebay_loader::target::{BatchTarget, Device, EarlyRows, PictureDecoder, StorageReader, TensorMemory};
use forebay_loader::topology::Topology;
use forebay_loader::{Error, Result};
use std::any::Any;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// DLPack's number of the per-thread default stream, which is another one on every thread.
const PER_THREAD_STREAM: i64 = 2;

/// Work for the keeper: what has to wait on the host, which nobody else may.
enum Kept {
    /// A slot whose copy is under way; in the order of the copies. Bounded by the pools' slots.
    Slot(Arc<Event>, HostSlot),
    /// Memory whose last use no event names: all that the device has been given is waited for. The block goes to these.
    Unnamed(Option<HostSlot>, Option<(Block, Arc<Blocks>)>),
    /// Memory that consumers have read on streams of which some capture graphs.
    Read(Read),
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

/// How often it is asked whether a stream still captures a graph.
const CAPTURE_POLL: Duration = Duration::from_millis(10);

/// A batch's memory that consumers have read on these streams. An event on one that captures a graph would be the graph's, and to
/// wait for the device would end the capture: so it is waited until none does.
struct Read {
    block: Block,
    streams: Vec<i64>,
}

impl Read {
    /// Gives the memory back, if that can be, or else this.
    fn end(self, context: &Arc<Context>, blocks: &Blocks) -> Option<Self> {
        match readers(context, &self.streams) {
            Ok(Some(readers)) => {
                blocks.give_back(self.block, readers);
                None
            }
            Ok(None) => Some(self),
            Err(error) => {
                log::error!("a batch's memory is given up, the device may still read it: {error}");
                std::mem::forget(self.block);
                None
            }
        }
    }
}

/// An event on each of these streams, by DLPack's numbers, behind what they have been given; `None` while one captures a graph.
fn readers(context: &Arc<Context>, streams: &[i64]) -> Result<Option<Vec<Arc<Event>>>> {
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

/// Batches on a CUDA device.
///
/// [`place`](BatchTarget::place) starts a copy on the target's own stream and returns; the host slot goes back to its
/// pool when the copy's event has fired. Device memory is kept for reuse, which waits on the device for what consumers
/// had queued on the streams they named. Work that reads a batch on other streams is for the consumer to order.
pub struct CudaTarget {
    shared: Arc<Shared>,
    registrar: HostMemory,
    early: DeviceRows,
    libraries: Libraries,
}

/// What the target and its batches share.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) stream: Stream,
    pub(crate) blocks: Arc<Blocks>,
    keeper: Mutex<Sender<Kept>>,
    /// Held over taking a block and starting its copy: copies and the keeper's queue have one order.
    pub(crate) order: Mutex<()>,
}

impl Shared {
    /// Gives `slot` back when `read` has fired.
    pub(crate) fn keep_slot(&self, read: Arc<Event>, slot: impl Into<HostSlot>) {
        self.keep(Kept::Slot(read, slot.into()));
    }

    /// Gives `slot` back when the device has done all that it was given.
    pub(crate) fn keep_unknown(&self, slot: impl Into<HostSlot>) {
        self.keep(Kept::Unnamed(Some(slot.into()), None));
    }

    /// Gives both back when the device has done all that it was given.
    pub(crate) fn keep_unnamed(&self, slot: impl Into<HostSlot>, block: Block) {
        self.keep(Kept::Unnamed(Some(slot.into()), Some((block, self.blocks.clone()))));
    }

    /// Gives memory without a slot back to `pool` when the device has done all that it was given.
    pub(crate) fn keep_block(&self, block: Block, pool: &Arc<Blocks>) {
        self.keep(Kept::Unnamed(None, Some((block, pool.clone()))));
    }

    /// Leaves it to the keeper. Its thread ends after all senders, or by a panic: then the memory is given up.
    fn keep(&self, kept: Kept) {
        if let Err(lost) = self.keeper.lock().send(kept) {
            log::error!("a batch's memory is given up, the thread that waits for the device has ended");
            std::mem::forget(lost);
        }
    }
}

impl std::fmt::Debug for CudaTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaTarget").field("device", &self.shared.context.number).finish_non_exhaustive()
    }
}

impl CudaTarget {
    /// Batches on CUDA device `device`, counted as the driver does. The driver library is the one that
    /// `FOREBAY_CUDA_LIBRARY` names, or the system's; nvJPEG, where pictures are to be decoded on the device, the one that
    /// `FOREBAY_NVJPEG_LIBRARY` names, and cuFile, where rows are to be read there, the one that `FOREBAY_CUFILE_LIBRARY` names,
    /// or the system's.
    ///
    /// # Errors
    ///
    /// `Unsupported`, saying what is missing, without a driver, a device, or a function of the driver.
    pub fn new(device: u32) -> Result<Arc<Self>> {
        Self::with_libraries(device, &Libraries::default())
    }

    /// The same with the libraries that `libraries` names.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_libraries(device: u32, libraries: &Libraries) -> Result<Arc<Self>> {
        let context = Context::open(device, libraries.driver.as_deref())?;
        let stream = Stream::new(&context)?;
        let blocks = Arc::new(Blocks::default());
        let (keeper, work) = channel();
        let (its_context, its_blocks) = (context.clone(), blocks.clone());
        std::thread::Builder::new()
            .name("forebay-copied".to_owned())
            .spawn(move || keep(&work, &its_context, &its_blocks))
            .map_err(|e| Error::from_io(e, "the thread that waits for copies cannot be started"))?;
        let (keeper, order) = (Mutex::new(keeper), Mutex::new(()));
        let shared = Arc::new(Shared { context: context.clone(), stream, blocks, keeper, order });
        let early = DeviceRows { shared: shared.clone() };
        Ok(Arc::new(Self { shared, registrar: HostMemory::new(context), early, libraries: libraries.clone() }))
    }
}

/// The keeper's life: ends when target and batches have gone and all copies are done.
fn keep(work: &Receiver<Kept>, context: &Arc<Context>, blocks: &Blocks) {
    let mut reads: Vec<Read> = Vec::new();
    let mut last = None;
    loop {
        let kept = match reads.is_empty() {
            true => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => work.recv_timeout(CAPTURE_POLL),
        };
        reads = reads.into_iter().filter_map(|read| read.end(context, blocks)).collect();
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
            Ok(Kept::Slot(copied, slot)) => match copied.wait() {
                Ok(()) => drop(slot),
                Err(error) => {
                    log::error!("a batch's host memory is given up, the device may still read it: {error}");
                    std::mem::forget(slot);
                }
            },
            Ok(Kept::Unnamed(slot, block)) => match context.synchronize() {
                Ok(()) => {
                    if let Some((block, pool)) = block {
                        pool.give_back(block, Vec::new());
                    }
                    drop(slot);
                }
                Err(error) => {
                    log::error!("a batch's memory is given up, the device may still use it: {error}");
                    std::mem::forget((slot, block));
                }
            },
        }
    }
}

impl BatchTarget for CudaTarget {
    fn device(&self) -> Device {
        Device::Cuda(self.shared.context.number)
    }

    fn registrar(&self) -> Option<&dyn Registrar> {
        Some(&self.registrar)
    }

    fn node(&self, topology: &Topology) -> Option<usize> {
        topology.node_of_device(&self.shared.context.bus_id().ok()?)
    }

    fn pictures(&self) -> Result<Arc<dyn PictureDecoder>> {
        let Libraries { nvjpeg, packages, .. } = &self.libraries;
        let open = |library| Backends::open(library, &self.shared.context);
        let backends = Library::find(nvjpeg.as_deref(), packages, open)?;
        Ok(Arc::new(DevicePictures::open(&self.shared, backends)?))
    }

    fn early_rows(&self) -> Option<&dyn EarlyRows> {
        Some(&self.early)
    }

    fn storage(&self) -> Result<Arc<dyn StorageReader>> {
        let library = cufile::library::Library::find(self.libraries.cufile.as_deref(), &self.libraries.packages)?;
        Ok(Arc::new(DeviceStorage::open(&self.shared, library)?))
    }

    fn place(&self, filled: BatchMemory, bytes: usize) -> Result<Arc<dyn TensorMemory>> {
        let shared = &self.shared;
        let Some(source) = filled.get(..bytes) else {
            let message = "a batch is larger than the memory it was filled in";
            return Err(Error::internal(message).with("bytes", bytes).with("memory", filled.len()));
        };
        let copied = Arc::new(Event::new(&shared.context)?);
        let _order = shared.order.lock();
        let block = shared.blocks.take(&shared.context, bytes, &shared.stream)?;
        // SAFETY: the keeper holds `filled`, which nobody writes, until the copy's event has fired; the block is at
        // least as long as `source` and nobody else has it.
        let started = unsafe { shared.stream.copy_in(block.address, source) };
        if let Err(error) = started.and_then(|()| copied.record(shared.stream.handle)) {
            shared.keep_unnamed(filled, block);
            return Err(error);
        }
        shared.keep_slot(copied.clone(), filled);
        Ok(Arc::new(DeviceBatch::new(shared, block, copied)))
    }
}

/// A batch on the device.
pub(crate) struct DeviceBatch {
    shared: Arc<Shared>,
    /// Taken when dropped.
    block: Option<Block>,
    copied: Arc<Event>,
    /// The consumers' streams, by DLPack's numbers.
    streams: Mutex<Vec<i64>>,
}

impl DeviceBatch {
    /// The batch in `block`, which is there when `copied` has fired.
    pub(crate) fn new(shared: &Arc<Shared>, block: Block, copied: Arc<Event>) -> Self {
        Self { shared: shared.clone(), block: Some(block), copied, streams: Mutex::default() }
    }
}

impl std::fmt::Debug for DeviceBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceBatch").field("device", &self.shared.context.number).finish_non_exhaustive()
    }
}

/// The stream of DLPack's number: 1 and 2 are the driver's own markers for the default streams.
fn stream(number: i64) -> CUstream {
    std::ptr::with_exposed_provenance_mut(number as usize)
}

impl TensorMemory for DeviceBatch {
    fn device(&self) -> Device {
        Device::Cuda(self.shared.context.number)
    }

    fn address(&self) -> *mut u8 {
        let address = self.block.as_ref().map_or(0, |b| b.address);
        std::ptr::with_exposed_provenance_mut(address as usize)
    }

    fn host(&self) -> Option<&[u8]> {
        None
    }

    fn order_before(&self, consumer: Option<i64>) -> Result<()> {
        let number = match consumer {
            // The consumer orders its work itself.
            Some(-1) => return Ok(()),
            // Without a number it is the legacy default stream.
            None => 1,
            Some(number) if number > 0 => number,
            Some(number) => {
                let message = "this is not a stream: DLPack allows -1, 1, 2 and addresses of streams";
                return Err(Error::config(message).with("stream", number));
            }
        };
        if self.shared.context.is_captured(stream(number))? {
            let message = "a batch cannot be taken on a stream while a graph is captured there: take it before, and copy it into \
                           the graph's own memory";
            return Err(Error::config(message).with("stream", number));
        }
        self.copied.hold_back(stream(number))?;
        let mut streams = self.streams.lock();
        if !streams.contains(&number) {
            streams.push(number);
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for DeviceBatch {
    fn drop(&mut self) {
        let Some(block) = self.block.take().filter(|_| self.shared.context.is_ours()) else {
            return;
        };
        let streams = std::mem::take(&mut *self.streams.lock());
        let events = match streams.contains(&PER_THREAD_STREAM) {
            // The deleter may run on another thread, whose default stream is not the consumer's.
            true => Err(Error::internal("a stream without a name")),
            false => readers(&self.shared.context, &streams),
        };
        match events {
            Ok(None) => self.shared.keep(Kept::Read(Read { block, streams })),
            Ok(Some(mut readers)) => {
                // Who did not ask for order has not waited for it, and the next writer may use another stream, or none.
                if readers.is_empty() && !self.copied.has_fired().unwrap_or(false) {
                    readers.push(self.copied.clone());
                }
                self.shared.blocks.give_back(block, readers);
            }
            // Without an event the host has to wait, and here it must not.
            Err(_) => self.shared.keep_block(block, &self.shared.blocks),
        }
    }
}
