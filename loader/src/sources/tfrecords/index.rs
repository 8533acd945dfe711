//! Indexes of TFRecord files that some programs leave next to them.

use super::EXTENSIONS;
use crate::error::{Error, Result};
use crate::sources::extension::ends_with;
use std::ops::Range;

/// Least bytes of a record: its length, and two CRCs.
const FRAME_BYTES: u64 = 16;

/// Names of an index of the TFRecord file `name`, as users of DALI's `tfrecord2idx` and of the package `tfrecord`
/// choose them. Neither program fixes the name.
pub fn index_names(name: &str) -> Vec<String> {
    let stem =
        EXTENSIONS.iter().find(|extension| ends_with(name, extension)).map(|found| &name[..name.len() - found.len()]);
    let names = [Some(name), stem].into_iter().flatten();
    names.flat_map(|name| [format!("{name}.idx"), format!("{name}.index")]).collect()
}

/// Index of a record file: a line for each record, with its offset and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordIndex {
    /// Number of records.
    pub records: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Starts and ends of a few records. A different file has none there.
    pub probes: Vec<Range<u64>>,
}

impl RecordIndex {
    /// Parses an index.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a file that is no index.
    pub fn parse(index: &[u8]) -> Result<Self> {
        let wrong = |line: usize| {
            Error::format("the index of a record file has an offset and a length in each line").with("line", line)
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
                return Err(wrong(number).with("start", start).with("end_of_the_last", end));
            }
            starts.push(start);
            end = start.checked_add(bytes).ok_or_else(|| wrong(number))?;
        }
        let end_of = |number: usize| starts.get(number + 1).copied().unwrap_or(end);
        // The last one has an offset that depends on the bytes of all before it.
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
    fn an_index_has_the_name_of_its_file_with_or_without_the_extension() {
        assert_eq!(index_names("x.tfrecord"), ["x.tfrecord.idx", "x.tfrecord.index", "x.idx", "x.index"]);
    }

    #[test]
    fn an_index_has_the_offsets_of_consecutive_records() {
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
