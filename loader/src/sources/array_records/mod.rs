//! ArrayRecord files, as Grain and TensorFlow Datasets use them.

use super::extension::has_extension;
use super::kind::FileKind;
use super::parts::stem_of_part;

/// Extensions.
const EXTENSIONS: [&str; 2] = [".array_record", ".arrayrecord"];

/// ArrayRecord files: groups of their chunks are the shards.
pub static ARRAY_RECORD: FileKind = FileKind {
    name: "array_record",
    noun: "ArrayRecord file",
    extensions: ".array_record, .array_record-00000-of-00128",
    hints: &[".array"],
    is_of: |name| Ok(is_array_record(name)),
    is_sampled: true,
    ..FileKind::LISTED
};

/// Returns true if `name` names an ArrayRecord file: `x.array_record`, or `x.array_record-00000-of-00128` as
/// TensorFlow Datasets writes them. Numbers may be wildcards.
fn is_array_record(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    has_extension(name, &EXTENSIONS) || stem_of_part(name).is_some_and(|stem| has_extension(stem, &EXTENSIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_parts_are_known_by_their_names() {
        for name in [
            "x.array_record",
            "x.ArrayRecord",
            "x.array_record-00000-of-00001",
            "x.array_record-*",
            "a/x.array_record-?????-of-*",
        ] {
            assert!(is_array_record(name), "{name}");
        }
        for name in ["", "array_record", "x.array_record/y", "train-00000-of-00010", "x.tfrecord-00000-of-00001", "x-*"]
        {
            assert!(!is_array_record(name), "{name}");
        }
    }
}
