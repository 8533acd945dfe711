//! cuFile's driver and files as values, each used with its device's context current.

use super::library::Library;
use super::{result, sys};
use crate::context::Context;
use crate::memory::Block;
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};

/// A feature of later versions than the bindings': DMA between devices on the PCI bus, in the kernel itself.
const P2P_SUPPORTED: u32 = 4;

/// The driver, opened for the process. It is never closed: that would end it for whoever else in the process uses cuFile.
pub(crate) struct Driver {
    library: Library,
    context: Arc<Context>,
    /// What moves the bytes.
    way: String,
}

impl Driver {
    /// Opens the driver with the device's context current.
    ///
    /// # Errors
    ///
    /// `Unsupported` in compatibility mode, where bytes would go through host memory; what the library says.
    pub(crate) fn open(library: Library, context: &Arc<Context>) -> Result<Arc<Self>> {
        let properties = context.enter(|| {
            match result::open(&library) {
                Err(refusal) if !refusal.is_open_already() => return Err(refusal.into()),
                _ => {}
            }
            Ok(result::properties(&library)?)
        })?;
        let Some(way) = way(&properties) else {
            let message = "cuFile runs in compatibility mode here, in which it reads into host memory and copies from there: \
                           load the kernel module nvidia-fs, or allow PCI peer-to-peer DMA in cufile.json";
            return Err(Error::new(ErrorKind::Unsupported, message).with("device", context.number));
        };
        Ok(Arc::new(Self { library, context: context.clone(), way }))
    }

    /// "cuFile 1.14 over nvidia-fs 2.25".
    pub(crate) fn describe(&self) -> String {
        match result::version(&self.library) {
            Some((major, minor)) => format!("cuFile {major}.{minor} over {}", self.way),
            None => format!("cuFile over {}", self.way),
        }
    }
}

/// What moves bytes from a drive to the device; `None` where nothing does without host memory.
fn way(properties: &sys::CUfileDrvProps_t) -> Option<String> {
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

/// An open file that the library reads.
pub(crate) struct File {
    driver: Arc<Driver>,
    handle: sys::CUfileHandle_t,
    /// Closed after the handle has been let go of.
    file: OwnedFd,
}

// SAFETY: the library's functions may be called from any thread, and several reads of one handle at a time.
unsafe impl Send for File {}
// SAFETY: as above.
unsafe impl Sync for File {}

impl File {
    /// Prepares `file`, which was opened with O_DIRECT.
    ///
    /// # Errors
    ///
    /// What the library says.
    pub(crate) fn register(driver: &Arc<Driver>, file: OwnedFd) -> Result<Self> {
        let handle = driver.context.enter(|| {
            // SAFETY: the file is closed after the handle has been let go of, or was none.
            Ok(unsafe { result::register(&driver.library, file.as_fd()) }?)
        })?;
        Ok(Self { driver: driver.clone(), handle, file })
    }

    /// Reads `bytes` bytes at `offset` to the place `at` bytes behind the start of `block`, and comes back when they are there.
    ///
    /// # Errors
    ///
    /// `Format` when the file ends before; what the library or the file system says.
    ///
    /// # Safety
    ///
    /// Nobody else uses the place meanwhile, and nothing that the device was given before does.
    pub(crate) unsafe fn read(&self, (offset, bytes): (u64, usize), block: &Block, at: usize) -> Result<()> {
        if at.checked_add(bytes).is_none_or(|end| end > block.len()) {
            return Err(Error::internal("a row lies behind its batch's memory on the device"));
        }
        let mut read = 0;
        while read < bytes {
            let part = (offset + read as u64, bytes - read);
            let answer = self.driver.context.enter(|| {
                // SAFETY: the handle is alive; the place lies in the block, by the check above, and is nobody else's, by the
                // contract above.
                Ok(unsafe { result::read(&self.driver.library, self.handle, part, (block.address, at + read)) }?)
            })?;
            if answer == 0 || answer > part.1 {
                let message = "a file ends before the bytes that were asked for";
                return Err(Error::format(message).with("offset", offset).with("bytes", bytes).with("found", read));
            }
            read += answer;
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
        let ended = self.driver.context.enter(|| {
            // SAFETY: made in `register`, let go of once; whoever reads holds the file.
            unsafe { result::deregister(&self.driver.library, self.handle) };
            Ok(())
        });
        if let Err(error) = ended {
            log::warn!("cuFile keeps a shard: {error}");
        }
    }
}
