//! ArrayRecord files: records in compressed chunks, and a footer with the offsets of the chunks.
//!
//! ```text
//!   signature | chunk | chunk | .. | footer: offsets of the chunks | padding to 64 KiB
//!   postscript of 64 KiB: offset of the footer
//!   every 64 KiB of the file begin with a head of 24 bytes, which interrupts the content there
//!   chunk: head of 40 bytes | compression | sizes of the records | records
//! ```
//!
//! * `chunk` — the chunks of a range of a file, and their records. Chunks and blocks have Riegeli's format;
//! * `footer` — the offsets of the chunks.
//!
//! Chunks are checked by their hashes. The second encoding of Riegeli's chunks, which is called transposed, is not
//! read. A [recipe](super::recipe) makes a file of [TensorFlow's records](super::tfrecord) of some chunks, so that all
//! that is known of those is known of these, too.

mod chunk;
mod footer;
#[cfg(test)]
mod tests;

pub use chunk::{BLOCK_BYTES, ChunkContent, each_content, each_record, hash, starts_file};
pub use footer::{ChunkRange, chunk_ranges, footer_start};
