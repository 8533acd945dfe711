//! Batches that are taken before the call that delivers them.

use super::batches::{HeldBatch, WantedAhead};
use super::engine::Engine;
use super::moves::PassHandle;
use super::taken::Pumped;
use std::time::Duration;

/// Result of [`PassHandle::take_ahead`].
pub enum Ahead<T> {
    /// A batch that is complete and waits for its call.
    Batch(HeldBatch<T>),
    /// No batch is ready, or a different thread asks the engines.
    NotReady,
    /// As many batches wait as the caller allows.
    Full,
    /// The pass takes no more batches.
    Ended,
}

impl<E: Engine, T: From<E::Item> + Send> PassHandle<E, T> {
    /// Takes a batch that is ready, if fewer than `bound` and one wait or are in flight. Does not wait.
    ///
    /// An error of an engine is left to the call that has the turn: the engine repeats it.
    pub fn take_ahead(&self, bound: usize) -> Ahead<T> {
        let Some(turn) = self.session.turn.try_take() else { return Ahead::NotReady };
        loop {
            let wanted = self.session.machine().wanted_ahead(self.id, bound);
            let engine = match wanted {
                WantedAhead::Engine(engine) => engine,
                WantedAhead::Full => return Ahead::Full,
                WantedAhead::Ended => return Ahead::Ended,
            };
            match self.session.pump(&turn, self.id, engine, Duration::ZERO) {
                Ok(Pumped::Stored(Some(batch))) => return Ahead::Batch(batch),
                Ok(Pumped::Stored(None)) => {}
                Ok(Pumped::End) => return Ahead::Ended,
                Ok(Pumped::Pending) | Err(_) => return Ahead::NotReady,
            }
        }
    }
}
