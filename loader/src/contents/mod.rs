//! Contents of objects in sequence: their bytes, lines of texts, files of tars. Nothing is indexed or converted.
//!
//! ```text
//!   push(Wanted) --> Pieces: ranges of the objects in flight, in order, in memory that is used again
//!                       | Bytes
//!                       v
//!                    Content: the bytes of one object, unpacked if it is compressed
//!                       |
//!                       +--> stored: the pieces as they are
//!                       +--> lines:  LineBatch: lines as they are in a piece, or one that is in several
//!                       '--> tars:   ForwardArchive --> format::tar::Members --> TarPart: a file, or more of its bytes
//!                       |
//!                       v  a few of them ahead
//!   next() <-------- Ahead: the thread that does all of this, which the consumer drops
//! ```
//!
//! A piece is a range of an object, of at most [`BLOCK_BYTES`]. It is shared, not copied, until the consumer copies
//! lines or files out of it, and its memory is used for a later range then: new memory costs a page fault per 4 KiB,
//! more than the copy.

mod ahead;
mod archive;
mod blocks;
mod content;
mod lines;
mod packing;
mod pieces;
mod stored;
mod tars;
#[cfg(test)]
mod tests;

pub use ahead::{Ahead, Event};
pub use lines::{LineBatch, lines};
pub use packing::Packing;
pub use pieces::Wanted;
pub use stored::stored;
pub use tars::{TarPart, tar_files};

/// Bounds of the memory for contents.
#[derive(Clone, Copy, Debug)]
pub struct ContentLimits {
    /// Most bytes of objects that are in flight or ready.
    pub bytes: u64,
    /// Most bytes of the window of an object that is compressed by zstd; `None` for the largest that there are.
    pub window_bytes: Option<u64>,
}

impl ContentLimits {
    /// At most `bytes` in flight or ready, and windows of any size.
    pub fn of_bytes(bytes: u64) -> Self {
        Self { bytes, window_bytes: None }
    }
}

/// Most bytes of a range.
const BLOCK_BYTES: usize = 8 << 20;
