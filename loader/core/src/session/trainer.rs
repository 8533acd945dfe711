//! Epochs as a trainer counts them.
//!
//! A trainer names its epoch, and a loader then runs the epoch of that number. Lightning combines loaders of unequal
//! length in one of its epochs: a short one is iterated again where it ends, or delivers nothing from there on. So such
//! a loader is in a different epoch than its trainer, or at an end that its trainer has not reached, and a state
//! records both.

/// Position in the epochs of a trainer, in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainerPosition {
    /// The trainer's epoch, where it is recorded.
    pub epoch: Option<u64>,
    /// This loader has no more batches in it.
    pub is_over: bool,
}

/// Position of a state that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    pub(super) epoch: u64,
    pub(super) sample: u64,
    pub(super) trainer: TrainerPosition,
}

/// Batches of an epoch of the trainer from the loaded position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Whole,
    /// The batches from a sample on.
    From(u64),
    Nothing,
}

/// The trainer's epoch of the pass that runs, and of the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrainerEpochs {
    /// `None`: the loader's own, here and in the next field.
    of_pass: Option<u64>,
    named: Option<u64>,
    /// The pass that runs has delivered all its batches.
    has_ended: bool,
    /// The next pass has no batch: the trainer's epoch had no more of them where the state was saved.
    pub(super) ends_next: bool,
    /// Every epoch of the trainer is the same one of the loader.
    pub(super) repeats: bool,
}

impl TrainerEpochs {
    /// Moves to a state that was loaded.
    pub(super) fn load(&mut self, position: TrainerPosition) {
        (self.of_pass, self.has_ended, self.ends_next) = (position.epoch, position.is_over, false);
    }

    /// Names the trainer's epoch of the next pass.
    pub(super) fn name(&mut self, epoch: Option<u64>, ends_next: bool, repeats: bool) {
        (self.named, self.ends_next, self.repeats) = (epoch, ends_next, repeats);
    }

    /// Makes the next pass deliver no batch.
    pub(super) fn end_next(&mut self) {
        self.ends_next = true;
    }

    /// Begins a pass of the epoch that was named or, without a name, of the same one.
    pub(super) fn begin_pass(&mut self, is_named: bool) {
        if is_named {
            self.of_pass = self.named;
        }
        self.has_ended = false;
    }

    /// Records that a pass has delivered all its batches.
    pub(super) fn end_pass(&mut self) {
        (self.has_ended, self.ends_next) = (true, false);
    }

    /// Returns the record in a state of `epoch`: of the pass that runs, or of the next one if that was named. `None`:
    /// it is the loader's epoch.
    pub(super) fn record(&self, epoch: u64, is_named: bool) -> Option<TrainerPosition> {
        let trainers = if is_named { self.named } else { self.of_pass }?;
        let is_over = self.ends_next || (self.has_ended && !is_named);
        (trainers != epoch || is_over).then_some(TrainerPosition { epoch: Some(trainers), is_over })
    }
}
