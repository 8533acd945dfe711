//! TensorFlow's record files, with records that are `tf.train.Example`s: features by name, each a list of numbers or of
//! texts.
//!
//! ```text
//!   record:   u64 length | u32 CRC of the length | data | u32 CRC of the data
//!   Example:  { name: one of bytes_list [..], float_list [..], int64_list [..] }          as a protocol buffer
//! ```
//!
//! * `record` — the records of a file, in sequence: their offsets, which the file does not list; their CRCs;
//! * `example` — the features of a record;
//! * `features` — the features that the records of a file have, which become columns; `parts` — the encodings of these;
//! * `split` — one record's bytes to its columns; `tfrecord_format` — the format, with the columns by the features.
//!
//! The bytes of a sample are the bytes of its whole record, so that its CRC is compared whenever it is read. Every file
//! has the column `record` with the bytes of a record, which is the only one where records are no Examples, such as
//! SequenceExamples.

mod example;
mod features;
mod parts;
mod record;
mod split;
#[cfg(test)]
mod tests;
mod tfrecord_format;

pub use features::FeatureCounts;
pub use parts::RECORD;
pub(super) use record::{FRAME_BYTES, append_lost};
pub use record::{
    append, compression_of, count_features, count_whole_records, front_features, is_record, starts_record,
};
pub(super) use tfrecord_format::INDEXED;
pub use tfrecord_format::layout_of;
