//! The CUDA driver library, found when it is first needed: nothing of CUDA is there at build time.
//!
//! cudarc has the driver's functions as they are (`sys`) and with results (`result`). It looks the library and each
//! function up at their first use and panics over what is missing, so [`load`] goes before everything else: it sees that
//! there is a library, the one that was named if one was, and that it has all of [`FUNCTIONS`].

use crate::libraries::named;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUresult};
use forebay_loader::{Error, ErrorKind, Result};
use libloading::Library;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Names the library when no path is given.
const LIBRARY_VARIABLE: &str = "FOREBAY_CUDA_LIBRARY";

/// Every function of the driver that this crate calls.
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

/// Loads and initialises the library at `path`, or the one that the environment names, or the system's. Nothing of
/// cudarc's may be called before. A process has one driver library: naming another one afterwards is an error.
///
/// # Errors
///
/// `Unsupported`, saying what is missing.
pub(crate) fn load(path: Option<&Path>) -> Result<()> {
    check_process()?;
    let named = named(path, LIBRARY_VARIABLE);
    let shown = named.clone().unwrap_or_else(|| OsString::from("libcuda.so.1"));
    let unfit =
        |message: &str| Error::new(ErrorKind::Unsupported, message).with("library", Path::new(&shown).display());
    let absent = "batches on a GPU need NVIDIA's driver library, and there is none: install the driver, in a container give \
                  it the GPUs, or name the library in FOREBAY_CUDA_LIBRARY";
    // Loaded first, a library is the one that its soname finds afterwards.
    let meant = named.map(|name| {
        // SAFETY: the driver's initialisers do nothing that a program must prepare for.
        unsafe { Library::new(name) }.map_err(|e| {
            let message = "the CUDA driver library that FOREBAY_CUDA_LIBRARY or the program names cannot be loaded";
            unfit(message).with("why", std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string))
        })
    });
    let meant = meant.transpose()?;
    if let Some(meant) = &meant
        && address(meant, "cuInit").is_none()
    {
        return Err(unfit("the library that is named is no CUDA driver library: it has no cuInit"));
    }
    // SAFETY: as above, for a driver that the system finds by its name.
    if !unsafe { sys::is_culib_present() } {
        return Err(unfit(absent));
    }
    // SAFETY: as above; it is there.
    let found = unsafe { sys::culib() };
    for function in FUNCTIONS {
        if address(meant.as_ref().unwrap_or(found), function).is_none() {
            let message = "this is no CUDA driver library, or one that is too old: update the driver";
            return Err(unfit(message).with("function", function));
        }
    }
    if meant.is_some_and(|meant| address(&meant, "cuInit") != address(found, "cuInit")) {
        let message = "the process has another CUDA driver library already, or finds one first: a library that is \
                       named needs the soname libcuda.so or libcuda.so.1, and no other may be on LD_LIBRARY_PATH";
        return Err(unfit(message));
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    checked(result::init(), "cuInit").map_err(|e| e.of_kind(ErrorKind::Unsupported))
}

/// The process that first used the driver; 0 before that.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// What a forked child is told.
pub(crate) const FORKED: &str = "CUDA does not work in a process that was forked from one that has used it: start processes with \
                                 the method \"spawn\"";

/// # Errors
///
/// `Closed` in a forked child of the process that first used the driver.
fn check_process() -> Result<()> {
    let process = std::process::id();
    match PROCESS.load(Ordering::Relaxed) {
        0 => Ok(()),
        first if first == process => Ok(()),
        _ => Err(Error::new(ErrorKind::Closed, FORKED)),
    }
}

/// Where `function` lies.
fn address(library: &Library, function: &str) -> Option<usize> {
    // SAFETY: the symbol is looked at as a function's address and not called.
    unsafe { library.get::<unsafe extern "C" fn()>(function) }.ok().map(|f| *f as usize)
}

/// Turns the driver's refusal of `call` into an error that says what to do about it.
pub(crate) fn checked<T>(answer: Result<T, DriverError>, call: &'static str) -> Result<T> {
    answer.map_err(|refusal| {
        let name = refusal.error_name().map_or("an unknown error".into(), |name| name.to_string_lossy());
        let (kind, advice) = match refusal.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let advice = ": others hold the device's memory (see nvidia-smi), or batch_size, prefetch or kept batches take it";
                (ErrorKind::Full, advice)
            }
            // What a forked child is answered where the parent has used the driver without us.
            CUresult::CUDA_ERROR_NOT_INITIALIZED if call == "cuInit" => {
                return Error::new(ErrorKind::Closed, FORKED).with("call", call).with("code", refusal.0 as u32);
            }
            CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => {
                (ErrorKind::Unsupported, ": another process has it for itself, see its compute mode in nvidia-smi")
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
                let advice = ": a kernel of this process has failed before, whoever started it, and the device is lost to the process; \
                              CUDA_LAUNCH_BLOCKING=1 shows which";
                (ErrorKind::Io, advice)
            }
            CUresult::CUDA_ERROR_ECC_UNCORRECTABLE => {
                (ErrorKind::Io, ": the device's memory is faulty, see nvidia-smi -q -d ECC, and reset the device")
            }
            CUresult::CUDA_ERROR_SYSTEM_NOT_READY => {
                let advice = ": the machine is not ready for CUDA; where GPUs are joined by NVSwitch, NVIDIA's fabric manager has to run";
                (ErrorKind::Unsupported, advice)
            }
            CUresult::CUDA_ERROR_NO_DEVICE => {
                (ErrorKind::Unsupported, ": no GPU is visible to this process, see nvidia-smi and CUDA_VISIBLE_DEVICES")
            }
            CUresult::CUDA_ERROR_STUB_LIBRARY => {
                (ErrorKind::Unsupported, ": this is a toolkit's stub, take its folder off LD_LIBRARY_PATH")
            }
            CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
                (ErrorKind::Unsupported, ": the kernel's driver and the library are of different versions")
            }
            CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
                let advice = ": a library of the package cuda-compat is found first, and this device works with the driver's own alone: \
                              take the package's folder off LD_LIBRARY_PATH";
                (ErrorKind::Unsupported, advice)
            }
            CUresult::CUDA_ERROR_INVALID_DEVICE => (ErrorKind::Unsupported, ""),
            _ => (ErrorKind::Io, ""),
        };
        Error::new(kind, format!("the CUDA driver refused: {name}{advice}"))
            .with("call", call)
            .with("code", refusal.0 as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::FUNCTIONS;

    /// The stand-in has what the tests call, so a function that is called and not listed would stand there alone.
    #[test]
    fn the_list_of_functions_is_what_the_stand_in_driver_offers() {
        let source = include_str!("../tests/fake_cuda.c");
        let names =
            source.lines().filter_map(|line| line.strip_prefix("int cu")).filter_map(|line| line.split_once('('));
        let mut offered: Vec<String> = names.map(|(name, _)| format!("cu{name}")).collect();
        let mut listed = FUNCTIONS.to_vec();
        offered.sort_unstable();
        listed.sort_unstable();
        assert_eq!(offered, listed);
    }
}
