//! Finished reads that wait for [`Reader::wait`](super::Reader::wait). Reads from the page cache finish at once.

use super::op::ReadOp;
use super::reader::{Completion, Counters, ReadRequest};
use std::collections::VecDeque;

/// Front end of all readers: completions, and the attempt to read from the page cache.
pub(super) struct ReadyQueue {
    pub(super) done: VecDeque<Completion>,
    /// Try the page cache before the disk.
    page_cache: bool,
    pub(super) counters: Counters,
}

impl ReadyQueue {
    pub(super) fn new(page_cache: bool, counters: Counters) -> Self {
        Self { done: VecDeque::new(), page_cache, counters }
    }

    /// Begins a read. Returns it if it has to go to the disk, and keeps its completion otherwise.
    pub(super) fn begin(&mut self, request: ReadRequest) -> Option<ReadOp> {
        let mut op = match ReadOp::new(request) {
            Ok(op) => op,
            Err(completion) => {
                self.done.push_back(completion);
                return None;
            }
        };
        if op.lease.is_empty() || self.page_cache && op.try_cached() {
            self.counters.cached.add(1);
            self.done.push_back(op.finish(Ok(())));
            return None;
        }
        op.begin();
        let counter = if op.direct { &self.counters.direct } else { &self.counters.buffered };
        counter.add(1);
        Some(op)
    }
}
