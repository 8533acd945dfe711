//! Pool of batch slots.

use super::batch_stock::BatchStock;
use super::map::MapOptions;
use super::piece::Piece;
use super::register::Registrar;
use super::slab::{BLOCK_BYTES, NodeShare, PIECE_BYTES_MAX, Slab, in_blocks};
use super::slot::BatchSlot;
use crate::error::{Error, Result};
use crate::sync::Arc;
use crate::topology::Node;

/// Configuration of a pool of batch slots.
#[derive(Clone, Debug, Default)]
pub struct BatchPoolConfig {
    /// Bytes of the pool.
    pub bytes: usize,
    /// Bytes of a slot, if all slots have the same size: no node's share then ends within a slot.
    pub slot_bytes: usize,
    /// NUMA nodes that have equal shares of the pool and provide its slots in turn. Empty: pages come from the node of
    /// the thread that touches them first.
    pub nodes: Vec<Node>,
    /// Populate the pages in the background.
    pub populate: bool,
}

impl BatchPoolConfig {
    /// The nodes' shares, which add up to `bytes`. A node that would have less than one slot has no share.
    fn parts(&self) -> Vec<NodeShare> {
        if self.nodes.is_empty() {
            return vec![NodeShare { bytes: self.bytes, node: None }];
        }
        let slot_bytes = in_blocks(self.slot_bytes.max(1)).unwrap_or(BLOCK_BYTES);
        let (slots, count) = (self.bytes / slot_bytes, self.nodes.len());
        let shares = self.nodes.iter().enumerate().map(|(i, node)| {
            // Bytes beyond whole slots go to the last node, which has at least as many slots as each of the rest.
            let rest = if i + 1 == count { self.bytes % slot_bytes } else { 0 };
            let bytes = (slots * (i + 1) / count - slots * i / count) * slot_bytes + rest;
            NodeShare { bytes, node: Some(node.clone()) }
        });
        shares.filter(|part| part.bytes > 0).collect()
    }
}

/// Bounded pool of memory for batches. Cloning gives a further handle to the same pool.
#[derive(Clone)]
pub struct BatchPool {
    stock: Arc<BatchStock>,
    /// Closes the pool when its last handle is dropped.
    _closer: Arc<Closer>,
}

struct Closer(Arc<BatchStock>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl BatchPool {
    /// Takes the memory, and registers it with a device if there is a `registrar`: the device then copies from it
    /// directly. Memory outside the pool is not registered.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) when the system refuses it,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a pool of 0 bytes, and the device's error.
    pub fn new(config: &BatchPoolConfig, registrar: Option<&dyn Registrar>) -> Result<Self> {
        // A device's registration does not survive a copy-on-write, so forked children do not inherit registered slots.
        let node = if let [one] = &config.nodes[..] { Some(one.number) } else { None };
        let options = MapOptions { dont_fork: registrar.is_some(), node };
        // One piece per node if possible, since a batch must be within one piece; a larger pool has several.
        let (slab, free) = Slab::new(&config.parts(), PIECE_BYTES_MAX, options.dont_fork, registrar)?;
        if config.populate {
            slab.start_populating();
        }
        let stock = Arc::new(BatchStock::new(slab, free, options));
        Ok(Self { _closer: Arc::new(Closer(stock.clone())), stock })
    }

    /// Waits for a slot of `bytes`, after earlier requests.
    ///
    /// It waits only for slots that the engine holds. If the consumer holds every slot, the batch gets memory outside
    /// the pool, which is counted, with one warning. The same applies to a batch that no piece of the pool can hold.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) when memory outside the pool is refused.
    pub fn take(&self, bytes: usize) -> Result<BatchSlot> {
        let slot = self.take_unless(bytes, || false)?;
        slot.ok_or_else(|| Error::internal("a wait without a condition ended without a slot"))
    }

    /// Like [`take`](Self::take), but returns `None` once `is_over`. A change of `is_over` must be followed by a call
    /// of [`wake`](Self::wake).
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn take_unless(&self, bytes: usize, is_over: impl Fn() -> bool) -> Result<Option<BatchSlot>> {
        let taken = self.stock.take_unless(bytes, is_over)?;
        Ok(taken.map(|(backing, ptr)| {
            // SAFETY: `backing` has at least `bytes` bytes from `ptr`. They are anonymous memory, hence zeroes or an
            // earlier batch. A run is not granted again before it is released, and a separate mapping has no second
            // user.
            unsafe { BatchSlot::new(self.stock.clone(), backing, ptr, bytes) }
        }))
    }

    /// Makes all waiting requests check `is_over` again.
    pub fn wake(&self) {
        self.stock.runs.wake();
    }

    /// Bytes of the pool that no batch has.
    pub fn free_bytes(&self) -> usize {
        self.stock.runs.inspect(|runs| runs.free.bytes())
    }

    /// The mappings, grouped by node.
    pub fn pieces(&self) -> &[Piece] {
        self.stock.slab.pieces()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::memory::BatchMemory;
    use crate::memory::slab::Backing;

    fn pool(bytes: usize) -> BatchPool {
        BatchPool::new(&BatchPoolConfig { bytes, ..BatchPoolConfig::default() }, None).unwrap()
    }

    impl BatchPool {
        /// Returns a slot if there is one without a wait.
        fn try_take(&self, bytes: usize) -> Option<BatchSlot> {
            let (backing, ptr) = self.stock.try_take(bytes)?;
            // SAFETY: as in `take_unless`.
            Some(unsafe { BatchSlot::new(self.stock.clone(), backing, ptr, bytes) })
        }
    }

    #[test]
    fn a_consumer_that_keeps_batches_gets_memory_outside_the_pool_and_never_waits() {
        let pool = pool(16 << 10);
        let batch = |pool: &BatchPool| pool.take(8 << 10).unwrap().freeze().unwrap();
        let kept: Vec<BatchMemory> = (0..5)
            .map(|_| {
                let batch = batch(&pool);
                batch.hand_over();
                batch.hand_over();
                batch
            })
            .collect();
        assert_eq!(kept.iter().map(BatchMemory::is_unpooled).collect::<Vec<_>>(), [false, false, true, true, true]);
        drop(kept);
        assert!(!batch(&pool).is_unpooled());
    }

    /// Nodes that test machines do not have, so that the kernel rejects them.
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
        assert_eq!(BatchPool::new(&nothing, None).err().unwrap().kind(), ErrorKind::Config);
    }

    #[test]
    fn nodes_provide_slots_in_turn_and_replace_a_node_that_is_full() {
        let config = BatchPoolConfig { bytes: 32 << 10, slot_bytes: 8 << 10, nodes: nodes(), populate: true };
        let pool = BatchPool::new(&config, None).unwrap();
        let take = || pool.take(8 << 10).unwrap();
        let node = |slot: &BatchSlot| match *slot.backing() {
            Backing::Run(run) => pool.pieces()[run.piece].node().map(|n| n.number),
            Backing::Mapping { .. } => None,
        };
        let mut slots: Vec<BatchSlot> = (0..4).map(|_| take()).collect();
        assert_eq!(slots.iter().map(node).collect::<Vec<_>>(), [Some(62), Some(63), Some(62), Some(63)]);
        slots.remove(3);
        assert_eq!(node(&take()), Some(63), "node 62 would be next, but has no free slot");
        slots.push(take());
        assert!(pool.try_take(8 << 10).is_none(), "the engine holds all slots, whatever their nodes");
        let batches: Vec<BatchMemory> = slots.into_iter().map(|slot| slot.freeze().unwrap()).collect();
        batches.iter().for_each(BatchMemory::hand_over);
        assert!(take().is_unpooled(), "the consumer holds all slots, whatever their nodes");
    }

    #[test]
    fn the_engine_waits_for_its_own_slots() {
        let pool = pool(16 << 10);
        let (first, second) = (pool.take(8 << 10).unwrap(), pool.take(8 << 10).unwrap());
        assert!(pool.try_take(1).is_none());
        let waiting = pool.clone();
        let waiter = std::thread::spawn(move || waiting.take(8 << 10).map(|s| s.freeze().unwrap().is_unpooled()));
        while !pool.stock.runs.has_waiters() {
            std::thread::yield_now();
        }
        let (first, second) = (first.freeze().unwrap(), second.freeze().unwrap());
        first.hand_over();
        assert!(!waiter.is_finished());
        second.hand_over();
        assert!(waiter.join().unwrap().unwrap(), "the consumer holds both");
    }

    #[test]
    fn a_batch_larger_than_every_piece_is_outside_the_pool() {
        let pool = pool(16 << 10);
        let _first = pool.take(1).unwrap();
        let batch = pool.take(1 << 20).unwrap().freeze().unwrap();
        assert!(batch.is_unpooled());
        assert_eq!(pool.take(usize::MAX).unwrap_err().kind(), ErrorKind::Config);
        assert_eq!(pool.take(0).unwrap().len(), 0);
    }

    #[test]
    fn batches_outlive_the_pool_and_closing_rejects_waiting_requests() {
        let pool = pool(8 << 10);
        let mut slot = pool.take(8 << 10).unwrap();
        slot.bytes_mut().unwrap().fill(9);
        let waiting = pool.clone();
        let waiter = std::thread::spawn(move || waiting.take(1).map(|s| s.len()));
        while !pool.stock.runs.has_waiters() {
            std::thread::yield_now();
        }
        pool.stock.close();
        assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        drop(pool);
        let batch = slot.freeze().unwrap();
        assert!(batch.iter().all(|b| *b == 9));
    }
}
