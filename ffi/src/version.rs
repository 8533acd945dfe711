//! Version of the interface and of the library.

use std::ffi::c_char;

/// Version of the interface in this header. A new major version breaks programs and changes the name of the library,
/// `libforebay.so.MAJOR`.
pub const FOREBAY_ABI_MAJOR: u32 = 1;

/// Version of the interface in this header. A new minor version adds functions or statuses.
pub const FOREBAY_ABI_MINOR: u32 = 0;

/// Version of the interface in the library: its major version times 65,536 plus its minor version. A program works if
/// the major version equals FOREBAY_ABI_MAJOR and the minor version is at least FOREBAY_ABI_MINOR.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_abi_version() -> u32 {
    FOREBAY_ABI_MAJOR << 16 | FOREBAY_ABI_MINOR
}

/// Version of the library, such as "0.1.0". Valid forever.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
