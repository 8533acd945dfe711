//! Writing of data sets: samples in, shards and an index out, byte for byte as the reference writes them.
//!
//! ```text
//!   write(values) -- sample: encode --> Shard under construction
//!                                          | full: as many bytes as size_limit allows
//!                                          v
//!                     one queue --> worker threads: raw files -> hash -> compress -> hash -> Sink::put
//!                                          |
//!   finish()  <-- results by number -------+        Sink::finish(index.json), last of all
//! ```
//!
//! * `sample` — one sample's values to bytes, pure;
//! * `shard` — one shard's samples to its raw files, pure;
//! * [`ValueIndex`] — optional index of values after the samples; `values` builds the trailer;
//! * [`Sink`] — destination of the files; [`LocalDir`] is a directory;
//! * `driver` — [`Writer`]: cuts shards, runs the threads, writes the index.
//!
//! A file appears under its name completely or not at all, and the index appears after every shard, so a crash at any
//! point leaves no data set that looks complete.

mod driver;
mod sample;
mod shard;
mod sink;
mod store;
#[cfg(test)]
mod tests;
mod values;

pub use driver::{Canceller, Options, SIZE_LIMIT_DEFAULT, Writer};
pub use sample::encode as encode_sample;
pub use shard::split_by_sizes;
pub use sink::{LocalDir, Sink};
pub use store::store_file;
pub use values::{EntryWriter, ValueIndex, trailer_of, trailer_that_fits};
