//! Kernels loaded on a device.

use super::{Batch, CROP_RESIZE, FIND_UNDECODED, PTX, Picture};
use crate::context::{Context, Stream};
use crate::driver::checked;
use cudarc::driver::result::{launch_kernel, module};
use cudarc::driver::sys::{CUfunction, CUmodule};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};
use std::ffi::{CString, c_void};

/// Threads of a block in x and y: a warp writes 32 adjacent pixels.
const BLOCK: [u32; 2] = [32, 8];

/// Threads per picture that look for blank rows.
const FIND_THREADS: u32 = 64;

/// Limit of the pictures in one launch: the driver's limit of blocks in z.
const PICTURES_MAX: usize = 65_535;

/// Kernels, loaded into a context.
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
    /// Loads the kernels; the driver compiles them for its device.
    ///
    /// # Errors
    ///
    /// Errors of the driver. An old driver does not support the PTX version.
    pub(crate) fn load(context: &Arc<Context>) -> Result<Self> {
        let text = |text: &str| CString::new(text).map_err(|_| Error::internal("the kernel has a NUL in it"));
        let (image, names) = (text(PTX)?, [text(CROP_RESIZE)?, text(FIND_UNDECODED)?]);
        context.enter(|| {
            // SAFETY: the image is text that ends with a NUL.
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

    /// Starts writing the rows of the `count` pictures at `pictures` on the device, on `stream`.
    ///
    /// # Safety
    ///
    /// Until the stream has done it, the list and its pixels are not changed, and its rows are in memory of the batch
    /// that nothing else uses.
    pub(crate) unsafe fn crop_resize(&self, pictures: u64, count: usize, batch: &Batch, stream: &Stream) -> Result<()> {
        let [w, h] = batch.size;
        for first in (0..count).step_by(PICTURES_MAX) {
            let of_this = (count - first).min(PICTURES_MAX) as u32;
            let grid = (w.div_ceil(BLOCK[0]), h.div_ceil(BLOCK[1]), of_this);
            let mut list = pictures + (first * size_of::<Picture>()) as u64;
            let mut batch = *batch;
            let mut arguments = [(&raw mut list).cast::<c_void>(), (&raw mut batch).cast::<c_void>()];
            self.context.enter(|| {
                // SAFETY: the arguments have the kernel's types and are copied during the call; the rest by the
                // contract above.
                let result = unsafe {
                    launch_kernel(self.crop_resize, grid, (BLOCK[0], BLOCK[1], 1), 0, stream.handle, &mut arguments)
                };
                checked(result, "cuLaunchKernel")
            })?;
        }
        Ok(())
    }

    /// Starts the search for undecoded pictures among the `count` pictures at `pictures` on the device, on `stream`.
    ///
    /// # Safety
    ///
    /// As for [`crop_resize`](Self::crop_resize); the flags of the pictures are in memory that nothing else uses.
    pub(crate) unsafe fn find_undecoded(&self, pictures: u64, count: usize, stream: &Stream) -> Result<()> {
        let mut list = pictures;
        let mut arguments = [(&raw mut list).cast::<c_void>()];
        self.context.enter(|| {
            let (grid, block) = ((count as u32, 1, 1), (FIND_THREADS, 1, 1));
            // SAFETY: the argument has the kernel's type and is copied during the call; the rest by the contract above.
            let result = unsafe { launch_kernel(self.find_undecoded, grid, block, 0, stream.handle, &mut arguments) };
            checked(result, "cuLaunchKernel")
        })
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.context.is_own_process() {
            // SAFETY: loaded in `load`, unloaded once; the driver keeps the kernels that are still running.
            let _ = self.context.enter(|| checked(unsafe { module::unload(self.module) }, "cuModuleUnload"));
        }
    }
}
