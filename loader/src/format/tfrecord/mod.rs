//! TensorFlow's record files, whose records are `tf.train.Example`s: features by name, each a list of numbers or of texts.
//!
//! ```text
//!   record:   u64 length | u32 CRC of the length | data | u32 CRC of the data
//!   Example:  { name: one of bytes_list [..], float_list [..], int64_list [..] }          as a protocol buffer
//! ```
//!
//! * `record` — the records of a file, one after the other: their places, which the file does not list; their CRCs;
//! * `example` — the features of a record;
//! * `features` — the features that the records of a file have, which become columns;
//! * `split` — one record's bytes to its columns.
//!
//! The bytes of a sample are those of its whole record, so that its CRC is compared whenever it is read. Every file has the
//! column `record` with the bytes of a record, which is the only one where records are no Examples, such as SequenceExamples.

mod example;
mod features;
mod record;
mod split;
#[cfg(test)]
mod tests;

pub(super) use features::projected;
pub use features::{FeatureCounts, RECORD, RecordPart, layout_of};
pub(super) use record::{FRAME_BYTES, bytes_min, offsets};
pub(super) use split::split;

pub use record::{append, compression_of, count_features, front_features, is_record};
