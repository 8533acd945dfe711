//! Picture decoder of a CUDA device.

use super::balance::CORES_MIN;
use super::fallbacks::FallbackLog;
use super::group_slot::GroupSlot;
use super::groups::{PIXEL_BYTES_MAX, cut};
use super::in_flight::{CudaInFlightBatch, DecodeTally, HeldMemory};
use super::resources::DecodeResources;
use super::selftest::{Backends, VerifiedBackend};
use super::state::{DecodeState, EngineState, REJECTED_RUN_MAX};
use super::submit::BatchSubmission;
use super::undecoded::UndecodedFlags;
use crate::context::{Event, Stream};
use crate::kernel::Kernels;
use crate::memory::BlockPool;
use crate::partial_batch::PartialDeviceBatch;
use crate::state::DeviceState;
use forebay_loader::delivery::{BatchOnDevice, DeviceRows, EncodedBatch, InFlightBatch, PictureDecoder};
use forebay_loader::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};
use forebay_loader::{Error, ErrorKind, Result};

/// Groups in flight: the device works on one while the host prepares the other.
const GROUP_SLOTS: usize = 2;

/// Decodes pictures on a CUDA device. Its drop frees the group slots; batches in flight own the rest of what they use.
pub(crate) struct CudaPictureDecoder(Arc<DecoderCore>);

/// State and resources of a decoder. Batches in flight refer to them weakly, so that they do not keep a dropped decoder alive.
struct DecoderCore {
    state: Mutex<DecodeState>,
    resources: DecodeResources,
    /// Stream for reads of undecoded flags alone.
    flags_stream: Arc<Stream>,
    /// Pool of the flags' memory.
    flags_pool: Arc<BlockPool>,
    description: String,
    is_open: AtomicBool,
}

impl std::fmt::Debug for CudaPictureDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaPictureDecoder").field("decoder", &self.0.description).finish_non_exhaustive()
    }
}

impl CudaPictureDecoder {
    /// Opens a decoder with the given backends.
    ///
    /// # Errors
    ///
    /// `Unsupported` when neither backend can be used; errors of the driver and the library.
    pub(crate) fn open(device: &Arc<DeviceState>, backends: Backends) -> Result<Self> {
        let context = &device.context;
        let kernels = Arc::new(Kernels::load(context)?);
        let number = context.number;
        let mut sentences = Vec::new();
        let mut handle_of = |backend: VerifiedBackend| {
            sentences.extend(backend.note);
            backend.handle
        };
        let Backends { engines, cores } = backends;
        let engines = engines.and_then(|backend| EngineState::new(&backend.handle).map(|state| (backend, state)));
        let (engines, engines_error) = match engines {
            Ok((backend, state)) => (Some((handle_of(backend), state)), None),
            Err(error) => (None, Some(error)),
        };
        let (cores, cores_error) =
            cores.map_or_else(|error| (None, Some(error)), |backend| (Some(handle_of(backend)), None));
        sentences.extend(engines_error.map(|error| {
            format!("the JPEG engines of CUDA device {number} cannot be used, so only its cores decode: {error}")
        }));
        sentences.extend(cores_error.map(|error| {
            format!(
                "the cores of CUDA device {number} cannot decode JPEGs, so only its engines do, and the host decodes what the engines \
                 reject: {error}"
            )
        }));
        let engines_handle = engines.as_ref().map(|(handle, _)| handle);
        let Some(handle) = engines_handle.or(cores.as_ref()) else {
            return Err(Error::new(ErrorKind::Unsupported, "neither engines nor cores of the device decode JPEGs"));
        };
        let (major, minor) = handle.version()?;
        let with = match (&engines, &cores) {
            (Some((_, engines)), Some(_)) => format!("with {} engines", engines.count),
            (Some((_, engines)), None) => format!("with {} engines alone", engines.count),
            (None, _) => "without engines".to_owned(),
        };
        let open = || device.streams.open(context);
        let (stream, engines_stream, flags_stream) = (open()?, open()?, open()?);
        let slot = |_| GroupSlot::new(context, [&stream, &engines_stream], engines_handle, cores.as_ref());
        let slots = (0..GROUP_SLOTS).map(slot).collect::<Result<_>>()?;
        let fallbacks = FallbackLog::new(number, sentences);
        Ok(Self(Arc::new(DecoderCore {
            resources: DecodeResources { state: device.clone(), kernels, stream, engines_stream, fallbacks },
            flags_stream,
            flags_pool: Arc::default(),
            description: format!("nvJPEG {major}.{minor} {with}"),
            is_open: AtomicBool::new(true),
            state: Mutex::new(DecodeState {
                slots,
                current: 0,
                engines: engines.map(|(_, engines)| engines),
                pixel_bytes_max: PIXEL_BYTES_MAX,
                rejected: 0,
            }),
        })))
    }
}

impl DecoderCore {
    /// Ends decoding for `reason` and frees its memory.
    fn close(&self, state: &mut DecodeState, reason: &str) {
        self.is_open.store(false, Ordering::Relaxed);
        // Each slot waits for its work.
        state.slots.clear();
        self.resources.fallbacks.report_closed(reason);
    }

    /// Ends decoding because the device has no memory left.
    fn close_without_memory(&self, state: &mut DecodeState, error: &Error) {
        self.close(state, &format!("has no memory left for decoding: {error}"));
    }

    /// Abandons the engines. From now on only the cores decode, if they can.
    fn abandon_engines(&self, state: &mut DecodeState, reason: &str) -> Result<()> {
        // The decoders of both slots must have no work when they are dropped.
        self.resources.wait_for_streams()?;
        state.engines = None;
        state.slots.iter_mut().for_each(|slot| slot.engines = None);
        if state.has_backend() {
            self.resources.fallbacks.report_engines_abandoned(REJECTED_RUN_MAX, reason);
        }
        Ok(())
    }
}

impl Drop for CudaPictureDecoder {
    /// Frees the group slots on the release thread, so that a device that has stopped responding cannot block the
    /// caller forever.
    fn drop(&mut self) {
        let DecoderCore { state, resources, flags_pool, .. } = &*self.0;
        let slots = std::mem::take(&mut state.lock().slots);
        let DecodeResources { state: device, kernels, .. } = resources;
        if !device.context.is_own_process() {
            return std::mem::forget(slots);
        }
        // In this order: the slots wait for the work that uses the rest.
        device.drop_on_release_thread((slots, kernels.clone(), flags_pool.clone()));
    }
}

impl PictureDecoder for CudaPictureDecoder {
    fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::Relaxed)
    }

    fn describe(&self) -> String {
        self.0.description.clone()
    }

    fn pictures_min(&self) -> usize {
        if self.0.state.lock().engines.is_some() { 0 } else { CORES_MIN }
    }

    fn take_fallbacks(&self) -> Vec<String> {
        self.0.resources.fallbacks.take()
    }

    fn submit(&self, batch: EncodedBatch<'_>) -> Result<Box<dyn InFlightBatch>> {
        self.0.submit(batch, &Arc::downgrade(&self.0))
    }
}

/// Batch in flight and its decoder.
struct SubmittedBatch {
    decoder: Weak<DecoderCore>,
    batch: CudaInFlightBatch,
}

impl std::fmt::Debug for SubmittedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubmittedBatch").field("rows", &self.batch.rows.len()).finish_non_exhaustive()
    }
}

impl InFlightBatch for SubmittedBatch {
    fn wait(self: Box<Self>) -> Result<BatchOnDevice> {
        let decoder = self.decoder.upgrade();
        decoder.ok_or_else(|| Error::internal("the decoder of a batch in flight was dropped"))?.wait(self.batch)
    }
}

impl DecoderCore {
    /// Queues the work of a batch. `decoder` is this decoder.
    fn submit(&self, batch: EncodedBatch<'_>, decoder: &Weak<Self>) -> Result<Box<dyn InFlightBatch>> {
        let EncodedBatch { slot, bytes, outputs, rows, pictures, on_device } = batch;
        // Direct rows stay on the device.
        let none_decoded = |slot, rows: Option<PartialDeviceBatch>| -> Result<Box<dyn InFlightBatch>> {
            let rows = rows.map(|rows| Box::new(rows) as Box<dyn DeviceRows>);
            Ok(Box::new(BatchOnDevice { slot, rows, undecoded: (0..pictures.len()).collect(), on_engines: Vec::new() }))
        };
        let mut state = self.state.lock();
        let before = on_device.and_then(|rows| rows.into_any().downcast::<PartialDeviceBatch>().ok());
        let before = before.map(|before| *before);
        if state.slots.is_empty() {
            return none_decoded(slot, before);
        }
        let groups = cut(pictures, rows, state.extent_max(), state.pixel_bytes_max)?;
        let DecodeResources { state: device, stream, .. } = &self.resources;
        let context = &device.context;
        let ended = Arc::new(Event::new(context)?);
        let flags = match UndecodedFlags::take(device, &self.flags_pool, pictures.len(), stream) {
            Ok(flags) => flags,
            Err(error) if error.kind() == ErrorKind::Full => {
                self.close_without_memory(&mut state, &error);
                return none_decoded(slot, before);
            }
            Err(error) => return Err(error),
        };
        let (block, done) = match before {
            Some(before) => before.resume(rows, outputs, stream)?,
            None => match device.blocks.take(context, bytes, stream) {
                Ok(block) => (block, Default::default()),
                Err(error) if error.kind() == ErrorKind::Full => {
                    self.close_without_memory(&mut state, &error);
                    return none_decoded(slot, None);
                }
                Err(error) => return Err(error),
            },
        };
        let had_engines = state.engines.is_some();
        let (resources, tally) = (&self.resources, DecodeTally::default());
        let mut submission = BatchSubmission { resources, state: &mut state, slot, block, flags, outputs, tally, done };
        let rejected = submission.run(groups, rows);
        let rejected = rejected.and_then(|rejected| ended.record(stream.handle).map(|()| rejected));
        let BatchSubmission { slot, block, flags, tally, mut done, .. } = submission;
        let held = HeldMemory { slot, block, flags };
        let pictures_at: Vec<_> = pictures.iter().map(|picture| (picture.output, picture.row)).collect();
        let (device, rows) = (device.clone(), rows.to_vec());
        match rejected {
            Ok(rejected) => {
                let (held, pictures) = (Some(held), pictures_at);
                let batch = CudaInFlightBatch {
                    state: device,
                    held,
                    ended,
                    rows,
                    done,
                    pictures,
                    rejected,
                    tally,
                    had_engines,
                };
                Ok(Box::new(SubmittedBatch { decoder: decoder.clone(), batch }))
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                let HeldMemory { slot, block, flags } = self.wait_for(held)?;
                self.read_flags(flags)?;
                self.close_without_memory(&mut state, &error);
                done.retain(|at, _| !pictures_at.contains(at));
                none_decoded(slot, Some(PartialDeviceBatch::new(&device, (block, None), rows, done, false)))
            }
            Err(error) => {
                let HeldMemory { slot, block, .. } = held;
                if let Ok(filled) = slot.freeze() {
                    device.release_batch_after_streams(filled, block);
                }
                Err(error)
            }
        }
    }

    /// Waits for a batch in flight. Abandons backends that reject everything.
    fn wait(&self, mut batch: CudaInFlightBatch) -> Result<BatchOnDevice> {
        // The memory stays in the batch for as long as the device may use it.
        batch.ended.wait()?;
        let HeldMemory { slot, block, flags } =
            batch.held.take().ok_or_else(|| Error::internal("a batch in flight holds no memory"))?;
        let mut undecoded = self.read_flags(flags)?;
        let mut state = self.state.lock();
        let CudaInFlightBatch { state: device, ended, rows, done, pictures, rejected, tally, .. } = &mut batch;
        let removed = undecoded.iter().map(|number| done.remove(&pictures[*number]));
        let by_engines = removed.filter(|by_engines| *by_engines == Some(true)).count();
        undecoded.append(rejected);
        undecoded.sort_unstable();
        let on_engines = (0..pictures.len()).filter(|number| done.get(&pictures[*number]) == Some(&true)).collect();
        let (rows, done, is_complete) = (std::mem::take(rows), std::mem::take(done), undecoded.is_empty());
        let partial = PartialDeviceBatch::new(device, (block, Some(ended.clone())), rows, done, is_complete);
        self.check_engines(&mut state, tally, by_engines)?;
        // If the engines were abandoned just now, the cores may decode what they rejected.
        let are_all = !batch.had_engines && undecoded.len() == batch.pictures.len();
        state.rejected = if are_all { state.rejected + undecoded.len() - batch.tally.without_memory } else { 0 };
        // Another batch may have closed the decoder meanwhile.
        if !state.slots.is_empty() && (!state.has_backend() || state.rejected >= REJECTED_RUN_MAX) {
            self.close(&mut state, &format!("rejected the last {REJECTED_RUN_MAX} pictures or more"));
        }
        Ok(BatchOnDevice { slot, rows: Some(Box::new(partial)), undecoded, on_engines })
    }

    /// Returns the undecoded pictures of a batch that the device has finished.
    fn read_flags(&self, flags: UndecodedFlags) -> Result<Vec<usize>> {
        let undecoded = flags.read(&self.flags_stream)?;
        if !undecoded.is_empty() {
            self.resources.fallbacks.report_undecoded();
        }
        Ok(undecoded)
    }

    /// Counts the rejected and undecoded pictures of a batch and abandons the engines if they decode nothing any more.
    fn check_engines(&self, state: &mut DecodeState, tally: &DecodeTally, undecoded: usize) -> Result<()> {
        let DecodeTally { requested, rejected, reason, .. } = *tally;
        let are_useless =
            |engines: &mut EngineState| requested > 0 && engines.count_rejected(requested, rejected + undecoded);
        if !state.engines.as_mut().is_some_and(are_useless) {
            return Ok(());
        }
        match reason {
            Some(reason) => self.abandon_engines(state, &reason.to_string()),
            None => self.abandon_engines(state, "the engines left them undecoded without an error"),
        }
    }

    /// Waits until the device has finished with a batch that is not in flight. Leaks its memory if that fails.
    fn wait_for(&self, held: HeldMemory) -> Result<HeldMemory> {
        match self.resources.wait_for_streams() {
            Ok(()) => Ok(held),
            Err(error) => {
                log::error!("memory of a batch is lost, since the device may still use it: {error}");
                std::mem::forget(held);
                Err(error)
            }
        }
    }
}
