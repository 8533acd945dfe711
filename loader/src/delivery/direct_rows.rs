//! Rows that are at the target before their batch is filled.
//!
//! Only the stored bytes of columns of fixed size go this way: nothing has to look at them. Such a row is copied right from the
//! slot that its sample was read to, which goes back when the target has it; or it is read from its file
//! ([`direct_storage`](super::direct_storage)). The target sets memory aside for the batch with its first such row. A row's place in the
//! batch slot stays as it was, and rows that cannot go so are written there, in the same batch. When all rows are done, what
//! the slot has goes to the target, beside them.

use super::{DeviceRows, DirectFile, OutputLayout, TensorMemory};
use crate::error::Result;
use crate::memory::{BatchSlot, ReadLease};
use crate::sync::Arc;
use std::fmt::Debug;
use std::ops::Range;

/// Takes rows before their batch is filled.
pub trait DirectRows: Send + Sync + Debug {
    /// Sets memory aside for a batch of `bytes` bytes. `None` where all that there is may still be in use, and the caller may not
    /// wait for the device.
    ///
    /// # Errors
    ///
    /// When there is none; rows are then written to the batch slot.
    fn allocate(&self, bytes: usize, may_wait: bool) -> Result<Option<Arc<dyn DirectBatch>>>;

    /// Takes a batch of which some rows are at the target already. Must not wait for the device.
    ///
    /// # Errors
    ///
    /// When the device has failed.
    fn deliver(&self, batch: PartialBatch<'_>) -> Result<Arc<dyn TensorMemory>>;
}

/// A batch's memory at the target while rows come to it. Several threads may bring some at the same time, each to its own places.
pub trait DirectBatch: Send + Sync + Debug {
    /// Starts copying these bytes of `slot` to places so many bytes behind the batch's start. The slot goes back to its pool when
    /// the target has them. Must not wait for the device.
    ///
    /// # Errors
    ///
    /// When the device has failed; then the batch cannot be had.
    fn copy(&self, slot: ReadLease, rows: &[(Range<usize>, usize)]) -> Result<()>;

    /// Reads `bytes` bytes that `file` has at `offset` to the place `at` bytes behind the batch's start. Waits until they are
    /// there.
    ///
    /// # Errors
    ///
    /// When not all of them could be read; what is in the place then is unspecified.
    fn read(&self, file: &dyn DirectFile, offset: u64, bytes: usize, at: usize) -> Result<()>;

    /// Ends it: the memory, in which the rows `done` (output among those of fixed rows, and row) of a batch of `rows` rows are, or
    /// will be.
    ///
    /// # Errors
    ///
    /// `Internal` when it has been ended before.
    fn finish(&self, rows: usize, done: &[(usize, usize)]) -> Result<DeviceRows>;
}

/// A batch of which rows are at the target already.
#[derive(Debug)]
pub struct PartialBatch<'a> {
    /// Filled: each row of each output is there, or is at the target.
    pub slot: BatchSlot,
    /// Where outputs lie, in the slot and at the target.
    pub outputs: &'a [OutputLayout],
    /// The rows that the batch keeps, ascending: they come to lie one behind another.
    pub rows: &'a [usize],
    /// What is at the target.
    pub on_device: DeviceRows,
}
