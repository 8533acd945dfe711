//! Registers the pool's memory with the device, so that copies from it are asynchronous.

use crate::context::Context;
use crate::driver::checked;
use cudarc::driver::sys;
use forebay_loader::Result;
use forebay_loader::memory::{Registrar, Registration};
use forebay_loader::sync::Arc;
use std::ffi::c_void;

/// Registers with one device's context, for all contexts.
pub(crate) struct HostMemory(pub(crate) Arc<Context>);

struct Registered {
    context: Arc<Context>,
    /// Address, as a number: only the driver uses it.
    address: usize,
}

impl Registrar for HostMemory {
    fn register(&self, address: *mut u8, len: usize) -> Result<Box<dyn Registration>> {
        self.0.enter(|| {
            // SAFETY: by the trait's contract the range is mapped until the guard has been dropped.
            let code =
                unsafe { sys::cuMemHostRegister_v2(address.cast::<c_void>(), len, sys::CU_MEMHOSTREGISTER_PORTABLE) };
            checked(code.result(), "cuMemHostRegister")
        })?;
        Ok(Box::new(Registered { context: self.0.clone(), address: address.addr() }))
    }
}

impl Registration for Registered {}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.context.is_ours() {
            return;
        }
        let address = std::ptr::with_exposed_provenance_mut::<c_void>(self.address);
        let ended = self.context.enter(|| {
            // SAFETY: registered in `register`, ended once.
            checked(unsafe { sys::cuMemHostUnregister(address) }.result(), "cuMemHostUnregister")
        });
        if let Err(error) = ended {
            log::warn!("batch memory stays registered with the device: {error}");
        }
    }
}
