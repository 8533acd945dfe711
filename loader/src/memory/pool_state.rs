//! Figures of a pool for the statistics.

use super::fair_queue::Counts;
use super::slab::{FreeRuns, Slab};

/// Figures of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Bytes of the pool.
    pub total_bytes: usize,
    /// Bytes not lent out.
    pub free_bytes: usize,
    /// Leases granted since the start.
    pub leases: u64,
    /// Leases that had to wait.
    pub waits: u64,
    /// Leases with a separate mapping: samples larger than a slot, or batches granted while the consumer held every
    /// slot.
    pub unpooled: u64,
    /// Bytes whose pages are populated; equals `total_bytes` once the background work is done.
    pub populated_bytes: usize,
}

impl PoolState {
    pub(super) fn new(slab: &Slab, free: &FreeRuns, counts: Counts, unpooled: u64) -> Self {
        Self {
            total_bytes: slab.total_bytes(),
            free_bytes: free.free_bytes(),
            leases: counts.granted,
            waits: counts.waited,
            unpooled,
            populated_bytes: slab.populated_bytes(),
        }
    }
}
