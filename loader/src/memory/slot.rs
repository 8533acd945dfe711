//! Batch slots, in which samples become tensors.
//!
//! A slot has two phases. As a [`BatchSlot`], the engine fills it row by row, from many threads. Frozen into a
//! [`BatchMemory`], it is immutable and shared; after [`BatchMemory::hand_over`] the consumer decides how long it
//! lives.

use super::batch_stock::BatchStock;
use super::slab::Backing;
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

/// Bytes of one slot, which return to the pool when dropped.
///
/// Invariant: `ptr .. ptr + len` is mapped while this value lives, initialised (zeroes or an earlier batch) and lent to
/// it alone. Before freezing, [`BatchSlot::lent`] keeps the ranges of all `RowMut`s disjoint and nothing else reads or
/// writes; after freezing nothing writes.
struct SlotBytes {
    stock: Arc<BatchStock>,
    backing: Backing,
    engine_holds: AtomicBool,
    ptr: NonNull<u8>,
    len: usize,
}

impl Drop for SlotBytes {
    fn drop(&mut self) {
        // In a forked child this is a copy of the parent's batch, and the lock may be held by a thread that does not
        // exist there.
        if self.stock.pid != std::process::id() {
            return;
        }
        // SAFETY: the bytes belong to this value, and there are no references to them when it is dropped.
        unsafe { self.stock.release(&self.backing, *self.engine_holds.get_mut()) };
    }
}

// SAFETY: the bytes belong to the holder of the value, on any thread.
unsafe impl Send for SlotBytes {}
// SAFETY: through `&SlotBytes` only frozen batches read, and `RowMut`s touch disjoint ranges, by the type's invariant.
unsafe impl Sync for SlotBytes {}

/// Batch under construction.
pub struct BatchSlot {
    bytes: Arc<SlotBytes>,
    /// Ends of the ranges that are lent out, by their starts.
    lent: BTreeMap<usize, usize>,
}

impl BatchSlot {
    /// Makes a slot of the `len` bytes at `ptr`, which are in `backing`.
    ///
    /// # Safety
    ///
    /// The bytes are mapped and initialised as long as `backing` lives, and have no further user before `backing` is
    /// released to `stock`.
    pub(super) unsafe fn new(stock: Arc<BatchStock>, backing: Backing, ptr: NonNull<u8>, len: usize) -> Self {
        let bytes = SlotBytes { stock, backing, engine_holds: AtomicBool::new(true), ptr, len };
        Self { bytes: Arc::new(bytes), lent: BTreeMap::new() }
    }

    /// Length in bytes, as requested.
    pub fn len(&self) -> usize {
        self.bytes.len
    }

    /// True if the batch has no bytes, for example because all its fields are Python objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the memory is outside the pool: not registered with a device, and unmapped when dropped.
    pub fn is_unpooled(&self) -> bool {
        matches!(self.bytes.backing, Backing::Mapping { .. })
    }

    /// Returns writable parts, which may be used on separate threads. A byte is lent out once, until all
    /// rows are [reclaimed](Self::reclaim).
    ///
    /// # Errors
    ///
    /// [`Internal`](crate::ErrorKind::Internal) when a range ends after the slot, or overlaps with one of the rest or
    /// an earlier one; nothing is lent out then.
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
            return Err(Error::internal("a row ends after its batch"));
        }
        if range.is_empty() {
            return Ok(());
        }
        // Ranges in `lent` are disjoint, so only the last one that starts before this range's end can overlap with it.
        let before = self.lent.range(..range.end).next_back();
        if before.is_some_and(|(_, end)| *end > range.start) {
            return Err(Error::internal("two rows of a batch overlap"));
        }
        self.lent.insert(range.start, range.end);
        Ok(())
    }

    /// Makes all bytes available to [`rows`](Self::rows) again; returns false while a row exists.
    pub fn reclaim(&mut self) -> bool {
        let is_complete = Arc::get_mut(&mut self.bytes).is_some();
        if is_complete {
            self.lent.clear();
        }
        is_complete
    }

    /// The whole batch, writable, for one thread; `None` while a row exists.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let bytes = Arc::get_mut(&mut self.bytes)?;
        // SAFETY: mapped and initialised by the type's invariant, and `get_mut` shows that no row exists.
        Some(unsafe { std::slice::from_raw_parts_mut(bytes.ptr.as_ptr(), bytes.len) })
    }

    /// Makes the batch immutable and shared.
    ///
    /// # Errors
    ///
    /// The slot itself, while a row exists. A caller that counts finished rows must count a row only after its drop.
    pub fn freeze(mut self) -> std::result::Result<BatchMemory, Self> {
        // Nothing writes after this: rows come from this slot only, which is consumed.
        if Arc::get_mut(&mut self.bytes).is_none() { Err(self) } else { Ok(BatchMemory { bytes: self.bytes }) }
    }
}

impl std::fmt::Debug for BatchSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchSlot").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Writable part of a [`BatchSlot`].
pub struct RowMut {
    bytes: Arc<SlotBytes>,
    start: usize,
    len: usize,
}

impl RowMut {
    /// Offset in the slot, in bytes.
    pub fn offset(&self) -> usize {
        self.start
    }

    /// Splits off the first `len` bytes, for use on a different thread; `self` keeps the rest.
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

    /// Drops the first `len` bytes; `self` keeps the rest.
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
        // SAFETY: the range is within the slot, as `lend` has checked.
        let first = unsafe { self.bytes.ptr.add(self.start) };
        // SAFETY: mapped and initialised by the invariant of `SlotBytes`, and no second row covers these bytes.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), self.len) }
    }
}

impl DerefMut for RowMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the range is within the slot, as `lend` has checked.
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

/// Finished batch: immutable, reference-counted bytes. The memory returns to the pool when the last clone is dropped,
/// on any thread, or to the system if the pool has been dropped.
#[derive(Clone)]
pub struct BatchMemory {
    bytes: Arc<SlotBytes>,
}

impl BatchMemory {
    /// The first byte, on a page boundary; valid for `len()` bytes while a clone of this value lives.
    pub fn ptr(&self) -> NonNull<u8> {
        self.bytes.ptr
    }

    /// Marks the batch as held by the consumer, so that the engine does not wait for its memory. The loader calls this
    /// when `next` returns; a second call has no effect.
    pub fn hand_over(&self) {
        if self.bytes.engine_holds.swap(false, Ordering::AcqRel) {
            self.bytes.stock.engine_releases();
        }
    }
}

impl Deref for BatchMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped and initialised by the invariant of `SlotBytes`, and after freezing nothing writes.
        unsafe { std::slice::from_raw_parts(self.bytes.ptr.as_ptr(), self.bytes.len) }
    }
}

impl std::fmt::Debug for BatchMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchMemory").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{BatchPool, BatchPoolConfig};

    fn pool(bytes: usize) -> BatchPool {
        BatchPool::new(&BatchPoolConfig { bytes, ..BatchPoolConfig::default() }, None).unwrap()
    }

    impl BatchSlot {
        pub(in crate::memory) fn backing(&self) -> &Backing {
            &self.bytes.backing
        }
    }

    impl BatchMemory {
        /// True if the memory is outside the pool.
        pub(in crate::memory) fn is_unpooled(&self) -> bool {
            matches!(self.bytes.backing, Backing::Mapping { .. })
        }
    }

    #[test]
    fn rows_are_written_on_many_threads_and_the_batch_is_frozen_when_all_are_dropped() {
        let pool = pool(1 << 20);
        let mut slot = pool.take(1000).unwrap();
        let ranges: Vec<_> = (0..10).map(|i| i * 100..(i + 1) * 100).collect();
        let rows = slot.rows(&ranges).unwrap();
        assert!(slot.bytes_mut().is_none());
        let slot = slot.freeze().expect_err("rows exist");
        let threads: Vec<_> =
            rows.into_iter().enumerate().map(|(i, mut row)| std::thread::spawn(move || row.fill(i as u8))).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let batch = slot.freeze().unwrap();
        assert!(batch.iter().enumerate().all(|(at, b)| *b == (at / 100) as u8));
        assert_eq!(batch.ptr().as_ptr() as usize % 4096, 0);
        let other = batch.clone();
        drop(batch);
        assert_eq!(other.len(), 1000);
        assert!(pool.free_bytes() < 1 << 20);
        drop(other);
        assert_eq!(pool.free_bytes(), 1 << 20);
    }

    #[test]
    fn a_byte_is_lent_out_once() {
        let mut slot = pool(1 << 20).take(100).unwrap();
        let first = slot.rows(&[0..10, 20..30]).unwrap();
        for bad in [5..15, 0..10, 15..21, 29..30, 0..100, 90..101] {
            assert!(slot.rows(std::slice::from_ref(&bad)).is_err(), "{bad:?}");
        }
        let wrong_way = Range { start: 50, end: 40 };
        assert!(slot.rows(&[wrong_way]).is_err());
        assert!(slot.rows(&[40..50, 45..55]).is_err());
        assert_eq!(slot.rows(&[40..50, 10..20, 10..10]).unwrap().len(), 3, "a rejected call lends nothing out");
        assert!(!slot.reclaim(), "a row exists");
        drop(first);
        let again = 0..10;
        assert!(slot.rows(std::slice::from_ref(&again)).is_err(), "not even after the row was dropped");
        assert!(slot.reclaim());
        let row = slot.rows(std::slice::from_ref(&again)).unwrap();
        assert!(slot.rows(std::slice::from_ref(&again)).is_err(), "lent out again, but only once");
        drop(row);
    }

    #[test]
    fn the_front_of_a_row_can_be_dropped_or_split_off() {
        let mut slot = pool(1 << 20).take(10).unwrap();
        let mut rest = slot.rows(std::slice::from_ref(&(0..10))).unwrap().remove(0);
        rest.skip_front(2);
        let mut front = rest.split_front(3);
        front.fill(1);
        rest.fill(2);
        drop((front, rest));
        assert_eq!(slot.bytes_mut().unwrap(), [0, 0, 1, 1, 1, 2, 2, 2, 2, 2]);
    }
}
