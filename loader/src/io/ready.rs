//! Reads that are done and wait to be handed out; reads that the page cache answers are done at once.

use super::op::Op;
use super::{Completion, Counters, ReadRequest};
use std::collections::VecDeque;

/// The front that readers have in common.
pub(super) struct Ready {
    done: VecDeque<Completion>,
    /// Ask the page cache before the disk.
    page_cache: bool,
    pub(super) counters: Counters,
}

impl Ready {
    pub(super) fn new(page_cache: bool, counters: Counters) -> Self {
        Self { done: VecDeque::new(), page_cache, counters }
    }

    /// Begins a read: gives it back if it has to go to the disk, and keeps its completion otherwise.
    pub(super) fn begin(&mut self, request: ReadRequest) -> Option<Op> {
        let mut op = match Op::new(request) {
            Ok(op) => op,
            Err(completion) => {
                self.done.push_back(completion);
                return None;
            }
        };
        if op.is_empty() || self.page_cache && op.try_cached() {
            self.counters.cached.add(1);
            self.done.push_back(op.finish(Ok(())));
            return None;
        }
        op.begin();
        let counter = if op.is_direct() { &self.counters.direct } else { &self.counters.buffered };
        counter.add(1);
        Some(op)
    }

    /// Keeps a completion until it is handed out.
    pub(super) fn push(&mut self, completion: Completion) {
        self.done.push_back(completion);
    }

    /// Moves all completions to the end of `done`; how many those were.
    pub(super) fn hand_out(&mut self, done: &mut Vec<Completion>) -> usize {
        let count = self.done.len();
        done.extend(self.done.drain(..));
        count
    }

    /// Completions that are kept.
    pub(super) fn len(&self) -> usize {
        self.done.len()
    }
}
