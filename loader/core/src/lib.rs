//! The base of forebay's crates: errors, locks, time, statistics and the machine's CPUs.
//!
//! * [`error`]: the error type of the engine, which has a kind, facts and a hint;
//! * [`sync`]: locks, conditions and threads, which model tests run in many orders;
//! * [`flow`]: queues and pools with an order and a bound, and the end of a run of threads;
//! * [`session`]: the iteration of a loader: its epochs, iterators and batches in flight;
//! * [`clock`]: the system's time, or a test's;
//! * [`stats`]: time, items and bytes of every stage, and the stage that limits the rate;
//! * [`topology`]: CPUs, NUMA nodes and memory that this process may use;
//! * [`versions`]: versions of files, by which a job notices that one was replaced.
//!
//! The modules know nothing of samples, shards or stores:
//!
//! ```
//! use forebay_core::error::{Context, Error, Result};
//! use forebay_core::stats::{Stats, TimeKind};
//! use forebay_core::topology::Topology;
//!
//! fn workers(requested: usize) -> Result<usize> {
//!     let cpus = Topology::detect()?.threads_default(1);
//!     match requested {
//!         0 => Ok(cpus),
//!         1..=64 => Ok(requested),
//!         _ => Err(Error::config("more than 64 workers are not supported: lower `workers`")),
//!     }
//! }
//!
//! let stats = Stats::new(false);
//! let stage = stats.stage("decode");
//! let found = stage.timed(TimeKind::Busy, || workers(0))?;
//! stage.done(found as u64, 0);
//! assert!(stats.snapshot().stages[0].items >= 1);
//!
//! let error = workers(100).context("workers", || 100).expect_err("too many");
//! assert_eq!(error.to_string(), "more than 64 workers are not supported: lower `workers` (workers 100)");
//! # Ok::<(), Error>(())
//! ```

pub mod clock;
pub mod error;
pub mod flow;
pub mod session;
pub mod stats;
pub mod sync;
pub mod topology;
pub mod versions;

pub use error::{Error, ErrorKind, Result};
