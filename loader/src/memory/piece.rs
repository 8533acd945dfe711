//! One mapping of a slab, which has many runs.

use super::map::Mapping;
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::topology::Node;
use std::ptr::NonNull;

/// One mapping of a slab. Cloning gives a further handle to the same mapping, which registration with a ring needs.
#[derive(Clone, Debug)]
pub struct Piece {
    pub(super) map: Arc<Mapping>,
    /// Bytes from the start that have pages.
    populated: Arc<AtomicUsize>,
    node: Option<Node>,
}

impl Piece {
    pub(super) fn new(map: Mapping, node: Option<Node>) -> Self {
        Self { map: Arc::new(map), populated: Arc::default(), node }
    }

    /// The first byte; valid for [`len`](Self::len) bytes for as long as this value lives.
    pub fn ptr(&self) -> NonNull<u8> {
        self.map.ptr()
    }

    /// Length in bytes, at most 1 GiB.
    #[expect(clippy::len_without_is_empty, reason = "a piece is never empty")]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// True if all pages are populated. Registering then takes milliseconds; otherwise it takes as long as touching
    /// every page for the first time.
    pub fn is_populated(&self) -> bool {
        self.populated.load(Ordering::Acquire) == self.len()
    }

    /// The NUMA node with the preferred memory; `None`: the node of the thread that touches a page first.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Populates the next `step` bytes. Returns false when the system refuses.
    pub(super) fn populate_next(&self, step: usize) -> bool {
        let at = self.populated.load(Ordering::Acquire);
        let len = step.min(self.len() - at);
        let done = self.map.populate(at, len);
        if done {
            self.populated.store(at + len, Ordering::Release);
        }
        done
    }
}
