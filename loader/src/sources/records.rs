//! Names of TensorFlow's record files, with those of the indexes next to them, and of ArrayRecord files.

use super::extension::ends_with;
use crate::error::{Error, Result};
use std::ops::Range;

/// Extensions of TensorFlow's record files.
const TFRECORD: [&str; 4] = [".tfrecord", ".tfrecords", ".tfrec", ".tfr"];

/// Extensions of ArrayRecord files.
const ARRAY_RECORD: [&str; 2] = [".array_record", ".arrayrecord"];

/// Extension of files that are compressed as a whole.
const PACKED: &str = ".gz";

/// Least bytes of a record: its length, and two CRCs.
const FRAME_BYTES: u64 = 16;

/// Least digits of the numbers in `train-00000-of-01024`, so that folders with such a name are seldom taken for files.
const DIGITS_MIN: usize = 5;

/// Returns true if `name` is that of a file of TensorFlow's records: `x.tfrecord`, `x.tfrecord.gz`, `x.tfrecord-00000-of-00128` as
/// TensorFlow Datasets writes them, or `x-00000-of-01024`. Numbers may be wildcards.
pub(super) fn is_tfrecord(name: &str) -> bool {
    let name = raw_name(name.rsplit('/').next().unwrap_or(name));
    has_extension(name, &TFRECORD)
        || stem_of_part(name).is_some_and(|stem| !stem.contains('.') || has_extension(stem, &TFRECORD))
}

/// Returns true if `name` is that of an ArrayRecord file: `x.array_record`, or `x.array_record-00000-of-00128` as TensorFlow Datasets
/// writes them. Numbers may be wildcards.
pub(super) fn is_array_record(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    has_extension(name, &ARRAY_RECORD) || stem_of_part(name).is_some_and(|stem| has_extension(stem, &ARRAY_RECORD))
}

/// Returns the name before the numbers in that of a part of several.
fn stem_of_part(name: &str) -> Option<&str> {
    let Some((stem, of)) = name.rsplit_once("-of-") else {
        // As in `x.tfrecord-*`.
        return name.strip_suffix("-*").filter(|stem| stem.contains('.'));
    };
    let (stem, number) = stem.rsplit_once('-')?;
    let is_number = |text: &str| {
        let is_plain = text.len() >= DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_digit());
        is_plain
            || (text.contains(['*', '?']) && text.bytes().all(|byte| byte.is_ascii_digit() || b"*?".contains(&byte)))
    };
    (is_number(number) && is_number(of)).then_some(stem)
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    extensions.iter().any(|extension| ends_with(name, extension))
}

/// Name without the extension of a compressed file.
pub fn raw_name(name: &str) -> &str {
    if ends_with(name, PACKED) { &name[..name.len() - PACKED.len()] } else { name }
}

/// Names of an index of the TFRecord file `name`: those of DALI's `tfrecord2idx` and of the package `tfrecord`, with which both let
/// their users choose.
pub fn index_names(name: &str) -> Vec<String> {
    let stem =
        TFRECORD.iter().find(|extension| ends_with(name, extension)).map(|found| &name[..name.len() - found.len()]);
    let names = [Some(name), stem].into_iter().flatten();
    names.flat_map(|name| [format!("{name}.idx"), format!("{name}.index")]).collect()
}

/// Index of a record file: a line for each record, with its place and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordIndex {
    /// Number of records.
    pub records: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Starts and ends of a few records. Another file has none there.
    pub probes: Vec<Range<u64>>,
}

impl RecordIndex {
    /// Parses an index.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for another file.
    pub fn parse(index: &[u8]) -> Result<Self> {
        let wrong = |line: usize| {
            Error::format("the index of a record file has a place and a length in each line").with("line", line)
        };
        let (mut starts, mut end) = (Vec::new(), 0_u64);
        for line in index.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            let number = starts.len() + 1;
            let text = std::str::from_utf8(line).map_err(|_| wrong(number))?;
            let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
            let (Some(Ok(start)), Some(Ok(bytes)), None) = (numbers.next(), numbers.next(), numbers.next()) else {
                return Err(wrong(number));
            };
            if start != end || bytes < FRAME_BYTES {
                return Err(wrong(number).with("place", start).with("end_of_the_last", end));
            }
            starts.push(start);
            end = start.checked_add(bytes).ok_or_else(|| wrong(number))?;
        }
        let end_of = |number: usize| starts.get(number + 1).copied().unwrap_or(end);
        // The last one has a place that depends on the bytes of all others.
        let mut probes = Vec::new();
        for number in [0, starts.len() / 2, starts.len().saturating_sub(1)] {
            let probe = starts.get(number).map(|start| *start..end_of(number));
            probes.extend(probe.filter(|probe| !probes.contains(probe)));
        }
        Ok(Self { records: starts.len() as u64, bytes: end, probes })
    }
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
        for name in [
            "x.array_record",
            "x.ArrayRecord",
            "x.array_record-00000-of-00001",
            "x.array_record-*",
            "a/x.array_record-?????-of-*",
        ] {
            assert!(is_array_record(name) && !is_tfrecord(name), "{name}");
        }
        for name in ["", "array_record", "x.array_record/y", "train-00000-of-00010", "x.tfrecord-00000-of-00001", "x-*"]
        {
            assert!(!is_array_record(name), "{name}");
        }
        assert_eq!(raw_name("a/x.tfrecord.gz"), "a/x.tfrecord");
        assert_eq!(index_names("x.tfrecord"), ["x.tfrecord.idx", "x.tfrecord.index", "x.idx", "x.index"]);
    }

    #[test]
    fn an_index_has_the_places_of_consecutive_records() {
        let parsed = |text: &str| RecordIndex::parse(text.as_bytes()).expect("an index");
        let expected = RecordIndex { records: 2, bytes: 36, probes: vec![0..20, 20..36] };
        assert_eq!(parsed("0 20\n20 16\n"), expected);
        assert_eq!(parsed("0 20\n20 16\n36 17\n53 18").probes, [0..20, 36..53, 53..71]);
        assert_eq!(parsed(""), RecordIndex::default());
        for wrong in [
            "0 20\n21 16\n",
            "0 20\n20 15\n",
            "0\n",
            "a b\n",
            "0 1 2\n",
            "v1.2 1\n",
            "0 18446744073709551615\n18446744073709551615 1\n",
            "\u{fc}",
        ] {
            assert!(RecordIndex::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
