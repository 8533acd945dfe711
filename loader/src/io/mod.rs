//! Reads of samples from shards on local disk.
//!
//! ```text
//!   ReadRequest { file, offset, into: ReadLease }
//!        |
//!     submit --- all in the page cache? --- copied at once ------------------------+
//!        | no                                                                      |
//!        +-- uring: O_DIRECT, fixed buffers, deep queue ---+                       v
//!        +-- pread: the same reads on a few threads -------+--- ReadOp::step --> Completion, by wait
//! ```
//!
//! `reader` has the trait, [`Reader`]; one thread drives each. `op` interprets the results of all readers (short reads,
//! interrupted calls, a file system without O_DIRECT, every error number), and one test body (`tests::contract`) runs
//! for all.
//!
//! * [`reader()`] selects the implementation by [`probe`]: without io_uring (seccomp, gVisor, locked-memory limits) it
//!   is the pread threads, with one note in the statistics.
//! * Data in the page cache is copied on the calling thread, by one call, at the cost of plain pread. A query of the
//!   page cache takes 0.2 microseconds and is skipped while a file keeps being hot. Registered buffers and queues gain
//!   nothing there. Cold data is read with O_DIRECT, where a queue of 16 is 2.4 times as fast as one read at a time.
//! * `compare` notices that a file was replaced or changed while a job was running.
//! * `blocking` is for all remaining reads and writes: offset tables, random access, shards.

mod blocking;
mod compare;
mod file;
mod op;
mod pread;
mod reader;
mod ready;
mod regular;
mod select;
mod uring;

#[cfg(test)]
mod tests;

pub use blocking::read_exact_at;
pub(crate) use blocking::{WRITE_PIECE_BYTES, read_exact_uninit_at, read_up_to_at, write_pieces};
pub(crate) use compare::compare;
pub(crate) use file::descriptors_max;
pub use file::{DirFeatures, ShardFile, open};
pub use reader::{Completion, DEPTH_DEFAULT, DEPTH_MAX, Engine, IoConfig, ReadRequest, Reader};
pub use regular::read_regular;
pub(crate) use regular::{open_regular, read_whole};
pub use select::reader;
pub use uring::probe;
