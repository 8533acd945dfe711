//! The kernels on a device.

use super::{Batch, CROP_RESIZE, FIND_UNDECODED, PTX, Picture};
use crate::context::{Context, Stream};
use crate::driver::checked;
use cudarc::driver::result::{launch_kernel, module};
use cudarc::driver::sys::{CUfunction, CUmodule};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};
use std::ffi::{CString, c_void};

/// Threads of a block across and down: a warp writes 32 pixels side by side.
const BLOCK: [u32; 2] = [32, 8];

/// Threads that look at one picture's rows.
const FIND_THREADS: u32 = 64;

/// Pictures of one launch at most: the driver's limit for blocks in z.
const PICTURES_MAX: usize = 65_535;

/// The kernels, loaded into a context.
pub(crate) struct Kernels {
    context: Arc<Context>,
    module: CUmodule,
    crop_resize: CUfunction,
    find_undecoded: CUfunction,
}

// SAFETY: the handles are only passed to the driver, which may be called from any thread.
unsafe impl Send for Kernels {}
// SAFETY: as above.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Loads it; the driver compiles it for its device.
    ///
    /// # Errors
    ///
    /// What the driver says; an old one does not know the version of PTX.
    pub(crate) fn load(context: &Arc<Context>) -> Result<Self> {
        let text = |text: &str| CString::new(text).map_err(|_| Error::internal("the kernel has a NUL in it"));
        let (image, names) = (text(PTX)?, [text(CROP_RESIZE)?, text(FIND_UNDECODED)?]);
        context.enter(|| {
            // SAFETY: the image is text that ends in a NUL.
            let module = unsafe { module::load_data(image.as_ptr().cast()) };
            let module = checked(module, "cuModuleLoadData")?;
            let none = std::ptr::null_mut();
            let mut kernel = Self { context: context.clone(), module, crop_resize: none, find_undecoded: none };
            for (function, name) in [&mut kernel.crop_resize, &mut kernel.find_undecoded].into_iter().zip(names) {
                // SAFETY: the module is loaded.
                *function = checked(unsafe { module::get_function(module, name) }, "cuModuleGetFunction")?;
            }
            Ok(kernel)
        })
    }

    /// Starts the making of rows on `stream` for the `count` pictures at `pictures` on the device.
    ///
    /// # Safety
    ///
    /// Until the stream has done it, the list and the pixels that it names stay what they are, and the rows that it names
    /// lie in memory of the batch's that nobody else uses.
    pub(crate) unsafe fn crop_resize(&self, pictures: u64, count: usize, batch: &Batch, stream: &Stream) -> Result<()> {
        let [w, h] = batch.size;
        for first in (0..count).step_by(PICTURES_MAX) {
            let of_this = (count - first).min(PICTURES_MAX) as u32;
            let grid = (w.div_ceil(BLOCK[0]), h.div_ceil(BLOCK[1]), of_this);
            let mut list = pictures + (first * size_of::<Picture>()) as u64;
            let mut batch = *batch;
            let mut arguments = [(&raw mut list).cast::<c_void>(), (&raw mut batch).cast::<c_void>()];
            self.context.enter(|| {
                // SAFETY: the arguments are the kernel's and are copied during the call; the rest by the contract above.
                let answer = unsafe {
                    launch_kernel(self.crop_resize, grid, (BLOCK[0], BLOCK[1], 1), 0, stream.handle, &mut arguments)
                };
                checked(answer, "cuLaunchKernel")
            })?;
        }
        Ok(())
    }

    /// Starts a look on `stream` at which of the `count` pictures at `pictures` on the device were left out by who decoded them.
    ///
    /// # Safety
    ///
    /// As [`crop_resize`](Self::crop_resize); the bytes that the pictures name lie in memory that nobody else uses.
    pub(crate) unsafe fn find_undecoded(&self, pictures: u64, count: usize, stream: &Stream) -> Result<()> {
        let mut list = pictures;
        let mut arguments = [(&raw mut list).cast::<c_void>()];
        self.context.enter(|| {
            let (grid, block) = ((count as u32, 1, 1), (FIND_THREADS, 1, 1));
            // SAFETY: the argument is the kernel's and is copied during the call; the rest by the contract above.
            let answer = unsafe { launch_kernel(self.find_undecoded, grid, block, 0, stream.handle, &mut arguments) };
            checked(answer, "cuLaunchKernel")
        })
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.context.is_own_process() {
            // SAFETY: loaded in `load`, unloaded once; the driver keeps what is still running.
            let _ = self.context.enter(|| checked(unsafe { module::unload(self.module) }, "cuModuleUnload"));
        }
    }
}
