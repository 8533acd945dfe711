//! Batch slots: where samples become tensors.
//!
//! A slot has two lives. While it is a [`BatchSlot`] the engine fills it, row by row, from many threads. Frozen into a
//! [`BatchMemory`] it is immutable and shared, and after [`BatchMemory::hand_over`] the consumer decides how long it
//! lives.

use super::PoolState;
use super::map::{MapOptions, Mapping};
use super::queue::Queue;
use super::register::Registrar;
use super::slab::{BLOCK_BYTES, Free, PIECE_BYTES_MAX, Part, Piece, Run, Slab, in_blocks};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};
use crate::topology::Node;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

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
    fn parts(&self) -> Vec<Part> {
        if self.nodes.is_empty() {
            return vec![Part { bytes: self.bytes, node: None }];
        }
        let slot_bytes = in_blocks(self.slot_bytes.max(1)).unwrap_or(BLOCK_BYTES);
        let (slots, count) = (self.bytes / slot_bytes, self.nodes.len());
        let shares = self.nodes.iter().enumerate().map(|(i, node)| {
            // What is left of `bytes` beside whole slots goes to the last node, which has at least as many as another.
            let rest = if i + 1 == count { self.bytes % slot_bytes } else { 0 };
            let bytes = (slots * (i + 1) / count - slots * i / count) * slot_bytes + rest;
            Part { bytes, node: Some(node.clone()) }
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

struct Shared {
    slab: Slab,
    state: Mutex<State>,
    returned: Condvar,
    options: MapOptions,
    warned: AtomicBool,
    pid: u32,
}

struct State {
    free: Free,
    queue: Queue,
    /// Slots that are being filled or wait to be handed over: these come free, or into the consumer's hands, without
    /// the consumer dropping anything.
    engine_held: usize,
    closed: bool,
    leases: u64,
    waits: u64,
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
            state: Mutex::new(State {
                free,
                queue: Queue::default(),
                engine_held: 0,
                closed: false,
                leases: 0,
                waits: 0,
                unpooled: 0,
            }),
            returned: Condvar::new(),
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
        let mut state = self.shared.state.lock();
        let ticket = state.queue.join();
        let mut waited = false;
        loop {
            if state.closed {
                state.queue.leave(ticket);
                return Err(closed());
            }
            if state.queue.is_front(ticket)
                && let Some(grant) = self.shared.grant(&mut state, need)
            {
                state.queue.leave(ticket);
                state.waits += u64::from(waited);
                let more = !state.queue.is_empty();
                drop(state);
                if more {
                    self.shared.returned.notify_all();
                }
                return self.shared.slot(grant, bytes, need);
            }
            waited = true;
            state = self.shared.returned.wait(state);
        }
    }

    /// A slot of `bytes` if there is one and nobody waits; gives memory outside the pool as [`take`](Self::take) does.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn try_take(&self, bytes: usize) -> Result<Option<BatchSlot>> {
        let need = need(bytes)?;
        let mut state = self.shared.state.lock();
        if state.closed {
            return Err(closed());
        }
        if !state.queue.is_empty() {
            return Ok(None);
        }
        let Some(grant) = self.shared.grant(&mut state, need) else { return Ok(None) };
        drop(state);
        self.shared.slot(grant, bytes, need).map(Some)
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
        let state = self.shared.state.lock();
        PoolState {
            total_bytes: self.shared.slab.total_bytes(),
            free_bytes: state.free.free_bytes(),
            leases: state.leases,
            waits: state.waits,
            unpooled: state.unpooled,
            populated_bytes: self.shared.slab.populated_bytes(),
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the loader was closed while a batch waited for memory")
}

fn need(bytes: usize) -> Result<usize> {
    in_blocks(bytes.max(1))
        .filter(|need| *need <= isize::MAX as usize)
        .ok_or_else(|| Error::config("a batch does not fit the address space").with("batch_bytes", bytes))
}

/// What the pool grants under its lock.
enum Grant {
    /// A run of the slab.
    Run(Run),
    /// The right to memory outside the pool, which is mapped outside the lock.
    Own,
}

/// Where a slot's bytes lie.
enum Home {
    /// In the slab.
    Run(Run),
    /// In a mapping that goes with the slot.
    Own { _map: Mapping },
}

impl Shared {
    fn grant(&self, state: &mut State, need: usize) -> Option<Grant> {
        let grant = match state.free.take(need) {
            Some(run) => Grant::Run(run),
            // Nothing in the engine's hands can come free by itself, or nothing that comes free could be enough.
            None if state.engine_held == 0 || need > self.slab.run_bytes_max() => {
                state.unpooled += 1;
                Grant::Own
            }
            None => return None,
        };
        state.engine_held += 1;
        state.leases += 1;
        Some(grant)
    }

    fn slot(self: &Arc<Self>, grant: Grant, bytes: usize, need: usize) -> Result<BatchSlot> {
        let (home, ptr) = match grant {
            Grant::Run(run) => (Home::Run(run), self.slab.ptr(run)),
            Grant::Own => {
                if !self.warned.swap(true, Ordering::Relaxed) {
                    log::warn!("{}", self.beyond(bytes, need));
                }
                match Mapping::new(need, self.options) {
                    Ok(map) => {
                        let ptr = map.ptr();
                        (Home::Own { _map: map }, ptr)
                    }
                    Err(e) => {
                        self.released();
                        return Err(e.with("batch_bytes", bytes));
                    }
                }
            }
        };
        let held = Held { shared: self.clone(), home, by_engine: AtomicBool::new(true) };
        Ok(BatchSlot { bytes: Arc::new(Bytes { held, ptr, len: bytes }), lent: BTreeMap::new() })
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
    fn released(&self) {
        self.state.lock().engine_held -= 1;
        self.returned.notify_all();
    }

    fn close(&self) {
        if self.pid != std::process::id() {
            return;
        }
        self.slab.stop_populating();
        let mut state = self.state.lock();
        state.closed = true;
        for run in state.free.runs() {
            // SAFETY: the run is free and, the lock being held, stays so.
            unsafe { self.slab.discard(run) };
        }
        drop(state);
        self.returned.notify_all();
    }
}

/// Gives the memory back.
struct Held {
    shared: Arc<Shared>,
    home: Home,
    by_engine: AtomicBool,
}

impl Drop for Held {
    fn drop(&mut self) {
        // In a forked child this is a copy of somebody else's batch, and the lock may be held by a thread that is not
        // there.
        if self.shared.pid != std::process::id() {
            return;
        }
        let mut state = self.shared.state.lock();
        state.engine_held -= usize::from(*self.by_engine.get_mut());
        if let Home::Run(run) = &self.home {
            if state.closed {
                // SAFETY: the run is ours alone until it is given back below, and nobody refers to it any more.
                unsafe { self.shared.slab.discard(*run) };
            }
            state.free.give(*run);
        }
        let waiting = !state.queue.is_empty();
        drop(state);
        if waiting {
            self.shared.returned.notify_all();
        }
    }
}

/// The bytes of one slot.
///
/// Invariant: `ptr .. ptr + len` is mapped while `held` lives, initialised (zeroes or an earlier batch) and lent to this
/// value alone. Before freezing, [`BatchSlot::lent`] keeps the ranges of all `RowMut`s disjoint and nothing else reads or
/// writes; after freezing nobody writes.
struct Bytes {
    held: Held,
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes belong to whoever holds the value, on whatever thread.
unsafe impl Send for Bytes {}
// SAFETY: through `&Bytes` only frozen batches read, and `RowMut`s touch disjoint ranges, by the type's invariant.
unsafe impl Sync for Bytes {}

/// A batch in the making.
pub struct BatchSlot {
    bytes: Arc<Bytes>,
    /// Ranges that were handed out, start to end.
    lent: BTreeMap<usize, usize>,
}

impl BatchSlot {
    /// Length in bytes, as asked for.
    pub fn len(&self) -> usize {
        self.bytes.len
    }

    /// Whether the batch has no bytes (all fields of it are Python objects, say).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the memory is outside the pool, as [`BatchMemory::is_unpooled`] tells later.
    pub fn is_unpooled(&self) -> bool {
        matches!(self.bytes.held.home, Home::Own { .. })
    }

    /// Writable parts, each of which may be used on a thread of its own. A byte is handed out once in a slot's life.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Internal`] when a range ends behind the slot, or overlaps with another or an earlier one; nothing is
    /// handed out then.
    pub fn rows(&mut self, ranges: &[Range<usize>]) -> Result<Vec<RowMut>> {
        let mut lent = Vec::with_capacity(ranges.len());
        for range in ranges {
            if let Err(e) = self.lend(range) {
                lent.iter().for_each(|start| {
                    self.lent.remove(start);
                });
                return Err(e.with("range", format!("{}..{}", range.start, range.end)).with("batch_bytes", self.len()));
            }
            if !range.is_empty() {
                lent.push(range.start);
            }
        }
        Ok(ranges.iter().map(|r| RowMut { bytes: self.bytes.clone(), start: r.start, len: r.len() }).collect())
    }

    fn lend(&mut self, range: &Range<usize>) -> Result<()> {
        if range.start > range.end || range.end > self.len() {
            return Err(Error::internal("a row lies behind its batch"));
        }
        if range.is_empty() {
            return Ok(());
        }
        // Ranges in `lent` are disjoint, so the last one that starts before our end is the only one that can reach in.
        let before = self.lent.range(..range.end).next_back();
        if before.is_some_and(|(_, end)| *end > range.start) {
            return Err(Error::internal("two rows of a batch overlap"));
        }
        self.lent.insert(range.start, range.end);
        Ok(())
    }

    /// Whether rows are still out.
    pub fn has_rows_out(&self) -> bool {
        Arc::strong_count(&self.bytes) > 1
    }

    /// The whole batch, writable, for one thread; `None` while rows are out.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let bytes = Arc::get_mut(&mut self.bytes)?;
        // SAFETY: mapped and initialised by the type's invariant, and `get_mut` has shown that no row is left.
        Some(unsafe { std::slice::from_raw_parts_mut(bytes.ptr.as_ptr(), bytes.len) })
    }

    /// Makes the batch immutable and shared.
    ///
    /// # Errors
    ///
    /// The slot itself, while rows are out: whoever counts rows counts one when it has been dropped, not before.
    pub fn freeze(mut self) -> std::result::Result<BatchMemory, Self> {
        // Nobody writes from here on: rows came from this slot only, which is consumed.
        if Arc::get_mut(&mut self.bytes).is_none() { Err(self) } else { Ok(BatchMemory { bytes: self.bytes }) }
    }
}

impl std::fmt::Debug for BatchSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchSlot").field("len", &self.len()).field("rows_out", &self.has_rows_out()).finish()
    }
}

/// A writable part of a [`BatchSlot`].
pub struct RowMut {
    bytes: Arc<Bytes>,
    start: usize,
    len: usize,
}

impl RowMut {
    /// Splits the first `len` bytes off, for use on another thread; the rest stays here.
    ///
    /// # Panics
    ///
    /// When there are fewer than `len` bytes.
    #[must_use]
    pub fn split_front(&mut self, len: usize) -> Self {
        let front = Self { bytes: self.bytes.clone(), start: self.start, len };
        self.skip_front(len);
        front
    }

    /// Gives the first `len` bytes up; the rest stays here.
    ///
    /// # Panics
    ///
    /// When there are fewer than `len` bytes.
    pub fn skip_front(&mut self, len: usize) {
        assert!(len <= self.len, "{len} of {} bytes", self.len);
        self.start += len;
        self.len -= len;
    }
}

impl Deref for RowMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies within the slot, as `lend` has checked.
        let first = unsafe { self.bytes.ptr.add(self.start) };
        // SAFETY: mapped and initialised by the invariant of `Bytes`, and no other row covers these bytes.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), self.len) }
    }
}

impl DerefMut for RowMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the range lies within the slot, as `lend` has checked.
        let first = unsafe { self.bytes.ptr.add(self.start) };
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference to the row.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for RowMut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowMut({}..{})", self.start, self.start + self.len)
    }
}

/// A finished batch: immutable, reference-counted bytes. The memory goes back to the pool when the last clone is
/// dropped, on whatever thread; if the pool has gone, to the system.
#[derive(Clone)]
pub struct BatchMemory {
    bytes: Arc<Bytes>,
}

impl BatchMemory {
    /// The first byte, on a page boundary; valid for `len()` bytes while a clone of this value lives.
    pub fn ptr(&self) -> NonNull<u8> {
        self.bytes.ptr
    }

    /// Tells the pool that the consumer has the batch from now on, so that nobody in the engine waits for its memory.
    /// The loader calls it when `next` returns; a second call changes nothing.
    pub fn hand_over(&self) {
        if self.bytes.held.by_engine.swap(false, Ordering::AcqRel) {
            self.bytes.held.shared.released();
        }
    }

    /// Whether the memory is outside the pool: not registered with a device, and gone when dropped.
    pub fn is_unpooled(&self) -> bool {
        matches!(self.bytes.held.home, Home::Own { .. })
    }
}

impl Deref for BatchMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped and initialised by the invariant of `Bytes`, and after freezing nobody writes.
        unsafe { std::slice::from_raw_parts(self.bytes.ptr.as_ptr(), self.bytes.len) }
    }
}

impl std::fmt::Debug for BatchMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchMemory").field("len", &self.len()).field("unpooled", &self.is_unpooled()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(bytes: usize) -> BatchPool {
        BatchPool::new(&BatchPoolConfig { bytes, ..BatchPoolConfig::default() }).unwrap()
    }

    #[test]
    fn rows_are_written_on_many_threads_and_the_batch_is_frozen_when_all_are_gone() {
        let pool = pool(1 << 20);
        let mut slot = pool.take(1000).unwrap();
        let ranges: Vec<_> = (0..10).map(|i| i * 100..(i + 1) * 100).collect();
        let rows = slot.rows(&ranges).unwrap();
        assert!(slot.bytes_mut().is_none());
        let slot = slot.freeze().expect_err("rows are out");
        let threads: Vec<_> =
            rows.into_iter().enumerate().map(|(i, mut row)| std::thread::spawn(move || row.fill(i as u8))).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(!slot.has_rows_out());
        let batch = slot.freeze().unwrap();
        assert!(batch.iter().enumerate().all(|(at, b)| *b == (at / 100) as u8));
        assert_eq!(batch.ptr().as_ptr() as usize % 4096, 0);
        let other = batch.clone();
        drop(batch);
        assert_eq!(other.len(), 1000);
        assert!(pool.state().free_bytes < 1 << 20);
        drop(other);
        assert_eq!(pool.state().free_bytes, 1 << 20);
    }

    #[test]
    fn a_byte_is_handed_out_once() {
        let mut slot = pool(1 << 20).take(100).unwrap();
        let first = slot.rows(&[0..10, 20..30]).unwrap();
        for bad in [5..15, 0..10, 15..21, 29..30, 0..100, 90..101] {
            assert!(slot.rows(std::slice::from_ref(&bad)).is_err(), "{bad:?}");
        }
        let wrong_way = Range { start: 50, end: 40 };
        assert!(slot.rows(&[wrong_way]).is_err());
        assert!(slot.rows(&[40..50, 45..55]).is_err());
        assert_eq!(slot.rows(&[40..50, 10..20, 10..10]).unwrap().len(), 3, "a refused call hands nothing out");
        drop(first);
        let again = 0..10;
        assert!(slot.rows(std::slice::from_ref(&again)).is_err(), "not even after the row was dropped");
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
        let node = |slot: &BatchSlot| match slot.bytes.held.home {
            Home::Run(run) => pool.pieces()[run.piece].node().map(|n| n.number),
            Home::Own { .. } => None,
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
        while pool.shared.state.lock().queue.is_empty() {
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
        while pool.shared.state.lock().queue.is_empty() {
            std::thread::yield_now();
        }
        pool.close();
        assert_eq!(waiter.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
        drop(pool);
        let batch = slot.freeze().unwrap();
        assert!(batch.iter().all(|b| *b == 9));
    }
}
