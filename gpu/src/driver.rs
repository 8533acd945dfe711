//! The CUDA driver library, loaded when it is first needed: nothing of CUDA is there at build time.
//!
//! Every function that is used is looked up at loading, so that an old or foreign library is an error that names what is
//! missing and not a crash in the middle of an epoch.

use forebay_loader::{Error, ErrorKind, Result};
use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::path::Path;

/// The driver's answer; 0 is success. A plain number: a newer driver may answer what we do not know.
pub(crate) type Code = c_int;
/// Address in device memory.
pub(crate) type DevicePtr = u64;
/// A context, stream or event of the driver.
pub(crate) type Object = *mut c_void;

/// Names the library when no path is given.
const LIBRARY_VARIABLE: &str = "FOREBAY_CUDA_LIBRARY";

macro_rules! driver {
    ($($field:ident = $symbol:literal: fn($($arg:ty),*);)*) => {
        /// The driver's functions.
        pub(crate) struct Driver {
            $(pub(crate) $field: unsafe extern "C" fn($($arg),*) -> Code,)*
            /// What the functions lie in.
            _library: libloading::Library,
        }

        impl Driver {
            fn look_up(library: libloading::Library) -> Result<Self, &'static str> {
                $(
                    // SAFETY: the type is the one that the driver's header declares for this symbol.
                    let $field = match unsafe {
                        library.get::<unsafe extern "C" fn($($arg),*) -> Code>(concat!($symbol, "\0").as_bytes())
                    } {
                        Ok(found) => *found,
                        Err(_) => return Err($symbol),
                    };
                )*
                Ok(Self { $($field,)* _library: library })
            }
        }
    };
}

driver! {
    init = "cuInit": fn(c_uint);
    device_get = "cuDeviceGet": fn(*mut c_int, c_int);
    device_bus_id = "cuDeviceGetPCIBusId": fn(*mut c_char, c_int, c_int);
    error_name = "cuGetErrorName": fn(Code, *mut *const c_char);
    context_retain = "cuDevicePrimaryCtxRetain": fn(*mut Object, c_int);
    context_release = "cuDevicePrimaryCtxRelease_v2": fn(c_int);
    context_push = "cuCtxPushCurrent_v2": fn(Object);
    context_pop = "cuCtxPopCurrent_v2": fn(*mut Object);
    context_synchronize = "cuCtxSynchronize": fn();
    stream_create = "cuStreamCreate": fn(*mut Object, c_uint);
    stream_destroy = "cuStreamDestroy_v2": fn(Object);
    stream_wait = "cuStreamWaitEvent": fn(Object, Object, c_uint);
    event_create = "cuEventCreate": fn(*mut Object, c_uint);
    event_record = "cuEventRecord": fn(Object, Object);
    event_synchronize = "cuEventSynchronize": fn(Object);
    event_destroy = "cuEventDestroy_v2": fn(Object);
    memory_alloc = "cuMemAlloc_v2": fn(*mut DevicePtr, usize);
    memory_free = "cuMemFree_v2": fn(DevicePtr);
    host_register = "cuMemHostRegister_v2": fn(*mut c_void, usize, c_uint);
    host_unregister = "cuMemHostUnregister": fn(*mut c_void);
    copy_to_device = "cuMemcpyHtoDAsync_v2": fn(DevicePtr, *const c_void, usize, Object);
}

impl Driver {
    /// Loads the library at `path`, or the one that the environment names, or the system's.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self> {
        let named = path.map(|p| p.as_os_str().to_owned()).or_else(|| std::env::var_os(LIBRARY_VARIABLE));
        let name = named.unwrap_or_else(|| OsString::from("libcuda.so.1"));
        let missing =
            |message: &str| Error::new(ErrorKind::Unsupported, message).with("library", Path::new(&name).display());
        // SAFETY: the driver's initialisers do nothing that a program must prepare for.
        let library = unsafe { libloading::Library::new(&name) }.map_err(|e| {
            let message = "batches on a GPU need NVIDIA's driver library: install the driver, or name the library in FOREBAY_CUDA_LIBRARY";
            missing(message).caused_by(e)
        })?;
        let driver = Self::look_up(library)
            .map_err(|symbol| missing("the CUDA driver library lacks a function").with("function", symbol))?;
        // SAFETY: takes no pointer.
        driver.check(unsafe { (driver.init)(0) }, "cuInit").map_err(|e| e.of_kind(ErrorKind::Unsupported))?;
        Ok(driver)
    }

    /// Turns the answer of `call` into an error that names both.
    pub(crate) fn check(&self, code: Code, call: &'static str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let kind = match code {
            // CUDA_ERROR_OUT_OF_MEMORY
            2 => ErrorKind::Full,
            // CUDA_ERROR_NO_DEVICE and CUDA_ERROR_INVALID_DEVICE
            100 | 101 => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        let mut name = std::ptr::null();
        // SAFETY: the driver writes a pointer to a text of its own, or null.
        unsafe { (self.error_name)(code, &mut name) };
        let name = match name.is_null() {
            true => "unknown".into(),
            // SAFETY: not null: a C string that lives as long as the library.
            false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        };
        Err(Error::new(kind, format!("the CUDA driver refused: {name}")).with("call", call).with("code", code))
    }
}
