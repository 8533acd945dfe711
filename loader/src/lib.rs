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
//! `loader` runs all of this in the training process. `worker` is the small form of it for processes that others start,
//! such as a DataLoader's workers: it reads on the calling thread and fetches shards ahead with one thread.
//!
//! `indexing` puts indexes behind the samples of shards, which spare decoding what a crop leaves out.
//!
//! The pure parts (`order`, `format`, `decode`) take values and return values; time, files and network come in through
//! `clock`, `io` and `store`. The engine knows nothing of CUDA, Python or C.

pub mod batch;
mod cache;
mod catalog;
pub mod clock;
pub mod config;
pub mod decode;
pub mod delivery;
pub mod dlpack;
pub mod error;
pub mod format;
pub mod indexing;
pub mod io;
pub mod loader;
pub mod memory;
pub mod order;
mod pipeline;
pub mod state;
pub mod stats;
pub mod store;
pub mod sync;
pub mod topology;
pub mod worker;

pub use config::LoaderConfig;
pub use error::{Error, ErrorKind, Result};
pub use loader::{Loader, Next};
