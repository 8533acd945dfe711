//! Rows of a batch in device memory, and the layout of a batch.

use super::TensorMemory;
use crate::decode::PictureForm;
use crate::error::Result;
use crate::memory::BatchSlot;
use crate::sync::Arc;
use std::any::Any;
use std::fmt::Debug;

/// Layout of the rows of one output, which are contiguous.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputLayout {
    /// Offset of the first row.
    pub offset: usize,
    /// Bytes of each row.
    pub row_bytes: usize,
    /// Form of its decoded pictures, if it has pictures that may be files.
    pub form: Option<PictureForm>,
}

/// Rows of a batch that are in device memory: direct rows, and pictures that the device has decoded. They use nothing
/// of the slot, and may be dropped on any thread if the batch is abandoned.
pub trait DeviceRows: Send + Debug {
    /// Delivers the batch. Rows that are not on the device are copied from the slot. Must not wait for the device.
    ///
    /// # Errors
    ///
    /// Failure of the device.
    fn deliver(self: Box<Self>, batch: PartialBatch<'_>) -> Result<Arc<dyn TensorMemory>>;

    /// Returns the concrete type, for the delivery to which the rows belong.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Batch with some rows on the device.
#[derive(Debug)]
pub struct PartialBatch<'a> {
    /// Slot with all rows that are not on the device.
    pub slot: BatchSlot,
    /// Layout of the outputs, the same in the slot and on the device.
    pub outputs: &'a [OutputLayout],
    /// Rows that the batch keeps, ascending. The delivered batch has them without gaps.
    pub rows: &'a [usize],
}
