//! The engine of forebay: shards in object storage to training batches.
//!
//! ```text
//!                       order::EpochPlan  (pure: this rank's samples; and per shard, when this node uses it)
//!                              |
//!                          schedule  -- next use of every shard --------------+
//!            predownload ahead |                                              v
//! SHARD PLANE   large, sequential, rare                            cache: resident table, eviction
//!   fetch --> unpack --> publish --------------- link into place --------->   |
//!                                                                             | shard resident
//! SAMPLE PLANE  small, random, always                                         v
//!   read -----------> decode -----------> collate ------------> place ------> Loader::next
//! ```
//!
//! The pure parts (`order`, `format`, `decode`) take values and return values; time, files and network come in through
//! `clock`, `io` and `store`. The engine knows nothing of CUDA, Python or C.

pub mod cache;
pub mod clock;
pub mod decode;
pub mod error;
pub mod format;
pub mod io;
pub mod memory;
pub mod order;
pub mod pipeline;
pub mod stats;
pub mod store;
pub mod sync;
pub mod topology;

pub use error::{Error, ErrorKind, Result};
