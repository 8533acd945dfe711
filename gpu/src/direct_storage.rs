//! Files that cuFile reads directly into the memory of a batch: see [`direct_rows`](crate::direct_rows).
//!
//! Not tested on hardware: the tests use a fake driver and a fake library in host memory.

use crate::cufile::library::Library;
use crate::cufile::{Driver, File};
use crate::device::CudaDevice;
use forebay_loader::Result;
use forebay_loader::delivery::{DirectFile, DirectStorage};
use forebay_loader::sync::Arc;
use std::any::Any;
use std::os::fd::OwnedFd;

/// Reads files into a CUDA device's memory.
pub(crate) struct CudaDirectStorage {
    device: Arc<CudaDevice>,
    driver: Arc<Driver>,
}

impl CudaDirectStorage {
    /// Opens the cuFile driver for the device.
    ///
    /// # Errors
    ///
    /// Errors of the driver and the library; `Unsupported` if cuFile would copy through host memory.
    pub(crate) fn open(device: &Arc<CudaDevice>, library: Library) -> Result<Self> {
        let driver = Driver::open(library, &device.context)?;
        Ok(Self { device: device.clone(), driver })
    }
}

impl std::fmt::Debug for CudaDirectStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaDirectStorage").field("device", &self.device.context.number).finish_non_exhaustive()
    }
}

impl DirectFile for File {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl DirectStorage for CudaDirectStorage {
    fn describe(&self) -> String {
        self.driver.describe()
    }

    fn open(&self, file: OwnedFd) -> Result<Arc<dyn DirectFile>> {
        Ok(Arc::new(File::register(&self.driver, file)?))
    }
}
