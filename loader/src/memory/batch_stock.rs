//! Memory of a batch pool, and the rules by which it is granted.

use super::map::MapOptions;
use super::slab::{Backing, FreeRuns, Grant, Slab, in_blocks};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicBool, Ordering};
use forebay_core::flow::{Closed, FairPool};
use std::ptr::NonNull;

/// Batches outside the pool that a program holds although it drops each batch after its step. JAX's CPU devices queue
/// up to 32 steps, each with its batch, and the loop holds a few more.
const QUEUED_BATCHES_MAX: usize = 40;

/// Memory of a batch pool, shared by the pool and all slots taken from it.
pub(super) struct BatchStock {
    pub(super) slab: Slab,
    pub(super) runs: FairPool<Runs>,
    options: MapOptions,
    /// True once the warning was logged that batches are larger than the pool, or that they fill more than its size.
    warned: AtomicBool,
    pub(super) pid: u32,
}

/// Free memory, and a count of the memory in use.
pub(super) struct Runs {
    pub(super) free: FreeRuns,
    /// Slots that are being filled or wait for delivery. These become free, or reach the consumer, even if the consumer
    /// drops no batch.
    engine_held: usize,
    /// Bytes outside the pool that are in use.
    outside_bytes: usize,
}

impl BatchStock {
    pub(super) fn new(slab: Slab, free: FreeRuns, options: MapOptions) -> Self {
        Self {
            slab,
            runs: FairPool::new(Runs { free, engine_held: 0, outside_bytes: 0 }),
            options,
            warned: AtomicBool::new(false),
            pid: std::process::id(),
        }
    }

    /// Waits for memory for `bytes` bytes, after earlier requests; `None` once `is_over`.
    pub(super) fn take_unless(
        &self,
        bytes: usize,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<(Backing, NonNull<u8>)>> {
        let need = need(bytes)?;
        let grant = self.runs.take_unless(|runs| self.grant(runs, need), is_over);
        let grant = grant
            .map_err(|Closed| Error::new(ErrorKind::Closed, "the loader was closed while a batch waited for memory"))?;
        grant.map(|grant| self.backing(grant, bytes, need)).transpose()
    }

    fn grant(&self, runs: &mut Runs, need: usize) -> Option<Grant> {
        let grant = match runs.free.take(need) {
            Some(run) => Grant::Run(run),
            // The engine holds no slot that could become free, or no free run would be long enough.
            None if runs.engine_held == 0 || need > self.slab.run_bytes_max() => {
                runs.outside_bytes += need;
                Grant::Mapping
            }
            None => return None,
        };
        runs.engine_held += 1;
        Some(grant)
    }

    fn backing(&self, grant: Grant, bytes: usize, need: usize) -> Result<(Backing, NonNull<u8>)> {
        let is_outside = matches!(grant, Grant::Mapping);
        if is_outside && let Some(warning) = self.warning(bytes, need) {
            // A program that keeps small batches does so on purpose.
            let level = if bytes < 1 << 20 { log::Level::Debug } else { log::Level::Warn };
            log::log!(level, "{warning}");
        }
        self.slab.backing(grant, need, self.options).map_err(|e| {
            self.runs.release(|runs, _| {
                runs.engine_held -= 1;
                runs.outside_bytes -= if is_outside { need } else { 0 };
            });
            e.with("batch_bytes", bytes)
        })
    }

    /// Returns the warning about a batch outside the pool, once: why there are such batches, and how to avoid them.
    ///
    /// A program that queues steps ahead of a device takes a constant amount of memory: there is no warning until the
    /// memory outside the pool exceeds both the pool and the batches of such a queue.
    fn warning(&self, bytes: usize, need: usize) -> Option<String> {
        let pool = self.slab.total_bytes();
        let warning = if need > self.slab.run_bytes_max() {
            format!(
                "a batch of {bytes} bytes is larger than the {pool} bytes reserved for batches, so each batch takes \
                 additional memory: raise `memory`, or lower `batch_size`"
            )
        } else {
            let outside = self.runs.inspect(|runs| runs.outside_bytes);
            if outside <= pool.max(need.saturating_mul(QUEUED_BATCHES_MAX)) {
                return None;
            }
            format!(
                "earlier batches are still in use: they fill the {pool} bytes reserved for batches and {outside} bytes \
                 of additional memory. This is fine if the program keeps batches on purpose; otherwise drop batches \
                 after use, or copy the part that is kept. This warning is not repeated"
            )
        };
        (!self.warned.swap(true, Ordering::Relaxed)).then_some(warning)
    }

    /// Counts one slot less in the hands of the engine.
    pub(super) fn engine_releases(&self) {
        self.runs.release(|runs, _| runs.engine_held -= 1);
    }

    /// Returns the memory of a slot to the pool. `by_engine`: the engine held the slot.
    ///
    /// # Safety
    ///
    /// There are no references to the bytes any more.
    pub(super) unsafe fn release(&self, backing: &Backing, by_engine: bool) {
        self.runs.release(|runs, closed| {
            runs.engine_held -= usize::from(by_engine);
            runs.outside_bytes -= backing.mapped_bytes();
            // SAFETY: passed on to the caller.
            unsafe { self.slab.release(&mut runs.free, backing, !closed) };
        });
    }

    pub(super) fn close(&self) {
        if self.pid != std::process::id() {
            return;
        }
        self.slab.stop_populating();
        self.runs.close(|runs| {
            for run in runs.free.runs() {
                // SAFETY: the run is free, and stays free while the lock is held.
                unsafe { self.slab.discard(run) };
            }
        });
    }
}

fn need(bytes: usize) -> Result<usize> {
    in_blocks(bytes.max(1))
        .filter(|need| *need <= isize::MAX as usize)
        .ok_or_else(|| Error::config("a batch does not fit the address space").with("batch_bytes", bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::slab::NodeShare;

    impl BatchStock {
        /// Like [`take_unless`](Self::take_unless), but without a wait.
        pub(in crate::memory) fn try_take(&self, bytes: usize) -> Option<(Backing, NonNull<u8>)> {
            let need = need(bytes).unwrap();
            let grant = self.runs.try_take(|runs| self.grant(runs, need)).unwrap();
            grant.map(|grant| self.backing(grant, bytes, need).unwrap())
        }
    }

    fn stock(bytes: usize) -> BatchStock {
        let (slab, free) = Slab::new(&[NodeShare { bytes, node: None }], 1 << 30, false, None).unwrap();
        BatchStock::new(slab, free, MapOptions::default())
    }

    /// Takes a batch of `bytes` bytes outside the pool, which the consumer then holds.
    fn outside(stock: &BatchStock, bytes: usize) -> Backing {
        stock.runs.release(|runs, _| {
            runs.engine_held += 1;
            runs.outside_bytes += bytes;
        });
        let (backing, _) = stock.backing(Grant::Mapping, bytes, bytes).unwrap();
        stock.engine_releases();
        backing
    }

    fn is_warned(stock: &BatchStock) -> bool {
        stock.warned.load(Ordering::Relaxed)
    }

    #[test]
    fn a_queue_of_batches_in_use_is_no_warning_and_more_and_more_are_one() {
        let stock = stock(16 << 10);
        // As a program that queues steps ahead of a device: each batch is dropped after a few more.
        let mut queue: std::collections::VecDeque<Backing> =
            (0..QUEUED_BATCHES_MAX).map(|_| outside(&stock, 4 << 10)).collect();
        for _ in 0..100 {
            let oldest = queue.pop_front().unwrap();
            // SAFETY: the test holds no reference to the bytes.
            unsafe { stock.release(&oldest, false) };
            queue.push_back(outside(&stock, 4 << 10));
        }
        assert!(!is_warned(&stock));
        queue.push_back(outside(&stock, 4 << 10));
        assert!(is_warned(&stock));
        assert_eq!(stock.warning(4 << 10, 4 << 10), None, "the warning is not repeated");
        for batch in queue {
            // SAFETY: as above.
            unsafe { stock.release(&batch, false) };
        }
        assert_eq!(stock.runs.inspect(|runs| runs.outside_bytes), 0);
    }

    #[test]
    fn the_two_reasons_for_unpooled_memory_have_their_own_messages() {
        let small = stock(16 << 10);
        assert!(small.warning(9, 32 << 10).unwrap().contains("raise `memory`"));
        let full = stock(16 << 10);
        full.runs.release(|runs, _| runs.outside_bytes = 4096 * QUEUED_BATCHES_MAX + 1);
        assert!(full.warning(9, 4096).unwrap().contains("still in use: they fill the 16384 bytes reserved"));
    }
}
