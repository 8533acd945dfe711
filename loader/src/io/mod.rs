//! Reading samples out of shards on local disk.
//!
//! ```text
//!   ReadRequest { file, offset, into: ReadLease }
//!        |
//!     submit --- all in the page cache? --- copied at once ------------------------+
//!        | no                                                                      |
//!        +-- uring: O_DIRECT, fixed buffers, deep queue ---+                       v
//!        +-- pread: the same reads on a few threads -------+--- Op::step ---> Completion, by wait
//! ```
//!
//! One trait, [`Reader`]; one thread drives each. What happens to a result (short reads, interrupted calls, a file
//! system that refuses O_DIRECT, every error number) is decided in one place, `op`, for all of them, and one test body
//! (`tests::contract`) runs for all.
//!
//! * [`reader`] picks the implementation by [`probe`]: a refused io_uring (seccomp, gVisor, locked-memory limits) means
//!   the pread threads and one note in the statistics.
//! * Data hot in the page cache is copied on the calling thread, by one call, which is what plain pread costs; asking
//!   takes 0.2 microseconds and is left out while a file keeps being hot. Registered buffers and queues bring nothing
//!   there. Cold data goes past the page cache, where a queue of 16 is 2.4 times as fast as one read at a time.
//! * [`read_exact_at`] and [`write_pieces`] are for the small and the large rest: offset tables, random access, shards.

mod file;
mod op;
mod pread;
mod ready;
mod uring;
mod whole;

#[cfg(test)]
mod tests;

pub use file::{Directory, ShardFile, open};
pub use pread::PreadReader;
pub use uring::{Probe, UringReader, probe};
pub use whole::{WRITE_PIECE_BYTES, read_exact_at, read_up_to_at, write_pieces};

use crate::error::Result;
use crate::memory::{ReadLease, ReadPool};
use crate::stats::{Counter, Stats};
use std::sync::Arc;
use std::time::Duration;

/// Reads in flight by default: 16 are enough for one virtual disk, NVMe behind it takes more.
pub const DEPTH_DEFAULT: usize = 64;

/// A ring has at most 32,768 entries; nothing gets faster beyond this depth, and each read in flight holds a slot.
pub const DEPTH_MAX: usize = 4096;

/// Which way reads go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// io_uring where the probe allows it, else pread.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// The pread threads.
    Pread,
}

/// How a reader is made.
#[derive(Clone, Debug)]
pub struct IoConfig {
    /// Which way reads go.
    pub engine: Engine,
    /// Reads in flight, from 1 to [`DEPTH_MAX`].
    pub depth: usize,
    /// Threads of the pread reader; 0 reads on the calling thread.
    pub pread_threads: usize,
    /// Ask the page cache before the disk.
    pub page_cache: bool,
    /// Register the pool's pages with the ring.
    pub fixed_buffers: bool,
}

impl Default for IoConfig {
    fn default() -> Self {
        Self { engine: Engine::Auto, depth: DEPTH_DEFAULT, pread_threads: 8, page_cache: true, fixed_buffers: true }
    }
}

/// One read: the `into.len()` bytes of `file` from `offset`.
#[derive(Debug)]
pub struct ReadRequest {
    /// The shard; kept open until the read has completed.
    pub file: Arc<ShardFile>,
    /// First byte, from the start of the file.
    pub offset: u64,
    /// Where to; its length is how much.
    pub into: ReadLease,
    /// Comes back with the completion.
    pub token: u64,
}

/// A finished read.
#[derive(Debug)]
pub struct Completion {
    /// The request's.
    pub token: u64,
    /// The bytes, all of them; or why not, the slot being back in its pool then.
    pub result: Result<ReadLease>,
}

/// Reads samples, many at a time, for the one thread that drives it.
///
/// A reader may be made on one thread and moved to another, but once used it stays: a ring belongs to the thread that
/// submits to it. Dropping a reader waits for the reads in flight and gives their slots back.
pub trait Reader: Send {
    /// How many more requests may be submitted before [`wait`](Self::wait).
    fn room(&self) -> usize;

    /// Requests submitted and not yet handed out as completions.
    fn in_flight(&self) -> usize;

    /// How many completions [`wait`](Self::wait) would hand out without asking the kernel: reads that the page cache
    /// answered, mostly. Whoever takes them before submitting more works on slots that are still in the CPU's cache.
    fn ready(&self) -> usize;

    /// Starts a read. What goes wrong with the read itself, even at once, is told by its completion.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) when there is no room. The slot is back in its pool then.
    fn submit(&mut self, request: ReadRequest) -> Result<()>;

    /// Appends finished reads to `done` and returns how many; waits for the first at most `limit`, not at all when
    /// nothing is in flight. 0 after `limit` has passed.
    ///
    /// # Errors
    ///
    /// When the engine itself fails; reads in flight stay owned by the reader.
    fn wait(&mut self, done: &mut Vec<Completion>, limit: Duration) -> Result<usize>;

    /// "io_uring" or "pread".
    fn name(&self) -> &'static str;
}

/// The reader that `config` and this machine call for; `pool` is the pool that leases will come from, for registration.
/// Which way was taken and why becomes a note in `stats`.
///
/// # Errors
///
/// [`ErrorKind::Config`](crate::ErrorKind::Config) for a depth out of range;
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when io_uring was asked for by name and is refused.
pub fn reader(config: &IoConfig, pool: &ReadPool, stats: &Arc<Stats>) -> Result<Box<dyn Reader>> {
    if config.depth == 0 || config.depth > DEPTH_MAX {
        return Err(crate::Error::config(format!("the number of reads in flight must be 1 to {DEPTH_MAX}"))
            .with("depth", config.depth));
    }
    if config.engine != Engine::Pread {
        match UringReader::new(config, pool, stats) {
            Ok(reader) => return Ok(Box::new(reader)),
            Err(e) if config.engine == Engine::Uring => return Err(e),
            Err(e) => stats.note(format!("samples are read with pread: {e}")),
        }
    }
    Ok(Box::new(PreadReader::new(config, stats)))
}

/// What readers count, resolved once.
#[derive(Clone, Debug)]
struct Counters {
    cached: Arc<Counter>,
    direct: Arc<Counter>,
    buffered: Arc<Counter>,
    again: Arc<Counter>,
}

impl Counters {
    fn new(stats: &Stats) -> Self {
        Self {
            cached: stats.counter("reads_page_cache"),
            direct: stats.counter("reads_direct"),
            buffered: stats.counter("reads_buffered"),
            again: stats.counter("reads_continued"),
        }
    }
}
