//! Delivery of batches to a CUDA device.

use crate::Libraries;
use crate::batch::DeviceBatch;
use crate::context::{Context, Event};
use crate::cufile;
use crate::decode::{Backends, CudaPictureDecoder};
use crate::device::CudaDevice;
use crate::direct_rows::CudaDirectRows;
use crate::direct_storage::CudaDirectStorage;
use crate::nvjpeg::library::Library;
use crate::register::PinnedMemoryRegistrar;
use forebay_loader::delivery::{Delivery, Device, DirectRows, DirectStorage, PictureDecoder, TensorMemory};
use forebay_loader::memory::{BatchMemory, Registrar};
use forebay_loader::sync::Arc;
use forebay_loader::topology::Topology;
use forebay_loader::{Error, Result};

/// Delivers batches to a CUDA device.
///
/// [`deliver`](Delivery::deliver) queues a copy on a separate stream and returns; the host slot returns to its pool
/// when the event of the copy has fired. Device memory is reused: the next copy into it waits, on the device, for the
/// work that consumers had queued on the streams they passed to [`TensorMemory::order_before`]. Consumers order their
/// work on further streams themselves.
pub struct CudaDelivery {
    device: Arc<CudaDevice>,
    registrar: PinnedMemoryRegistrar,
    direct_rows: CudaDirectRows,
    libraries: Libraries,
}

impl std::fmt::Debug for CudaDelivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaDelivery").field("device", &self.device.context.number).finish_non_exhaustive()
    }
}

impl CudaDelivery {
    /// Opens CUDA device `device`, by the driver's number, with the default [`Libraries`]. The driver library is loaded
    /// from `FOREBAY_CUDA_LIBRARY` or from the system. nvJPEG and cuFile are loaded only if they are used, from
    /// `FOREBAY_NVJPEG_LIBRARY` and `FOREBAY_CUFILE_LIBRARY` or from the system.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with the missing part, without a driver, a device or a function of the driver.
    pub fn new(device: u32) -> Result<Arc<Self>> {
        Self::with_libraries(device, &Libraries::default())
    }

    /// Opens CUDA device `device` with the given libraries.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_libraries(device: u32, libraries: &Libraries) -> Result<Arc<Self>> {
        let context = Context::open(device, libraries.driver.as_deref())?;
        let device = CudaDevice::open(&context)?;
        let direct_rows = CudaDirectRows::new(&device);
        let registrar = PinnedMemoryRegistrar::new(context);
        Ok(Arc::new(Self { device, registrar, direct_rows, libraries: libraries.clone() }))
    }
}

impl Delivery for CudaDelivery {
    fn device(&self) -> Device {
        Device::Cuda(self.device.context.number)
    }

    fn registrar(&self) -> Option<&dyn Registrar> {
        Some(&self.registrar)
    }

    fn node(&self, topology: &Topology) -> Option<usize> {
        topology.node_of_device(&self.device.context.bus_id().ok()?)
    }

    fn picture_decoder(&self) -> Result<Arc<dyn PictureDecoder>> {
        let Libraries { nvjpeg, packages, .. } = &self.libraries;
        let open = |library| Backends::open(library, &self.device.context);
        let backends = Library::find(nvjpeg.as_deref(), packages, open)?;
        Ok(Arc::new(CudaPictureDecoder::open(&self.device, backends)?))
    }

    fn direct_rows(&self) -> Option<&dyn DirectRows> {
        Some(&self.direct_rows)
    }

    fn direct_storage(&self) -> Result<Arc<dyn DirectStorage>> {
        let library = cufile::library::Library::find(self.libraries.cufile.as_deref(), &self.libraries.packages)?;
        Ok(Arc::new(CudaDirectStorage::open(&self.device, library)?))
    }

    fn check(&self) -> Result<()> {
        self.device.check()
    }

    fn deliver(&self, filled: BatchMemory, bytes: usize) -> Result<Arc<dyn TensorMemory>> {
        let device = &self.device;
        let Some(source) = filled.get(..bytes) else {
            let message = "a batch is larger than its slot";
            return Err(Error::internal(message).with("bytes", bytes).with("memory", filled.len()));
        };
        let copied = Arc::new(Event::new(&device.context)?);
        let _order = device.order.lock();
        let block = device.blocks.take(&device.context, bytes, &device.stream)?;
        // SAFETY: the release thread holds `filled`, which is not written, until the event of the copy has fired; the
        // block is at least as long as `source` and used by nothing else.
        let started = unsafe { device.stream.copy_in(block.address, source) };
        if let Err(error) = started.and_then(|()| copied.record(device.stream.handle)) {
            device.release_batch_after_streams(filled, block);
            return Err(error);
        }
        device.release_slot_after(copied.clone(), filled);
        Ok(Arc::new(DeviceBatch::new(device, block, copied)))
    }
}
