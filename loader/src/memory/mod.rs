//! Memory for samples and batches: bounded, taken at start, leased, and returned by dropping the lease.
//!
//! ```text
//!  default_bytes, split      sizes of the pools                                                (budget)
//!        |
//!   Mapping                  anonymous pages: placed on a node, populated in the background     (map, populate)
//!        |
//!   Slab                     mappings of at most 1 GiB, divided into runs of blocks       (slab, piece, extents)
//!        |          \
//!   ReadPool         BatchPool                                                      (read, batch, batch_stock)
//!    ReadLease        BatchSlot -> RowMut ... -> BatchMemory                                    (slot)
//!    encoded bytes    rows are written in place, then the slot is frozen and delivered
//! ```
//!
//! * **Read slots** hold encoded bytes between the kernel, which reads into them, and the decode threads. Forked
//!   children do not inherit them, since the kernel may be writing into them, and they can be registered with a ring. A
//!   slot is as long as its sample plus a block for the rounding of O_DIRECT. Users never see one.
//! * Both pools consist of runs of blocks instead of slots of one size: samples differ in size by a factor of a hundred.
//! * **Batch slots** become tensors. They are ordinary memory, since users keep batches, copy them to devices and fork.
//! * Each NUMA node with decode threads has its own read pool. There is a single batch pool, whose slab has a part on
//!   each of these nodes: one queue grants its slots in plan order, from the nodes in turn. A device's batches are on
//!   the device's node.
//! * Requests wait in order of arrival (`fair_queue`). This is plan order, because a single thread makes them.
//! * A request that no slot can hold gets a separate mapping, one at a time, counted.
//! * Files are mapped for two purposes: to find out which of their pages are in the page cache ([`page_cache`]), and to
//!   copy small samples, if configured, under a file lease that keeps other processes from changing the file
//!   (`leased`).
//! * [`Budget`] bounds bytes that are not slots: the shard plane's downloads.
//!
//! Ownership: a lease keeps its pool's slab alive, so a pool may be dropped while tensors live. Memory that is not
//! leased returns to the system at once, the rest when its lease is dropped. In a forked child the drop of a lease does
//! nothing.

mod batch;
mod batch_stock;
mod budget;
mod extents;
mod fair_queue;
mod file_map;
pub(crate) mod leased;
mod map;
pub mod page_cache;
mod piece;
mod pool_state;
mod populate;
mod read;
mod register;
mod slab;
mod slot;

pub use batch::{BatchPool, BatchPoolConfig};
pub use budget::{Budget, Reservation, SAMPLE_BYTES_MAX, Split, default_bytes, split};
pub use piece::Piece;
pub use pool_state::PoolState;
pub use read::{ReadLease, ReadPool, ReadPoolConfig, ReadSlice};
pub use register::{Registrar, Registration};
pub use slab::{BLOCK_BYTES, PIECE_BYTES_MAX};
pub use slot::{BatchMemory, BatchSlot, RowMut};

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
    fn a_read_slot_is_registered_unless_its_sample_has_a_separate_mapping() {
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
        // SAFETY: the child drops values, which takes no lock that another thread can hold, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let kept = batch[99] == 7;
            drop((lease, batch));
            let same = before == (read_pool.state().free_bytes, batch_pool.state().free_bytes);
            drop((read_pool, batch_pool));
            let registered = alive.load(Ordering::SeqCst) == 1;
            // SAFETY: ends the child without running any of the parent's exit handlers.
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
