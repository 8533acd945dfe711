//! Tests across the pools: registration, and forks.

use super::*;
use crate::sync::{Arc, AtomicUsize, Ordering};

impl ReadPool {
    /// True if no slot is leased.
    pub(crate) fn is_whole(&self) -> bool {
        self.free_bytes() == self.stock.slab.total_bytes()
    }

    /// Returns a slot, which must exist.
    pub(crate) fn lease(&self, len: usize) -> crate::Result<ReadLease> {
        Ok(self.try_lease(len)?.expect("a free slot"))
    }
}

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
    let pool = BatchPool::new(&config, Some(&Device(alive.clone()))).unwrap();
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
    let pool = ReadPool::new(&config, Some(&Device(alive))).unwrap();
    assert!(pool.lease(100).unwrap().is_registered());
    assert!(!pool.lease(2 << 20).unwrap().is_registered());
    assert!(!ReadPool::new(&config, None).unwrap().lease(100).unwrap().is_registered());
}

#[test]
fn in_a_forked_child_dropping_does_nothing() {
    let alive = Arc::new(AtomicUsize::new(0));
    let config = ReadPoolConfig { bytes: 1 << 20, populate: true, ..Default::default() };
    let read_pool = ReadPool::new(&config, Some(&Device(alive.clone()))).unwrap();
    let batch_pool = BatchPool::new(&BatchPoolConfig { bytes: 1 << 20, ..Default::default() }, None).unwrap();
    let lease = read_pool.lease(100).unwrap();
    let mut slot = batch_pool.take(100).unwrap();
    slot.bytes_mut().unwrap().fill(7);
    let batch = slot.freeze().unwrap();
    let before = (read_pool.free_bytes(), batch_pool.free_bytes());
    // SAFETY: the child drops values, which takes no lock that a second thread can hold, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let kept = batch[99] == 7;
        drop((lease, batch));
        let same = before == (read_pool.free_bytes(), batch_pool.free_bytes());
        drop((read_pool, batch_pool));
        let registered = alive.load(Ordering::SeqCst) == 1;
        // SAFETY: ends the child without running any of the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!(kept && same && registered))) };
    }
    let pid = rustix::process::Pid::from_raw(child).unwrap();
    let (_, status) = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.exit_status(), Some(0));
    drop((lease, batch));
    assert!(read_pool.is_whole());
    assert_eq!(batch_pool.free_bytes(), 1 << 20);
}
