//! Where finished batches go.
//!
//! The pipeline fills a batch in host memory and hands it to a [`Delivery`]. The host target gives the memory itself
//! to the user; a device target (in the `gpu` crate) starts a copy on its own stream and answers at once. A target may also
//! decode pictures itself ([`decode`]), or have rows before their batch is filled ([`direct_rows`]): copied from where they were read
//! to, or read from files ([`direct_storage`]). Nothing here knows what the device is.

pub mod decode;
pub mod direct_rows;
pub mod direct_storage;

pub use decode::{DecodeOutcome, DeviceRows, EncodedBatch, InFlightBatch, OutputLayout, PictureDecoder, RowPicture};
pub use direct_rows::{DirectBatch, DirectRows, PartialBatch};
pub use direct_storage::{DirectFile, DirectStorage};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{BatchMemory, Registrar};
use crate::sync::Arc;
use crate::topology::Topology;
use std::any::Any;
use std::fmt::Debug;
use std::mem::MaybeUninit;

/// A place where tensors lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    /// Ordinary host memory.
    Cpu,
    /// A CUDA device by its number.
    Cuda(u32),
}

/// Memory that tensors of one batch share, wherever it lies.
pub trait TensorMemory: Send + Sync + Debug {
    /// Where it lies.
    fn device(&self) -> Device;

    /// First byte; for a device, an address of that device. Valid while `self` lives.
    fn address(&self) -> *mut u8;

    /// The bytes, if the host can read them.
    fn host(&self) -> Option<&[u8]>;

    /// Makes work that `consumer` is given from now on wait until the bytes are there, without blocking the caller.
    /// `consumer` is DLPack's stream number. Host memory is always there.
    ///
    /// # Errors
    ///
    /// When the device refuses.
    fn order_before(&self, consumer: Option<i64>) -> Result<()>;

    /// The consumer has it from now on, and may keep it as long as it likes. May be called again.
    fn hand_over(&self) {}

    /// The concrete type, for a target that gets its own memory back.
    fn as_any(&self) -> &dyn Any;
}

/// Takes filled batches to where the user wants them.
pub trait Delivery: Send + Sync + Debug {
    /// Where batches end up.
    fn device(&self) -> Device;

    /// What registers batch slots with the device, if it copies from them.
    fn registrar(&self) -> Option<&dyn Registrar>;

    /// The index in `topology.nodes()` of the NUMA node that batches are best filled on: where the device hangs. `None`
    /// where it makes no difference, or the machine does not say.
    fn node(&self, _topology: &Topology) -> Option<usize> {
        None
    }

    /// What gives memory to rows of bytes, if the consumer wants them in memory of its own.
    fn row_allocator(&self) -> Option<&dyn RowAllocator> {
        None
    }

    /// What decodes pictures at the target. Made with the first call.
    ///
    /// # Errors
    ///
    /// When there is nothing that does, saying why; pictures are then decoded on the host.
    fn picture_decoder(&self) -> Result<Arc<dyn PictureDecoder>> {
        Err(Error::new(ErrorKind::Unsupported, "batches stay in host memory, where pictures are decoded anyway"))
    }

    /// What takes rows before their batch is filled, if the target does.
    fn direct_rows(&self) -> Option<&dyn DirectRows> {
        None
    }

    /// What reads rows from files right into the target's memory, for a target that has [early rows](Self::direct_rows). Made with
    /// the first call.
    ///
    /// # Errors
    ///
    /// When there is nothing that does, saying why; rows are then read by the host.
    fn direct_storage(&self) -> Result<Arc<dyn DirectStorage>> {
        Err(Error::new(ErrorKind::Unsupported, "batches stay in host memory, where files are read to anyway"))
    }

    /// Asked before each epoch and when one does not move: what waits for a device that has failed for good waits for ever. Must
    /// not wait for the device.
    ///
    /// # Errors
    ///
    /// When the device takes no work any more.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Takes a filled batch of `bytes` bytes. Must not wait for the device.
    ///
    /// # Errors
    ///
    /// When the device has no memory left or has failed.
    fn deliver(&self, filled: BatchMemory, bytes: usize) -> Result<Arc<dyn TensorMemory>>;
}

/// Memory of the consumer's for rows of bytes (`Output::Bytes`), which are then read from the page cache right into the
/// consumer's objects. Rows whose length shows only when they have been read lie in the engine's memory all the same.
pub trait RowAllocator: Send + Sync + Debug {
    /// Memory for rows of these lengths, in their order; `None` stays `None`. Called by the threads that are inside
    /// `Loader::next`, and by no other: a consumer may have locks that only its own threads take.
    ///
    /// # Errors
    ///
    /// When there is no memory; ends the epoch.
    fn allocate(&self, lengths: &[Option<usize>]) -> Result<Vec<Option<Box<dyn RowMemory>>>>;
}

/// Memory for one row. Dropped on any thread.
pub trait RowMemory: Send + Sync + Debug {
    /// All of it. The engine writes every byte before the row is handed out, and reads none.
    fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>];

    /// The concrete type, for a consumer that gets its own memory back.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Batches stay in host memory: `deliver` hands the slot itself over, and it returns to the pool when the user drops it.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDelivery;

impl Delivery for HostDelivery {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn registrar(&self) -> Option<&dyn Registrar> {
        None
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
