//! Mappings of at most 1 GiB, each on one NUMA node, cut into runs of blocks.

use super::extents::Extents;
use super::map::{MapOptions, Mapping};
use super::populate::Populate;
use super::register::{Registrar, Registration};
use crate::error::{Error, Result};
use crate::sync::{Arc, AtomicUsize, OnceLock, Ordering};
use crate::topology::Node;
use std::ptr::NonNull;

/// Runs start and end on this boundary: a page, and no less than what O_DIRECT asks for on the disks that we serve.
pub const BLOCK_BYTES: usize = 4096;

/// The kernel registers at most 1 GiB as one fixed buffer; one byte more is EFAULT.
pub const PIECE_BYTES_MAX: usize = 1 << 30;

/// `len` in whole blocks; `None` where that overflows.
pub(super) fn in_blocks(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(BLOCK_BYTES)
}

/// What of a slab lies on one node.
#[derive(Clone, Debug)]
pub(super) struct NodeShare {
    pub bytes: usize,
    /// `None`: wherever it is touched first.
    pub node: Option<Node>,
}

/// One mapping of a slab, as those see it who register it with a ring.
#[derive(Clone, Debug)]
pub struct Piece {
    shared: Arc<PieceMap>,
}

#[derive(Debug)]
struct PieceMap {
    map: Mapping,
    /// Bytes from the start that have pages.
    populated: AtomicUsize,
    node: Option<Node>,
}

impl Piece {
    /// The first byte; valid for [`len`](Self::len) bytes for as long as this value lives.
    pub fn ptr(&self) -> NonNull<u8> {
        self.shared.map.ptr()
    }

    /// Length in bytes, at most 1 GiB.
    #[expect(clippy::len_without_is_empty, reason = "a piece is never empty")]
    pub fn len(&self) -> usize {
        self.shared.map.len()
    }

    /// Whether all pages are there, so that registering takes milliseconds and not the time of a first touch.
    pub fn is_populated(&self) -> bool {
        self.populated_bytes() == self.len()
    }

    /// The NUMA node whose memory is preferred; `None`: that of the thread which touches a page first.
    pub fn node(&self) -> Option<&Node> {
        self.shared.node.as_ref()
    }

    pub(super) fn populated_bytes(&self) -> usize {
        self.shared.populated.load(Ordering::Acquire)
    }

    /// Populates the next `step` bytes. False when the system refuses.
    pub(super) fn populate_next(&self, step: usize) -> bool {
        let at = self.populated_bytes();
        let len = step.min(self.len() - at);
        let done = self.shared.map.populate(at, len);
        if done {
            self.shared.populated.store(at + len, Ordering::Release);
        }
        done
    }
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

/// What a pool grants under its lock.
pub(super) enum Grant {
    /// A run of the slab.
    Run(Run),
    /// The right to memory outside the slab, which is mapped outside the lock.
    Mapping,
}

/// Where granted bytes lie.
pub(super) enum Backing {
    /// In the slab.
    Run(Run),
    /// In a mapping that goes with its holder.
    Mapping { _map: Mapping },
}

/// The memory of a pool. What is free is kept beside it, under the pool's lock.
///
/// Invariant: the pieces are mapped while the slab lives, and two runs that [`FreeRuns`] has lent out never overlap.
pub(super) struct Slab {
    /// Ended before the memory goes: fields drop in order.
    registrations: Vec<Box<dyn Registration>>,
    /// Stops and joins its thread when dropped; `None` where the system refused a thread.
    populate: OnceLock<Option<Populate>>,
    pieces: Vec<Piece>,
    pid: u32,
}

impl Drop for Slab {
    fn drop(&mut self) {
        // A forked child has neither the device's context nor the pages: nothing is ended there.
        if self.pid != std::process::id() {
            self.registrations.drain(..).for_each(std::mem::forget);
        }
    }
}

impl Slab {
    /// Each of `parts` in pieces of at most `piece_bytes_max`, and the table of what is free.
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
            let mut left = total;
            while left > 0 {
                let len = each.min(left);
                let map = Mapping::new(len, options)?;
                let piece = PieceMap { map, populated: AtomicUsize::new(0), node: node.clone() };
                pieces.push(Piece { shared: Arc::new(piece) });
                left -= len;
            }
        }
        let registrations = match registrar {
            None => Vec::new(),
            Some(registrar) => {
                pieces.iter().map(|p| registrar.register(p.ptr().as_ptr(), p.len())).collect::<Result<_>>()?
            }
        };
        let free = FreeRuns { extents: pieces.iter().map(|p| Extents::new(p.len())).collect(), first_of_part, turn: 0 };
        Ok((Self { registrations, populate: OnceLock::new(), pieces, pid: std::process::id() }, free))
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether a device copies from this piece without a detour.
    pub(super) fn is_registered(&self, piece: usize) -> bool {
        self.registrations.get(piece).is_some_and(|registration| registration.is_direct())
    }

    pub(super) fn total_bytes(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum()
    }

    pub(super) fn populated_bytes(&self) -> usize {
        self.pieces.iter().map(Piece::populated_bytes).sum()
    }

    /// The longest run that can be lent out.
    pub(super) fn run_bytes_max(&self) -> usize {
        self.pieces.iter().map(Piece::len).max().unwrap_or(0)
    }

    /// The first byte of `run`.
    pub(super) fn ptr(&self, run: Run) -> NonNull<u8> {
        let piece = &self.pieces[run.piece];
        debug_assert!(run.at + run.len <= piece.len());
        // SAFETY: a run comes from this slab's `FreeRuns`, which cuts runs within the length of the piece.
        unsafe { piece.ptr().add(run.at) }
    }

    /// Where the `bytes` bytes of `grant` lie, and the first of them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) when a mapping of its own is refused.
    pub(super) fn backing(&self, grant: Grant, bytes: usize, options: MapOptions) -> Result<(Backing, NonNull<u8>)> {
        match grant {
            Grant::Run(run) => Ok((Backing::Run(run), self.ptr(run))),
            Grant::Mapping => {
                let map = Mapping::new(bytes, options)?;
                let ptr = map.ptr();
                Ok((Backing::Mapping { _map: map }, ptr))
            }
        }
    }

    /// Takes the memory back into `free`, and gives its pages to the system if nobody will `ask_again` for them. A mapping of
    /// its own goes with its holder.
    ///
    /// # Safety
    ///
    /// Nobody may refer to the bytes any more.
    pub(super) unsafe fn release(&self, free: &mut FreeRuns, backing: &Backing, ask_again: bool) {
        let Backing::Run(run) = backing else { return };
        if !ask_again {
            // SAFETY: passed on to the caller; the run is granted to nobody else before it is free.
            unsafe { self.discard(*run) };
        }
        free.give(*run);
    }

    /// Gives the pages of a run back to the system and keeps the addresses.
    ///
    /// # Safety
    ///
    /// Nobody may refer to the run: it is free, or the caller is its only holder.
    pub(super) unsafe fn discard(&self, run: Run) {
        // SAFETY: passed on to the caller.
        unsafe { self.pieces[run.piece].shared.map.discard(run.at, run.len) };
    }

    /// Has a thread make the pages in the background, once.
    pub(super) fn start_populating(&self) {
        // A refused thread costs only the early population.
        self.populate.get_or_init(|| Populate::start(self.pieces.clone()).ok());
    }

    /// Ends the background population without waiting for it.
    pub(super) fn stop_populating(&self) {
        if let Some(Some(populate)) = self.populate.get() {
            populate.stop();
        }
    }
}

/// What is free in a slab.
#[derive(Debug)]
pub(super) struct FreeRuns {
    /// One for each piece.
    extents: Vec<Extents>,
    /// The first piece of each part.
    first_of_part: Vec<usize>,
    /// The part that the next run is looked for first in.
    turn: usize,
}

impl FreeRuns {
    /// Takes a run of `len` bytes, a multiple of the block. The parts have their turns at being asked first; a run is
    /// found while any piece has one.
    pub(super) fn take(&mut self, len: usize) -> Option<Run> {
        debug_assert!(len.is_multiple_of(BLOCK_BYTES));
        let (first, pieces) = (self.first_of_part[self.turn], self.extents.len());
        let run = (first..pieces)
            .chain(0..first)
            .find_map(|piece| self.extents[piece].take(len).map(|at| Run { piece, at, len }))?;
        self.turn = (self.turn + 1) % self.first_of_part.len();
        Some(run)
    }

    pub(super) fn give(&mut self, run: Run) {
        self.extents[run.piece].give(run.at, run.len);
    }

    pub(super) fn free_bytes(&self) -> usize {
        self.extents.iter().map(Extents::free_bytes).sum()
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let runs =
            |(piece, e): (usize, &Extents)| e.runs().map(move |(at, len)| Run { piece, at, len }).collect::<Vec<_>>();
        self.extents.iter().enumerate().flat_map(runs)
    }
}
