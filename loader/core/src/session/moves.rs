//! Starts, loads and seeks, which the engines take part in.

use super::engine::{Engine, SavedState};
use super::iteration::Session;
use super::machine::{Machine, Phase};
use super::trainer::{Loaded, TrainerPosition};
use super::turn::TurnGuard;
use crate::error::Result;
use crate::sync::Arc;
use std::time::Duration;

/// An iterator of a session. It ends when its last handle is dropped: no more batches are made.
pub struct PassHandle<E: Engine, T: From<E::Item> + Send> {
    pub(super) session: Arc<Session<E, T>>,
    pub(super) id: u64,
}

impl<E: Engine, T: From<E::Item> + Send> PassHandle<E, T> {
    /// True if a newer pass, a load or the end of the session has ended this one.
    pub fn is_abandoned(&self) -> bool {
        self.session.machine().is_abandoned(self.id)
    }

    /// Checks that a batch that is in flight may still be delivered.
    ///
    /// # Errors
    ///
    /// `Closed` if the pass or the session was closed.
    pub fn check(&self) -> Result<()> {
        self.session.machine().check_open(self.id)
    }

    /// Ends the pass: the threads of its epoch stop, and batches that wait are dropped. The position stays. A pass that
    /// has used nothing uses up no epoch. Calls that wait return with an error.
    ///
    /// # Errors
    ///
    /// The errors of an engine that moves back to the start.
    pub fn close(&self) -> Result<()> {
        let session = &self.session;
        // In this order: a call that waits has the turn, and stops with the engines.
        let started = session.machine().close_pass(self.id);
        session.stop(started);
        let turn = session.turn.take();
        let (items, resumes) = session.machine().finish_close(self.id);
        drop(items);
        let Some(pending) = resumes else { return Ok(()) };
        let state = session.engines[0].state(pending)?;
        session.move_keeping(&turn, &state)
    }
}

impl<E: Engine, T: From<E::Item> + Send> Drop for PassHandle<E, T> {
    fn drop(&mut self) {
        let (pass, started) = self.session.machine().drop_handle(self.id);
        self.session.stop(started);
        drop(pass);
    }
}

/// Turn of a thread that moves the engines. Calls of all threads wait until it is used up or dropped, so a program
/// may take the turn in one thread and move in a different one.
pub struct MoveTurn<E: Engine, T: From<E::Item> + Send> {
    session: Arc<Session<E, T>>,
    turn: TurnGuard,
}

impl<E: Engine, T: From<E::Item> + Send> Drop for MoveTurn<E, T> {
    fn drop(&mut self) {
        // Before the turn is free.
        self.session.machine().set_moving(false);
    }
}

impl<E: Engine, T: From<E::Item> + Send> MoveTurn<E, T> {
    /// Begins a pass of the next epoch, or of the loaded position. An earlier pass ends.
    ///
    /// A pass without a batch uses up no epoch, and a pass that has shown its first batch is returned again.
    ///
    /// # Errors
    ///
    /// `Closed` after [`Session::close`], here and below, and the engine's errors.
    pub fn begin(self) -> Result<PassHandle<E, T>> {
        let session = &self.session;
        if session.machine().is_shown {
            // Moves, and drops the batch, if a different epoch was named.
            session.start(&self.turn)?;
        }
        let shown = session.machine().shown_pass();
        if let Some(id) = shown {
            return Ok(PassHandle { session: session.clone(), id });
        }
        let old = session.machine().abandon();
        drop(old);
        session.start(&self.turn)?;
        let id = session.machine().begin_pass();
        Ok(PassHandle { session: session.clone(), id })
    }

    /// Makes the next pass resume the position of `state`. The live pass ends.
    ///
    /// # Errors
    ///
    /// `State` if it belongs to a different plan, and the engine's errors. Nothing has changed then.
    pub fn load(self, state: &E::Saved, trainer: TrainerPosition, strict: bool) -> Result<()> {
        self.session.move_to(&self.turn, state, trainer, strict)?;
        let old = {
            let mut machine = self.session.machine();
            machine.load_trainer(trainer);
            machine.abandon()
        };
        drop(old);
        Ok(())
    }

    /// Makes the next pass begin with batch number `batch` of its epoch, without reading those before it.
    ///
    /// # Errors
    ///
    /// The engine's errors.
    pub fn seek(self, batch: u64) -> Result<()> {
        let session = &self.session;
        let state = session.state_at(session.epoch(), batch)?;
        session.move_to(&self.turn, &state, TrainerPosition::default(), true)?;
        let old = session.machine().abandon();
        drop(old);
        Ok(())
    }

    /// Makes the next pass run `epoch`: from a loaded position of that epoch until a batch is taken, else from its
    /// start. A pass without a batch moves there.
    ///
    /// # Errors
    ///
    /// The engine's errors.
    pub fn set_epoch(self, epoch: u64) -> Result<()> {
        self.name(|machine| machine.name(epoch))
    }

    /// Like [`set_epoch`](Self::set_epoch), for a trainer that may iterate this loader more or less than once in its
    /// epoch. With `repeats` every epoch of the trainer is the first one of the loader.
    ///
    /// # Errors
    ///
    /// The engine's errors.
    pub fn follow_trainer(self, epoch: u64, repeats: bool) -> Result<()> {
        self.name(|machine| machine.follow_trainer(epoch, repeats))
    }

    fn name(self, name: impl FnOnce(&mut Machine<T, E::Started>)) -> Result<()> {
        let is_fresh = {
            let mut machine = self.session.machine();
            name(&mut machine);
            machine.phase == Phase::Fresh
        };
        if is_fresh { self.session.start(&self.turn) } else { Ok(()) }
    }
}

impl<E: Engine, T: From<E::Item> + Send> Session<E, T> {
    /// Returns the state before batch number `batch` of `epoch`.
    ///
    /// # Errors
    ///
    /// The engine's errors.
    pub fn state_at(&self, epoch: u64, batch: u64) -> Result<E::Saved> {
        Ok(self.engines[0].state(None)?.at(epoch, batch.saturating_mul(self.setup.samples_per_step)))
    }

    /// Waits for the turn to move the engines, about `limit` at most.
    ///
    /// # Errors
    ///
    /// `Closed` after [`close`](Self::close).
    pub fn turn_within(self: &Arc<Self>, limit: Duration) -> Result<Option<MoveTurn<E, T>>> {
        self.machine().check()?;
        Ok(self.turn.take_within(limit).map(|turn| {
            self.machine().set_moving(true);
            MoveTurn { session: self.clone(), turn }
        }))
    }

    /// Starts the epoch that the next batch belongs to, unless it has been started already.
    fn start(&self, turn: &TurnGuard) -> Result<()> {
        let (target, moves) = self.machine().begin_start();
        let sample = self.machine().loaded_sample(target);
        if moves {
            let state = self.engines[0].state(None)?.at(target, sample);
            // A later `set_epoch` may return to the loaded position.
            self.move_keeping(turn, &state)?;
        }
        if !self.machine().needs_start(target) {
            return Ok(());
        }
        if self.setup.skips.is_some() {
            let skipped = self.engines.iter().map(|engine| engine.skipped()).collect::<Result<Vec<_>>>()?;
            self.budgets.lock().iter_mut().zip(skipped).for_each(|(budget, skipped)| budget.begin(sample, skipped));
        }
        let started = self.engines.iter().map(|engine| engine.start()).collect::<Result<Vec<_>>>()?;
        let before = self.machine().started(target, started);
        drop(before);
        Ok(())
    }

    /// Moves the engines within a transition that keeps the loaded position and the named epoch.
    fn move_keeping(&self, turn: &TurnGuard, state: &E::Saved) -> Result<()> {
        let (loaded, named) = {
            let machine = self.machine();
            (machine.loaded, machine.named)
        };
        self.move_to(turn, state, TrainerPosition::default(), true)?;
        self.machine().restore(loaded, named);
        Ok(())
    }

    fn move_to(&self, _: &TurnGuard, state: &E::Saved, trainer: TrainerPosition, strict: bool) -> Result<()> {
        self.engines.iter().try_for_each(|engine| engine.load(state, strict))?;
        let loaded = Loaded { epoch: state.epoch(), sample: state.sample(), trainer };
        let remains = self.machine().moved(loaded);
        drop(remains);
        Ok(())
    }

    pub(super) fn stop(&self, started: Vec<E::Started>) {
        self.engines.iter().zip(started).for_each(|(engine, started)| engine.stop(&started));
    }
}
