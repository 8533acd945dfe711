//! Registration of pages with a device driver.

use crate::error::Result;

/// Registers memory with a device, which can then copy from it directly. The GPU crate implements it; the engine itself
/// does not depend on any device.
pub trait Registrar: Send + Sync {
    /// Registers `len` bytes at `address`, page-aligned, mapped until the returned guard has been dropped.
    ///
    /// # Errors
    ///
    /// When the device refuses; the pool is then not made.
    fn register(&self, address: *mut u8, len: usize) -> Result<Box<dyn Registration>>;
}

/// A registration, which ends when dropped; dropped before the memory is unmapped.
pub trait Registration: Send + Sync {
    /// True if the device copies from the memory directly.
    fn is_direct(&self) -> bool;
}
