//! A batch that the device has been given all of and is not known to be done with.

use super::undecoded::LeftOut;
use crate::context::Event;
use crate::delivery::Shared;
use crate::memory::Block;
use crate::nvjpeg::Refusal;
use crate::partial_batch::Done;
use forebay_loader::memory::BatchSlot;
use forebay_loader::sync::Arc;

/// What became of a batch's pictures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// For how many the engines were asked and had memory.
    pub(super) asked: usize,
    /// Those of them that they refused.
    pub(super) refused: usize,
    /// What the library said to the last of these.
    pub(super) reason: Option<Refusal>,
    /// Pictures for which the device had no memory: that says nothing of what it takes.
    pub(super) without_memory: usize,
}

/// The batch.
pub(super) struct Unended {
    pub(super) shared: Arc<Shared>,
    /// What the device uses: taken when it has ended, or when dropped.
    pub(super) held: Option<Held>,
    /// Fires when the device is done.
    pub(super) ended: Arc<Event>,
    /// The rows that the batch keeps, ascending.
    pub(super) rows: Vec<usize>,
    /// Its rows on the device.
    pub(super) done: Done,
    /// Output and row of each of its pictures.
    pub(super) pictures: Vec<(usize, usize)>,
    pub(super) tally: Tally,
    /// Whether there were engines that it could have been left to.
    pub(super) had_engines: bool,
}

/// Memory of a batch.
pub(super) struct Held {
    pub(super) slot: BatchSlot,
    pub(super) block: Block,
    pub(super) left_out: LeftOut,
}

impl Drop for Unended {
    /// Nobody wants it any more.
    fn drop(&mut self) {
        let Some(Held { slot, block, left_out }) = self.held.take() else { return };
        if !self.shared.context.is_ours() {
            std::mem::forget((slot, block, left_out));
            return;
        }
        left_out.forget(&self.ended);
        self.shared.blocks.give_back(block, vec![self.ended.clone()]);
        // All of its rows are in, or it would not be under way.
        if let Ok(filled) = slot.freeze() {
            self.shared.keep_slot(self.ended.clone(), filled);
        }
    }
}
