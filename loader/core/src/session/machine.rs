//! States of a session: the position and the passes, without engines, locks and waits. `batches` has a batch's states.
//!
//! Methods return the values to be dropped or stopped, so that neither happens under the session's lock.

use super::engine::Held;
use super::pass::{Pass, Slot};
use super::trainer::{Loaded, Rest, TrainerEpochs, TrainerPosition};
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Position of the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// At the start of the epoch, or at a loaded position.
    Idle,
    /// The epoch was started, and no batch was asked for.
    Fresh,
    /// A batch of the epoch was asked for.
    Used,
}

/// State of a session. `T` is an item, `S` an epoch that was started.
pub(super) struct Machine<T, S> {
    pub(super) engines: usize,
    pub(super) takes_ahead: bool,
    pub(super) is_closed: bool,
    /// A thread has the turn to move the engines: calls that take a batch wait for it.
    pub(super) is_moving: bool,
    /// Epoch of the engines.
    pub(super) epoch: u64,
    pub(super) phase: Phase,
    /// Epoch that the engines move to or start. After an error it stays: some of them may have done that.
    pub(super) starting: Option<u64>,
    /// Epoch that the caller has named and no pass has started yet.
    pub(super) named: Option<u64>,
    /// Position of the state that was loaded and that no batch has followed yet.
    pub(super) loaded: Option<Loaded>,
    pub(super) trainer: TrainerEpochs,
    pub(super) pass: Option<Pass<T>>,
    /// Passes so far.
    pub(super) passes: u64,
    /// The pass has a batch that was shown, and outlives its handles until that batch is delivered.
    pub(super) is_shown: bool,
    /// The first batch that the last pass has taken and not delivered. The state leaves it out also after the program
    /// has dropped the pass.
    pub(super) left: Option<(u64, Held)>,
    /// The epoch in each engine.
    pub(super) started: Vec<S>,
}

/// Batches of a pass that has moved or ended.
pub(super) type Remains<T> = BTreeMap<u64, Slot<T>>;

impl<T, S> Machine<T, S> {
    pub(super) fn new(engines: usize, takes_ahead: bool) -> Self {
        Self {
            engines,
            takes_ahead,
            is_closed: false,
            is_moving: false,
            epoch: 0,
            phase: Phase::Idle,
            starting: None,
            named: None,
            loaded: None,
            trainer: TrainerEpochs::default(),
            pass: None,
            passes: 0,
            is_shown: false,
            left: None,
            started: Vec::new(),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.is_closed {
            return Err(Error::new(ErrorKind::Closed, "this loader was closed: make a new one"));
        }
        Ok(())
    }

    /// Returns a pass for a call, also after it was closed.
    ///
    /// # Errors
    ///
    /// `Closed` if the session was closed, or the pass is not the live one.
    pub(super) fn live(&mut self, pass: u64) -> Result<&mut Pass<T>> {
        self.check()?;
        self.pass.as_mut().filter(|live| live.id == pass).ok_or_else(replaced)
    }

    /// Checks that a pass was not closed.
    pub(super) fn check_open(&self, pass: u64) -> Result<()> {
        self.check()?;
        match &self.pass {
            Some(live) if live.id == pass && live.is_closed => Err(closed()),
            _ => Ok(()),
        }
    }

    /// True if a newer pass, a load or the end of the session has ended `pass`.
    pub(super) fn is_abandoned(&self, pass: u64) -> bool {
        self.pass.as_ref().is_none_or(|live| live.id != pass)
    }

    // The position.

    fn own_epoch(&self) -> u64 {
        self.epoch + u64::from(self.phase == Phase::Used)
    }

    pub(super) fn next_epoch(&self) -> u64 {
        self.named.or(self.starting).unwrap_or_else(|| self.own_epoch())
    }

    /// The sample at which `epoch` begins: the loaded state's, if that state is in this epoch, or 0.
    pub(super) fn loaded_sample(&self, epoch: u64) -> u64 {
        self.loaded.filter(|loaded| loaded.epoch == epoch).map_or(0, |loaded| loaded.sample)
    }

    pub(super) fn is_placed(&self) -> bool {
        self.phase == Phase::Fresh || self.named.is_some() || self.loaded.is_some()
    }

    pub(super) fn dropped_position(&self) -> Option<(u64, u64)> {
        let loaded = self.loaded.filter(|loaded| loaded.epoch > self.next_epoch())?;
        Some((loaded.epoch, loaded.sample))
    }

    /// Returns the first batch that a state leaves out, and the epoch that it names instead of the engines' epoch.
    pub(super) fn pending(&self) -> (Option<(u64, Held)>, Option<u64>) {
        match &self.pass {
            Some(pass) if pass.is_running() => (pass.pending(self.takes_ahead), None),
            _ if self.named.is_some() => (None, self.named),
            Some(pass) => (pass.left(self.takes_ahead), None),
            None => (self.left, None),
        }
    }

    // Starts and moves. The engines follow between these calls, and the caller has the turn.

    /// Begins or ends the turn of a thread that moves the engines.
    pub(super) fn set_moving(&mut self, is_moving: bool) {
        self.is_moving = is_moving;
    }

    /// Begins to start the epoch of the next pass. Returns it, and true if the engines have to move there first.
    pub(super) fn begin_start(&mut self) -> (u64, bool) {
        let target = self.next_epoch();
        self.trainer.begin_pass(self.named.is_some());
        let moves = self.starting.is_some() || target != self.own_epoch();
        if moves {
            self.starting = Some(target);
        }
        (target, moves)
    }

    /// Continues after the engines are at the epoch of a start: true if they have to start it.
    pub(super) fn needs_start(&mut self, target: u64) -> bool {
        self.named = None;
        if self.phase == Phase::Fresh {
            self.starting = None;
            return false;
        }
        self.starting = Some(target);
        true
    }

    /// The engines have started an epoch. Returns the epoch before.
    pub(super) fn started(&mut self, epoch: u64, started: Vec<S>) -> Vec<S> {
        (self.epoch, self.phase, self.starting) = (epoch, Phase::Fresh, None);
        std::mem::replace(&mut self.started, started)
    }

    /// The engines have moved to a position. A pass that has no batch moves along.
    #[must_use]
    pub(super) fn moved(&mut self, loaded: Loaded) -> (Remains<T>, Vec<S>) {
        let remains = self.pass.as_mut().map(Pass::forget).unwrap_or_default();
        // A pass that was shown, and that the program does not hold, has nothing to show any more.
        self.pass.take_if(|pass| pass.handles == 0);
        (self.epoch, self.phase, self.loaded) = (loaded.epoch, Phase::Idle, Some(loaded));
        (self.is_shown, self.left, self.named, self.starting) = (false, None, None, None);
        (remains, std::mem::take(&mut self.started))
    }

    /// Restores the values that a move within a transition has replaced.
    pub(super) fn restore(&mut self, loaded: Option<Loaded>, named: Option<u64>) {
        (self.loaded, self.named) = (loaded, named);
    }

    /// Names the epoch of the next pass. A pass that has no batch moves there, once the caller starts it.
    pub(super) fn name(&mut self, epoch: u64) {
        self.trainer.name(None, false, false);
        self.named = Some(epoch);
    }

    /// Like [`name`](Self::name), for a trainer that may iterate this loader more or less than once in its epoch.
    ///
    /// A loaded position is resumed in the epoch of the trainer in which it was saved, and only there. With
    /// `repeats` every epoch of the trainer is the first one of the loader.
    pub(super) fn follow_trainer(&mut self, epoch: u64, repeats: bool) {
        let (mut target, mut ends_next) = (if repeats { 0 } else { epoch }, false);
        if let Some(loaded) = self.loaded {
            // A loader that repeats its epoch is in a different one than its trainer, except in the first one.
            let saved = loaded.trainer.epoch.or(repeats.then_some(loaded.epoch));
            if saved == Some(epoch) {
                (target, ends_next) = (loaded.epoch, loaded.trainer.is_over);
            } else if saved.is_some_and(|saved| saved < epoch) {
                // Also of this epoch, as the engines may have been moved there.
                (self.loaded, self.starting) = (None, Some(target));
            }
        }
        self.trainer.name(Some(epoch), ends_next, repeats);
        self.named = Some(target);
    }

    pub(super) fn rest_of_trainer_epoch(&self, epoch: u64) -> Option<Rest> {
        let loaded = self.loaded?;
        if loaded.epoch != self.next_epoch() {
            return Some(Rest::Whole);
        }
        // An epoch of the trainer in which a later one of the loader is running has had all batches of the first.
        let is_first = loaded.trainer.epoch != Some(epoch) || self.trainer.repeats;
        Some(if is_first && !loaded.trainer.is_over { Rest::From(loaded.sample) } else { Rest::Nothing })
    }

    pub(super) fn load_trainer(&mut self, position: TrainerPosition) {
        self.trainer.load(position);
    }

    // Passes.

    /// Makes a pass of the epoch that was started, instead of an older one, and returns its number.
    pub(super) fn begin_pass(&mut self) -> u64 {
        self.passes += 1;
        self.pass = Some(Pass::new(self.passes));
        self.passes
    }

    /// Returns the pass of the batch that was shown, for one more handle.
    pub(super) fn shown_pass(&mut self) -> Option<u64> {
        let pass = self.pass.as_mut().filter(|_| self.is_shown)?;
        pass.handles += 1;
        Some(pass.id)
    }

    /// Ends the live pass.
    #[must_use]
    pub(super) fn abandon(&mut self) -> Option<Pass<T>> {
        (self.is_shown, self.left) = (false, None);
        self.pass.take()
    }

    /// Drops a handle of a pass, which ends with the last one. Returns it, and the epoch to stop.
    pub(super) fn drop_handle(&mut self, pass: u64) -> (Option<Pass<T>>, Vec<S>) {
        let Some(live) = self.pass.as_mut().filter(|live| live.id == pass) else { return (None, Vec::new()) };
        live.handles -= 1;
        if live.handles > 0 || self.is_shown {
            return (None, Vec::new());
        }
        self.left = live.left(self.takes_ahead);
        (self.pass.take(), self.take_used())
    }

    /// Closes a pass: calls of it fail. Returns the epoch to stop, if one of its batches was asked for.
    pub(super) fn close_pass(&mut self, pass: u64) -> Vec<S> {
        let Some(live) = self.pass.as_mut().filter(|live| live.id == pass) else { return Vec::new() };
        live.is_closed = true;
        self.take_used()
    }

    fn take_used(&mut self) -> Vec<S> {
        if self.phase == Phase::Used { std::mem::take(&mut self.started) } else { Vec::new() }
    }

    /// Drops the batches of a closed pass that wait. Returns them, and the batch before which the engines resume if the
    /// pass has used nothing.
    pub(super) fn finish_close(&mut self, pass: u64) -> (Vec<T>, Option<Option<(u64, Held)>>) {
        let (is_fresh, takes_ahead) = (self.phase == Phase::Fresh && !self.is_closed, self.takes_ahead);
        let Some(live) = self.pass.as_mut().filter(|live| live.id == pass) else { return (Vec::new(), None) };
        (live.empty_waiting(), is_fresh.then(|| live.pending(takes_ahead)))
    }

    /// Ends the session.
    #[must_use]
    pub(super) fn close(&mut self) -> (Option<Pass<T>>, Vec<S>) {
        self.is_closed = true;
        (self.abandon(), std::mem::take(&mut self.started))
    }
}

pub(super) fn replaced() -> Error {
    let message = "a newer iterator, load_state_dict or close ended this one: only one is alive at a time, so make a \
                   loader for each loop";
    Error::new(ErrorKind::Closed, message)
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "this iterator was closed: iter(loader) starts the next epoch")
}
