//! Owned nvJPEG handles, freed on drop, each with its context current.

use super::library::Library;
use super::result::{ChromaUpsampling, NvJpegError, NvJpegResult, batch, handle, header, library, params, state};
use super::sys::{self, nvjpegBackend_t};
use crate::context::Context;
use cudarc::driver::sys::CUstream;
use forebay_loader::Result;
use forebay_loader::decode::geometry::Region;
use forebay_loader::sync::Arc;

/// Extent of a picture that a backend decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Only a region, which takes less work.
    Part,
    /// Whole pictures.
    Whole,
}

/// Backend of the library on one device.
pub(crate) struct Handle {
    library: Arc<Library>,
    context: Arc<Context>,
    handle: sys::nvjpegHandle_t,
    extent: Extent,
}

// SAFETY: handles of the library may be shared by threads; states, parameters and headers are each used by one thread
// at a time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Opens the hardware engines.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a device without engines; errors of the library.
    pub(crate) fn on_engines(
        library: &Arc<Library>,
        context: &Arc<Context>,
        chroma: ChromaUpsampling,
        extent: Extent,
    ) -> Result<Arc<Self>> {
        Self::new(library, context, nvjpegBackend_t::NVJPEG_BACKEND_HARDWARE, chroma, extent)
    }

    /// Opens the device's cores. They also read the entropy-coded data of batches of more than 50 pictures. They decode
    /// whole pictures, because the library has batches of regions only for the engines.
    ///
    /// # Errors
    ///
    /// Errors of the library.
    pub(crate) fn on_cores(
        library: &Arc<Library>,
        context: &Arc<Context>,
        chroma: ChromaUpsampling,
    ) -> Result<Arc<Self>> {
        Self::new(library, context, nvjpegBackend_t::NVJPEG_BACKEND_GPU_HYBRID, chroma, Extent::Whole)
    }

    fn new(
        library: &Arc<Library>,
        context: &Arc<Context>,
        backend: nvjpegBackend_t,
        chroma: ChromaUpsampling,
        extent: Extent,
    ) -> Result<Arc<Self>> {
        let handle = context.enter(|| Ok(handle::create(library, backend, chroma)?))?;
        Ok(Arc::new(Self { library: library.clone(), context: context.clone(), handle, extent }))
    }

    /// Returns the extent of a picture that the backend decodes.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Returns the context of its device.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the major and the minor version of the library.
    pub(crate) fn version(&self) -> Result<(i32, i32)> {
        Ok(library::version(&self.library)?)
    }

    /// Returns the number of engines, and the number of pictures that each decodes at the same time.
    pub(crate) fn engines(&self) -> Result<(u32, u32)> {
        // SAFETY: the handle is alive.
        self.context.enter(|| Ok(unsafe { handle::engines(&self.library, self.handle) }?))
    }

    /// Runs `body` with the context current. Errors of the library are returned separately from the driver's.
    fn enter<T>(&self, body: impl FnOnce() -> NvJpegResult<T>) -> Result<NvJpegResult<T>> {
        self.context.enter(|| Ok(body()))
    }

    /// Runs `free`, except in a forked child, where the library does not work.
    fn free(&self, free: impl FnOnce() -> NvJpegResult<()>) {
        if self.context.is_own_process()
            && let Err(error) = self.context.enter(|| Ok(free()?))
        {
            log::warn!("a handle of nvJPEG cannot be freed: {error}");
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("device", &self.context.number).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made in `new`; all users of the handle hold this value.
        self.free(|| unsafe { handle::destroy(&self.library, self.handle) });
    }
}

/// Decode parameters: the region.
struct DecodeParams {
    handle: Arc<Handle>,
    params: sys::nvjpegDecodeParams_t,
}

impl DecodeParams {
    /// Creates parameters. A context must be current.
    fn new(handle: &Arc<Handle>) -> NvJpegResult<Self> {
        // SAFETY: the handle is alive.
        let params = unsafe { params::create(&handle.library, handle.handle) }?;
        Ok(Self { handle: handle.clone(), params })
    }

    fn set_region(&mut self, region: Region) -> NvJpegResult<()> {
        // SAFETY: the parameters are alive.
        unsafe { params::set_region(&self.handle.library, self.params, region) }
    }
}

impl Drop for DecodeParams {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        self.handle.free(|| unsafe { params::destroy(&self.handle.library, self.params) });
    }
}

/// Parser of headers that checks which pictures a backend decodes.
pub(crate) struct HeaderProbe {
    params: DecodeParams,
    header: sys::nvjpegJpegStream_t,
}

// SAFETY: used by one thread at a time, through `&mut`.
unsafe impl Send for HeaderProbe {}

impl HeaderProbe {
    pub(crate) fn new(handle: &Arc<Handle>) -> Result<Self> {
        handle.context.enter(|| {
            let params = DecodeParams::new(handle)?;
            // SAFETY: the handle is alive.
            let header = unsafe { header::create(&handle.library, handle.handle) }?;
            Ok(Self { params, header })
        })
    }

    /// Returns true if the backend decodes `region` of `file`. An error counts as no.
    pub(crate) fn accepts(&mut self, file: &[u8], region: Region) -> bool {
        let Self { params, header } = self;
        let handle = params.handle.clone();
        let accepted = handle.enter(|| {
            // SAFETY: both handles are alive.
            unsafe { header::parse(&handle.library, handle.handle, file, *header) }?;
            if handle.extent == Extent::Part {
                params.set_region(region)?;
            }
            // SAFETY: all handles are alive.
            unsafe { header::is_supported(&handle.library, handle.handle, *header, params.params) }
        });
        matches!(accepted, Ok(Ok(true)))
    }
}

impl Drop for HeaderProbe {
    fn drop(&mut self) {
        let handle = &self.params.handle;
        // SAFETY: made in `new`, destroyed once.
        handle.free(|| unsafe { header::destroy(&handle.library, self.header) });
    }
}

/// Picture to decode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeJob<'a> {
    pub(crate) file: &'a [u8],
    /// Region to decode: the whole picture for a backend that decodes whole pictures.
    pub(crate) region: Region,
    /// Device address of the region's RGB pixels, `pitch` bytes from one row to the next.
    pub(crate) out: u64,
    pub(crate) pitch: usize,
}

/// Decoder of batches in sequence.
pub(crate) struct BatchDecoder {
    handle: Arc<Handle>,
    state: sys::nvjpegJpegState_t,
    /// Parameters for each picture of the largest batch so far.
    params: Vec<DecodeParams>,
}

// SAFETY: used by one thread at a time, through `&mut`.
unsafe impl Send for BatchDecoder {}

impl BatchDecoder {
    pub(crate) fn new(handle: &Arc<Handle>) -> Result<Self> {
        // SAFETY: the handle is alive.
        let state = handle.context.enter(|| Ok(unsafe { state::create(&handle.library, handle.handle) }?))?;
        Ok(Self { handle: handle.clone(), state, params: Vec::new() })
    }

    /// Starts decoding `jobs` on `stream`. The outer error is the driver's. The inner one is the library's and concerns
    /// all `jobs`, even if only one picture is bad.
    ///
    /// # Safety
    ///
    /// No earlier work of this decoder is in flight. Until the stream has done the work, the files are not changed and
    /// the memory for the pixels is used by nothing else. The engines write during the call, before earlier work on the
    /// stream is done.
    pub(crate) unsafe fn decode(
        &mut self,
        jobs: &[DecodeJob<'_>],
        stream: CUstream,
    ) -> Result<std::result::Result<(), NvJpegError>> {
        let Self { handle, state, params } = self;
        let files: Vec<*const u8> = jobs.iter().map(|job| job.file.as_ptr()).collect();
        let lengths: Vec<usize> = jobs.iter().map(|job| job.file.len()).collect();
        let image = |job: &DecodeJob<'_>| {
            let mut image = sys::nvjpegImage_t { channel: [std::ptr::null_mut(); 4], pitch: [0; 4] };
            image.channel[0] = std::ptr::with_exposed_provenance_mut(job.out as usize);
            image.pitch[0] = job.pitch;
            image
        };
        let mut out: Vec<_> = jobs.iter().map(image).collect();
        handle.enter(|| {
            // SAFETY: the handles are alive; the state is idle by the contract above.
            unsafe { batch::initialize(&handle.library, handle.handle, *state, jobs.len()) }?;
            let (files, lengths, out) = (&files[..], &lengths[..], &mut out[..]);
            if handle.extent == Extent::Whole {
                let lists = batch::Lists { files, lengths, out, params: &mut [] };
                // SAFETY: prepared for this number of pictures; the rest by the contract above.
                return unsafe { batch::decode_whole(&handle.library, handle.handle, *state, lists, stream.cast()) };
            }
            while params.len() < jobs.len() {
                params.push(DecodeParams::new(handle)?);
            }
            for (params, job) in params.iter_mut().zip(jobs) {
                params.set_region(job.region)?;
            }
            let mut lists: Vec<_> = params[..jobs.len()].iter().map(|params| params.params).collect();
            let lists = batch::Lists { files, lengths, out, params: &mut lists };
            // SAFETY: prepared for this number of pictures; the rest by the contract above.
            unsafe { batch::decode(&handle.library, handle.handle, *state, lists, stream.cast()) }
        })
    }
}

impl Drop for BatchDecoder {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once; the owner waits for its work before.
        self.handle.free(|| unsafe { state::destroy(&self.handle.library, self.state) });
    }
}
