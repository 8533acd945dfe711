//! nvJPEG's handles as values that end when dropped, each with its context current.

use super::library::Library;
use super::result::{ChromaUpsampling, NvJpegError, NvJpegResult, batch, handle, header, library, params, state};
use super::sys::{self, nvjpegBackend_t};
use crate::context::Context;
use cudarc::driver::sys::CUstream;
use forebay_loader::Result;
use forebay_loader::decode::geometry::Region;
use forebay_loader::sync::Arc;

/// What of a picture a backend is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A part, which less has to be decoded for.
    Part,
    /// All of it.
    Whole,
}

/// One backend of the library on one device.
pub(crate) struct Handle {
    library: Arc<Library>,
    context: Arc<Context>,
    handle: sys::nvjpegHandle_t,
    extent: Extent,
}

// SAFETY: the library's handles may be shared by threads; states, parameters and headers are each used by one at a time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// The engines that do nothing else.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a device without; what the library says.
    pub(crate) fn on_engines(
        library: &Arc<Library>,
        context: &Arc<Context>,
        chroma: ChromaUpsampling,
        extent: Extent,
    ) -> Result<Arc<Self>> {
        Self::new(library, context, nvjpegBackend_t::NVJPEG_BACKEND_HARDWARE, chroma, extent)
    }

    /// The device's ordinary cores, which also read the entropy-coded data of batches of more than 50 pictures. They decode whole
    /// pictures: the library has batches of parts for the engines alone.
    ///
    /// # Errors
    ///
    /// What the library says.
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

    /// What of a picture it is asked for.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Where it decodes.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Major and minor version of the library.
    pub(crate) fn version(&self) -> Result<(i32, i32)> {
        Ok(library::version(&self.library)?)
    }

    /// How many engines there are, and how many pictures each decodes at a time.
    pub(crate) fn engines(&self) -> Result<(u32, u32)> {
        // SAFETY: the handle is alive.
        self.context.enter(|| Ok(unsafe { handle::engines(&self.library, self.handle) }?))
    }

    /// Runs `body` with the context current, where refusals are told apart from the driver's.
    fn enter<T>(&self, body: impl FnOnce() -> NvJpegResult<T>) -> Result<NvJpegResult<T>> {
        self.context.enter(|| Ok(body()))
    }

    /// Runs `end`, unless this is a forked child, where the library does not work.
    fn end(&self, end: impl FnOnce() -> NvJpegResult<()>) {
        if self.context.is_own_process()
            && let Err(error) = self.context.enter(|| Ok(end()?))
        {
            log::warn!("something of nvJPEG is given up: {error}");
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
        // SAFETY: made in `new`, and whatever uses it holds it.
        self.end(|| unsafe { handle::destroy(&self.library, self.handle) });
    }
}

/// Decode parameters: the region.
struct DecodeParams {
    of: Arc<Handle>,
    params: sys::nvjpegDecodeParams_t,
}

impl DecodeParams {
    /// With a context current.
    fn new(of: &Arc<Handle>) -> NvJpegResult<Self> {
        // SAFETY: the handle is alive.
        let params = unsafe { params::create(&of.library, of.handle) }?;
        Ok(Self { of: of.clone(), params })
    }

    fn set_region(&mut self, region: Region) -> NvJpegResult<()> {
        // SAFETY: the parameters are alive.
        unsafe { params::set_region(&self.of.library, self.params, region) }
    }
}

impl Drop for DecodeParams {
    fn drop(&mut self) {
        // SAFETY: made in `new`, ended once.
        self.of.end(|| unsafe { params::destroy(&self.of.library, self.params) });
    }
}

/// Looks at headers: which pictures a backend takes.
pub(crate) struct HeaderProbe {
    params: DecodeParams,
    header: sys::nvjpegJpegStream_t,
}

// SAFETY: used by one thread at a time, through `&mut`.
unsafe impl Send for HeaderProbe {}

impl HeaderProbe {
    pub(crate) fn new(of: &Arc<Handle>) -> Result<Self> {
        of.context.enter(|| {
            let params = DecodeParams::new(of)?;
            // SAFETY: the handle is alive.
            let header = unsafe { header::create(&of.library, of.handle) }?;
            Ok(Self { params, header })
        })
    }

    /// Whether the backend decodes `region` of `file`; not when it cannot be asked.
    pub(crate) fn accepts(&mut self, file: &[u8], region: Region) -> bool {
        let Self { params, header } = self;
        let of = params.of.clone();
        let answer = of.enter(|| {
            // SAFETY: both handles are alive.
            unsafe { header::parse(&of.library, of.handle, file, *header) }?;
            if of.extent == Extent::Part {
                params.set_region(region)?;
            }
            // SAFETY: all handles are alive.
            unsafe { header::is_supported(&of.library, of.handle, *header, params.params) }
        });
        matches!(answer, Ok(Ok(true)))
    }
}

impl Drop for HeaderProbe {
    fn drop(&mut self) {
        let of = &self.params.of;
        // SAFETY: made in `new`, ended once.
        of.end(|| unsafe { header::destroy(&of.library, self.header) });
    }
}

/// One picture to decode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeJob<'a> {
    pub(crate) file: &'a [u8],
    /// All of the picture, if the backend is asked for that.
    pub(crate) region: Region,
    /// Where the region's RGB pixels go on the device, `pitch` bytes from row to row.
    pub(crate) out: u64,
    pub(crate) pitch: usize,
}

/// What decodes batches, one after the other.
pub(crate) struct BatchDecoder {
    of: Arc<Handle>,
    state: sys::nvjpegJpegState_t,
    /// One for each picture of the largest batch so far.
    params: Vec<DecodeParams>,
}

// SAFETY: used by one thread at a time, through `&mut`.
unsafe impl Send for BatchDecoder {}

impl BatchDecoder {
    pub(crate) fn new(of: &Arc<Handle>) -> Result<Self> {
        // SAFETY: the handle is alive.
        let state = of.context.enter(|| Ok(unsafe { state::create(&of.library, of.handle) }?))?;
        Ok(Self { of: of.clone(), state, params: Vec::new() })
    }

    /// Starts decoding `jobs` on `stream`. The outer error is the driver's; the inner one the library's, over all of
    /// `jobs` even if it is one's fault.
    ///
    /// # Safety
    ///
    /// Nothing that this was given before is under way. Files and places stay what they are until
    /// the stream has done it. Nobody else uses the places: engines write at once, whatever the stream has to do before.
    pub(crate) unsafe fn decode(
        &mut self,
        jobs: &[DecodeJob<'_>],
        stream: CUstream,
    ) -> Result<std::result::Result<(), NvJpegError>> {
        let Self { of, state, params } = self;
        let files: Vec<*const u8> = jobs.iter().map(|job| job.file.as_ptr()).collect();
        let lengths: Vec<usize> = jobs.iter().map(|job| job.file.len()).collect();
        let image = |job: &DecodeJob<'_>| {
            let mut image = sys::nvjpegImage_t { channel: [std::ptr::null_mut(); 4], pitch: [0; 4] };
            image.channel[0] = std::ptr::with_exposed_provenance_mut(job.out as usize);
            image.pitch[0] = job.pitch;
            image
        };
        let mut out: Vec<_> = jobs.iter().map(image).collect();
        of.enter(|| {
            // SAFETY: the handles are alive; the state is idle by the contract above.
            unsafe { batch::initialize(&of.library, of.handle, *state, jobs.len()) }?;
            let (files, lengths, out) = (&files[..], &lengths[..], &mut out[..]);
            if of.extent == Extent::Whole {
                let lists = batch::Lists { files, lengths, out, params: &mut [] };
                // SAFETY: prepared for this number just now; the rest by the contract above.
                return unsafe { batch::decode_whole(&of.library, of.handle, *state, lists, stream.cast()) };
            }
            while params.len() < jobs.len() {
                params.push(DecodeParams::new(of)?);
            }
            for (params, job) in params.iter_mut().zip(jobs) {
                params.set_region(job.region)?;
            }
            let mut lists: Vec<_> = params[..jobs.len()].iter().map(|params| params.params).collect();
            let lists = batch::Lists { files, lengths, out, params: &mut lists };
            // SAFETY: prepared for this number just now; the rest by the contract above.
            unsafe { batch::decode(&of.library, of.handle, *state, lists, stream.cast()) }
        })
    }
}

impl Drop for BatchDecoder {
    fn drop(&mut self) {
        // SAFETY: made in `new`, ended once; its owner waits for what it was given.
        self.of.end(|| unsafe { state::destroy(&self.of.library, self.state) });
    }
}
