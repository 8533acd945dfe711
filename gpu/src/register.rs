//! Registration of the pools' memory with the device, which makes copies from it asynchronous. If the system does not
//! allow the memory to be pinned, copies use the driver's own pinned memory, and `deliver` waits for them.

use crate::context::Context;
use crate::driver::checked;
use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUresult};
use forebay_loader::Result;
use forebay_loader::memory::{Registrar, Registration};
use forebay_loader::sync::Arc;
use rustix::process::{Resource, getrlimit};
use std::ffi::c_void;
use std::sync::Once;

/// Errors of the driver if the system does not allow pages to be pinned; the last two occur in sandboxes.
const UNPINNABLE: [CUresult; 6] = [
    CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    CUresult::CUDA_ERROR_OPERATING_SYSTEM,
    CUresult::CUDA_ERROR_NOT_PERMITTED,
    CUresult::CUDA_ERROR_NOT_SUPPORTED,
    CUresult::CUDA_ERROR_INVALID_VALUE,
    CUresult::CUDA_ERROR_UNKNOWN,
];

/// Registers host memory for all contexts, through the context of one device.
pub(crate) struct PinnedMemoryRegistrar {
    context: Arc<Context>,
    /// A pool has many pieces, and the warning is logged once.
    warning: Once,
}

impl PinnedMemoryRegistrar {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, warning: Once::new() }
    }

    fn warn(&self, error: DriverError, len: usize) {
        let limit = getrlimit(Resource::Memlock).current.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        self.warning.call_once(|| {
            log::warn!(
                "batch memory cannot be pinned, so copies to CUDA device {} are slower and take CPU time: raise the \
                 limit of locked memory (ulimit -l, in a container --ulimit memlock=-1), which is {limit} bytes, or \
                 lower `memory` (the driver returned {} for {len} bytes)",
                self.context.number,
                error.0 as u32,
            );
        });
    }
}

/// Memory that could not be pinned.
struct UnpinnedMemory;

impl Registration for UnpinnedMemory {
    fn is_direct(&self) -> bool {
        false
    }
}

struct PinnedMemory {
    context: Arc<Context>,
    /// Address as a number, since only the driver uses it.
    address: usize,
}

impl Registrar for PinnedMemoryRegistrar {
    fn register(&self, address: *mut u8, len: usize) -> Result<Box<dyn Registration>> {
        let result = self.context.enter(|| {
            // SAFETY: by the trait's contract the range is mapped until the guard has been dropped.
            let code =
                unsafe { sys::cuMemHostRegister_v2(address.cast::<c_void>(), len, sys::CU_MEMHOSTREGISTER_PORTABLE) };
            Ok(code.result())
        })?;
        match result {
            Err(error) if UNPINNABLE.contains(&error.0) => {
                self.warn(error, len);
                Ok(Box::new(UnpinnedMemory))
            }
            result => {
                checked(result, "cuMemHostRegister").map_err(|e| e.with("device", self.context.number))?;
                Ok(Box::new(PinnedMemory { context: self.context.clone(), address: address.addr() }))
            }
        }
    }
}

impl Registration for PinnedMemory {
    fn is_direct(&self) -> bool {
        true
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if !self.context.is_own_process() {
            return;
        }
        let address = std::ptr::with_exposed_provenance_mut::<c_void>(self.address);
        let ended = self.context.enter(|| {
            // SAFETY: registered in `register`, unregistered once.
            checked(unsafe { sys::cuMemHostUnregister(address) }.result(), "cuMemHostUnregister")
        });
        if let Err(error) = ended {
            log::warn!("host memory cannot be unregistered from the device: {error}");
        }
    }
}
