//! Read slots, which hold encoded bytes between the kernel and the decoder.

use super::map::MapOptions;
use super::piece::Piece;
use super::register::Registrar;
use super::slab::{BLOCK_BYTES, Backing, FreeRuns, Grant, NodeShare, Slab, in_blocks};
use crate::error::{Error, Result};
use crate::sync::{Arc, Mutex};
use crate::topology::Node;
use std::ops::Deref;
use std::ptr::NonNull;

/// Configuration of a pool of read slots.
#[derive(Clone, Debug)]
pub struct ReadPoolConfig {
    /// Bytes of the pool; also the bound on pinned memory if the pool is registered.
    pub bytes: usize,
    /// Longest piece, in bytes, at most 1 GiB. Smaller pieces are registered sooner after the start.
    pub piece_bytes_max: usize,
    /// The NUMA node with the preferred memory; `None`: the node of the thread that touches a page first.
    pub node: Option<Node>,
    /// Populate the pages in the background, from the first lease on: an epoch from the page cache may take no lease.
    /// Only populated pieces are registered with a ring.
    pub populate: bool,
}

impl Default for ReadPoolConfig {
    fn default() -> Self {
        Self { bytes: 64 << 20, piece_bytes_max: 64 << 20, node: None, populate: true }
    }
}

/// Bounded pool of memory for encoded samples. Cloning gives a further handle to the same pool.
#[derive(Clone)]
pub struct ReadPool {
    pub(super) stock: Arc<ReadStock>,
}

/// Memory of a read pool, shared by the pool and all leases.
pub(super) struct ReadStock {
    pub(super) slab: Slab,
    runs: Mutex<Runs>,
    /// Longest run for a sample, in bytes.
    slot_bytes_max: usize,
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
    /// Takes the memory, and registers it with a device if there is a `registrar`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) when the system refuses it,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a pool of 0 bytes, and the device's error.
    pub fn new(config: &ReadPoolConfig, registrar: Option<&dyn Registrar>) -> Result<Self> {
        // The kernel may write into a slot while the process forks; copy-on-write would then give the slot a different
        // page than the ring's.
        let options = MapOptions { dont_fork: true, node: config.node.as_ref().map(|n| n.number) };
        let part = NodeShare { bytes: config.bytes, node: config.node.clone() };
        let (slab, free) = Slab::new(&[part], config.piece_bytes_max, options.dont_fork, registrar)?;
        // At most half of a piece, so that two samples always fit and fragmentation cannot block the pool.
        let slot_bytes_max = slab.run_bytes_max() / 2;
        Ok(Self {
            stock: Arc::new(ReadStock {
                slab,
                runs: Mutex::new(Runs { free, oversize_out: false }),
                slot_bytes_max,
                populate: config.populate,
                options,
                pid: std::process::id(),
            }),
        })
    }

    /// Returns a slot for a sample of `len` bytes; `None` if there is none at the moment.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) when the system refuses the separate mapping of a large sample.
    pub fn try_lease(&self, len: usize) -> Result<Option<ReadLease>> {
        let stock = &self.stock;
        // One block more than the sample has, since an O_DIRECT read is rounded down at the start and up at the end.
        let capacity = in_blocks(len.max(1)).and_then(|bytes| bytes.checked_add(BLOCK_BYTES));
        let capacity = capacity.ok_or_else(|| Error::internal("a sample's size overflows"))?;
        let Some(grant) = stock.grant(capacity) else { return Ok(None) };
        // A large sample does not use the slab.
        if stock.populate && matches!(grant, Grant::Run(_)) {
            stock.slab.start_populating();
        }
        // Only a separate mapping can fail, since a run is mapped already.
        let (backing, base) = stock.slab.backing(grant, capacity, stock.options).map_err(|e| {
            stock.runs.lock().oversize_out = false;
            e.with("sample_bytes", len)
        })?;
        Ok(Some(ReadLease { stock: stock.clone(), backing, base, capacity, start: 0, len }))
    }

    /// The mappings, for registration with a ring; [`ReadLease::piece`] is an index into them.
    pub fn pieces(&self) -> &[Piece] {
        self.stock.slab.pieces()
    }

    /// Bytes that are not leased.
    pub fn free_bytes(&self) -> usize {
        self.stock.runs.lock().free.bytes()
    }

    /// The longest sample that fits the slab; longer ones get their own mapping, one at a time.
    pub fn slot_bytes_max(&self) -> usize {
        self.stock.slot_bytes_max - BLOCK_BYTES
    }
}

impl ReadStock {
    fn grant(&self, need: usize) -> Option<Grant> {
        let mut runs = self.runs.lock();
        if need <= self.slot_bytes_max {
            return runs.free.take(need).map(Grant::Run);
        }
        // One at a time.
        (!std::mem::replace(&mut runs.oversize_out, true)).then_some(Grant::Mapping)
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
}

impl Deref for ReadLease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the sample is within the slot; its bytes are mapped, initialised and used by this lease alone, by
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
        let mut runs = self.stock.runs.lock();
        if let Backing::Mapping { .. } = self.backing {
            // The mapping is unmapped with the field, after this body, so two of them may exist for a moment.
            runs.oversize_out = false;
        }
        // SAFETY: the bytes belong to this lease, which ends here.
        unsafe { self.stock.slab.release(&mut runs.free, &self.backing, true) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(bytes: usize) -> ReadPool {
        ReadPool::new(&ReadPoolConfig { bytes, populate: false, ..ReadPoolConfig::default() }, None).unwrap()
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
    fn a_lease_outlives_its_pool() {
        let pool = pool(64 << 10);
        let mut lease = pool.lease(10).unwrap();
        drop(pool);
        lease.bytes_mut().fill(1);
        assert_eq!(lease[9], 1);
    }

    #[test]
    fn many_threads_share_a_small_pool_without_tearing() {
        let pool = pool(256 << 10);
        let threads: Vec<_> = (0..4_u8)
            .map(|id| {
                let pool = pool.clone();
                std::thread::spawn(move || {
                    for i in 0..2_000_usize {
                        let mut lease = loop {
                            match pool.try_lease(1 + (i * 7919) % 100_000).unwrap() {
                                Some(lease) => break lease,
                                None => std::thread::yield_now(),
                            }
                        };
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
        let pool = ReadPool::new(&ReadPoolConfig { bytes: 8 << 20, ..ReadPoolConfig::default() }, None).unwrap();
        assert!(!pool.pieces()[0].is_populated(), "nothing before the first lease");
        drop(pool.lease(8 << 20).unwrap());
        assert!(!pool.stock.slab.is_populating(), "a large sample has its own mapping");
        drop(pool.lease(1).unwrap());
        while !pool.pieces().iter().all(Piece::is_populated) {
            std::thread::yield_now();
        }
    }
}
