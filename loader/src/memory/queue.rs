//! Who waits, in which order.

use std::collections::VecDeque;

/// Tickets of those who wait; the one in front is served next.
///
/// Order is what keeps the progress rule "granted in plan order": a small request that would fit must not overtake a
/// large one that came before, or the large one could wait for ever.
#[derive(Debug, Default)]
pub(super) struct Queue {
    next: u64,
    waiting: VecDeque<u64>,
}

impl Queue {
    /// Whether somebody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Joins at the end.
    pub(super) fn join(&mut self) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.waiting.push_back(ticket);
        ticket
    }

    /// Whether `ticket` is in front.
    pub(super) fn is_front(&self, ticket: u64) -> bool {
        self.waiting.front() == Some(&ticket)
    }

    /// Leaves the queue, from wherever.
    pub(super) fn leave(&mut self, ticket: u64) {
        self.waiting.retain(|t| *t != ticket);
    }
}
