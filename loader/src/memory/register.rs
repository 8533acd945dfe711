//! The seam for whoever wants to know the pages: a device driver.

use crate::error::Result;

/// Registers memory with a device, so that it can copy from it without a detour. The engine knows no device; the GPU
/// crate brings the implementation.
pub trait Registrar: Send + Sync {
    /// Registers `len` bytes at `address`, page-aligned, mapped until the returned guard has been dropped.
    ///
    /// # Errors
    ///
    /// When the device refuses; the pool is then not made.
    fn register(&self, address: *mut u8, len: usize) -> Result<Box<dyn Registration>>;
}

/// Holds a registration; dropping it ends it. Dropped before the memory is unmapped.
pub trait Registration: Send + Sync {
    /// Whether the device copies from the memory without a detour: `false` where it could not be had so.
    fn is_direct(&self) -> bool;
}
