//! Batch with work that is queued on the device.

use super::undecoded::UndecodedFlags;
use crate::context::Event;
use crate::device::CudaDevice;
use crate::memory::Block;
use crate::nvjpeg::NvJpegError;
use crate::row_copy::CompletedRows;
use forebay_loader::memory::BatchSlot;
use forebay_loader::sync::Arc;

/// Counts of rejected pictures of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DecodeTally {
    /// Pictures requested from the engines, without those that found no memory.
    pub(super) requested: usize,
    /// Pictures among them that the engines rejected.
    pub(super) rejected: usize,
    /// Error of the last one.
    pub(super) reason: Option<NvJpegError>,
    /// Pictures of both backends that found no memory. They do not count as rejected by a backend.
    pub(super) without_memory: usize,
}

/// Batch in flight on a CUDA device.
pub(super) struct CudaInFlightBatch {
    pub(super) device: Arc<CudaDevice>,
    /// Memory that the device uses. Taken when the device has finished, or on drop.
    pub(super) held: Option<HeldMemory>,
    /// Fires when the device has finished the batch.
    pub(super) ended: Arc<Event>,
    /// Rows that the batch keeps, ascending.
    pub(super) rows: Vec<usize>,
    /// Rows that are complete on the device when the event has fired.
    pub(super) done: CompletedRows,
    /// Output and row of each picture.
    pub(super) pictures: Vec<(usize, usize)>,
    /// Numbers of the pictures that nvJPEG has rejected.
    pub(super) rejected: Vec<usize>,
    pub(super) tally: DecodeTally,
    /// True if the decoder had engines when the batch was submitted.
    pub(super) had_engines: bool,
}

/// Memory of a batch that the device may use.
pub(super) struct HeldMemory {
    pub(super) slot: BatchSlot,
    pub(super) block: Block,
    pub(super) flags: UndecodedFlags,
}

impl Drop for CudaInFlightBatch {
    /// The loader has abandoned the batch, so its memory is released when the device has finished.
    fn drop(&mut self) {
        let Some(HeldMemory { slot, block, flags }) = self.held.take() else { return };
        if !self.device.context.is_own_process() {
            std::mem::forget((slot, block, flags));
            return;
        }
        flags.release_after(&self.ended);
        self.device.blocks.release(block, vec![self.ended.clone()]);
        // All rows are filled, since a batch is submitted only then.
        if let Ok(filled) = slot.freeze() {
            self.device.release_slot_after(self.ended.clone(), filled);
        }
    }
}
