//! Picture decoder of a CUDA device.

use super::balance::CORES_MIN;
use super::groups::cut;
use super::in_flight::{CudaInFlightBatch, DecodeTally, HeldMemory};
use super::resources::DecodeResources;
use super::state::{DecodeState, EngineState, REJECTED_RUN_MAX};
use super::submit::BatchSubmission;
use super::undecoded::UndecodedFlags;
use crate::context::{Event, Stream};
use crate::memory::BlockPool;
use crate::partial_batch::PartialDeviceBatch;
use crate::release::leak_on_error;
use crate::row_copy::{CompletedRows, RowSource};
use forebay_loader::delivery::{BatchOnDevice, DeviceRows, EncodedBatch, InFlightBatch, PictureDecoder};
use forebay_loader::memory::BatchSlot;
use forebay_loader::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};
use forebay_loader::{Error, ErrorKind, Result};

/// Decodes pictures on a CUDA device. Its drop frees the group slots; batches in flight own the rest of their memory.
pub(crate) struct CudaPictureDecoder(pub(super) Arc<DecoderCore>);

/// State and resources of a decoder. Batches in flight refer to them weakly, so that they do not keep a dropped decoder
/// alive.
pub(super) struct DecoderCore {
    state: Mutex<DecodeState>,
    resources: DecodeResources,
    /// Stream only for reads of undecoded flags.
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

impl DecoderCore {
    /// Creates a decoder that is open. Nothing else uses `flags_stream`.
    pub(super) fn new(
        state: DecodeState,
        resources: DecodeResources,
        flags_stream: Arc<Stream>,
        description: String,
    ) -> Self {
        let (state, is_open) = (Mutex::new(state), AtomicBool::new(true));
        Self { state, resources, flags_stream, flags_pool: Arc::default(), description, is_open }
    }

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
        let DecodeResources { device, kernels, .. } = resources;
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
        self.0.submit(batch)
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

/// Returns a batch of `count` pictures that the device does not decode. Its direct rows stay on the device.
fn none_decoded(slot: BatchSlot, direct: Option<PartialDeviceBatch>, count: usize) -> Box<dyn InFlightBatch> {
    let rows = direct.map(|rows| Box::new(rows) as Box<dyn DeviceRows>);
    Box::new(BatchOnDevice { slot, rows, undecoded: (0..count).collect(), on_engines: Vec::new() })
}

impl DecoderCore {
    /// Queues the work of a batch.
    fn submit(self: &Arc<Self>, batch: EncodedBatch<'_>) -> Result<Box<dyn InFlightBatch>> {
        let EncodedBatch { slot, bytes, outputs, rows, pictures, on_device } = batch;
        let direct = on_device.and_then(|rows| rows.into_any().downcast::<PartialDeviceBatch>().ok());
        let direct = direct.map(|direct| *direct);
        let mut state = self.state.lock();
        if state.slots.is_empty() {
            return Ok(none_decoded(slot, direct, pictures.len()));
        }
        let groups = cut(pictures, rows, state.extent_max(), state.pixel_bytes_max)?;
        let resources = &self.resources;
        let DecodeResources { device, stream, .. } = resources;
        let ended = Arc::new(Event::new(&device.context)?);
        let flags = UndecodedFlags::take(device, &self.flags_pool, pictures.len(), stream);
        let taken = flags.and_then(|flags| {
            // Direct rows bring the block of their batch.
            let block = direct.is_none().then(|| device.blocks.take(&device.context, bytes, stream)).transpose()?;
            Ok((flags, block))
        });
        let (flags, block) = match taken {
            Ok(taken) => taken,
            Err(error) if error.kind() == ErrorKind::Full => {
                self.close_without_memory(&mut state, &error);
                return Ok(none_decoded(slot, direct, pictures.len()));
            }
            Err(error) => return Err(error),
        };
        let (block, done) = match (direct, block) {
            (Some(direct), _) => direct.resume(rows, outputs, stream)?,
            (None, Some(block)) => (block, CompletedRows::new()),
            (None, None) => return Err(Error::internal("a batch has no memory on the device")),
        };
        let had_engines = state.engines.is_some();
        let tally = DecodeTally::default();
        let mut submission = BatchSubmission { resources, state: &mut state, slot, block, flags, outputs, tally, done };
        let rejected = submission.run(groups, rows);
        let rejected = rejected.and_then(|rejected| ended.record(stream.handle).map(|()| rejected));
        let BatchSubmission { slot, block, flags, tally, mut done, .. } = submission;
        let held = HeldMemory { slot, block, flags };
        let pictures: Vec<_> = pictures.iter().map(|picture| (picture.output, picture.row)).collect();
        let (device, rows) = (device.clone(), rows.to_vec());
        match rejected {
            Ok(rejected) => {
                let held = Some(held);
                let batch =
                    CudaInFlightBatch { device, held, ended, rows, done, pictures, rejected, tally, had_engines };
                Ok(Box::new(SubmittedBatch { decoder: Arc::downgrade(self), batch }))
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                let HeldMemory { slot, block, flags } = leak_on_error(resources.wait_for_streams(), held)?;
                self.read_flags(flags)?;
                self.close_without_memory(&mut state, &error);
                done.retain(|at, _| !pictures.contains(at));
                let direct = PartialDeviceBatch::new(&device, (block, None), rows, done, false);
                Ok(none_decoded(slot, Some(direct), pictures.len()))
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
        let CudaInFlightBatch { device, ended, rows, done, pictures, rejected, tally, .. } = &mut batch;
        let removed = undecoded.iter().map(|number| done.remove(&pictures[*number]));
        let by_engines = removed.filter(|source| *source == Some(RowSource::Engines)).count();
        undecoded.append(rejected);
        undecoded.sort_unstable();
        let is_on_engines = |number: &usize| done.get(&pictures[*number]) == Some(&RowSource::Engines);
        let on_engines = (0..pictures.len()).filter(is_on_engines).collect();
        let (rows, done, is_complete) = (std::mem::take(rows), std::mem::take(done), undecoded.is_empty());
        let partial = PartialDeviceBatch::new(device, (block, Some(ended.clone())), rows, done, is_complete);
        self.check_engines(&mut state, tally, by_engines)?;
        // If the engines were abandoned just now, the cores may decode the pictures that they rejected.
        let are_all = !batch.had_engines && undecoded.len() == batch.pictures.len();
        state.rejected = if are_all { state.rejected + undecoded.len() - batch.tally.without_memory } else { 0 };
        // An earlier batch may have closed the decoder meanwhile.
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
}
