//! Read slots, which hold encoded bytes between the kernel and the decoder.

use super::budget::SAMPLE_BYTES_MAX;
use super::fair_queue::{Closed, FairPool};
use super::map::MapOptions;
use super::piece::Piece;
use super::register::Registrar;
use super::slab::{BLOCK_BYTES, Backing, FreeRuns, Grant, NodeShare, Slab, in_blocks};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;
use crate::topology::Node;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

/// Configuration of a pool of read slots.
#[derive(Clone, Debug)]
pub struct ReadPoolConfig {
    /// Bytes of the pool; also the bound on pinned memory if the pool is registered.
    pub bytes: usize,
    /// Longest piece, in bytes, at most 1 GiB. Smaller pieces are registered sooner after the start.
    pub piece_bytes_max: usize,
    /// Largest sample, in bytes; a larger one is an error.
    pub sample_bytes_max: usize,
    /// The NUMA node whose memory is preferred; `None`: that of the thread that touches a page first.
    pub node: Option<Node>,
    /// Populate the pages in the background, from the first lease on: an epoch from the page cache may take no lease.
    /// Only populated pieces are registered with a ring.
    pub populate: bool,
}

impl Default for ReadPoolConfig {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            piece_bytes_max: 64 << 20,
            sample_bytes_max: SAMPLE_BYTES_MAX,
            node: None,
            populate: true,
        }
    }
}

/// Bounded pool of memory for encoded samples. Cloning gives another handle to the same pool.
#[derive(Clone)]
pub struct ReadPool {
    pub(super) stock: Arc<ReadStock>,
}

/// Memory of a read pool, shared by the pool and all leases.
pub(super) struct ReadStock {
    pub(super) slab: Slab,
    runs: FairPool<Runs>,
    /// Longest run for a sample, in bytes.
    slot_bytes_max: usize,
    sample_bytes_max: usize,
    populate: bool,
    options: MapOptions,
    pid: u32,
}

/// Free memory.
struct Runs {
    free: FreeRuns,
    /// True while a sample with its own mapping is leased; the next such sample waits.
    oversize_out: bool,
}

impl ReadPool {
    /// Takes the memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`] when the system refuses it, [`ErrorKind::Config`] for a pool of 0 bytes.
    pub fn new(config: &ReadPoolConfig) -> Result<Self> {
        Self::with_registrar(config, None)
    }

    /// Takes the memory and registers it with a device.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and the device's error.
    pub fn with_registrar(config: &ReadPoolConfig, registrar: Option<&dyn Registrar>) -> Result<Self> {
        // The kernel may write into a slot while the process forks; copy-on-write would then give the slot another page
        // than the ring's.
        let options = MapOptions { dont_fork: true, node: config.node.as_ref().map(|n| n.number) };
        let part = NodeShare { bytes: config.bytes, node: config.node.clone() };
        let (slab, free) = Slab::new(&[part], config.piece_bytes_max, options.dont_fork, registrar)?;
        // At most half of a piece, so that two samples always fit and fragmentation cannot block the pool.
        let slot_bytes_max = slab.run_bytes_max() / 2;
        Ok(Self {
            stock: Arc::new(ReadStock {
                slab,
                runs: FairPool::new(Runs { free, oversize_out: false }),
                slot_bytes_max,
                sample_bytes_max: config.sample_bytes_max,
                populate: config.populate,
                options,
                pid: std::process::id(),
            }),
        })
    }

    /// Waits for a slot of `len` bytes, after earlier requests.
    ///
    /// A thread that drives a reader calls this only while the reader has nothing in flight, since that thread itself
    /// returns the slots in flight. Otherwise it calls [`try_lease`](Self::try_lease).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] above `sample_bytes_max`, [`ErrorKind::Closed`] after [`close`](Self::close),
    /// [`ErrorKind::Full`] when a sample's own mapping is refused.
    pub fn lease(&self, len: usize) -> Result<ReadLease> {
        let need = self.stock.need(len)?;
        let grant = self.stock.runs.take(|runs| self.stock.grant(runs, need)).map_err(closed)?;
        self.stock.lease(grant, len, need)
    }

    /// Returns a slot of `len` bytes if there is one and no other request waits.
    ///
    /// # Errors
    ///
    /// As [`lease`](Self::lease).
    pub fn try_lease(&self, len: usize) -> Result<Option<ReadLease>> {
        let need = self.stock.need(len)?;
        let grant = self.stock.runs.try_take(|runs| self.stock.grant(runs, need)).map_err(closed)?;
        grant.map(|grant| self.stock.lease(grant, len, need)).transpose()
    }

    /// Rejects all waiting and later requests with [`ErrorKind::Closed`]. Leases stay valid.
    pub fn close(&self) {
        self.stock.slab.stop_populating();
        self.stock.runs.close(|_| {});
    }

    /// The mappings, for registration with a ring; [`ReadLease::piece`] is an index into them.
    pub fn pieces(&self) -> &[Piece] {
        self.stock.slab.pieces()
    }

    /// Bytes that are not leased.
    pub fn free_bytes(&self) -> usize {
        self.stock.runs.inspect(|runs| runs.free.bytes())
    }

    /// The longest sample that fits the slab; longer ones get their own mapping, one at a time.
    pub fn slot_bytes_max(&self) -> usize {
        self.stock.slot_bytes_max - BLOCK_BYTES
    }
}

fn closed(_: Closed) -> Error {
    Error::new(ErrorKind::Closed, "the loader was closed while a read waited for memory")
}

impl ReadStock {
    /// Bytes of a slot for a sample of `len`: the sample in whole blocks, and one block more, since an O_DIRECT read is
    /// rounded down at the start and up at the end.
    fn need(&self, len: usize) -> Result<usize> {
        if len > self.sample_bytes_max {
            return Err(Error::config("a sample is larger than `sample_bytes_max`: raise it")
                .with("sample_bytes", len)
                .with("sample_bytes_max", self.sample_bytes_max));
        }
        let need = in_blocks(len.max(1)).and_then(|n| n.checked_add(BLOCK_BYTES));
        need.ok_or_else(|| Error::internal("a sample's size overflows"))
    }

    fn grant(&self, runs: &mut Runs, need: usize) -> Option<Grant> {
        if need <= self.slot_bytes_max {
            return runs.free.take(need).map(Grant::Run);
        }
        // One at a time.
        (!std::mem::replace(&mut runs.oversize_out, true)).then_some(Grant::Mapping)
    }

    fn lease(self: &Arc<Self>, grant: Grant, len: usize, need: usize) -> Result<ReadLease> {
        if self.populate {
            self.slab.start_populating();
        }
        // Only the mapping of a large sample can fail, since a run is mapped already.
        let (backing, base) = self.slab.backing(grant, need, self.options).map_err(|e| {
            self.runs.release(|runs, _| runs.oversize_out = false);
            e.with("sample_bytes", len)
        })?;
        Ok(ReadLease { stock: self.clone(), backing, base, capacity: need, start: 0, len })
    }
}

/// Memory for one sample, used by its holder alone; returns to its pool when dropped.
///
/// Invariant: `base .. base + capacity` is mapped (the slab or the own mapping lives as long as the lease), initialised
/// (the kernel gave zeroes), and lent to this lease alone; `start + len <= capacity`.
pub struct ReadLease {
    stock: Arc<ReadStock>,
    backing: Backing,
    base: NonNull<u8>,
    capacity: usize,
    start: usize,
    len: usize,
}

// SAFETY: a lease is the only way to its bytes, so it may move between threads as a `Box<[u8]>` may.
unsafe impl Send for ReadLease {}
// SAFETY: `&ReadLease` only reads.
unsafe impl Sync for ReadLease {}

impl ReadLease {
    /// The whole slot, for the reader: a multiple of [`BLOCK_BYTES`] that starts on a block.
    pub fn slot_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped, initialised and used by this lease alone, by the type's invariant.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.capacity) }
    }

    /// Sets the sample's offset in the slot; for the reader, which rounds reads to blocks.
    ///
    /// # Panics
    ///
    /// When the sample would end after the slot.
    pub fn set_start(&mut self, start: usize) {
        assert!(start.checked_add(self.len).is_some_and(|end| end <= self.capacity), "the slot has one block of slack");
        self.start = start;
    }

    /// The sample's bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let range = self.start..self.start + self.len;
        &mut self.slot_mut()[range]
    }

    /// Shortens the sample to `len`; has no effect if it is not longer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Index of the piece that contains the slot; `None` for a sample with its own mapping.
    pub fn piece(&self) -> Option<usize> {
        match &self.backing {
            Backing::Run(run) => Some(run.piece),
            Backing::Mapping { .. } => None,
        }
    }

    /// True if the pool's device copies from the slot directly.
    pub fn is_registered(&self) -> bool {
        self.piece().is_some_and(|piece| self.stock.slab.is_registered(piece))
    }

    /// True if the slot belongs to `pool`.
    pub fn is_from(&self, pool: &ReadPool) -> bool {
        Arc::ptr_eq(&self.stock, &pool.stock)
    }

    /// Splits a lease that holds several neighbouring samples into its samples; the slot returns to the pool when the
    /// last part is dropped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Internal`] for a range that ends after the bytes.
    pub fn split(self, parts: &[Range<usize>]) -> Result<Vec<ReadSlice>> {
        if let Some(range) = parts.iter().find(|r| r.start > r.end || r.end > self.len) {
            return Err(Error::internal("a part ends after the bytes that were read")
                .with("part", format!("{}..{}", range.start, range.end))
                .with("bytes", self.len));
        }
        let lease = Arc::new(self);
        Ok(parts.iter().map(|range| ReadSlice { lease: lease.clone(), range: range.clone() }).collect())
    }
}

impl Deref for ReadLease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the sample is within the slot, whose bytes are mapped, initialised and used by this lease alone, by
        // the type's invariant.
        let first = unsafe { self.base.add(self.start) };
        // SAFETY: as above, for `len` bytes.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for ReadLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadLease").field("len", &self.len).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Drop for ReadLease {
    fn drop(&mut self) {
        // A forked child does not have the pages, and the lock may be held by a thread that does not exist there.
        if self.stock.pid != std::process::id() {
            return;
        }
        self.stock.runs.release(|runs, closed| {
            if let Backing::Mapping { .. } = self.backing {
                // The mapping is unmapped with the field, after this body, so two of them may exist for a moment.
                runs.oversize_out = false;
            }
            // SAFETY: the bytes belong to this lease, which ends here.
            unsafe { self.stock.slab.release(&mut runs.free, &self.backing, !closed) };
        });
    }
}

/// Part of a shared [`ReadLease`].
#[derive(Clone, Debug)]
pub struct ReadSlice {
    lease: Arc<ReadLease>,
    range: Range<usize>,
}

impl Deref for ReadSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.lease[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(bytes: usize) -> ReadPool {
        ReadPool::new(&ReadPoolConfig { bytes, populate: false, ..ReadPoolConfig::default() }).unwrap()
    }

    #[test]
    fn a_lease_has_exactly_the_samples_bytes_and_a_block_of_slack() {
        let pool = pool(1 << 20);
        let mut lease = pool.lease(5000).unwrap();
        assert_eq!((lease.len(), lease.slot_mut().len()), (5000, 3 * BLOCK_BYTES));
        assert_eq!(lease.slot_mut().as_ptr() as usize % BLOCK_BYTES, 0);
        lease.set_start(4095);
        lease.bytes_mut().fill(7);
        assert!(lease.iter().all(|b| *b == 7));
        assert_eq!(lease.slot_mut()[4094], 0);
        assert_eq!(pool.lease(0).unwrap().len(), 0);
    }

    #[test]
    fn leases_never_exceed_the_pool_and_return_to_it() {
        let pool = pool(64 << 10);
        let mut leases = Vec::new();
        while let Some(lease) = pool.try_lease(100).unwrap() {
            leases.push(lease);
        }
        assert_eq!(leases.len(), 8);
        assert_eq!(pool.free_bytes(), 0);
        leases.pop();
        assert!(pool.try_lease(100).unwrap().is_some());
        drop(leases);
        assert!(pool.is_whole());
    }

    #[test]
    fn a_sample_larger_than_a_slot_gets_its_own_mapping_one_at_a_time() {
        let pool = pool(64 << 10);
        let large = pool.lease(1 << 20).unwrap();
        assert_eq!((large.piece(), large.len()), (None, 1 << 20));
        assert!(pool.try_lease(1 << 20).unwrap().is_none());
        assert_eq!(pool.try_lease(100).unwrap().unwrap().piece(), Some(0));
        drop(large);
        assert!(pool.try_lease(1 << 20).unwrap().is_some());
    }

    #[test]
    fn a_sample_above_the_limit_is_an_error_that_names_it() {
        let e = pool(64 << 10).lease(SAMPLE_BYTES_MAX + 1).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains("sample_bytes 1073741825"), "{e}");
        assert_eq!(pool(64 << 10).lease(usize::MAX).unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn a_lease_outlives_its_pool() {
        let pool = pool(64 << 10);
        let mut lease = pool.lease(10).unwrap();
        drop(pool);
        lease.bytes_mut().fill(1);
        assert_eq!(lease[9], 1);
    }

    #[test]
    fn neighbours_share_a_slot_until_the_last_is_dropped() {
        let pool = pool(64 << 10);
        let mut lease = pool.lease(10).unwrap();
        lease.bytes_mut().copy_from_slice(b"0123456789");
        let mut parts = lease.split(&[0..3, 5..10]).unwrap();
        assert_eq!((&*parts[0], &*parts[1]), (&b"012"[..], &b"56789"[..]));
        parts.pop();
        assert!(!pool.is_whole());
        drop(parts);
        assert!(pool.is_whole());
        assert!(pool.lease(10).unwrap().split(&[0..3, 5..11]).is_err());
    }

    #[test]
    fn many_threads_share_a_small_pool_without_tearing() {
        let pool = pool(256 << 10);
        let threads: Vec<_> = (0..4_u8)
            .map(|id| {
                let pool = pool.clone();
                std::thread::spawn(move || {
                    for i in 0..2_000_usize {
                        let mut lease = pool.lease(1 + (i * 7919) % 100_000).unwrap();
                        lease.bytes_mut().fill(id);
                        assert!(lease.iter().all(|b| *b == id));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(pool.is_whole());
    }

    #[test]
    fn pages_are_populated_in_the_background() {
        let pool = ReadPool::new(&ReadPoolConfig { bytes: 8 << 20, ..ReadPoolConfig::default() }).unwrap();
        assert!(!pool.pieces()[0].is_populated(), "nothing before the first lease");
        drop(pool.lease(1).unwrap());
        while !pool.pieces().iter().all(Piece::is_populated) {
            std::thread::yield_now();
        }
    }

    mod models {
        use super::*;
        use crate::sync::{JoinHandle, model, spawn, yield_now};

        /// Requests 20,000 bytes on another thread, and returns once that thread waits.
        fn waiter(pool: &ReadPool) -> JoinHandle<Result<usize>> {
            let waiting = pool.clone();
            let thread = spawn("waiter", move || waiting.lease(20_000).map(|l| l.len())).unwrap();
            while !pool.stock.runs.has_waiters() {
                yield_now();
            }
            thread
        }

        #[test]
        fn requests_are_granted_in_order_of_arrival() {
            model(|| {
                let pool = pool(64 << 10);
                let first = pool.lease(24_000).unwrap();
                let second = pool.lease(24_000).unwrap();
                // 28 KiB do not fit into the remaining memory; 4 KiB would, but must not overtake.
                let large = waiter(&pool);
                assert!(pool.try_lease(100).unwrap().is_none(), "a small request does not overtake");
                drop(first);
                assert_eq!(large.join().unwrap().unwrap(), 20_000);
                drop(second);
                assert!(pool.try_lease(100).unwrap().is_some());
            });
        }

        #[test]
        fn closing_rejects_waiting_requests() {
            model(|| {
                let pool = pool(64 << 10);
                let held = (pool.lease(24_000).unwrap(), pool.lease(24_000).unwrap());
                let waiter = waiter(&pool);
                pool.close();
                assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
                assert_eq!(pool.try_lease(1).unwrap_err().kind(), ErrorKind::Closed);
                assert_eq!(held.0.len(), 24_000, "leases stay valid");
            });
        }
    }
}
