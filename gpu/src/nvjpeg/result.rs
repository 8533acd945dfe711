//! nvJPEG's functions with results, by subject. Handles are raw; [`safe`](super::safe) owns them.
//!
//! The caller has a CUDA context current, as the library requires.

use super::library::Library;
use super::sys::{self, nvjpegBackend_t, nvjpegStatus_t};
use forebay_loader::{Error, ErrorKind};

/// Status of a failed call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NvJpegError {
    call: &'static str,
    status: nvjpegStatus_t,
}

impl NvJpegError {
    /// Returns true if there was no memory. Every further status may be caused by one bad picture: some files cause
    /// EXECUTION_FAILED or INTERNAL_ERROR. A failure of the device itself is reported by the driver, at the next wait
    /// for it.
    pub(crate) fn is_out_of_memory(self) -> bool {
        self.status == nvjpegStatus_t::NVJPEG_STATUS_ALLOCATOR_FAILURE
    }

    fn name(self) -> &'static str {
        match self.status {
            nvjpegStatus_t::NVJPEG_STATUS_NOT_INITIALIZED => "NOT_INITIALIZED",
            nvjpegStatus_t::NVJPEG_STATUS_INVALID_PARAMETER => "INVALID_PARAMETER",
            nvjpegStatus_t::NVJPEG_STATUS_BAD_JPEG => "BAD_JPEG",
            nvjpegStatus_t::NVJPEG_STATUS_JPEG_NOT_SUPPORTED => "JPEG_NOT_SUPPORTED",
            nvjpegStatus_t::NVJPEG_STATUS_ALLOCATOR_FAILURE => "ALLOCATOR_FAILURE",
            nvjpegStatus_t::NVJPEG_STATUS_EXECUTION_FAILED => "EXECUTION_FAILED",
            nvjpegStatus_t::NVJPEG_STATUS_ARCH_MISMATCH => "ARCH_MISMATCH",
            nvjpegStatus_t::NVJPEG_STATUS_INTERNAL_ERROR => "INTERNAL_ERROR",
            nvjpegStatus_t::NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED => "IMPLEMENTATION_NOT_SUPPORTED",
            nvjpegStatus_t::NVJPEG_STATUS_INCOMPLETE_BITSTREAM => "INCOMPLETE_BITSTREAM",
            _ => "an unknown status",
        }
    }
}

impl std::fmt::Display for NvJpegError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} returned {}", self.call, self.name())
    }
}

impl From<NvJpegError> for Error {
    fn from(error: NvJpegError) -> Self {
        let kind = match error.status {
            nvjpegStatus_t::NVJPEG_STATUS_ALLOCATOR_FAILURE => ErrorKind::Full,
            nvjpegStatus_t::NVJPEG_STATUS_ARCH_MISMATCH
            | nvjpegStatus_t::NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("nvJPEG failed: {}", error.name()))
            .with("call", error.call)
            .with("status", error.status.0)
    }
}

pub(crate) type NvJpegResult<T> = Result<T, NvJpegError>;

fn checked(status: nvjpegStatus_t, call: &'static str) -> NvJpegResult<()> {
    match status {
        nvjpegStatus_t::NVJPEG_STATUS_SUCCESS => Ok(()),
        status => Err(NvJpegError { call, status }),
    }
}

/// Treatment of chroma that is stored with fewer samples than the picture has pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChromaUpsampling {
    /// Samples are blended, as on the host. Versions before 12.1 do not support it.
    Interpolated,
    /// Each sample is used for all pixels that it was made of.
    Replicated,
}

pub(crate) mod library {
    use super::*;

    /// Returns the major and the minor version.
    pub(crate) fn version(library: &Library) -> NvJpegResult<(i32, i32)> {
        let value = |property| {
            let mut value = 0;
            // SAFETY: writes one number.
            let status = unsafe { library.functions.nvjpegGetProperty(property, &mut value) };
            checked(status, "nvjpegGetProperty").map(|()| value)
        };
        Ok((value(sys::libraryPropertyType::MAJOR_VERSION)?, value(sys::libraryPropertyType::MINOR_VERSION)?))
    }
}

pub(crate) mod handle {
    use super::*;
    use std::ptr::null_mut;

    /// Creates a handle of `backend` with this chroma upsampling.
    pub(crate) fn create(
        library: &Library,
        backend: nvjpegBackend_t,
        chroma: ChromaUpsampling,
    ) -> NvJpegResult<sys::nvjpegHandle_t> {
        let flags = match chroma {
            ChromaUpsampling::Interpolated => sys::NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION,
            ChromaUpsampling::Replicated => 0,
        };
        let mut handle = null_mut();
        // SAFETY: writes one handle; without allocators the library uses CUDA's own.
        let status = unsafe { library.functions.nvjpegCreateEx(backend, null_mut(), null_mut(), flags, &mut handle) };
        checked(status, "nvjpegCreateEx").map(|()| handle)
    }

    /// Destroys a handle.
    ///
    /// # Safety
    ///
    /// The handle comes from `create` and is not used afterwards.
    pub(crate) unsafe fn destroy(library: &Library, handle: sys::nvjpegHandle_t) -> NvJpegResult<()> {
        // SAFETY: by the contract above.
        checked(unsafe { library.functions.nvjpegDestroy(handle) }, "nvjpegDestroy")
    }

    /// Returns the number of hardware engines, and the number of cores of each.
    ///
    /// # Safety
    ///
    /// The handle is alive.
    pub(crate) unsafe fn engines(library: &Library, handle: sys::nvjpegHandle_t) -> NvJpegResult<(u32, u32)> {
        let (mut engines, mut cores) = (0, 0);
        // SAFETY: writes two numbers; the handle is alive by the contract above.
        let status = unsafe { library.functions.nvjpegGetHardwareDecoderInfo(handle, &mut engines, &mut cores) };
        checked(status, "nvjpegGetHardwareDecoderInfo").map(|()| (engines, cores))
    }
}

pub(crate) mod state {
    use super::*;
    use std::ptr::null_mut;

    /// Creates the state of a decoder.
    ///
    /// # Safety
    ///
    /// The handle is alive.
    pub(crate) unsafe fn create(
        library: &Library,
        handle: sys::nvjpegHandle_t,
    ) -> NvJpegResult<sys::nvjpegJpegState_t> {
        let mut state = null_mut();
        // SAFETY: writes one handle; by the contract above.
        let status = unsafe { library.functions.nvjpegJpegStateCreate(handle, &mut state) };
        checked(status, "nvjpegJpegStateCreate").map(|()| state)
    }

    /// Destroys a state.
    ///
    /// # Safety
    ///
    /// The state comes from `create`, has no work in flight, and is not used afterwards.
    pub(crate) unsafe fn destroy(library: &Library, state: sys::nvjpegJpegState_t) -> NvJpegResult<()> {
        // SAFETY: by the contract above.
        checked(unsafe { library.functions.nvjpegJpegStateDestroy(state) }, "nvjpegJpegStateDestroy")
    }
}

pub(crate) mod params {
    use super::*;
    use forebay_loader::decode::geometry::Region;
    use std::ffi::c_int;
    use std::ptr::null_mut;

    /// Creates decode parameters.
    ///
    /// # Safety
    ///
    /// The handle is alive.
    pub(crate) unsafe fn create(
        library: &Library,
        handle: sys::nvjpegHandle_t,
    ) -> NvJpegResult<sys::nvjpegDecodeParams_t> {
        let mut params = null_mut();
        // SAFETY: writes one handle; by the contract above.
        let status = unsafe { library.functions.nvjpegDecodeParamsCreate(handle, &mut params) };
        checked(status, "nvjpegDecodeParamsCreate").map(|()| params)
    }

    /// Destroys decode parameters.
    ///
    /// # Safety
    ///
    /// The parameters come from `create` and are not used afterwards.
    pub(crate) unsafe fn destroy(library: &Library, params: sys::nvjpegDecodeParams_t) -> NvJpegResult<()> {
        // SAFETY: by the contract above.
        checked(unsafe { library.functions.nvjpegDecodeParamsDestroy(params) }, "nvjpegDecodeParamsDestroy")
    }

    /// Restricts decoding to `region`.
    ///
    /// # Safety
    ///
    /// The parameters are alive.
    pub(crate) unsafe fn set_region(
        library: &Library,
        params: sys::nvjpegDecodeParams_t,
        region: Region,
    ) -> NvJpegResult<()> {
        // Sides of a JPEG are below 65,536.
        let [x, y, w, h] = [region.x, region.y, region.w, region.h].map(|v| v as c_int);
        // SAFETY: by the contract above.
        let status = unsafe { library.functions.nvjpegDecodeParamsSetROI(params, x, y, w, h) };
        checked(status, "nvjpegDecodeParamsSetROI")
    }
}

pub(crate) mod header {
    use super::*;
    use std::ptr::null_mut;

    /// Creates a parser of headers.
    ///
    /// # Safety
    ///
    /// The handle is alive.
    pub(crate) unsafe fn create(
        library: &Library,
        handle: sys::nvjpegHandle_t,
    ) -> NvJpegResult<sys::nvjpegJpegStream_t> {
        let mut header = null_mut();
        // SAFETY: writes one handle; by the contract above.
        let status = unsafe { library.functions.nvjpegJpegStreamCreate(handle, &mut header) };
        checked(status, "nvjpegJpegStreamCreate").map(|()| header)
    }

    /// Destroys a parser of headers.
    ///
    /// # Safety
    ///
    /// The header comes from `create` and is not used afterwards.
    pub(crate) unsafe fn destroy(library: &Library, header: sys::nvjpegJpegStream_t) -> NvJpegResult<()> {
        // SAFETY: by the contract above.
        checked(unsafe { library.functions.nvjpegJpegStreamDestroy(header) }, "nvjpegJpegStreamDestroy")
    }

    /// Parses the header of `file`.
    ///
    /// # Safety
    ///
    /// Both handles are alive.
    pub(crate) unsafe fn parse(
        library: &Library,
        handle: sys::nvjpegHandle_t,
        file: &[u8],
        header: sys::nvjpegJpegStream_t,
    ) -> NvJpegResult<()> {
        // SAFETY: the file is read during the call; by the contract above.
        let status =
            unsafe { library.functions.nvjpegJpegStreamParseHeader(handle, file.as_ptr(), file.len(), header) };
        checked(status, "nvjpegJpegStreamParseHeader")
    }

    /// Returns true if the handle's backend decodes the picture of the header that was parsed last.
    ///
    /// # Safety
    ///
    /// All handles are alive.
    pub(crate) unsafe fn is_supported(
        library: &Library,
        handle: sys::nvjpegHandle_t,
        header: sys::nvjpegJpegStream_t,
        params: sys::nvjpegDecodeParams_t,
    ) -> NvJpegResult<bool> {
        let mut status_code = -1;
        // SAFETY: writes one number; by the contract above.
        let status =
            unsafe { library.functions.nvjpegDecodeBatchedSupportedEx(handle, header, params, &mut status_code) };
        // 0 means that it is supported.
        checked(status, "nvjpegDecodeBatchedSupportedEx").map(|()| status_code == 0)
    }
}

pub(crate) mod batch {
    use super::*;
    use std::ffi::c_int;

    /// Lists of a batch, all of the same length. `params` is empty if whole pictures are decoded.
    pub(crate) struct Lists<'a> {
        pub(crate) files: &'a [*const u8],
        pub(crate) lengths: &'a [usize],
        pub(crate) out: &'a mut [sys::nvjpegImage_t],
        pub(crate) params: &'a mut [sys::nvjpegDecodeParams_t],
    }

    /// Prepares `state` for batches of `count` pictures, with interleaved RGB as output.
    ///
    /// # Safety
    ///
    /// Both handles are alive, and the state has no work in flight.
    pub(crate) unsafe fn initialize(
        library: &Library,
        handle: sys::nvjpegHandle_t,
        state: sys::nvjpegJpegState_t,
        count: usize,
    ) -> NvJpegResult<()> {
        let format = sys::nvjpegOutputFormat_t::NVJPEG_OUTPUT_RGBI;
        // The number of threads (1) has no effect in these versions.
        // SAFETY: by the contract above.
        let status =
            unsafe { library.functions.nvjpegDecodeBatchedInitialize(handle, state, count as c_int, 1, format) };
        checked(status, "nvjpegDecodeBatchedInitialize")
    }

    /// Starts decoding whole pictures in the order of `stream`.
    ///
    /// # Safety
    ///
    /// As for [`decode`].
    pub(crate) unsafe fn decode_whole(
        library: &Library,
        handle: sys::nvjpegHandle_t,
        state: sys::nvjpegJpegState_t,
        Lists { files, lengths, out, .. }: Lists<'_>,
        stream: sys::cudaStream_t,
    ) -> NvJpegResult<()> {
        // SAFETY: by the contract above.
        let status = unsafe {
            library.functions.nvjpegDecodeBatched(
                handle,
                state,
                files.as_ptr(),
                lengths.as_ptr(),
                out.as_mut_ptr(),
                stream,
            )
        };
        checked(status, "nvjpegDecodeBatched")
    }

    /// Starts decoding regions, which only the hardware backend can do. It writes during the call, before earlier work
    /// on `stream` is done.
    ///
    /// # Safety
    ///
    /// All handles are alive, and the state was prepared for this number of pictures. Until the stream has done the
    /// work, the files are not changed and the memory for the pixels is used by nothing else.
    pub(crate) unsafe fn decode(
        library: &Library,
        handle: sys::nvjpegHandle_t,
        state: sys::nvjpegJpegState_t,
        Lists { files, lengths, out, params }: Lists<'_>,
        stream: sys::cudaStream_t,
    ) -> NvJpegResult<()> {
        // SAFETY: by the contract above.
        let status = unsafe {
            library.functions.nvjpegDecodeBatchedEx(
                handle,
                state,
                files.as_ptr(),
                lengths.as_ptr(),
                out.as_mut_ptr(),
                params.as_mut_ptr(),
                stream,
            )
        };
        checked(status, "nvjpegDecodeBatchedEx")
    }
}
