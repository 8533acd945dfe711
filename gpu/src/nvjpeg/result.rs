//! nvJPEG's functions with results, by what they are about. Handles are passed as they are: [`safe`](super::safe) owns them.
//!
//! The caller has a CUDA context current, as the library expects.

use super::library::Library;
use super::sys::{self, nvjpegBackend_t, nvjpegStatus_t};
use forebay_loader::{Error, ErrorKind};

/// What the library answered instead of success.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NvJpegError {
    call: &'static str,
    status: nvjpegStatus_t,
}

impl NvJpegError {
    /// Whether there was no memory. Whatever else is answered to pictures may be one picture's fault: EXECUTION_FAILED and
    /// INTERNAL_ERROR are, for some files. That the device itself has failed is what the driver says when it is waited for.
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
        write!(f, "{} answered {}", self.call, self.name())
    }
}

impl From<NvJpegError> for Error {
    fn from(refusal: NvJpegError) -> Self {
        let kind = match refusal.status {
            nvjpegStatus_t::NVJPEG_STATUS_ALLOCATOR_FAILURE => ErrorKind::Full,
            nvjpegStatus_t::NVJPEG_STATUS_ARCH_MISMATCH
            | nvjpegStatus_t::NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("nvJPEG refused: {}", refusal.name()))
            .with("call", refusal.call)
            .with("status", refusal.status.0)
    }
}

pub(crate) type NvJpegResult<T> = Result<T, NvJpegError>;

fn checked(status: nvjpegStatus_t, call: &'static str) -> NvJpegResult<()> {
    match status {
        nvjpegStatus_t::NVJPEG_STATUS_SUCCESS => Ok(()),
        status => Err(NvJpegError { call, status }),
    }
}

/// What becomes of chroma that is stored with fewer samples than the picture has pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChromaUpsampling {
    /// Blended between samples, as on the host. Versions before 12.1 do not know that.
    Interpolated,
    /// Each sample for the pixels that it was made of.
    Replicated,
}

pub(crate) mod library {
    use super::*;

    /// Major and minor version.
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

    /// A handle of `backend` that makes of chroma's samples what `chroma` says.
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
        // SAFETY: writes one handle; without allocators the library takes CUDA's own.
        let status = unsafe { library.functions.nvjpegCreateEx(backend, null_mut(), null_mut(), flags, &mut handle) };
        checked(status, "nvjpegCreateEx").map(|()| handle)
    }

    /// # Safety
    ///
    /// The handle is `create`'s and not used afterwards.
    pub(crate) unsafe fn destroy(library: &Library, handle: sys::nvjpegHandle_t) -> NvJpegResult<()> {
        // SAFETY: by the contract above.
        checked(unsafe { library.functions.nvjpegDestroy(handle) }, "nvjpegDestroy")
    }

    /// Engines of the hardware decoder, and cores of each.
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

    /// # Safety
    ///
    /// The state is `create`'s, nothing that it was given is under way, and it is not used afterwards.
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

    /// # Safety
    ///
    /// The parameters are `create`'s and not used afterwards.
    pub(crate) unsafe fn destroy(library: &Library, params: sys::nvjpegDecodeParams_t) -> NvJpegResult<()> {
        // SAFETY: by the contract above.
        checked(unsafe { library.functions.nvjpegDecodeParamsDestroy(params) }, "nvjpegDecodeParamsDestroy")
    }

    /// Only `region` is to be decoded.
    ///
    /// # Safety
    ///
    /// The parameters are alive.
    pub(crate) unsafe fn set_region(
        library: &Library,
        params: sys::nvjpegDecodeParams_t,
        region: Region,
    ) -> NvJpegResult<()> {
        // JPEG's sides are below 65,536.
        let [x, y, w, h] = [region.x, region.y, region.w, region.h].map(|v| v as c_int);
        // SAFETY: by the contract above.
        let status = unsafe { library.functions.nvjpegDecodeParamsSetROI(params, x, y, w, h) };
        checked(status, "nvjpegDecodeParamsSetROI")
    }
}

pub(crate) mod header {
    use super::*;
    use std::ptr::null_mut;

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

    /// # Safety
    ///
    /// The header is `create`'s and not used afterwards.
    pub(crate) unsafe fn destroy(library: &Library, header: sys::nvjpegJpegStream_t) -> NvJpegResult<()> {
        // SAFETY: by the contract above.
        checked(unsafe { library.functions.nvjpegJpegStreamDestroy(header) }, "nvjpegJpegStreamDestroy")
    }

    /// Reads the header of `file`.
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

    /// Whether the handle's backend decodes the picture whose header was read last.
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
        let mut answer = -1;
        // SAFETY: writes one number; by the contract above.
        let status = unsafe { library.functions.nvjpegDecodeBatchedSupportedEx(handle, header, params, &mut answer) };
        // 0 means yes.
        checked(status, "nvjpegDecodeBatchedSupportedEx").map(|()| answer == 0)
    }
}

pub(crate) mod batch {
    use super::*;
    use std::ffi::c_int;

    /// What one batch consists of; equally many of each, but for parameters, which whole pictures have none of.
    pub(crate) struct Lists<'a> {
        pub(crate) files: &'a [*const u8],
        pub(crate) lengths: &'a [usize],
        pub(crate) out: &'a mut [sys::nvjpegImage_t],
        pub(crate) params: &'a mut [sys::nvjpegDecodeParams_t],
    }

    /// Prepares `state` for batches of `count` pictures that come out as interleaved RGB.
    ///
    /// # Safety
    ///
    /// Both handles are alive, and nothing that the state was given is under way.
    pub(crate) unsafe fn initialize(
        library: &Library,
        handle: sys::nvjpegHandle_t,
        state: sys::nvjpegJpegState_t,
        count: usize,
    ) -> NvJpegResult<()> {
        let format = sys::nvjpegOutputFormat_t::NVJPEG_OUTPUT_RGBI;
        // The number of threads is not used any more.
        // SAFETY: by the contract above.
        let status =
            unsafe { library.functions.nvjpegDecodeBatchedInitialize(handle, state, count as c_int, 1, format) };
        checked(status, "nvjpegDecodeBatchedInitialize")
    }

    /// Starts decoding whole pictures in `stream`'s order.
    ///
    /// # Safety
    ///
    /// As [`decode`].
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

    /// Starts decoding parts, which the hardware backend does. It writes when it is called, whatever `stream` has to do before.
    ///
    /// # Safety
    ///
    /// All handles are alive and the state was prepared for this number of pictures; files and places stay what they are
    /// until the stream has done it, and no one else uses the places from now on.
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
