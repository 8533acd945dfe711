//! Driver and files of cuFile as owned values, used with the context of their device current.

use super::library::Library;
use super::{result, sys};
use crate::context::Context;
use crate::memory::Block;
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};

/// Feature bit of versions after the bindings': DMA between devices on the PCI bus, by the kernel without cuFile.
const P2P_SUPPORTED: u32 = 4;

/// Driver, opened for the process. It is never closed, because libraries in the process may use cuFile.
pub(crate) struct Driver {
    library: Library,
    context: Arc<Context>,
    /// Name of the transport that moves the bytes.
    transport: String,
}

impl Driver {
    /// Opens the driver with the context of the device current.
    ///
    /// # Errors
    ///
    /// `Unsupported` in compatibility mode, in which bytes go through host memory; errors of the library.
    pub(crate) fn open(library: Library, context: &Arc<Context>) -> Result<Arc<Self>> {
        let properties = context.enter(|| {
            match result::open(&library) {
                Err(error) if !error.is_open_already() => return Err(error.into()),
                _ => {}
            }
            Ok(result::properties(&library)?)
        })?;
        let Some(transport) = transport(&properties) else {
            let message = "cuFile runs in compatibility mode, in which it reads into host memory and copies from \
                           there: load the kernel module nvidia-fs, or allow PCI peer-to-peer DMA in cufile.json";
            return Err(Error::new(ErrorKind::Unsupported, message).with("device", context.number));
        };
        Ok(Arc::new(Self { library, context: context.clone(), transport }))
    }

    /// Returns a description such as "cuFile 1.14 over nvidia-fs 2.25".
    pub(crate) fn describe(&self) -> String {
        match result::version(&self.library) {
            Some((major, minor)) => format!("cuFile {major}.{minor} over {}", self.transport),
            None => format!("cuFile over {}", self.transport),
        }
    }
}

/// Returns the transport from a drive to the device; `None` if all bytes go through host memory.
fn transport(properties: &sys::CUfileDrvProps_t) -> Option<String> {
    let nvfs = &properties.nvfs;
    let p2p = sys::CUfileDriverStatusFlags::CU_FILE_NVME_P2P_SUPPORTED.0;
    match (nvfs.major_version, nvfs.minor_version) {
        (0, 0) => {
            let is_p2p = nvfs.dstatusflags & (1 << p2p) != 0 || properties.fflags & (1 << P2P_SUPPORTED) != 0;
            is_p2p.then(|| "PCI peer-to-peer DMA".to_owned())
        }
        (major, minor) => Some(format!("nvidia-fs {major}.{minor}")),
    }
}

/// Open file that is registered with the library.
pub(crate) struct File {
    driver: Arc<Driver>,
    handle: sys::CUfileHandle_t,
    /// Closed after the handle is deregistered.
    file: OwnedFd,
}

// SAFETY: the library's functions may be called from any thread, even for several reads of one handle at the same time.
unsafe impl Send for File {}
// SAFETY: as above.
unsafe impl Sync for File {}

impl File {
    /// Registers `file`, which was opened with O_DIRECT.
    ///
    /// # Errors
    ///
    /// Errors of the library.
    pub(crate) fn register(driver: &Arc<Driver>, file: OwnedFd) -> Result<Self> {
        let handle = driver.context.enter(|| {
            // SAFETY: the file is closed only after the handle is deregistered.
            Ok(unsafe { result::register(&driver.library, file.as_fd()) }?)
        })?;
        Ok(Self { driver: driver.clone(), handle, file })
    }

    /// Reads `bytes` bytes at `offset` of the file to offset `at` of `block`. Returns when they are there.
    ///
    /// # Errors
    ///
    /// `Format` when the file ends too early; errors of the library and of the file system.
    ///
    /// # Safety
    ///
    /// The target is used by nothing else meanwhile, including work that is queued on the device.
    pub(crate) unsafe fn read(&self, (offset, bytes): (u64, usize), block: &Block, at: usize) -> Result<()> {
        if at.checked_add(bytes).is_none_or(|end| end > block.len()) {
            return Err(Error::internal("a row is beyond the end of its batch on the device"));
        }
        let mut read = 0;
        while read < bytes {
            let part = (offset + read as u64, bytes - read);
            let read_bytes = self.driver.context.enter(|| {
                // SAFETY: the handle is alive; the target is in the block, by the check above, and used by nothing
                // else, by the contract above.
                Ok(unsafe { result::read(&self.driver.library, self.handle, part, (block.address, at + read)) }?)
            })?;
            if read_bytes == 0 || read_bytes > part.1 {
                let message = "a file ends before the requested bytes";
                return Err(Error::format(message).with("offset", offset).with("bytes", bytes).with("found", read));
            }
            read += read_bytes;
        }
        Ok(())
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // The library does not work in a forked child.
        if !self.driver.context.is_own_process() {
            return;
        }
        let deregistered = self.driver.context.enter(|| {
            // SAFETY: made in `register`, deregistered once; all readers hold the file.
            unsafe { result::deregister(&self.driver.library, self.handle) };
            Ok(())
        });
        if let Err(error) = deregistered {
            log::warn!("a shard cannot be deregistered from cuFile: {error}");
        }
    }
}
