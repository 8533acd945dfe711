//! The pool of batch slots.

use super::PoolState;
use super::fair_queue::{Closed, FairPool};
use super::map::MapOptions;
use super::register::Registrar;
use super::slab::{BLOCK_BYTES, Backing, FreeRuns, Grant, NodeShare, PIECE_BYTES_MAX, Piece, Slab, in_blocks};
use super::slot::BatchSlot;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::topology::Node;

/// How a pool of batch slots is made.
#[derive(Clone, Debug, Default)]
pub struct BatchPoolConfig {
    /// Bytes of the pool.
    pub bytes: usize,
    /// Bytes of the slots that will be asked for, if they are all alike: no node's share then ends within a slot.
    pub slot_bytes: usize,
    /// The NUMA nodes that have equal shares of the pool and give its slots in turn. None: pages come from the node of
    /// the thread that touches them first.
    pub nodes: Vec<Node>,
    /// Populate the pages in the background.
    pub populate: bool,
}

impl BatchPoolConfig {
    /// The nodes' shares, which add up to `bytes`. A node without a slot of its own has no share.
    fn parts(&self) -> Vec<NodeShare> {
        if self.nodes.is_empty() {
            return vec![NodeShare { bytes: self.bytes, node: None }];
        }
        let slot_bytes = in_blocks(self.slot_bytes.max(1)).unwrap_or(BLOCK_BYTES);
        let (slots, count) = (self.bytes / slot_bytes, self.nodes.len());
        let shares = self.nodes.iter().enumerate().map(|(i, node)| {
            // What is left of `bytes` beside whole slots goes to the last node, which has at least as many as another.
            let rest = if i + 1 == count { self.bytes % slot_bytes } else { 0 };
            let bytes = (slots * (i + 1) / count - slots * i / count) * slot_bytes + rest;
            NodeShare { bytes, node: Some(node.clone()) }
        });
        shares.filter(|part| part.bytes > 0).collect()
    }
}

/// A bounded pool of memory for batches. Cloning gives another handle to the same pool.
#[derive(Clone)]
pub struct BatchPool {
    shared: Arc<Shared>,
    /// When the last handle goes, memory that is not lent out goes back to the system.
    _closer: Arc<Closer>,
}

struct Closer(Arc<Shared>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

pub(super) struct Shared {
    slab: Slab,
    stock: FairPool<Stock>,
    options: MapOptions,
    warned: AtomicBool,
    pub(super) pid: u32,
}

struct Stock {
    free: FreeRuns,
    /// Slots that are being filled or wait to be handed over: these come free, or into the consumer's hands, without
    /// the consumer dropping anything.
    engine_held: usize,
    unpooled: u64,
}

impl BatchPool {
    /// Takes the memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`] when the system refuses it, [`ErrorKind::Config`] for a pool of no bytes.
    pub fn new(config: &BatchPoolConfig) -> Result<Self> {
        Self::with_registrar(config, None)
    }

    /// Takes the memory and registers it with a device, which copies from it without a detour. Memory that is given
    /// outside the pool is not registered.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and whatever the device says.
    pub fn with_registrar(config: &BatchPoolConfig, registrar: Option<&dyn Registrar>) -> Result<Self> {
        // A device's registration does not survive a copy-on-write, so registered slots stay out of children.
        let node = if let [one] = &config.nodes[..] { Some(one.number) } else { None };
        let options = MapOptions { dont_fork: registrar.is_some(), node };
        // One piece for each node where possible, so that a batch never meets a seam; a larger pool has several.
        let (slab, free) = Slab::new(&config.parts(), PIECE_BYTES_MAX, options.dont_fork, registrar)?;
        if config.populate {
            slab.start_populating();
        }
        let shared = Arc::new(Shared {
            slab,
            stock: FairPool::new(Stock { free, engine_held: 0, unpooled: 0 }),
            options,
            warned: AtomicBool::new(false),
            pid: std::process::id(),
        });
        Ok(Self { _closer: Arc::new(Closer(shared.clone())), shared })
    }

    /// Waits for a slot of `bytes`, behind those who asked before.
    ///
    /// The wait is for slots in the engine's hands only: when the consumer holds every slot, the batch gets memory
    /// outside the pool, which is counted and warned of once. So does a batch that no piece of the pool can hold.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`] after [`close`](Self::close), [`ErrorKind::Full`] when memory outside the pool is refused.
    pub fn take(&self, bytes: usize) -> Result<BatchSlot> {
        let need = need(bytes)?;
        let grant = self.shared.stock.take(|stock| self.shared.grant(stock, need)).map_err(closed)?;
        self.shared.slot(grant, bytes, need)
    }

    /// The same, `None` when `is_over`; whoever makes it so calls [`wake`](Self::wake) then.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn take_unless(&self, bytes: usize, is_over: impl Fn() -> bool) -> Result<Option<BatchSlot>> {
        let need = need(bytes)?;
        let grant = self.shared.stock.take_unless(|stock| self.shared.grant(stock, need), is_over).map_err(closed)?;
        grant.map(|grant| self.shared.slot(grant, bytes, need)).transpose()
    }

    /// Has those who wait look whether it is over.
    pub fn wake(&self) {
        self.shared.stock.wake();
    }

    /// A slot of `bytes` if there is one and nobody waits; gives memory outside the pool as [`take`](Self::take) does.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn try_take(&self, bytes: usize) -> Result<Option<BatchSlot>> {
        let need = need(bytes)?;
        let grant = self.shared.stock.try_take(|stock| self.shared.grant(stock, need)).map_err(closed)?;
        grant.map(|grant| self.shared.slot(grant, bytes, need)).transpose()
    }

    /// Wakes everyone who waits with [`ErrorKind::Closed`], refuses whoever comes after, and gives free pages back to
    /// the system. Slots and batches stay valid; their pages go when they are dropped.
    pub fn close(&self) {
        self.shared.close();
    }

    /// The mappings, those of one node together.
    pub fn pieces(&self) -> &[Piece] {
        self.shared.slab.pieces()
    }

    /// How the pool stands.
    pub fn state(&self) -> PoolState {
        self.shared
            .stock
            .inspect(|stock, counts| PoolState::new(&self.shared.slab, &stock.free, counts, stock.unpooled))
    }
}

fn closed(_: Closed) -> Error {
    Error::new(ErrorKind::Closed, "the loader was closed while a batch waited for memory")
}

fn need(bytes: usize) -> Result<usize> {
    in_blocks(bytes.max(1))
        .filter(|need| *need <= isize::MAX as usize)
        .ok_or_else(|| Error::config("a batch does not fit the address space").with("batch_bytes", bytes))
}

impl Shared {
    fn grant(&self, stock: &mut Stock, need: usize) -> Option<Grant> {
        let grant = match stock.free.take(need) {
            Some(run) => Grant::Run(run),
            // Nothing in the engine's hands can come free by itself, or nothing that comes free could be enough.
            None if stock.engine_held == 0 || need > self.slab.run_bytes_max() => {
                stock.unpooled += 1;
                Grant::Mapping
            }
            None => return None,
        };
        stock.engine_held += 1;
        Some(grant)
    }

    fn slot(self: &Arc<Self>, grant: Grant, bytes: usize, need: usize) -> Result<BatchSlot> {
        if matches!(grant, Grant::Mapping) && !self.warned.swap(true, Ordering::Relaxed) {
            // A program that keeps small batches means to.
            let level = if bytes < 1 << 20 { log::Level::Debug } else { log::Level::Warn };
            log::log!(level, "{}", self.beyond(bytes, need));
        }
        let (backing, ptr) = self.slab.backing(grant, need, self.options).map_err(|e| {
            self.released();
            e.with("batch_bytes", bytes)
        })?;
        // SAFETY: `backing` spans the `need` bytes from `ptr`, at least `bytes`, of anonymous memory, which is zeroes or an earlier
        // batch. A run is granted to nobody else until it is back in the stock; a mapping of its own is nobody else's.
        Ok(unsafe { BatchSlot::new(self.clone(), backing, ptr, bytes) })
    }

    /// Why a batch lies outside the pool, and what to do about it.
    fn beyond(&self, bytes: usize, need: usize) -> String {
        let pool = self.slab.total_bytes();
        match need > self.slab.run_bytes_max() {
            true => format!(
                "a batch of {bytes} bytes is larger than the {pool} bytes that are set aside for batches, and takes memory \
                 of its own every time: raise `memory`, or lower `batch_size`"
            ),
            false => format!(
                "earlier batches are still in use and fill the {pool} bytes that are set aside for batches: a batch of \
                 {bytes} bytes takes more memory. Nothing is wrong if the program means to keep them; otherwise drop \
                 batches after use, or copy the part that is kept. This is said once"
            ),
        }
    }

    /// One slot fewer in the engine's hands.
    pub(super) fn released(&self) {
        self.stock.release(|stock, _| stock.engine_held -= 1);
    }

    /// Takes the memory of a slot back, which was in the engine's hands if `by_engine`.
    ///
    /// # Safety
    ///
    /// Nobody may refer to the bytes any more.
    pub(super) unsafe fn release(&self, backing: &Backing, by_engine: bool) {
        self.stock.release(|stock, closed| {
            stock.engine_held -= usize::from(by_engine);
            // SAFETY: passed on to the caller.
            unsafe { self.slab.release(&mut stock.free, backing, !closed) };
        });
    }

    fn close(&self) {
        if self.pid != std::process::id() {
            return;
        }
        self.slab.stop_populating();
        self.stock.close(|stock| {
            for run in stock.free.runs() {
                // SAFETY: the run is free and, the lock being held, stays so.
                unsafe { self.slab.discard(run) };
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::BatchMemory;

    fn pool(bytes: usize) -> BatchPool {
        BatchPool::new(&BatchPoolConfig { bytes, ..BatchPoolConfig::default() }).unwrap()
    }

    #[test]
    fn who_hoards_batches_gets_memory_outside_the_pool_and_never_waits() {
        let pool = pool(16 << 10);
        let batch = |pool: &BatchPool| pool.take(8 << 10).unwrap().freeze().unwrap();
        let hoard: Vec<BatchMemory> = (0..5)
            .map(|_| {
                let batch = batch(&pool);
                batch.hand_over();
                batch.hand_over();
                batch
            })
            .collect();
        assert_eq!(hoard.iter().map(BatchMemory::is_unpooled).collect::<Vec<_>>(), [false, false, true, true, true]);
        assert_eq!(pool.state().unpooled, 3);
        drop(hoard);
        assert!(!batch(&pool).is_unpooled());
    }

    /// Nodes that no machine of ours has, so that the kernel refuses them.
    fn nodes() -> Vec<Node> {
        let cpus = crate::topology::CpuSet::parse("1022").unwrap();
        [62, 63].map(|number| Node { number, cpus: cpus.clone(), memory_bytes: None }).into()
    }

    #[test]
    fn nodes_share_a_pool_in_whole_slots() {
        let shares = |bytes, slot_bytes| {
            let config = BatchPoolConfig { bytes, slot_bytes, nodes: nodes(), populate: false };
            config.parts().iter().map(|part| (part.node.as_ref().unwrap().number, part.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(shares(64 << 10, 8 << 10), [(62, 32 << 10), (63, 32 << 10)]);
        assert_eq!(shares(28 << 10, 8 << 10), [(62, 8 << 10), (63, 20 << 10)]);
        assert_eq!(shares(8 << 10, 5000), [(63, 8 << 10)], "one slot");
        let nothing = BatchPoolConfig { nodes: nodes(), ..BatchPoolConfig::default() };
        assert_eq!(BatchPool::new(&nothing).err().unwrap().kind(), ErrorKind::Config);
    }

    #[test]
    fn nodes_give_slots_in_turn_and_for_each_other_when_one_is_full() {
        let config = BatchPoolConfig { bytes: 32 << 10, slot_bytes: 8 << 10, nodes: nodes(), populate: true };
        let pool = BatchPool::new(&config).unwrap();
        let take = || pool.take(8 << 10).unwrap();
        let node = |slot: &BatchSlot| match *slot.backing() {
            Backing::Run(run) => pool.pieces()[run.piece].node().map(|n| n.number),
            Backing::Mapping { .. } => None,
        };
        let mut slots: Vec<BatchSlot> = (0..4).map(|_| take()).collect();
        assert_eq!(slots.iter().map(node).collect::<Vec<_>>(), [Some(62), Some(63), Some(62), Some(63)]);
        slots.remove(3);
        assert_eq!(node(&take()), Some(63), "it would be the other one's turn");
        slots.push(take());
        assert!(pool.try_take(8 << 10).unwrap().is_none(), "the engine holds all slots, whatever their nodes");
        let batches: Vec<BatchMemory> = slots.into_iter().map(|slot| slot.freeze().unwrap()).collect();
        batches.iter().for_each(BatchMemory::hand_over);
        assert!(take().is_unpooled(), "the consumer holds all slots, whatever their nodes");
    }

    #[test]
    fn the_engine_waits_for_its_own_slots() {
        let pool = pool(16 << 10);
        let (first, second) = (pool.take(8 << 10).unwrap(), pool.take(8 << 10).unwrap());
        assert!(pool.try_take(1).unwrap().is_none());
        let waiting = pool.clone();
        let waiter = std::thread::spawn(move || waiting.take(8 << 10).map(|s| s.freeze().unwrap().is_unpooled()));
        while !pool.shared.stock.has_waiters() {
            std::thread::yield_now();
        }
        let (first, second) = (first.freeze().unwrap(), second.freeze().unwrap());
        first.hand_over();
        assert!(!waiter.is_finished());
        second.hand_over();
        assert!(waiter.join().unwrap().unwrap(), "the consumer holds both");
    }

    #[test]
    fn the_reason_for_memory_outside_the_pool_is_told_apart() {
        let pool = pool(16 << 10);
        assert!(pool.shared.beyond(9, 4096).contains("still in use"));
        assert!(pool.shared.beyond(9, 32 << 10).contains("raise `memory`"));
    }

    #[test]
    fn a_batch_that_no_piece_holds_lies_outside_the_pool() {
        let pool = pool(16 << 10);
        let _first = pool.take(1).unwrap();
        let batch = pool.take(1 << 20).unwrap().freeze().unwrap();
        assert!(batch.is_unpooled());
        assert_eq!(pool.take(usize::MAX).unwrap_err().kind(), ErrorKind::Config);
        assert_eq!(pool.take(0).unwrap().len(), 0);
    }

    #[test]
    fn batches_outlive_the_pool_and_closing_wakes_who_waits() {
        let pool = pool(8 << 10);
        let mut slot = pool.take(8 << 10).unwrap();
        slot.bytes_mut().unwrap().fill(9);
        let waiting = pool.clone();
        let waiter = std::thread::spawn(move || waiting.take(1).map(|s| s.len()));
        while !pool.shared.stock.has_waiters() {
            std::thread::yield_now();
        }
        pool.close();
        assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        drop(pool);
        let batch = slot.freeze().unwrap();
        assert!(batch.iter().all(|b| *b == 9));
    }
}
