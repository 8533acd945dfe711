//! States of a batch: taken, waiting, delivered.

use super::machine::{Machine, Phase, Remains, closed, replaced};
use super::pass::{Items, Slot};
use crate::error::{Error, ErrorKind, Result};

/// Batch that a session holds, as a call sees it.
pub struct HeldBatch<T> {
    pub(super) number: u64,
    pub(super) items: Items<T>,
    /// [`Pass::moves`] at that time.
    pub(super) moves: u64,
}

impl<T> HeldBatch<T> {
    /// The number of the batch since the start of the pass's epoch.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Calls `change` with the items, one of each engine. It may replace them, such as by converted ones. They are
    /// locked, so it must not use the session.
    pub fn with_items<R>(&self, change: impl FnOnce(&mut Vec<T>) -> R) -> R {
        change(&mut self.items.lock())
    }
}

/// Beginning of a call that takes a batch.
pub(super) enum Begun<T> {
    /// The engines are moving: begin again.
    Moving,
    /// The batch to wait for.
    Batch(HeldBatch<T>),
    /// The pass is over; true if it had no batch at all.
    End(bool),
}

/// Next step of a call that takes a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All engines have delivered the batch.
    Nothing,
    /// The item of this engine.
    Engine(usize),
    /// There is no such batch; true if the epoch had none at all.
    End(bool),
}

/// Next step of a call that takes batches ahead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WantedAhead {
    Engine(usize),
    /// As many batches wait as the caller allows.
    Full,
    /// The pass takes no more batches.
    Ended,
}

impl<T, S> Machine<T, S> {
    /// Begins a call that takes a batch. With `shows` the caller releases it, and the position stays.
    pub(super) fn take(&mut self, pass: u64, shows: bool) -> Result<Begun<T>> {
        let (is_moving, ends_next) = (self.is_moving, self.trainer.ends_next);
        let (next, live) = (self.next_epoch(), self.live(pass)?);
        if live.is_closed {
            return Err(closed());
        }
        if is_moving {
            return Ok(Begun::Moving);
        }
        let waiting = live.first_waiting();
        let ends = waiting.is_none() && live.has_ended && !live.is_over;
        if ends_next {
            live.is_over = true;
            self.trainer.end_pass();
        } else if ends {
            return Ok(Begun::End(self.end_pass()));
        }
        let live = self.live(pass)?;
        if waiting.is_none() && live.is_over {
            return Ok(Begun::End(false));
        }
        let number = waiting.unwrap_or(live.begun);
        live.begun = live.begun.max(number + 1);
        let slot = live.slots.entry(number).or_insert_with(|| Slot::new(true));
        slot.is_in_flight = true;
        let taken = HeldBatch { number, items: slot.items.clone(), moves: live.moves };
        if self.loaded.is_some() {
            let is_resumed = self.loaded_sample(next) > 0;
            self.live(pass)?.is_resumed = is_resumed;
        }
        if !shows {
            self.use_up();
        }
        Ok(Begun::Batch(taken))
    }

    /// A batch of the epoch is asked for.
    fn use_up(&mut self) {
        (self.phase, self.loaded, self.is_shown) = (Phase::Used, None, false);
    }

    /// Keeps the pass of a batch that was shown.
    pub(super) fn show(&mut self, pass: u64) {
        self.is_shown = !self.is_abandoned(pass) && self.phase == Phase::Fresh;
    }

    /// Returns the next step of the call that works on a batch.
    pub(super) fn wanted(&mut self, pass: u64, taken: &HeldBatch<T>) -> Result<Wanted> {
        let engines = self.engines;
        let live = self.live(pass)?;
        if live.moves != taken.moves {
            return Err(if live.is_closed { closed() } else { replaced() });
        }
        match live.slots.get(&taken.number).map(|slot| slot.count) {
            Some(count) if count == engines => Ok(Wanted::Nothing),
            _ if live.is_closed => Err(closed()),
            Some(count) => Ok(Wanted::Engine(count)),
            // The end was found for it: by this call, by a different one, or ahead.
            None if live.is_over => Ok(Wanted::End(false)),
            None => Ok(Wanted::End(self.end_pass())),
        }
    }

    /// Returns the next step of a call that takes batches ahead. At most `bound` of them wait or are in flight.
    pub(super) fn wanted_ahead(&mut self, pass: u64, bound: usize) -> WantedAhead {
        let engines = self.engines;
        let Ok(live) = self.live(pass) else { return WantedAhead::Ended };
        if live.has_ended || live.is_over || live.is_closed {
            return WantedAhead::Ended;
        }
        if let Some(slot) = live.slots.values().find(|slot| slot.count < engines) {
            return WantedAhead::Engine(slot.count);
        }
        if live.slots.len() > bound {
            return WantedAhead::Full;
        }
        live.slots.insert(live.begun, Slot::new(false));
        live.begun += 1;
        WantedAhead::Engine(0)
    }

    /// Stores the item of engine number `engine`. Returns the batch if it is complete and waits for its call, or the
    /// item if it belongs to no batch.
    pub(super) fn store(&mut self, pass: u64, engine: usize, item: T) -> std::result::Result<Option<HeldBatch<T>>, T> {
        let engines = self.engines;
        let Some(live) = self.pass.as_mut().filter(|live| live.id == pass) else { return Err(item) };
        let moves = live.moves;
        let Some((number, slot)) = live.lacking(engine) else { return Err(item) };
        slot.items.lock().push(item);
        slot.count += 1;
        let is_ahead = slot.count == engines && !slot.is_in_flight;
        Ok(is_ahead.then(|| HeldBatch { number, items: slot.items.clone(), moves }))
    }

    /// Notes that engine number `engine` is at the end of the epoch. It counts with the call of `take` that finds it.
    #[must_use]
    pub(super) fn end(&mut self, pass: u64, engine: usize) -> Remains<T> {
        let Some(live) = self.pass.as_mut().filter(|live| live.id == pass) else { return Remains::new() };
        live.has_ended = true;
        let remains = live.cut(engine);
        if remains.values().any(|slot| slot.is_in_flight) {
            // Also where the batch was shown: there is none to show.
            self.use_up();
        }
        remains
    }

    /// Ends the epoch: all its batches were delivered. Returns true if there was none.
    fn end_pass(&mut self) -> bool {
        self.trainer.end_pass();
        self.use_up();
        self.pass.as_mut().is_some_and(|live| {
            live.is_over = true;
            live.is_empty && !live.is_resumed
        })
    }

    /// Removes a batch that is delivered, or that the caller leaves out, if the pass still has it.
    pub(super) fn deliver(&mut self, pass: u64, taken: &HeldBatch<T>, is_left_out: bool) {
        if let Some(live) = self.pass.as_mut().filter(|live| live.id == pass && live.moves == taken.moves) {
            live.slots.remove(&taken.number);
            live.is_empty &= is_left_out;
        }
    }

    /// Makes a batch wait for the next call, also after its delivery. Returns its items if no call delivers it.
    #[must_use]
    pub(super) fn release(&mut self, pass: u64, taken: &HeldBatch<T>, was_delivered: bool) -> Vec<T> {
        let engines = self.engines;
        let Some(live) = self.pass.as_mut().filter(|live| live.id == pass && live.moves == taken.moves) else {
            return Vec::new();
        };
        if was_delivered {
            let slot = Slot { items: taken.items.clone(), count: engines, is_in_flight: false };
            live.slots.insert(taken.number, slot);
        } else if let Some(slot) = live.slots.get_mut(&taken.number) {
            slot.is_in_flight = false;
        }
        if live.is_closed { live.empty_waiting() } else { Vec::new() }
    }

    /// Returns the error of a call after its engine failed: an engine that was ended under it names its own functions.
    pub(super) fn explain(&mut self, pass: u64, error: Error) -> Error {
        if error.kind() != ErrorKind::Closed {
            return error;
        }
        match self.live(pass) {
            Err(ended) => ended,
            Ok(live) if live.is_closed => closed(),
            Ok(_) => {
                Error::new(ErrorKind::Closed, "the epoch of this iterator was ended: iter(loader) starts the next one")
            }
        }
    }
}
