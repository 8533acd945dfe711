//! TensorFlow's record files: their names, and the indexes next to them.

mod index;

use super::extension::{ends_with, has_extension};
use super::kind::FileKind;
use super::parts::stem_of_part;
pub use index::{RecordIndex, index_names};

/// Extensions.
const EXTENSIONS: [&str; 4] = [".tfrecord", ".tfrecords", ".tfrec", ".tfr"];

/// Extension of files that are compressed as a whole.
const PACKED: &str = ".gz";

/// TensorFlow's record files, plain or compressed: a shard each.
pub static TF_RECORD: FileKind = FileKind {
    name: "tfrecord",
    noun: "TFRecord file",
    extensions: ".tfrecord, -00000-of-00128 or the like",
    hints: &[".tfr", "-of-"],
    is_of: |name| Ok(is_tfrecord(name)),
    is_sampled: true,
    ..FileKind::LISTED
};

/// Returns true if `name` names a file of TensorFlow's records: `x.tfrecord`, `x.tfrecord.gz`,
/// `x.tfrecord-00000-of-00128` as TensorFlow Datasets writes them, or `x-00000-of-01024`. Numbers may be wildcards.
fn is_tfrecord(name: &str) -> bool {
    let name = raw_name(name.rsplit('/').next().unwrap_or(name));
    has_extension(name, &EXTENSIONS)
        || stem_of_part(name).is_some_and(|stem| !stem.contains('.') || has_extension(stem, &EXTENSIONS))
}

/// Name without the extension of a compressed file.
pub fn raw_name(name: &str) -> &str {
    if ends_with(name, PACKED) { &name[..name.len() - PACKED.len()] } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_files_are_known_by_their_names() {
        for name in [
            "x.tfrecord",
            "a/X.TFRecords",
            "x.tfrec",
            "x.tfrecord.gz",
            "mnist-train.tfrecord-00000-of-00128",
            "x.tfrecords-00003-of-00010",
            "train-00000-of-01024",
            "a/validation-00127-of-00128",
            "train-*-of-01024",
            "train-?????-of-*",
            "x.tfrecord-*",
        ] {
            assert!(is_tfrecord(name), "{name}");
        }
        for name in [
            "",
            "tfrecord",
            "x.tfrecord/",
            "x.tfrecord.idx",
            "train-00000-of-00010.parquet",
            "x.array_record-00000-of-00001",
            "part-1-of-4",
            "train-of-00010",
            "x-*",
            "ü-00000-of-00001/x",
        ] {
            assert!(!is_tfrecord(name), "{name}");
        }
        assert_eq!(raw_name("a/x.tfrecord.gz"), "a/x.tfrecord");
    }
}
