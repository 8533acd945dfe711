//! Opening of a decoder with the backends that the device has.

use super::decoder::{CudaPictureDecoder, DecoderCore};
use super::fallbacks::FallbackLog;
use super::group_slot::GroupSlot;
use super::groups::PIXEL_BYTES_MAX;
use super::resources::DecodeResources;
use super::selftest::{Backends, VerifiedBackend};
use super::state::{DecodeState, EngineState};
use crate::device::CudaDevice;
use crate::kernel::Kernels;
use crate::nvjpeg::Handle;
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};

/// Groups in flight: the device works on one while the host prepares the next one.
const GROUP_SLOTS: usize = 2;

/// Backends that can decode, and sentences for the statistics about pictures that they cannot decode.
struct OpenBackends {
    engines: Option<(Arc<Handle>, EngineState)>,
    cores: Option<Arc<Handle>>,
    sentences: Vec<String>,
}

impl OpenBackends {
    /// Takes in the backends of device `number` that passed their test.
    ///
    /// # Errors
    ///
    /// `Unsupported` when neither can be used, with both causes.
    fn new(Backends { engines, cores }: Backends, number: u32) -> Result<Self> {
        let engines = engines.and_then(|backend| EngineState::new(&backend.handle).map(|state| (backend, state)));
        let missing = match (&engines, &cores) {
            (Err(engines), Err(cores)) => {
                let message = "neither the JPEG engines nor the cores of the device can decode JPEGs";
                return Err(Error::new(ErrorKind::Unsupported, message)
                    .with("engines", engines)
                    .with("cores", cores)
                    .with("device", number));
            }
            (Err(error), Ok(_)) => Some(format!(
                "the JPEG engines of CUDA device {number} cannot be used, so only its cores decode: {error}"
            )),
            (Ok(_), Err(error)) => Some(format!(
                "the cores of CUDA device {number} cannot decode JPEGs, so only its engines do, and the host decodes \
                 what the engines reject: {error}"
            )),
            (Ok(_), Ok(_)) => None,
        };
        let mut sentences = Vec::new();
        let mut handle_of = |VerifiedBackend { handle, note }: VerifiedBackend| {
            sentences.extend(note);
            handle
        };
        let engines = engines.ok().map(|(backend, state)| (handle_of(backend), state));
        let cores = cores.ok().map(handle_of);
        sentences.extend(missing);
        Ok(Self { engines, cores, sentences })
    }

    fn engines_handle(&self) -> Option<&Arc<Handle>> {
        self.engines.as_ref().map(|(handle, _)| handle)
    }

    /// Returns the library's version and the backends, for users.
    fn describe(&self) -> Result<String> {
        let handle = self.engines_handle().or(self.cores.as_ref());
        let (major, minor) = handle.ok_or_else(|| Error::internal("a decoder has no backend"))?.version()?;
        let with = match (&self.engines, &self.cores) {
            (Some((_, engines)), Some(_)) => format!("with {} engines", engines.count),
            (Some((_, engines)), None) => format!("with {} engines alone", engines.count),
            (None, _) => "without engines".to_owned(),
        };
        Ok(format!("nvJPEG {major}.{minor} {with}"))
    }
}

impl CudaPictureDecoder {
    /// Opens a decoder with the given backends.
    ///
    /// # Errors
    ///
    /// `Unsupported` when neither backend can be used; errors of the driver and the library.
    pub(crate) fn open(device: &Arc<CudaDevice>, backends: Backends) -> Result<Self> {
        let context = &device.context;
        let kernels = Arc::new(Kernels::load(context)?);
        let backends = OpenBackends::new(backends, context.number)?;
        let description = backends.describe()?;
        let open = || device.streams.open(context);
        let (stream, engines_stream, flags_stream) = (open()?, open()?, open()?);
        let (engines_handle, cores_handle) = (backends.engines_handle(), backends.cores.as_ref());
        let slot = |_| GroupSlot::new(context, [&stream, &engines_stream], engines_handle, cores_handle);
        let slots = (0..GROUP_SLOTS).map(slot).collect::<Result<_>>()?;
        let OpenBackends { engines, sentences, .. } = backends;
        let fallbacks = FallbackLog::new(context.number, sentences);
        let engines = engines.map(|(_, engines)| engines);
        let state = DecodeState { slots, current: 0, engines, pixel_bytes_max: PIXEL_BYTES_MAX, rejected: 0 };
        let resources = DecodeResources { device: device.clone(), kernels, stream, engines_stream, fallbacks };
        Ok(Self(Arc::new(DecoderCore::new(state, resources, flags_stream, description))))
    }
}
