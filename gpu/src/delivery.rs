//! The target: a copy stream, the batches it fills, and the thread that gives host slots back.

use crate::Libraries;
use crate::context::{Context, Event, OwnStreams, Stream};
use crate::cufile;
use crate::decode::{Backends, DevicePictures};
use crate::direct_rows::CudaDirectRows;
use crate::direct_storage::CudaDirectStorage;
use crate::memory::{Block, Blocks};
use crate::nvjpeg::library::Library;
use crate::register::HostMemory;
use crate::release::{HostSlot, Keeper, Site, readers, stream};
use forebay_loader::delivery::{Delivery, Device, DirectRows, DirectStorage, PictureDecoder, TensorMemory};
use forebay_loader::memory::{BatchMemory, Registrar};
use forebay_loader::sync::{Arc, Mutex};
use forebay_loader::topology::Topology;
use forebay_loader::{Error, Result};
use std::any::Any;

/// DLPack's number of the per-thread default stream, which is another one on every thread.
const PER_THREAD_STREAM: i64 = 2;

/// Batches on a CUDA device.
///
/// [`place`](Delivery::place) starts a copy on the target's own stream and returns; the host slot goes back to its
/// pool when the copy's event has fired. Device memory is kept for reuse, which waits on the device for what consumers
/// had queued on the streams they named. Work that reads a batch on other streams is for the consumer to order.
pub struct CudaDelivery {
    shared: Arc<Shared>,
    registrar: HostMemory,
    early: CudaDirectRows,
    libraries: Libraries,
}

/// What the target and its batches share.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) stream: Arc<Stream>,
    /// This one and all others that the engine has on the device.
    pub(crate) streams: Arc<OwnStreams>,
    pub(crate) blocks: Arc<Blocks>,
    keeper: Keeper,
    /// Recorded before anything else.
    opened: Event,
    /// Held over taking a block and starting its copy: copies and the keeper's queue have one order.
    pub(crate) order: Mutex<()>,
}

impl Shared {
    /// Gives `slot` back when `read` has fired.
    pub(crate) fn keep_slot(&self, read: Arc<Event>, slot: impl Into<HostSlot>) {
        self.keeper.slot(read, slot.into());
    }

    /// Gives both back when our streams have done all that they were given.
    pub(crate) fn keep_unnamed(&self, slot: impl Into<HostSlot>, block: Block) {
        self.keeper.unnamed(Some(slot.into()), Some((block, self.blocks.clone())));
    }

    /// The same for memory without a slot, which goes to `pool`.
    pub(crate) fn keep_block(&self, block: Block, pool: &Arc<Blocks>) {
        self.keeper.unnamed(None, Some((block, pool.clone())));
    }

    /// Drops `ended`, and waits a while until it is: it may wait for the device.
    pub(crate) fn end(&self, ended: impl Any + Send) {
        self.keeper.ended(Box::new(ended));
    }

    /// Where another keeper works.
    pub(crate) fn site(&self) -> Site {
        Site { context: self.context.clone(), streams: self.streams.clone(), blocks: self.blocks.clone() }
    }
}

impl std::fmt::Debug for CudaDelivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaDelivery").field("device", &self.shared.context.number).finish_non_exhaustive()
    }
}

impl CudaDelivery {
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
        let (streams, blocks) = (Arc::new(OwnStreams::default()), Arc::<Blocks>::default());
        let stream = streams.open(&context)?;
        let site = Site { context: context.clone(), streams: streams.clone(), blocks: blocks.clone() };
        let keeper = Keeper::start("forebay-copied", site)?;
        let opened = Event::new(&context)?;
        opened.record(stream.handle)?;
        let order = Mutex::new(());
        let shared = Shared { context: context.clone(), stream, streams, blocks, keeper, opened, order };
        let shared = Arc::new(shared);
        let early = CudaDirectRows::new(&shared);
        Ok(Arc::new(Self { shared, registrar: HostMemory::new(context), early, libraries: libraries.clone() }))
    }
}

impl Delivery for CudaDelivery {
    fn device(&self) -> Device {
        Device::Cuda(self.shared.context.number)
    }

    fn registrar(&self) -> Option<&dyn Registrar> {
        Some(&self.registrar)
    }

    fn node(&self, topology: &Topology) -> Option<usize> {
        topology.node_of_device(&self.shared.context.bus_id().ok()?)
    }

    fn picture_decoder(&self) -> Result<Arc<dyn PictureDecoder>> {
        let Libraries { nvjpeg, packages, .. } = &self.libraries;
        let open = |library| Backends::open(library, &self.shared.context);
        let backends = Library::find(nvjpeg.as_deref(), packages, open)?;
        Ok(Arc::new(DevicePictures::open(&self.shared, backends)?))
    }

    fn direct_rows(&self) -> Option<&dyn DirectRows> {
        Some(&self.early)
    }

    fn direct_storage(&self) -> Result<Arc<dyn DirectStorage>> {
        let library = cufile::library::Library::find(self.libraries.cufile.as_deref(), &self.libraries.packages)?;
        Ok(Arc::new(CudaDirectStorage::open(&self.shared, library)?))
    }

    fn check(&self) -> Result<()> {
        // Its own answer is known; the driver adds what has failed before.
        self.shared.opened.has_fired().map(drop)
    }

    fn deliver(&self, filled: BatchMemory, bytes: usize) -> Result<Arc<dyn TensorMemory>> {
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
            Ok(None) => self.shared.keeper.read_on(streams, block),
            Ok(Some(mut readers)) => {
                // Who did not ask for order has not waited for it, and the next writer may use another stream, or none.
                if readers.is_empty() && !self.copied.has_fired().unwrap_or(false) {
                    readers.push(self.copied.clone());
                }
                self.shared.blocks.give_back(block, readers);
            }
            // Without an event the host has to wait, and here it must not.
            Err(_) => self.shared.keeper.anywhere(block),
        }
    }
}
