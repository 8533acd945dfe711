//! Mappings of at most 1 GiB, each on one NUMA node, cut into runs of blocks.

use super::map::{MapOptions, Mapping};
use super::piece::Piece;
use super::populate::Populate;
use super::register::{Registrar, Registration};
use crate::error::{Error, Result};
use crate::sync::OnceLock;
use crate::topology::Node;
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Alignment of runs: a page, which is also enough for O_DIRECT on the supported disks.
pub const BLOCK_BYTES: usize = 4096;

/// Longest mapping. The kernel registers at most 1 GiB as one fixed buffer and fails with EFAULT above.
pub const PIECE_BYTES_MAX: usize = 1 << 30;

/// `len` rounded up to whole blocks; `None` if that overflows.
pub(super) fn in_blocks(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(BLOCK_BYTES)
}

/// Part of a slab on one node.
#[derive(Clone, Debug)]
pub(super) struct NodeShare {
    pub bytes: usize,
    /// `None`: pages come from the node of the thread that touches them first.
    pub node: Option<Node>,
}

/// A run of blocks of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Index of the piece.
    pub piece: usize,
    /// Offset in the piece, in bytes.
    pub at: usize,
    /// Length in bytes, a multiple of the block.
    pub len: usize,
}

/// Memory granted under a pool's lock.
pub(super) enum Grant {
    /// A run of the slab.
    Run(Run),
    /// A separate mapping, which is made after the lock has been released.
    Mapping,
}

/// Memory of a granted slot.
pub(super) enum Backing {
    /// A run of the slab.
    Run(Run),
    /// A mapping that is unmapped with its holder.
    Mapping { map: Mapping },
}

impl Backing {
    /// Bytes outside the slab.
    pub(super) fn mapped_bytes(&self) -> usize {
        match self {
            Self::Run(_) => 0,
            Self::Mapping { map } => map.len(),
        }
    }
}

/// Memory of a pool. [`FreeRuns`] keeps track of the free parts, under the pool's lock.
///
/// Invariant: the pieces are mapped while the slab lives, and two runs that [`FreeRuns`] has lent out never overlap.
pub(super) struct Slab {
    /// Ends before the memory is unmapped: fields drop in order.
    registrations: Vec<Box<dyn Registration>>,
    /// Stops and joins its thread when dropped; `None` where the system refused a thread.
    populate: OnceLock<Option<Populate>>,
    pieces: Vec<Piece>,
    pid: u32,
}

impl Drop for Slab {
    fn drop(&mut self) {
        // A forked child has neither the device's context nor the pages, so its copies of the registrations must not
        // end.
        if self.pid != std::process::id() {
            self.registrations.drain(..).for_each(std::mem::forget);
        }
    }
}

impl Slab {
    /// Maps each of `parts` in pieces of at most `piece_bytes_max`. Returns the slab and its free runs.
    pub(super) fn new(
        parts: &[NodeShare],
        piece_bytes_max: usize,
        dont_fork: bool,
        registrar: Option<&dyn Registrar>,
    ) -> Result<(Self, FreeRuns)> {
        let none = || Error::config("a pool must have at least one byte and fit the address space");
        if parts.is_empty() {
            return Err(none());
        }
        let piece_bytes_max = piece_bytes_max.clamp(BLOCK_BYTES, PIECE_BYTES_MAX) / BLOCK_BYTES * BLOCK_BYTES;
        let (mut pieces, mut first_of_part) = (Vec::new(), Vec::new());
        for NodeShare { bytes, node } in parts {
            let total = in_blocks(*bytes).filter(|t| *t > 0).ok_or_else(|| none().with("bytes", bytes))?;
            let options = MapOptions { dont_fork, node: node.as_ref().map(|n| n.number) };
            let count = total.div_ceil(piece_bytes_max);
            // Pieces of one size, so that none is a remnant too small for a sample.
            let each = in_blocks(total.div_ceil(count)).unwrap_or(piece_bytes_max);
            first_of_part.push(pieces.len());
            let mut remaining = total;
            while remaining > 0 {
                let len = each.min(remaining);
                let map = Mapping::new(len, options)?;
                pieces.push(Piece::new(map, node.clone()));
                remaining -= len;
            }
        }
        let registrations = match registrar {
            None => Vec::new(),
            Some(registrar) => {
                pieces.iter().map(|p| registrar.register(p.ptr().as_ptr(), p.len())).collect::<Result<_>>()?
            }
        };
        let free = pieces.iter().enumerate().map(|(i, piece)| ((i, 0), piece.len())).collect();
        let free = FreeRuns { free, first_of_part, turn: 0 };
        Ok((Self { registrations, populate: OnceLock::new(), pieces, pid: std::process::id() }, free))
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// True if a device copies from this piece directly.
    pub(super) fn is_registered(&self, piece: usize) -> bool {
        self.registrations.get(piece).is_some_and(|registration| registration.is_direct())
    }

    pub(super) fn total_bytes(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum()
    }

    /// The longest run that the slab can hold.
    pub(super) fn run_bytes_max(&self) -> usize {
        self.pieces.iter().map(Piece::len).max().unwrap_or(0)
    }

    /// Returns the memory for `grant`, which has `bytes` bytes, and the address of the first byte.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) when a separate mapping is refused.
    pub(super) fn backing(&self, grant: Grant, bytes: usize, options: MapOptions) -> Result<(Backing, NonNull<u8>)> {
        match grant {
            Grant::Run(run) => {
                let piece = &self.pieces[run.piece];
                debug_assert!(run.at + run.len <= piece.len());
                // SAFETY: a run comes from this slab's `FreeRuns`, which cuts runs within the length of the piece.
                let ptr = unsafe { piece.ptr().add(run.at) };
                Ok((Backing::Run(run), ptr))
            }
            Grant::Mapping => {
                let map = Mapping::new(bytes, options)?;
                let ptr = map.ptr();
                Ok((Backing::Mapping { map }, ptr))
            }
        }
    }

    /// Returns a run to `free`, and its pages to the system unless the run is `reused`. Does nothing for a
    /// separate mapping.
    ///
    /// # Safety
    ///
    /// There are no references to the bytes any more.
    pub(super) unsafe fn release(&self, free: &mut FreeRuns, backing: &Backing, reused: bool) {
        let Backing::Run(run) = backing else { return };
        if !reused {
            // SAFETY: passed on to the caller; the run is not granted again before it is free.
            unsafe { self.discard(*run) };
        }
        free.insert(*run);
    }

    /// Returns the pages of a run to the system and keeps the addresses.
    ///
    /// # Safety
    ///
    /// There are no references to the run: it is free, or the caller is its only holder.
    pub(super) unsafe fn discard(&self, run: Run) {
        // SAFETY: passed on to the caller.
        unsafe { self.pieces[run.piece].map.discard(run.at, run.len) };
    }

    /// Starts a thread that populates the pages, once.
    pub(super) fn start_populating(&self) {
        // Without the thread, pages are populated on first touch.
        self.populate.get_or_init(|| Populate::start(self.pieces.clone()).ok());
    }

    #[cfg(test)]
    pub(super) fn is_populating(&self) -> bool {
        self.populate.get().is_some()
    }

    /// Stops the background population without waiting for its thread.
    pub(super) fn stop_populating(&self) {
        if let Some(Some(populate)) = self.populate.get() {
            populate.stop();
        }
    }
}

/// Free runs of a slab.
#[derive(Debug)]
pub(super) struct FreeRuns {
    /// Length of each run in bytes, by piece and start. Runs neither touch nor overlap.
    free: BTreeMap<(usize, usize), usize>,
    /// The first piece of each part.
    first_of_part: Vec<usize>,
    /// The part that is searched first for the next run.
    turn: usize,
}

impl FreeRuns {
    /// Takes a run of `len` bytes, a multiple of the block. Calls begin their search at the parts in turn, and search
    /// all pieces, the lowest address of each first, since pages are populated from the start of a piece.
    pub(super) fn take(&mut self, len: usize) -> Option<Run> {
        debug_assert!(len.is_multiple_of(BLOCK_BYTES));
        let first = (self.first_of_part[self.turn], 0);
        let in_order = self.free.range(first..).chain(self.free.range(..first));
        let (&(piece, at), &free) = in_order.into_iter().find(|(_, free)| **free >= len)?;
        self.free.remove(&(piece, at));
        if free > len {
            self.free.insert((piece, at + len), free - len);
        }
        self.turn = (self.turn + 1) % self.first_of_part.len();
        Some(Run { piece, at, len })
    }

    /// Makes a run free again.
    pub(super) fn insert(&mut self, Run { piece, mut at, mut len }: Run) {
        if let Some((&(_, before), &free)) = self.free.range((piece, 0)..(piece, at)).next_back() {
            debug_assert!(before + free <= at, "a run is returned once");
            if before + free == at {
                self.free.remove(&(piece, before));
                (at, len) = (before, free + len);
            }
        }
        if let Some(free) = self.free.remove(&(piece, at + len)) {
            len += free;
        }
        self.free.insert((piece, at), len);
    }

    pub(super) fn bytes(&self) -> usize {
        self.free.values().sum()
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.free.iter().map(|(&(piece, at), &len)| Run { piece, at, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free runs of one piece per part.
    fn free(blocks: &[usize]) -> FreeRuns {
        let pieces = blocks.iter().enumerate().map(|(piece, blocks)| ((piece, 0), blocks * BLOCK_BYTES));
        FreeRuns { free: pieces.collect(), first_of_part: (0..blocks.len()).collect(), turn: 0 }
    }

    fn run(piece: usize, at: usize, len: usize) -> Run {
        Run { piece, at: at * BLOCK_BYTES, len: len * BLOCK_BYTES }
    }

    #[test]
    fn runs_returned_in_any_order_merge_into_one_per_piece() {
        let mut seed = 7_u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let mut free = free(&[1000, 500]);
        let mut taken: Vec<Run> = Vec::new();
        for _ in 0..10_000 {
            match free.take((1 + random(90)) * BLOCK_BYTES) {
                Some(run) if random(3) > 0 => {
                    assert!(run.at + run.len <= [1000, 500][run.piece] * BLOCK_BYTES);
                    let is_apart = |t: &Run| t.piece != run.piece || run.at + run.len <= t.at || t.at + t.len <= run.at;
                    assert!(taken.iter().all(is_apart), "runs never overlap");
                    taken.push(run);
                }
                Some(run) => free.insert(run),
                None => free.insert(taken.swap_remove(random(taken.len()))),
            }
            let sum = |runs: &mut dyn Iterator<Item = Run>| runs.map(|run| run.len).sum::<usize>();
            assert_eq!(sum(&mut free.runs()) + sum(&mut taken.iter().copied()), 1500 * BLOCK_BYTES);
        }
        taken.into_iter().for_each(|run| free.insert(run));
        assert_eq!(free.runs().collect::<Vec<_>>(), [run(0, 0, 1000), run(1, 0, 500)]);
    }

    #[test]
    fn the_lowest_run_that_fits_is_used_first() {
        let mut free = free(&[100]);
        let take = |free: &mut FreeRuns, len| free.take(len * BLOCK_BYTES);
        let taken = [10, 20, 30].map(|len| take(&mut free, len).unwrap());
        assert_eq!(taken, [run(0, 0, 10), run(0, 10, 20), run(0, 30, 30)]);
        free.insert(taken[0]);
        free.insert(taken[2]);
        assert_eq!(take(&mut free, 20), Some(run(0, 30, 20)));
        assert_eq!(take(&mut free, 10), Some(run(0, 0, 10)));
        assert_eq!(take(&mut free, 1000), None);
    }
}
