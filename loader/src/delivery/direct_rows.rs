//! Rows that are written to device memory before their batch is filled.
//!
//! Only rows of columns that have a fixed size and are delivered unchanged are direct rows. Such a row is copied from
//! the read slot of its sample, and the slot is released after the copy; or it is read from its file
//! ([`direct_storage`](super::direct_storage)). The device memory of a batch is allocated with its first direct row. A
//! row that cannot be written to the device is written to its offset in the batch slot, where every row has room. When
//! all rows are done, the rows of the slot are copied to the direct rows on the device.

use super::{DeviceRows, DirectFile};
use crate::error::Result;
use crate::memory::ReadLease;
use crate::sync::Arc;
use std::fmt::Debug;
use std::ops::Range;

/// Device that takes rows before their batch is filled.
pub trait DirectRows: Send + Sync + Debug {
    /// Allocates the memory of a batch of `bytes` bytes. Returns `None` if all memory may still be in use and the
    /// caller may not wait for the device.
    ///
    /// # Errors
    ///
    /// When the device has no memory; then the rows are written to the batch slot.
    fn allocate(&self, bytes: usize, may_wait: bool) -> Result<Option<Arc<dyn DirectBatch>>>;
}

/// Device memory of a batch while rows are written to it, by several threads at the same time, each to its own offsets.
pub trait DirectBatch: Send + Sync + Debug {
    /// Starts copying ranges of `slot` to offsets in the batch. The slot is released after the copies. Must not wait
    /// for the device.
    ///
    /// # Errors
    ///
    /// Failure of the device; then the batch is lost.
    fn copy(&self, slot: ReadLease, rows: &[(Range<usize>, usize)]) -> Result<()>;

    /// Reads `bytes` bytes at `offset` of `file` to offset `at` of the batch, and waits for them.
    ///
    /// # Errors
    ///
    /// When not all of them could be read; then the contents of those bytes are unspecified.
    fn read(&self, file: &dyn DirectFile, offset: u64, bytes: usize, at: usize) -> Result<()>;

    /// Ends the writes and returns the memory of a batch of `rows` rows. `done` lists the rows that are there, or will
    /// be after the copies, by output (counted among the outputs of fixed rows) and row.
    ///
    /// # Errors
    ///
    /// `Internal` when called twice.
    fn finish(&self, rows: usize, done: &[(usize, usize)]) -> Result<Box<dyn DeviceRows>>;
}
