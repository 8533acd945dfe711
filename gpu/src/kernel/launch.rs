//! The kernel on a device.

use super::{Batch, NAME, PTX};
use crate::context::{Context, Stream};
use crate::driver::checked;
use cudarc::driver::result::{launch_kernel, module};
use cudarc::driver::sys::{CUfunction, CUmodule};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};
use std::ffi::{CString, c_void};

/// Threads of a block across and down: a warp writes 32 pixels side by side.
const BLOCK: [u32; 2] = [32, 8];

/// Pictures of one launch at most: the driver's limit for blocks in z.
const PICTURES_MAX: usize = 65_535;

/// The kernel, loaded into a context.
pub(crate) struct Kernel {
    context: Arc<Context>,
    module: CUmodule,
    function: CUfunction,
}

// SAFETY: the handles are only passed to the driver, which may be called from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Loads it; the driver compiles it for its device.
    ///
    /// # Errors
    ///
    /// What the driver says; an old one does not know the version of PTX.
    pub(crate) fn load(context: &Arc<Context>) -> Result<Self> {
        let invalid = |_| Error::internal("the kernel has a NUL in it");
        let (image, name) = (CString::new(PTX).map_err(invalid)?, CString::new(NAME).map_err(invalid)?);
        context.enter(|| {
            // SAFETY: the image is text that ends in a NUL.
            let module = unsafe { module::load_data(image.as_ptr().cast()) };
            let module = checked(module, "cuModuleLoadData")?;
            let mut kernel = Self { context: context.clone(), module, function: std::ptr::null_mut() };
            // SAFETY: the module is loaded.
            let function = unsafe { module::get_function(module, name) };
            kernel.function = checked(function, "cuModuleGetFunction")?;
            Ok(kernel)
        })
    }

    /// Starts it on `stream` for the `count` pictures at `pictures` on the device.
    ///
    /// # Safety
    ///
    /// Until the stream has done it, the list and the pixels that it names stay what they are, and the rows that it names
    /// lie in memory of the batch's that nobody else uses.
    pub(crate) unsafe fn launch(&self, pictures: u64, count: usize, batch: &Batch, stream: &Stream) -> Result<()> {
        let [w, h] = batch.size;
        for first in (0..count).step_by(PICTURES_MAX) {
            let of_this = (count - first).min(PICTURES_MAX) as u32;
            let grid = (w.div_ceil(BLOCK[0]), h.div_ceil(BLOCK[1]), of_this);
            let mut list = pictures + (first * size_of::<super::Picture>()) as u64;
            let mut batch = *batch;
            let mut arguments = [(&raw mut list).cast::<c_void>(), (&raw mut batch).cast::<c_void>()];
            self.context.enter(|| {
                // SAFETY: the arguments are the kernel's and are copied during the call; the rest by the contract above.
                let answer = unsafe {
                    launch_kernel(self.function, grid, (BLOCK[0], BLOCK[1], 1), 0, stream.handle, &mut arguments)
                };
                checked(answer, "cuLaunchKernel")
            })?;
        }
        Ok(())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.context.is_ours() {
            // SAFETY: loaded in `load`, unloaded once; the driver keeps what is still running.
            let _ = self.context.enter(|| checked(unsafe { module::unload(self.module) }, "cuModuleUnload"));
        }
    }
}
