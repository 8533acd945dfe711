//! Delivery of filled batches to a device.
//!
//! The pipeline fills a batch in host memory and passes it to a [`Delivery`]. [`HostDelivery`] hands that memory to the
//! user. A device (in the `gpu` crate) starts a copy on a separate stream and returns at once. A device may also
//! decode pictures ([`decode`]) and take rows before their batch is filled ([`direct_rows`]), which are copied from
//! read slots or read from files ([`direct_storage`]). Nothing in this crate depends on the kind of device.

pub mod decode;
pub mod device_rows;
pub mod direct_rows;
pub mod direct_storage;

pub use decode::{BatchOnDevice, EncodedBatch, InFlightBatch, PictureDecoder, RowPicture};
pub use device_rows::{DeviceRows, OutputLayout, PartialBatch};
pub use direct_rows::{DirectBatch, DirectRows};
pub use direct_storage::{DirectFile, DirectStorage};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{BatchMemory, Registrar};
use crate::sync::Arc;
use crate::topology::Topology;
use std::any::Any;
use std::fmt::Debug;
use std::mem::MaybeUninit;

/// Memory space of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    /// Ordinary host memory.
    Cpu,
    /// CUDA device with this number.
    Cuda(u32),
}

/// Memory that the tensors of one batch share, on the host or a device.
pub trait TensorMemory: Send + Sync + Debug {
    /// Returns the device that has the memory.
    fn device(&self) -> Device;

    /// Returns the address of the first byte, on a device an address of that device. Valid while `self` lives.
    fn address(&self) -> *mut u8;

    /// Returns the bytes if the host can read them.
    fn host(&self) -> Option<&[u8]>;

    /// Makes work that is queued on stream `consumer` from now on wait until the bytes are there, without blocking the
    /// caller. `consumer` is DLPack's stream number. Bytes in host memory are always there.
    ///
    /// # Errors
    ///
    /// When the stream is invalid or captures a graph, or the device has failed.
    fn order_before(&self, consumer: Option<i64>) -> Result<()>;

    /// Called when the consumer receives the batch, which it may keep for any time. May be called more than once.
    fn hand_over(&self) {}

    /// Returns the concrete type, for the delivery to which the memory belongs.
    fn as_any(&self) -> &dyn Any;
}

/// Delivers filled batches to a device.
pub trait Delivery: Send + Sync + Debug {
    /// Returns the device of the delivered batches.
    fn device(&self) -> Device;

    /// Returns the registrar of host memory, if the device copies from it.
    fn registrar(&self) -> Option<&dyn Registrar> {
        None
    }

    /// Returns the index in `topology.nodes()` of the NUMA node to which the device is attached, on which batches are
    /// best filled. `None` if it makes no difference or the machine does not report it.
    fn node(&self, _topology: &Topology) -> Option<usize> {
        None
    }

    /// Returns the allocator of rows of bytes, if the consumer wants them in its own memory.
    fn row_allocator(&self) -> Option<&dyn RowAllocator> {
        None
    }

    /// Creates the decoder of pictures on the device.
    ///
    /// # Errors
    ///
    /// The reason why the device cannot decode; then the host does.
    fn picture_decoder(&self) -> Result<Arc<dyn PictureDecoder>> {
        Err(Error::new(ErrorKind::Unsupported, "batches stay in host memory, where the host decodes pictures"))
    }

    /// Returns the interface for rows that are written before their batch is filled, if the device has one.
    fn direct_rows(&self) -> Option<&dyn DirectRows> {
        None
    }

    /// Creates the reader of files into device memory, for a device that has [direct rows](Self::direct_rows).
    ///
    /// # Errors
    ///
    /// The reason why the device cannot read files; then the host does.
    fn direct_storage(&self) -> Result<Arc<dyn DirectStorage>> {
        Err(Error::new(ErrorKind::Unsupported, "batches stay in host memory, to which the host reads files"))
    }

    /// Fails if the device has failed. Called before each epoch and when an epoch makes no progress, since a wait for a
    /// failed device may never end. Must not wait for the device.
    ///
    /// # Errors
    ///
    /// When the device accepts no more work.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Delivers a filled batch of `bytes` bytes. Must not wait for the device.
    ///
    /// # Errors
    ///
    /// When the device has no memory or has failed.
    fn deliver(&self, filled: BatchMemory, bytes: usize) -> Result<Arc<dyn TensorMemory>>;
}

/// Allocator of the consumer's memory for rows of bytes (`Output::Bytes`), which are then read from the page cache
/// directly into the consumer's objects. Rows with a length that is known only after they were read stay in the
/// loader's memory.
pub trait RowAllocator: Send + Sync + Debug {
    /// Allocates rows of these lengths, in their order; `None` stays `None`. Called only by threads that are inside
    /// `Loader::next`, because a consumer may have locks that only its own threads can take.
    ///
    /// # Errors
    ///
    /// When there is no memory; this ends the epoch.
    fn allocate(&self, lengths: &[Option<usize>]) -> Result<Vec<Option<Box<dyn RowMemory>>>>;
}

/// Memory for one row. May be dropped on any thread.
pub trait RowMemory: Send + Sync + Debug {
    /// Returns all of it. The loader writes every byte before it delivers the row, and reads none.
    fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>];

    /// Returns the concrete type, for the consumer to which the memory belongs.
    fn as_any(&self) -> &dyn Any;
}

/// Delivery in host memory: the user receives the batch slot itself, which returns to its pool when the batch is
/// dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDelivery;

impl Delivery for HostDelivery {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn deliver(&self, filled: BatchMemory, _bytes: usize) -> Result<Arc<dyn TensorMemory>> {
        Ok(Arc::new(filled))
    }
}

impl TensorMemory for BatchMemory {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn address(&self) -> *mut u8 {
        self.ptr().as_ptr()
    }

    fn host(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn order_before(&self, _consumer: Option<i64>) -> Result<()> {
        Ok(())
    }

    fn hand_over(&self) {
        Self::hand_over(self);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
