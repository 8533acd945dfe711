//! Rows that are read from files on local disk directly into device memory (GPUDirect Storage).
//!
//! Such rows are [direct rows](super::direct_rows). A row that cannot be read this way is read by the host, so errors
//! of the disk and of the shard are the same as without a device.

use crate::error::Result;
use crate::sync::Arc;
use std::any::Any;
use std::fmt::Debug;
use std::os::fd::OwnedFd;

/// Reader of files into device memory.
pub trait DirectStorage: Send + Sync + Debug {
    /// Returns a description for the statistics, such as "cuFile 1.14 over nvidia-fs 2.25".
    fn describe(&self) -> String;

    /// Prepares `file`, which was opened with O_DIRECT, for reads. The file is closed when the returned value is
    /// dropped.
    ///
    /// # Errors
    ///
    /// When the file system or the library does not support it for this file; then the host reads the file.
    fn open(&self, file: OwnedFd) -> Result<Arc<dyn DirectFile>>;
}

/// File of a [`DirectStorage`].
pub trait DirectFile: Send + Sync + Debug {
    /// Returns the concrete type, for the delivery to which the file belongs.
    fn as_any(&self) -> &dyn Any;
}
