//! Memory that samples and batches pass through: bounded, taken at start, lent out, returned by dropping.
//!
//! ```text
//!  default_bytes, split      how much, and for what                                            (budget)
//!        |
//!   Mapping                  anonymous pages: placed on a node, populated in the background     (map, populate)
//!        |
//!   Slab                     mappings of at most 1 GiB, cut into runs of blocks                 (slab, extents)
//!        |          \
//!   ReadPool         BatchPool                                                                  (read, batch)
//!    ReadLease        BatchSlot -> RowMut ... -> BatchMemory                                    (slot)
//!    encoded bytes    rows are written in place, then the slot is frozen and handed out
//! ```
//!
//! * **Read slots** hold encoded bytes while the kernel reads into them and decode threads read from them. They stay out
//!   of forked children (the kernel may be writing into them) and can be registered with a ring. A slot is as long as its
//!   sample plus a block for the rounding of O_DIRECT; users never see one.
//! * **Batch slots** become tensors. They are ordinary memory, since users keep batches, copy them to devices and fork.
//! * There is one read pool per NUMA node that decodes, and one batch pool whose slab has a part on each of these nodes: slots
//!   are granted by one queue, in plan order, and the nodes take turns. A device's batches lie on the device's node.
//! * Whoever asks when nothing is free waits in the order of asking (`fair_queue`), which is plan order, since one thread asks.
//! * A request that no slot can hold gets a mapping of its own, one at a time, counted.
//! * Files are mapped for two ends: asking what of them the page cache holds ([`page_cache`]), and copying small samples, if
//!   asked for, while a lease keeps everybody from changing the file (`leased`).
//! * [`Budget`] bounds bytes that are not slots: the shard plane's downloads.
//!
//! Ownership: a lease holds its pool's slab alive, so a pool may be dropped while tensors live; what is not lent out goes
//! back to the system at once, the rest when its lease is dropped. In a forked child the drop of a lease does nothing.

mod batch;
mod budget;
mod extents;
mod fair_queue;
mod file_map;
pub(crate) mod leased;
mod map;
pub mod page_cache;
mod populate;
mod read;
mod register;
mod slab;
mod slot;

pub use batch::{BatchPool, BatchPoolConfig};
pub use budget::{Budget, Reservation, SAMPLE_BYTES_MAX, Split, default_bytes, split};
pub use read::{ReadLease, ReadPool, ReadPoolConfig, ReadSlice};
pub use register::{Registrar, Registration};
pub use slab::{BLOCK_BYTES, PIECE_BYTES_MAX, Piece};
pub use slot::{BatchMemory, BatchSlot, RowMut};

/// What a pool has done so far and how it stands; numbers for the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Bytes of the pool.
    pub total_bytes: usize,
    /// Bytes not lent out.
    pub free_bytes: usize,
    /// Leases given out since the start.
    pub leases: u64,
    /// How many of them had to wait.
    pub waits: u64,
    /// Leases that got a mapping of their own: samples larger than a slot, or batches given while the consumer held
    /// every slot.
    pub unpooled: u64,
    /// Bytes whose pages are populated; equals `total_bytes` once the background work is done.
    pub populated_bytes: usize,
}

impl PoolState {
    fn new(slab: &slab::Slab, free: &slab::FreeRuns, counts: fair_queue::Counts, unpooled: u64) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, AtomicUsize, Ordering};

    /// Counts registrations that are alive.
    struct Device(Arc<AtomicUsize>);
    struct Guard(Arc<AtomicUsize>);

    impl Registrar for Device {
        fn register(&self, address: *mut u8, len: usize) -> crate::Result<Box<dyn Registration>> {
            assert!((address as usize).is_multiple_of(BLOCK_BYTES) && len > 0 && len <= PIECE_BYTES_MAX);
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Guard(self.0.clone())))
        }
    }

    impl Registration for Guard {
        fn is_direct(&self) -> bool {
            true
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn memory_stays_registered_until_the_last_batch_is_dropped() {
        let alive = Arc::new(AtomicUsize::new(0));
        let config = BatchPoolConfig { bytes: 1 << 20, ..Default::default() };
        let pool = BatchPool::with_registrar(&config, Some(&Device(alive.clone()))).unwrap();
        let batch = pool.take(100).unwrap().freeze().unwrap();
        drop(pool);
        assert_eq!(alive.load(Ordering::SeqCst), 1);
        drop(batch);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_read_slot_is_registered_unless_its_sample_has_a_mapping_of_its_own() {
        let config = ReadPoolConfig { bytes: 1 << 20, populate: false, ..Default::default() };
        let alive = Arc::new(AtomicUsize::new(0));
        let pool = ReadPool::with_registrar(&config, Some(&Device(alive))).unwrap();
        assert!(pool.lease(100).unwrap().is_registered());
        assert!(!pool.lease(2 << 20).unwrap().is_registered());
        assert!(!ReadPool::new(&config).unwrap().lease(100).unwrap().is_registered());
    }

    #[test]
    fn in_a_forked_child_dropping_does_nothing() {
        let alive = Arc::new(AtomicUsize::new(0));
        let config = ReadPoolConfig { bytes: 1 << 20, populate: true, ..Default::default() };
        let read_pool = ReadPool::with_registrar(&config, Some(&Device(alive.clone()))).unwrap();
        let batch_pool = BatchPool::new(&BatchPoolConfig { bytes: 1 << 20, ..Default::default() }).unwrap();
        let lease = read_pool.lease(100).unwrap();
        let mut slot = batch_pool.take(100).unwrap();
        slot.bytes_mut().unwrap().fill(7);
        let batch = slot.freeze().unwrap();
        let before = (read_pool.state().free_bytes, batch_pool.state().free_bytes);
        // SAFETY: the child drops values, which takes no lock that another thread can hold, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let kept = batch[99] == 7;
            drop((lease, batch));
            let same = before == (read_pool.state().free_bytes, batch_pool.state().free_bytes);
            drop((read_pool, batch_pool));
            let registered = alive.load(Ordering::SeqCst) == 1;
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(i32::from(!(kept && same && registered))) };
        }
        let pid = rustix::process::Pid::from_raw(child).unwrap();
        let (_, status) = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0));
        drop((lease, batch));
        assert_eq!(read_pool.state().free_bytes, read_pool.state().total_bytes);
        assert_eq!(batch_pool.state().free_bytes, batch_pool.state().total_bytes);
    }
}
