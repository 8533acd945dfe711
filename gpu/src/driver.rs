//! CUDA driver library, loaded at run time. The build needs nothing of CUDA.
//!
//! cudarc has the driver's functions as they are (`sys`) and with results (`result`). It looks up the library and each
//! function at their first use and panics if one is missing. So [`load`] is called first: it checks that there is a
//! library, that it is the requested one, and that it has all of [`FUNCTIONS`].

use crate::libraries::requested;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUresult};
use forebay_loader::{Error, ErrorKind, Result};
use libloading::Library;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Environment variable with the library's path.
const LIBRARY_VARIABLE: &str = "FOREBAY_CUDA_LIBRARY";

/// All functions of the driver that this crate calls.
const FUNCTIONS: [&str; 33] = [
    "cuInit",
    "cuGetErrorName",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxSynchronize",
    "cuThreadExchangeStreamCaptureMode",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamWaitEvent",
    "cuStreamIsCapturing",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuEventDestroy_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemsetD32Async",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuLaunchKernel",
];

/// Loads and initialises the library at `path`, or at the environment variable's path, or the system's. Must be called
/// before anything else of cudarc. A process has one driver library, and a request for a second one is an error.
///
/// # Errors
///
/// `Unsupported`, with the missing part.
pub(crate) fn load(path: Option<&Path>) -> Result<()> {
    check_process()?;
    let requested = requested(path, LIBRARY_VARIABLE);
    let shown = requested.clone().unwrap_or_else(|| OsString::from("libcuda.so.1"));
    let unsupported =
        |message: &str| Error::new(ErrorKind::Unsupported, message).with("library", Path::new(&shown).display());
    let absent = "NVIDIA's driver library, which batches on a GPU need, was not found: install the driver, pass the \
                  GPUs to the container, or set FOREBAY_CUDA_LIBRARY to the library";
    // cudarc looks the library up by its soname, which finds a library that is already loaded.
    let library = requested.map(|name| {
        // SAFETY: the initialisers of the driver need no preparation.
        unsafe { Library::new(name) }.map_err(|e| {
            let message = "the CUDA driver library from FOREBAY_CUDA_LIBRARY or from the program cannot be loaded";
            unsupported(message)
                .with("why", std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string))
        })
    });
    let library = library.transpose()?;
    if let Some(library) = &library
        && address(library, "cuInit").is_none()
    {
        return Err(unsupported("the requested library is not a CUDA driver library: it has no cuInit"));
    }
    // SAFETY: as above, for a driver that the system finds by its name.
    if !unsafe { sys::is_culib_present() } {
        return Err(unsupported(absent));
    }
    // SAFETY: as above; it is there.
    let found = unsafe { sys::culib() };
    for function in FUNCTIONS {
        if address(library.as_ref().unwrap_or(found), function).is_none() {
            let message = "the library is not a CUDA driver library, or it is too old: update the driver";
            return Err(unsupported(message).with("function", function));
        }
    }
    if library.is_some_and(|library| address(&library, "cuInit") != address(found, "cuInit")) {
        let message = "the process has a different CUDA driver library already, or finds it first: a requested \
                       library needs the soname libcuda.so or libcuda.so.1, and LD_LIBRARY_PATH must not have another \
                       one";
        return Err(unsupported(message));
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    checked(result::init(), "cuInit").map_err(|e| e.of_kind(ErrorKind::Unsupported))
}

/// Process that first used the driver; 0 before that.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Message for a forked child.
pub(crate) const FORKED: &str = "CUDA does not work in a process that was forked from one that has used it: start \
                                 processes with the method \"spawn\"";

/// Fails in a forked child of the process that first used the driver.
///
/// # Errors
///
/// `Closed` in such a child.
fn check_process() -> Result<()> {
    let process = std::process::id();
    match PROCESS.load(Ordering::Relaxed) {
        0 => Ok(()),
        first if first == process => Ok(()),
        _ => Err(Error::new(ErrorKind::Closed, FORKED)),
    }
}

/// Returns the address of `function`.
fn address(library: &Library, function: &str) -> Option<usize> {
    // SAFETY: only the address of the symbol is used; it is not called.
    unsafe { library.get::<unsafe extern "C" fn()>(function) }.ok().map(|f| *f as usize)
}

/// Converts an error of the driver from `call` into one with advice.
pub(crate) fn checked<T>(result: Result<T, DriverError>, call: &'static str) -> Result<T> {
    result.map_err(|error| {
        let name = error.error_name().map_or("an unknown error".into(), |name| name.to_string_lossy());
        let (kind, advice) = match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let advice = ": free memory that more processes use (see nvidia-smi), or reduce batch_size, prefetch \
                              or the batches you keep";
                (ErrorKind::Full, advice)
            }
            // The result in a forked child of a parent that has used the driver outside of this crate.
            CUresult::CUDA_ERROR_NOT_INITIALIZED if call == "cuInit" => {
                return Error::new(ErrorKind::Closed, FORKED).with("call", call).with("code", error.0 as u32);
            }
            CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => {
                (ErrorKind::Unsupported, ": a process uses the device exclusively, see its compute mode in nvidia-smi")
            }
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_ASSERT => {
                let advice = ": a kernel of this process, from any library, has failed, and the device is lost to the \
                              process; CUDA_LAUNCH_BLOCKING=1 shows the kernel";
                (ErrorKind::Io, advice)
            }
            CUresult::CUDA_ERROR_ECC_UNCORRECTABLE => {
                (ErrorKind::Io, ": the device's memory is faulty, see nvidia-smi -q -d ECC, and reset the device")
            }
            CUresult::CUDA_ERROR_SYSTEM_NOT_READY => {
                let advice = ": the machine is not ready for CUDA; where GPUs are joined by NVSwitch, NVIDIA's fabric \
                              manager has to run";
                (ErrorKind::Unsupported, advice)
            }
            CUresult::CUDA_ERROR_NO_DEVICE => {
                (ErrorKind::Unsupported, ": no GPU is visible to this process, see nvidia-smi and CUDA_VISIBLE_DEVICES")
            }
            CUresult::CUDA_ERROR_STUB_LIBRARY => (
                ErrorKind::Unsupported,
                ": the library is a stub of a CUDA toolkit, remove its folder from LD_LIBRARY_PATH",
            ),
            CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
                (ErrorKind::Unsupported, ": the kernel's driver and the library are of different versions")
            }
            CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
                let advice = ": the library of the package cuda-compat is found first, but this device needs the \
                              driver's own library: remove the package's folder from LD_LIBRARY_PATH";
                (ErrorKind::Unsupported, advice)
            }
            CUresult::CUDA_ERROR_INVALID_DEVICE => (ErrorKind::Unsupported, ""),
            _ => (ErrorKind::Io, ""),
        };
        Error::new(kind, format!("the CUDA driver failed: {name}{advice}"))
            .with("call", call)
            .with("code", error.0 as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::FUNCTIONS;

    /// The fake driver has exactly the functions that the tests call, so a function that is not listed is found here.
    #[test]
    fn the_list_of_functions_matches_the_fake_driver() {
        let source = include_str!("../tests/fake_cuda.c");
        let names =
            source.lines().filter_map(|line| line.strip_prefix("int cu")).filter_map(|line| line.split_once('('));
        let mut defined: Vec<String> = names.map(|(name, _)| format!("cu{name}")).collect();
        let mut listed = FUNCTIONS.to_vec();
        defined.sort_unstable();
        listed.sort_unstable();
        assert_eq!(defined, listed);
    }
}
