//! Samples in processes that the engine does not start, such as the workers of a DataLoader.
//!
//! ```text
//!  DataSet   parsed indexes, the shape: plain memory, which a fork may copy
//!    |  SampleReader::open, in each process that reads
//!    v
//!  SampleReader --read--> bytes of a sample, by pread on the calling thread  (reader, known_shard)
//!    |   `--------fetch--> a shard that is not resident: claim, admission, download, publish
//!    v
//!  Epoch --next_sample--> ids of one worker, announced `predownload` samples ahead     (epoch)
//!    `-- FetchAhead   one thread, which fetches announced shards                    (fetch_ahead)
//! ```
//!
//! [`StreamDescription`] has the facts about a stream that its index shows. [`StoredSample`] is a large sample that is
//! read column by column. [`SingleShard`] reads the samples of a single shard without a data set.
//!
//! There is no ring, no pool and no decode thread, since a machine runs dozens of these processes. A [`DataSet`] holds
//! no descriptor, lock or thread, so a forked process opens its own reader from the inherited copy; everything else
//! belongs to the process that made it. If all shards are on disk, no thread is started.
//!
//! **Under a cache limit** no descriptor outlives its read, and shards that were fetched ahead may be evicted, so that
//! a worker with a busy consumer blocks no space for the rest. A shard that the consumer waits for is kept until
//! its sample has been read, so every process makes progress. A shard that was fetched ahead and evicted is fetched
//! again.

mod data;
mod description;
mod epoch;
mod fetch_ahead;
mod known_shard;
mod reader;
mod single;
mod stored;

pub use data::{DataConfig, DataSet, StreamLocation};
pub use description::{IndexDescription, StreamDescription};
pub use epoch::Epoch;
pub use reader::{ATTEMPTS, SampleInfo, SampleReader};
pub use single::SingleShard;
pub use stored::StoredSample;
