//! The shard plane: large, sequential, rare. It makes shards resident in the order of their first use.
//!
//! Threads each take the requested shard that is needed first and bring it to disk: claim, fetch, unpack, room,
//! publish. They hold no slots of the sample plane, and samples that wait for a shard hold no read slot, so the two
//! planes cannot wait for each other.
//!
//! * `residency`: the shards that are on disk, and the work that waits for the rest;
//! * `stage`: the threads; `plane`: their number, and the number of shards in flight, which
//!   [`Permits`](forebay_core::flow::Permits) limit;
//! * `source`: cache directories in front of stores: claim, room and publication;
//! * `fetch`: a shard's files, from the store or from their compressed form on disk, to bytes that can be published;
//! * `attempts`: the bytes of the attempts to fetch a file whose samples are damaged;
//! * `fetch_event`: its progress;
//! * `ranges`: ranges of stored objects, fetched together;
//! * `next_use`: the next use of each shard, in this epoch and the one after it, for eviction;
//! * `status`: the step that each shard in progress has reached, for the report of a stall;
//! * `open_shard`, `open_shards`: descriptors and tables of open shards, which the sample plane reads from;
//! * `stored_rows`: values that are read directly into their rows;
//! * `shard_table`: a bounded table, for open shards here and in `worker`;
//! * `janitor`: closes evicted shards and shares room with all processes.

mod attempts;
pub(crate) mod fetch;
pub(crate) mod fetch_event;
mod janitor;
pub(crate) mod loose_files;
mod next_use;
pub(crate) mod open_shard;
pub(crate) mod open_shards;
pub(crate) mod plane;
pub(crate) mod ranges;
pub(crate) mod residency;
pub(crate) mod shard_table;
pub(crate) mod source;
pub(crate) mod stage;
mod status;
mod stored_rows;
