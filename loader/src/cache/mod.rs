//! Shards on local disk: claims, publication, readers and eviction.
//!
//! ```text
//!   index --------- index.json: fetched once per directory (turn), compared with the remote one
//!     |
//!   StreamCache --- view of one data set on one directory, with CacheGroup: directories with one limit
//!     |               |-- ShardSet: the files of all shards        (shards), which data sets and forks may share
//!     |               `-- SharedDir: one directory in one process  (shared_dir)
//!     |                      |-- DirLocks: locks on index.json     (dir_locks, over claim)
//!     |                      `-- Watch: sleeps until changes       (watch)
//!     |
//!     |  try_claim --> ShardClaim --> try_admit --> Admission --> publish   one process on a node fetches a shard
//!     |                                   |                          |-- write: unnamed, checked, linked
//!     |                                   |                          `-- ResidencyGuard: kept until its first read
//!     |                                   `-- evict: room under the strictest limit of all jobs
//!     |
//!     |- replace                     all files of a shard, renamed over the old ones (verification)
//!     `- open_shard --> OpenFiles    readers (open) keep descriptors; bytes count until they are closed
//! ```
//!
//! **Names.** The directory holds exactly the files that the reference would leave there: `index.json`, the raw files
//! of shards and, with `keep_zip`, the compressed ones. There are no lock files and no state files; a shard is resident
//! when all its files have their final names and recorded sizes. Files under different names are ignored.
//!
//! **Between processes** the only communication is locks on single bytes of `index.json` (see the table in `claim`).
//! They belong to an open file and vanish with the process that holds them. They announce which process fetches which
//! shard, reserved room, shards that wait to be read, open copies of shards, the progress of a fetch, consumers that
//! wait for room, and the limit of every job. The end of a lock is no event, so a process that releases something which
//! another process may wait for sets the times of the directory, which wakes them. An epoch without a limit holds all
//! shards with one lock until a process asks which of them are in use (see `dir_locks::common_hold`). Where locks do
//! not work, two jobs may fetch the same shard and evict shards of both, but neither ever reads wrong data.
//!
//! A shard of an index without hashes has the version of its object as an attribute (`fetched_versions`), so that two
//! processes do not read different versions without an error.
//!
//! **Finished or absent.** A file gets its name only when all its bytes are written, checked and on the medium, so
//! a process killed at any point, or a machine that loses power, leaves nothing that looks finished (see `write`).
//!
//! **Threads.** All calls may come from any thread. `try_` calls do not wait for a different process; the remaining
//! calls sleep on inotify and take a [`WaitPolicy`] with a time limit and a stop condition.

mod access_time;
mod blocks;
mod claim;
mod dir_locks;
mod evict;
mod fetched_versions;
mod file_cache;
mod index;
mod listing;
mod open;
mod publish;
mod replace;
mod residency;
mod shards;
mod shared_dir;
mod stream_cache;
mod turn;
mod wait_policy;
mod watch;
mod write;

pub(crate) use access_time::AccessTime;
pub(crate) use blocks::Blocks;
#[cfg(test)]
pub(crate) use evict::{Candidate, choose};
pub(crate) use fetched_versions::FetchedVersions;
pub use file_cache::FileCache;
pub(crate) use index::{CachedIndex, IndexSource, record_remote, stale, with_advice_on_remote};
pub(crate) use publish::{Admission, AdmitOutcome, ClaimOutcome, PublishFile, ShardClaim};
pub(crate) use residency::{CommonHold, ResidencyGuard};
pub(crate) use shards::{ShardSet, check_limit, disk_bytes};
pub(crate) use shared_dir::{OpenFile, OpenFiles};
pub(crate) use stream_cache::{CacheGroup, RoomRequest, StreamCache, StreamCacheConfig};
pub(crate) use turn::{Turn, show_progress, take_turn};
pub(crate) use wait_policy::WaitPolicy;
pub(crate) use write::FileContent;

#[cfg(test)]
pub(crate) mod tests;
