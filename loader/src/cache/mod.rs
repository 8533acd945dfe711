//! Shards on local disk: who fetches one, how it appears, who keeps it, and which one has to go.
//!
//! ```text
//!   index ------- index.json: fetched once per directory, compared with the remote one
//!     |
//!   CacheDir ---- one handle per data set on one directory          (dir)
//!     |             |-- ShardSet: the files of all shards         (shards), which data sets and forks may share
//!     |             `-- Directory: the process's view of it         (directory, table)
//!     |                    |-- locks on index.json                  (claim)
//!     |                    `-- sleeping until something changes     (watch)
//!     |
//!     |  try_claim --> Claimed --> try_admit --> Admitted --> publish       one process on a node fetches a shard
//!     |                               |                          `-- write: unnamed, checked, linked
//!     |                               `-- evict: room under the strictest limit of all jobs
//!     |
//!     `- open_shard --> OpenShard    readers keep descriptors; bytes count until they are closed
//! ```
//!
//! **Names.** The directory holds exactly what the reference would leave there: `index.json`, the raw files of shards
//! and, with `keep_zip`, the compressed ones. There are no lock files and no state files; a shard is resident when all
//! its files stand under their final names with their recorded sizes. Files under other names are nobody's business.
//!
//! **Between processes** everything is said by locks on single bytes of `index.json` (the table of them is in `claim`),
//! which belong to an open file and vanish with the process that holds them: who fetches which shard, whose room is
//! reserved, which shards wait to be read, which are open, how a fetch gets on, whose consumer waits for room, and the
//! limit of every job. Where locks do not work, two
//! jobs may fetch the same shard and evict what the other has just fetched; neither ever reads anything wrong.
//!
//! **Finished or absent.** A file gets its name only when all its bytes are written, checked and on the medium, so
//! a process killed at any point, or a machine that loses power, leaves nothing that looks finished (see `write`).
//!
//! **Threads.** All calls may come from any thread. `try_` calls do not wait for other processes; the others sleep
//! on inotify and take a [`Patience`], which says how long and how to be called off.

mod choose;
mod claim;
mod dir;
mod directory;
mod evict;
mod group;
mod index;
mod listing;
mod open;
mod patience;
mod publish;
mod shards;
mod table;
mod watch;
mod write;

#[cfg(test)]
pub(crate) use choose::{Candidate, choose};
pub use dir::{CacheDir, CacheDirConfig, RoomNeeded, ShardState};
pub use group::CacheGroup;
pub use index::{IndexCheck, IndexFile, install_index};
pub use open::{OpenFile, OpenShard, Touched};
pub use patience::Patience;
pub use publish::{Admit, Admitted, Check, Claim, Claimed, PublishFile};
pub use shards::{CacheFile, ShardFiles, ShardSet};

/// The name of a stream's index within its directory.
pub const INDEX_NAME: &str = "index.json";

#[cfg(test)]
mod tests;
