//! Samples for processes that others start: what runs inside a DataLoader's worker.
//!
//! ```text
//!  DataSet   parsed indexes, the shape: plain memory, which a fork may copy
//!    |  SampleReader::open, in each process that reads
//!    v
//!  SampleReader --read--> bytes of a sample, by pread on the calling thread       (reader, table)
//!    |   `--------fetch--> a shard that is not here: claim, room, download, publish
//!    v
//!  Epoch --next_sample--> ids of one worker; looks `predownload` samples ahead           (epoch)
//!    `-- Ahead      the one thread, which fetches what the look ahead finds absent (ahead)
//! ```
//!
//! [`SingleShard`] reads the samples of one shard that nobody has put into a data set.
//!
//! No ring, no pools and no decode threads: a machine runs dozens of these processes. A [`DataSet`] holds no descriptor,
//! lock or thread, so a process that was forked opens a reader of its own from the copy that it inherited; everything
//! else belongs to the process that made it. With all shards on disk no thread is ever started.
//!
//! **Under a cache limit** no descriptor outlives its read and nothing that was fetched ahead is held: a worker that
//! sleeps, because its consumer is busy, keeps no room from the others. A shard that the consumer waits for is held until
//! its sample has been read, so everybody gets on. What was fetched ahead and evicted meanwhile is fetched again.

mod ahead;
mod data;
mod epoch;
mod reader;
mod single;
mod table;

pub use data::{DataConfig, DataSet, StreamPlace};
pub use epoch::{Epoch, WorkerPlan};
pub use reader::{ATTEMPTS, Found, SampleReader};
pub use single::SingleShard;
