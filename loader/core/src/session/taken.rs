//! A batch from the call that takes it to its delivery.

use super::batches::{Begun, HeldBatch, Wanted};
use super::engine::{Engine, Next};
use super::iteration::Session;
use super::moves::PassHandle;
use super::turn::TurnGuard;
use crate::error::Result;
use crate::sync::{Arc, Mutex};
use std::time::Duration;

/// Progress of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The batch is complete.
    Complete,
    /// Not yet: call again. The caller can check for signals in between.
    Pending,
    /// There is no batch: the epoch is over.
    End {
        /// This call has found the end of an epoch that had no batch.
        is_empty: bool,
    },
}

/// Beginning of a call that takes a batch.
pub enum Take<E: Engine, T: From<E::Item> + Send> {
    /// The batch, for [`Taken::wait`].
    Batch(Taken<E, T>),
    /// There is none: the pass is over.
    End {
        /// This call has found the end of an epoch that had no batch.
        is_empty: bool,
    },
}

/// Answer of an engine, as far as the session has used it.
pub(super) enum Pumped<T> {
    /// A batch was stored. It is complete and waits for its call, if one is returned.
    Stored(Option<HeldBatch<T>>),
    End,
    Pending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    InFlight,
    Delivered,
    Released,
}

/// A batch that a call works on. It waits for the next call if this is dropped before its delivery.
pub struct Taken<E: Engine, T: From<E::Item> + Send> {
    session: Arc<Session<E, T>>,
    pass: u64,
    batch: HeldBatch<T>,
    delivery: Mutex<Delivery>,
}

impl<E: Engine, T: From<E::Item> + Send> PassHandle<E, T> {
    /// Begins to take the first batch that waits, or a new one. `None` after about `limit`, if the engines are moving:
    /// call again.
    ///
    /// With `shows` the caller releases it, and the loaded position stays until a later call delivers it.
    ///
    /// # Errors
    ///
    /// `Closed` if the pass or the session was closed, or a newer pass has begun.
    pub fn take(&self, shows: bool, limit: Duration) -> Result<Option<Take<E, T>>> {
        loop {
            let begun = self.session.machine().take(self.id, shows)?;
            match begun {
                Begun::End(is_empty) => return Ok(Some(Take::End { is_empty })),
                Begun::Batch(batch) => {
                    let (session, delivery) = (self.session.clone(), Mutex::new(Delivery::InFlight));
                    return Ok(Some(Take::Batch(Taken { session, pass: self.id, batch, delivery })));
                }
                Begun::Moving => {
                    if self.session.turn.take_within(limit).is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

impl<E: Engine, T: From<E::Item> + Send> Taken<E, T> {
    /// The batch.
    pub fn batch(&self) -> &HeldBatch<T> {
        &self.batch
    }

    /// Waits for the engines, for about `limit` each.
    ///
    /// # Errors
    ///
    /// As [`PassHandle::take`], and the engine's errors.
    pub fn wait(&self, limit: Duration) -> Result<Step> {
        loop {
            if let Some(step) = self.step()?.1 {
                return Ok(step);
            }
            let Some(turn) = self.session.turn.take_within(limit) else { return Ok(Step::Pending) };
            // A different thread may have stored the item in the meantime.
            let (engine, step) = self.step()?;
            if let Some(step) = step {
                return Ok(step);
            }
            if let Pumped::Pending = self.session.pump(&turn, self.pass, engine, limit)? {
                return Ok(Step::Pending);
            }
        }
    }

    /// Returns the engine to ask, or the end of the wait.
    fn step(&self) -> Result<(usize, Option<Step>)> {
        let wanted = self.session.machine().wanted(self.pass, &self.batch)?;
        Ok(match wanted {
            Wanted::Nothing => (0, Some(Step::Complete)),
            Wanted::End(is_empty) => (0, Some(Step::End { is_empty })),
            Wanted::Engine(engine) => (engine, None),
        })
    }

    /// Counts the batch as delivered.
    pub fn deliver(&self) {
        self.finish(false);
    }

    /// Counts the batch without delivering it: the caller has left out all its samples.
    pub fn leave_out(&self) {
        self.finish(true);
    }

    fn finish(&self, is_left_out: bool) {
        let mut delivery = self.delivery.lock();
        if *delivery == Delivery::InFlight {
            *delivery = Delivery::Delivered;
            self.session.machine().deliver(self.pass, &self.batch, is_left_out);
        }
    }

    /// Makes the batch the next one to be taken, also after a delivery that did not arrive.
    pub fn release(&self) {
        let mut delivery = self.delivery.lock();
        let before = std::mem::replace(&mut *delivery, Delivery::Released);
        if before != Delivery::Released {
            let was_delivered = before == Delivery::Delivered;
            let items = self.session.machine().release(self.pass, &self.batch, was_delivered);
            drop(delivery);
            drop(items);
        }
    }

    /// Releases the batch, and keeps its pass for the next [`MoveTurn::begin`](super::MoveTurn::begin).
    pub fn show(&self) {
        self.release();
        self.session.machine().show(self.pass);
    }
}

impl<E: Engine, T: From<E::Item> + Send> Drop for Taken<E, T> {
    fn drop(&mut self) {
        if *self.delivery.get_mut() == Delivery::InFlight {
            self.release();
        }
    }
}

impl<E: Engine, T: From<E::Item> + Send> Session<E, T> {
    /// Asks an engine for its next item and stores it.
    pub(super) fn pump(&self, _: &TurnGuard, pass: u64, engine: usize, limit: Duration) -> Result<Pumped<T>> {
        match self.engines[engine].next_within(limit) {
            Ok(Next::Batch(item)) => {
                let stored = self.machine().store(pass, engine, T::from(item));
                // An item of a pass that has ended is dropped here, without the lock.
                Ok(Pumped::Stored(stored.unwrap_or_default()))
            }
            Ok(Next::End) => {
                let remains = self.machine().end(pass, engine);
                drop(remains);
                Ok(Pumped::End)
            }
            Ok(Next::Pending) => Ok(Pumped::Pending),
            Err(error) => Err(self.machine().explain(pass, error)),
        }
    }
}
