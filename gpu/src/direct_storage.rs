//! Files that cuFile reads right into a batch's memory on the device: see [`direct_rows`](crate::direct_rows).
//!
//! Untested on hardware: the tests run over stand-ins for driver and library in host memory.

use crate::cufile::library::Library;
use crate::cufile::{Driver, File};
use crate::delivery::Shared;
use forebay_loader::Result;
use forebay_loader::delivery::{DirectFile, DirectStorage};
use forebay_loader::sync::Arc;
use std::any::Any;
use std::os::fd::OwnedFd;

/// Reads files into a CUDA device's memory.
pub(crate) struct CudaDirectStorage {
    shared: Arc<Shared>,
    driver: Arc<Driver>,
}

impl CudaDirectStorage {
    /// Opens what `library` offers for the target's device.
    ///
    /// # Errors
    ///
    /// What the driver and the library say; `Unsupported` where it only copies by way of host memory.
    pub(crate) fn open(shared: &Arc<Shared>, library: Library) -> Result<Self> {
        let driver = Driver::open(library, &shared.context)?;
        Ok(Self { shared: shared.clone(), driver })
    }
}

impl std::fmt::Debug for CudaDirectStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaDirectStorage").field("device", &self.shared.context.number).finish_non_exhaustive()
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
