//! MDS: binary samples, with their offsets at the front of the same file.
//!
//! ```text
//!   shard:   u32 n | u32 offset[0..=n] | settings as JSON | sample | sample .. | trailer
//!   sample:  u32 size of each column of variable size | bytes of each column
//! ```
//!
//! * `mds_format` — the format, its entry in an index, and the bytes of new samples; `split` — one sample's bytes to
//!   its columns;
//! * [`MdsBuilder`] — a file in memory.

mod builder;
mod mds_format;
mod split;

pub use builder::MdsBuilder;
pub(super) use mds_format::INDEXED;
pub use mds_format::Mds;
