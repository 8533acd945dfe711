//! Rows that are read from files on local disk right into the memory of the target (GPUDirect Storage).
//!
//! Such a row is read as soon as its turn comes, and is one of the [early rows](super::direct_rows). What cannot be read so is read by
//! the host, and an error of the disk or of the shard is then what it always is.

use crate::error::Result;
use crate::sync::Arc;
use std::any::Any;
use std::fmt::Debug;
use std::os::fd::OwnedFd;

/// Reads files into the target's memory.
pub trait DirectStorage: Send + Sync + Debug {
    /// What it is, for the statistics: "cuFile 1.14 over nvidia-fs 2.25".
    fn describe(&self) -> String;

    /// Prepares `file`, which was opened with O_DIRECT, for reads. It is closed when the answer is dropped.
    ///
    /// # Errors
    ///
    /// When the file system or the library does not do it for this file; the host then reads it.
    fn open(&self, file: OwnedFd) -> Result<Arc<dyn DirectFile>>;
}

/// A file that a [`DirectStorage`] reads.
pub trait DirectFile: Send + Sync + Debug {
    /// The concrete type, for the target that gets its own file back.
    fn as_any(&self) -> &dyn Any;
}
