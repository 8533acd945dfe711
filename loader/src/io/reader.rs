//! The interface of all readers: requests, completions and settings.

use super::file::ShardFile;
use crate::error::Result;
use crate::memory::ReadLease;
use crate::stats::{Counter, Stats};
use std::sync::Arc;
use std::time::Duration;

/// Default number of reads in flight: 16 saturate one virtual disk, NVMe takes more.
pub const DEPTH_DEFAULT: usize = 64;

/// Most reads in flight. A ring has at most 32,768 entries, but nothing is faster beyond this depth, and each read in
/// flight occupies a slot.
pub const DEPTH_MAX: usize = 4096;

/// Implementation of a reader.
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

/// Settings of a reader.
#[derive(Clone, Debug)]
pub struct IoConfig {
    /// Implementation.
    pub engine: Engine,
    /// Reads in flight, from 1 to [`DEPTH_MAX`].
    pub depth: usize,
    /// Number of threads of the pread reader; 0 reads on the calling thread.
    pub pread_threads: usize,
    /// Try the page cache before the disk.
    pub page_cache: bool,
}

impl Default for IoConfig {
    fn default() -> Self {
        Self { engine: Engine::Auto, depth: DEPTH_DEFAULT, pread_threads: 8, page_cache: true }
    }
}

/// One read: the `into.len()` bytes of `file` from `offset`.
#[derive(Debug)]
pub struct ReadRequest {
    /// Shard, kept open until the read has completed.
    pub file: Arc<ShardFile>,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Memory to fill.
    pub into: ReadLease,
    /// Number that the completion repeats.
    pub token: u64,
}

/// Finished read.
#[derive(Debug)]
pub struct Completion {
    /// Number of the request.
    pub token: u64,
    /// All bytes, or an error, in which case the slot has returned to its pool.
    pub result: Result<ReadLease>,
}

/// Reads many samples at a time, for the one thread that drives it.
///
/// A reader may move to a different thread before its first use. After that it stays, because a ring belongs to the
/// thread that submits to it. Dropping a reader waits for the reads in flight and returns their slots.
pub trait Reader: Send {
    /// Returns the number of requests that may be submitted before [`wait`](Self::wait).
    fn room(&self) -> usize;

    /// Returns the number of submitted requests without a returned completion.
    fn in_flight(&self) -> usize;

    /// Returns the number of completions that [`wait`](Self::wait) would return without a system call: mostly reads
    /// from the page cache. If they are taken before more is submitted, their slots are still in the CPU's cache.
    fn ready(&self) -> usize;

    /// Starts a read. Errors of the read itself, even immediate ones, are in its completion.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) when there is no room. The slot then returns to its pool.
    fn submit(&mut self, request: ReadRequest) -> Result<()>;

    /// Appends finished reads to `done` and returns their number. Waits for the first one at most `limit`, and not at
    /// all if nothing is in flight. Returns 0 after `limit` has passed.
    ///
    /// # Errors
    ///
    /// When the reader itself fails; it still owns the reads in flight.
    fn wait(&mut self, done: &mut Vec<Completion>, limit: Duration) -> Result<usize>;

    /// Returns "io_uring" or "pread".
    fn name(&self) -> &'static str;
}

#[derive(Clone, Debug)]
pub(super) struct Counters {
    pub(super) cached: Arc<Counter>,
    pub(super) direct: Arc<Counter>,
    pub(super) buffered: Arc<Counter>,
    pub(super) continued: Arc<Counter>,
}

impl Counters {
    pub(super) fn new(stats: &Stats) -> Self {
        Self {
            cached: stats.counter("reads_page_cache"),
            direct: stats.counter("reads_direct"),
            buffered: stats.counter("reads_buffered"),
            continued: stats.counter("reads_continued"),
        }
    }
}
