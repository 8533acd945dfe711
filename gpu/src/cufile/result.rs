//! cuFile's functions with results.

use super::library::Library;
use super::sys::{self, CUfileOpError};
use forebay_loader::{Error, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Failed call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CuFileError {
    call: &'static str,
    cause: ErrorCause,
}

#[derive(Clone, Copy, Debug)]
enum ErrorCause {
    Status(CUfileOpError),
    /// Error number of the file system.
    System(i32),
}

impl CuFileError {
    /// Returns true if the driver was opened elsewhere in the process.
    pub(super) fn is_open_already(self) -> bool {
        matches!(self.cause, ErrorCause::Status(CUfileOpError::CU_FILE_DRIVER_ALREADY_OPEN))
    }
}

/// Returns the library's name of a status, with a hint for some.
fn name(status: CUfileOpError) -> &'static str {
    match status {
        CUfileOpError::CU_FILE_DRIVER_NOT_INITIALIZED => "DRIVER_NOT_INITIALIZED (nvidia-fs is not loaded)",
        CUfileOpError::CU_FILE_DRIVER_VERSION_MISMATCH => "DRIVER_VERSION_MISMATCH",
        CUfileOpError::CU_FILE_PLATFORM_NOT_SUPPORTED => "PLATFORM_NOT_SUPPORTED",
        CUfileOpError::CU_FILE_IO_NOT_SUPPORTED => "IO_NOT_SUPPORTED (not on this file system)",
        CUfileOpError::CU_FILE_DEVICE_NOT_SUPPORTED => "DEVICE_NOT_SUPPORTED",
        CUfileOpError::CU_FILE_NVFS_DRIVER_ERROR => "NVFS_DRIVER_ERROR",
        CUfileOpError::CU_FILE_CUDA_DRIVER_ERROR => "CUDA_DRIVER_ERROR",
        CUfileOpError::CU_FILE_INVALID_FILE_TYPE => "INVALID_FILE_TYPE",
        CUfileOpError::CU_FILE_INVALID_FILE_OPEN_FLAG => "INVALID_FILE_OPEN_FLAG",
        CUfileOpError::CU_FILE_DIO_NOT_SET => "DIO_NOT_SET",
        CUfileOpError::CU_FILE_PERMISSION_DENIED => "PERMISSION_DENIED",
        CUfileOpError::CU_FILE_INTERNAL_ERROR => "INTERNAL_ERROR",
        CUfileOpError::CU_FILE_NVFS_SETUP_ERROR => "NVFS_SETUP_ERROR",
        CUfileOpError::CU_FILE_IO_DISABLED => "IO_DISABLED (by cufile.json, on this file system)",
        CUfileOpError::CU_FILE_GPU_MEMORY_PINNING_FAILED => "GPU_MEMORY_PINNING_FAILED",
        _ => "an unknown status",
    }
}

impl From<CuFileError> for Error {
    fn from(CuFileError { call, cause }: CuFileError) -> Self {
        match cause {
            ErrorCause::System(errno) => {
                Self::from_io(std::io::Error::from_raw_os_error(errno), "cuFile could not read a file")
                    .with("call", call)
            }
            ErrorCause::Status(status) => {
                let kind = match status {
                    CUfileOpError::CU_FILE_GPU_MEMORY_PINNING_FAILED => ErrorKind::Full,
                    CUfileOpError::CU_FILE_CUDA_DRIVER_ERROR | CUfileOpError::CU_FILE_INTERNAL_ERROR => ErrorKind::Io,
                    _ => ErrorKind::Unsupported,
                };
                let error = Self::new(kind, format!("cuFile failed: {}", name(status)));
                error.with("call", call).with("status", status.0)
            }
        }
    }
}

type CuFileResult<T> = Result<T, CuFileError>;

fn checked(result: sys::CUfileError_t, call: &'static str) -> CuFileResult<()> {
    match result.err {
        CUfileOpError::CU_FILE_SUCCESS => Ok(()),
        status => Err(CuFileError { call, cause: ErrorCause::Status(status) }),
    }
}

/// Opens the driver for the process.
pub(super) fn open(library: &Library) -> CuFileResult<()> {
    // SAFETY: the function has no arguments.
    checked(unsafe { library.functions.cuFileDriverOpen() }, "cuFileDriverOpen")
}

/// Returns the properties of the open driver.
pub(super) fn properties(library: &Library) -> CuFileResult<sys::CUfileDrvProps_t> {
    let nvfs = sys::CUfileDrvProps__bindgen_ty_1 {
        major_version: 0,
        minor_version: 0,
        poll_thresh_size: 0,
        max_direct_io_size: 0,
        dstatusflags: 0,
        dcontrolflags: 0,
    };
    let mut properties = sys::CUfileDrvProps_t {
        nvfs,
        fflags: 0,
        max_device_cache_size: 0,
        per_buffer_cache_size: 0,
        max_device_pinned_mem_size: 0,
        max_batch_io_size: 0,
        max_batch_io_timeout_msecs: 0,
    };
    // SAFETY: writes one struct.
    let result = unsafe { library.functions.cuFileDriverGetProperties(&mut properties) };
    checked(result, "cuFileDriverGetProperties").map(|()| properties)
}

/// Returns the major and the minor version of the library, if it has a function for it.
pub(super) fn version(library: &Library) -> Option<(i32, i32)> {
    library.functions.cuFileGetVersion.as_ref().ok()?;
    let mut version = 0;
    // SAFETY: the function exists and writes one number.
    let result = unsafe { library.functions.cuFileGetVersion(&mut version) };
    // The number is 1000 * major + 10 * minor + patch.
    checked(result, "cuFileGetVersion").ok().map(|()| (version / 1000, version % 1000 / 10))
}

/// Prepares `file` for reads.
///
/// # Safety
///
/// `file` stays open until the handle is deregistered.
pub(super) unsafe fn register(library: &Library, file: BorrowedFd<'_>) -> CuFileResult<sys::CUfileHandle_t> {
    let mut handle = std::ptr::null_mut();
    let mut description = sys::CUfileDescr_t {
        type_: sys::CUfileFileHandleType::CU_FILE_HANDLE_TYPE_OPAQUE_FD,
        handle: sys::CUfileDescr_t__bindgen_ty_1 { fd: file.as_raw_fd() },
        fs_ops: std::ptr::null(),
    };
    // SAFETY: writes one handle; by the contract above.
    let result = unsafe { library.functions.cuFileHandleRegister(&mut handle, &mut description) };
    checked(result, "cuFileHandleRegister").map(|()| handle)
}

/// Deregisters a file.
///
/// # Safety
///
/// The handle comes from [`register`], has no reads in flight, and is not used afterwards.
pub(super) unsafe fn deregister(library: &Library, handle: sys::CUfileHandle_t) {
    // SAFETY: by the contract above.
    unsafe { library.functions.cuFileHandleDeregister(handle) }
}

/// Reads up to `bytes` bytes at `offset` of the file to offset `at` from `base` on the device. Returns how many it has
/// read, 0 at the end of the file.
///
/// # Safety
///
/// The handle is alive, and the target is device memory that nothing else uses.
pub(super) unsafe fn read(
    library: &Library,
    handle: sys::CUfileHandle_t,
    (offset, bytes): (u64, usize),
    (base, at): (u64, usize),
) -> CuFileResult<usize> {
    let base = std::ptr::with_exposed_provenance_mut(base as usize);
    // Offsets in files and in memory are below 2^63.
    // SAFETY: by the contract above.
    let result = unsafe { library.functions.cuFileRead(handle, base, bytes, offset as i64, at as i64) };
    let call = "cuFileRead";
    match result {
        0.. => Ok(result as usize),
        -1 => Err(CuFileError {
            call,
            cause: ErrorCause::System(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        }),
        _ => Err(CuFileError { call, cause: ErrorCause::Status(CUfileOpError(result.unsigned_abs() as u32)) }),
    }
}
