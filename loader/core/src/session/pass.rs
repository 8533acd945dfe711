//! One iterator: the batches that it has taken and not delivered.

use super::engine::Held;
use crate::sync::{Arc, Mutex};
use std::collections::BTreeMap;

/// Items of a batch, one of each engine. The call that works on the batch has them too.
pub(super) type Items<T> = Arc<Mutex<Vec<T>>>;

/// A batch that was asked for and not delivered.
pub(super) struct Slot<T> {
    pub(super) items: Items<T>,
    /// Engines that have delivered their item.
    pub(super) count: usize,
    /// A call works on it; else it waits for one.
    pub(super) is_in_flight: bool,
}

impl<T> Slot<T> {
    pub(super) fn new(is_in_flight: bool) -> Self {
        Self { items: Items::default(), count: 0, is_in_flight }
    }
}

/// One iterator.
pub(super) struct Pass<T> {
    pub(super) id: u64,
    /// Objects of the program that hold it. More than one have the pass of a batch that was shown.
    pub(super) handles: usize,
    /// Number of times that it has moved to a different epoch. A batch from before belongs to nothing.
    pub(super) moves: u64,
    pub(super) slots: BTreeMap<u64, Slot<T>>,
    /// Batches that the engines were asked for.
    pub(super) begun: u64,
    /// The engines have delivered all batches, and the call that finds the end has not come yet.
    pub(super) has_ended: bool,
    pub(super) is_over: bool,
    pub(super) is_closed: bool,
    /// No batch was delivered.
    pub(super) is_empty: bool,
    /// It did not begin at the start of its epoch.
    pub(super) is_resumed: bool,
}

impl<T> Pass<T> {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            handles: 1,
            moves: 0,
            slots: BTreeMap::new(),
            begun: 0,
            has_ended: false,
            is_over: false,
            is_closed: false,
            is_empty: true,
            is_resumed: false,
        }
    }

    /// The number of the first batch that waits for a call.
    pub(super) fn first_waiting(&self) -> Option<u64> {
        self.slots.iter().find(|(_, slot)| !slot.is_in_flight).map(|(number, _)| *number)
    }

    /// True if a call may deliver a batch.
    pub(super) fn is_running(&self) -> bool {
        if self.is_closed {
            // A batch that is in flight may still be delivered.
            return self.slots.values().any(|slot| slot.is_in_flight);
        }
        !self.is_over || !self.slots.is_empty()
    }

    /// The first batch that a state leaves out, and those after it.
    pub(super) fn pending(&self, takes_ahead: bool) -> Option<(u64, Held)> {
        let failed = self.first_waiting();
        let mut number = self.begun;
        while number.checked_sub(1).is_some_and(|before| self.slots.contains_key(&before)) {
            number -= 1;
        }
        let is_ahead = number < self.begun || (self.has_ended && !self.is_over);
        if takes_ahead && is_ahead && failed.is_none_or(|failed| failed >= number) {
            // The end of the epoch counts with the call that finds it.
            return Some((number, Held::All));
        }
        match failed {
            Some(failed) => Some((failed, Held::Failed)),
            None => (number < self.begun).then_some((number, Held::InFlight)),
        }
    }

    /// The part of [`pending`](Self::pending) that outlives the pass.
    pub(super) fn left(&self, takes_ahead: bool) -> Option<(u64, Held)> {
        self.pending(takes_ahead).filter(|(_, held)| *held != Held::InFlight)
    }

    /// The first batch that lacks the item of engine number `engine`, which delivers in this order.
    pub(super) fn lacking(&mut self, engine: usize) -> Option<(u64, &mut Slot<T>)> {
        self.slots.iter_mut().find(|(_, slot)| slot.count == engine).map(|(number, slot)| (*number, slot))
    }

    /// Removes the batch that the engines do not have, and those after it. Returns them, to be dropped without a lock.
    pub(super) fn cut(&mut self, engine: usize) -> BTreeMap<u64, Slot<T>> {
        let Some(first) = self.lacking(engine).map(|(number, _)| number) else { return BTreeMap::new() };
        self.begun = first;
        self.slots.split_off(&first)
    }

    /// Drops the items of batches that wait. No call delivers them, and the state still leaves them out.
    pub(super) fn empty_waiting(&mut self) -> Vec<T> {
        let waiting = self.slots.values().filter(|slot| !slot.is_in_flight);
        waiting.flat_map(|slot| std::mem::take(&mut *slot.items.lock())).collect()
    }

    /// Moves to the start of a different epoch. Returns the batches of the one before.
    pub(super) fn forget(&mut self) -> BTreeMap<u64, Slot<T>> {
        self.begun = 0;
        self.has_ended = false;
        self.moves += 1;
        std::mem::take(&mut self.slots)
    }
}
