//! The session: its parts, and the facts that any thread may ask for.

use super::budget::{SkipBudget, SkipLimit};
use super::engine::{Engine, SavedState};
use super::machine::Machine;
use super::trainer::{Rest, TrainerPosition};
use super::turn::Turn;
use crate::error::Result;
use crate::sync::{Arc, Mutex, MutexGuard};

/// Facts about a loader that its session needs.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Samples of a batch on all devices of all ranks together.
    pub samples_per_step: u64,
    /// Batches are taken ahead, by [`PassHandle::take_ahead`](super::PassHandle::take_ahead), and delivered in order.
    pub takes_ahead: bool,
    /// Samples that an epoch may leave out, if the caller leaves out samples as well.
    pub skips: Option<SkipLimit>,
}

/// The iteration of one loader. See the module for its states.
pub struct Session<E: Engine, T: From<E::Item> + Send = <E as Engine>::Item> {
    pub(super) engines: Vec<Arc<E>>,
    pub(super) setup: Setup,
    pub(super) turn: Turn,
    pub(super) machine: Mutex<Machine<T, E::Started>>,
    pub(super) budgets: Mutex<Vec<SkipBudget>>,
}

impl<E: Engine, T: From<E::Item> + Send> Session<E, T> {
    /// A session of `engines`, which are at the start of their first epoch.
    pub fn new(engines: Vec<Arc<E>>, setup: Setup) -> Self {
        let budgets = engines.iter().filter_map(|_| setup.skips.map(SkipBudget::new)).collect();
        let machine = Machine::new(engines.len(), setup.takes_ahead);
        Self { engines, setup, turn: Turn::default(), machine: Mutex::new(machine), budgets: Mutex::new(budgets) }
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, Machine<T, E::Started>> {
        self.machine.lock()
    }

    /// The epoch that the next pass runs. Within a pass, and after it was left, the epoch after its own.
    pub fn epoch(&self) -> u64 {
        self.machine().next_epoch()
    }

    /// The sample at which the next pass begins its epoch: 0, or the loaded position.
    pub fn first_sample(&self) -> u64 {
        let machine = self.machine();
        machine.loaded_sample(machine.next_epoch())
    }

    /// The number of the batch that the next pass begins with, of this loader's batches.
    ///
    /// # Errors
    ///
    /// The engine's errors.
    pub fn first_batch(&self) -> Result<u64> {
        let (sample, step) = (self.first_sample(), self.setup.samples_per_step);
        if sample.is_multiple_of(step) {
            return Ok(sample / step);
        }
        // Within a batch of this size, after a different size; or at the end of an epoch with a short last batch.
        Ok(self.engines[0].batches()? - self.engines[0].batches_from(sample)?)
    }

    /// True if the caller has chosen the position of the next pass, or has started it.
    pub fn is_placed(&self) -> bool {
        self.machine().is_placed()
    }

    /// The epoch and the sample of a loaded position that the next batch will drop, because an earlier epoch was named.
    pub fn dropped_position(&self) -> Option<(u64, u64)> {
        self.machine().dropped_position()
    }

    /// Returns the position after the delivered batches, and the trainer's epoch where it differs. Signal handlers and
    /// all threads may call this at any time.
    ///
    /// # Errors
    ///
    /// `State` if several threads share a pass, and a batch that failed precedes one that was delivered; and the
    /// engine's errors.
    pub fn state(&self) -> Result<(E::Saved, Option<TrainerPosition>)> {
        let machine = self.machine();
        let (pending, named) = machine.pending();
        let position = named.map(|epoch| (epoch, machine.loaded_sample(epoch)));
        let trainer = machine.trainer;
        drop(machine);
        let mut state = self.engines[0].state(pending)?;
        if let Some((epoch, sample)) = position {
            state = state.at(epoch, sample);
        }
        let recorded = trainer.record(state.epoch(), position.is_some());
        Ok((state, recorded))
    }

    /// Returns the batches that this loader has in `epoch` of the trainer from the loaded position on. `None`: no state
    /// was loaded.
    ///
    /// # Errors
    ///
    /// The engine's errors.
    pub fn rest_of_trainer_epoch(&self, epoch: u64) -> Result<Option<u64>> {
        let Some(rest) = self.machine().rest_of_trainer_epoch(epoch) else { return Ok(None) };
        Ok(Some(match rest {
            Rest::Whole => self.engines[0].batches()?,
            Rest::From(sample) => self.engines[0].batches_from(sample)?,
            Rest::Nothing => 0,
        }))
    }

    /// Makes the next pass deliver no batch, so that the trainer begins its next epoch.
    pub fn end_trainer_epoch(&self) {
        self.machine().trainer.end_next();
    }

    /// Ends the session and its engines. Calls that wait return with an error.
    ///
    /// # Errors
    ///
    /// The first error of an engine; all engines are closed.
    pub fn close(&self) -> Result<()> {
        let left = self.machine().close();
        drop(left);
        let results: Vec<_> = self.engines.iter().map(|engine| engine.close()).collect();
        results.into_iter().collect()
    }
}
