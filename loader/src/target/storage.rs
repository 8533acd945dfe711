//! Rows that are read from files on local disk right into the memory of the target (GPUDirect Storage).
//!
//! Only the stored bytes of columns of fixed size go this way: nothing has to look at them. Such a row is read as soon as its
//! turn comes, into memory that the target sets aside for the batch with its first such row, and its place in the batch slot
//! stays as it was. What cannot be read so is read by the host into that place, in the same batch, and an error of the disk
//! or of the shard is then what it always is. When all rows are done, what the slot has goes to the target, beside them.

use super::{Decoded, OutputPlace, TensorMemory};
use crate::error::Result;
use crate::memory::BatchSlot;
use crate::sync::Arc;
use std::any::Any;
use std::fmt::Debug;
use std::os::fd::OwnedFd;

/// Reads files into the target's memory.
pub trait StorageReader: Send + Sync + Debug {
    /// What it is, for the statistics: "cuFile 1.14 over nvidia-fs 2.25".
    fn describe(&self) -> String;

    /// Prepares `file`, which was opened with O_DIRECT, for reads. It is closed when the answer is dropped.
    ///
    /// # Errors
    ///
    /// When the file system or the library does not do it for this file; the host then reads it.
    fn open(&self, file: OwnedFd) -> Result<Arc<dyn StoredFile>>;

    /// Sets memory aside for a batch of `bytes` bytes. May wait for the device.
    ///
    /// # Errors
    ///
    /// When there is none; the host then reads the rows.
    fn begin(&self, bytes: usize) -> Result<Arc<dyn RowsAtTarget>>;

    /// Takes a batch of which some rows are at the target already. Must not wait for the device.
    ///
    /// # Errors
    ///
    /// When the device has failed.
    fn place(&self, batch: HalfBatch<'_>) -> Result<Arc<dyn TensorMemory>>;
}

/// A file that a [`StorageReader`] reads.
pub trait StoredFile: Send + Sync + Debug {
    /// The concrete type, for the reader that gets its own file back.
    fn as_any(&self) -> &dyn Any;
}

/// A batch's memory at the target while rows are read into it.
pub trait RowsAtTarget: Send + Sync + Debug {
    /// Reads `bytes` bytes that `file` has at `offset` to the place `at` bytes behind the batch's start. Waits until they are
    /// there. Several threads may read at the same time, each to its own places.
    ///
    /// # Errors
    ///
    /// When not all of them could be read; what is in the place then is unspecified.
    fn read(&self, file: &dyn StoredFile, offset: u64, bytes: usize, at: usize) -> Result<()>;

    /// Ends the reading: the memory, in which the rows `read` (output among those of fixed rows, and row) of a batch of `rows`
    /// rows are done.
    ///
    /// # Errors
    ///
    /// `Internal` when it has been ended before.
    fn finish(&self, rows: usize, read: &[(usize, usize)]) -> Result<Decoded>;
}

/// A batch of which rows are at the target already.
#[derive(Debug)]
pub struct HalfBatch<'a> {
    /// Filled: each row of each output is there, or is at the target.
    pub slot: BatchSlot,
    /// Where outputs lie, in the slot and at the target.
    pub outputs: &'a [OutputPlace],
    /// The rows that the batch keeps, ascending: they come to lie one behind another.
    pub rows: &'a [usize],
    /// What is at the target.
    pub decoded: Decoded,
}
