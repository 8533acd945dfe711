//! One mapping of a slab.

use super::map::Mapping;
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::topology::Node;
use std::ptr::NonNull;

/// One mapping of a slab. Cloning gives another handle to the same mapping, which registration with a ring needs.
#[derive(Clone, Debug)]
pub struct Piece {
    mapping: Arc<PieceMapping>,
}

#[derive(Debug)]
struct PieceMapping {
    map: Mapping,
    /// Bytes from the start that have pages.
    populated: AtomicUsize,
    node: Option<Node>,
}

impl Piece {
    pub(super) fn new(map: Mapping, node: Option<Node>) -> Self {
        Self { mapping: Arc::new(PieceMapping { map, populated: AtomicUsize::new(0), node }) }
    }

    /// The first byte; valid for [`len`](Self::len) bytes for as long as this value lives.
    pub fn ptr(&self) -> NonNull<u8> {
        self.mapping.map.ptr()
    }

    /// Length in bytes, at most 1 GiB.
    #[expect(clippy::len_without_is_empty, reason = "a piece is never empty")]
    pub fn len(&self) -> usize {
        self.mapping.map.len()
    }

    /// True if all pages are populated. Registering then takes milliseconds; otherwise it takes as long as touching
    /// every page for the first time.
    pub fn is_populated(&self) -> bool {
        self.populated_bytes() == self.len()
    }

    /// The NUMA node whose memory is preferred; `None`: that of the thread that touches a page first.
    pub fn node(&self) -> Option<&Node> {
        self.mapping.node.as_ref()
    }

    pub(super) fn populated_bytes(&self) -> usize {
        self.mapping.populated.load(Ordering::Acquire)
    }

    /// Populates the next `step` bytes. Returns false when the system refuses.
    pub(super) fn populate_next(&self, step: usize) -> bool {
        let at = self.populated_bytes();
        let len = step.min(self.len() - at);
        let done = self.mapping.map.populate(at, len);
        if done {
            self.mapping.populated.store(at + len, Ordering::Release);
        }
        done
    }

    /// Returns the pages of `at .. at + len` to the system; the bytes read as zero afterwards.
    ///
    /// # Safety
    ///
    /// There are no references into the range.
    pub(super) unsafe fn discard(&self, at: usize, len: usize) {
        // SAFETY: passed on to the caller.
        unsafe { self.mapping.map.discard(at, len) };
    }
}
