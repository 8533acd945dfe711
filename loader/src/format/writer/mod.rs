//! Writing data sets: samples in, shards and an index out, byte for byte as the reference writes them.
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
//! * `shard` — the samples of one shard to its raw files, pure;
//! * [`ValueIndex`] — makes what stands behind the samples, if it was asked for; `values` puts it together;
//! * [`Sink`] — where files go; [`LocalDir`] is a directory;
//! * `driver` — [`Writer`]: cuts shards, runs the threads, writes the index.
//!
//! A file appears under its name whole or not at all, and the index appears after every shard, so a crash at any point
//! leaves nothing that looks finished.

mod driver;
mod sample;
mod shard;
mod sink;
mod store;
#[cfg(test)]
mod tests;
mod values;

pub use driver::{Options, SIZE_LIMIT_DEFAULT, Writer};
pub use sample::encode as encode_sample;
pub use sink::{LocalDir, Sink};
pub use store::store_file;
pub use values::{Entries, ValueIndex, trailer_of, trailer_that_fits};
