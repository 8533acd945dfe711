//! All formats of shards.
//!
//! This is the only list of them. The remaining formats that are read are not in an index: a
//! [recipe](super::recipe) makes shards of these formats from the files of [`array_record`](super::array_record),
//! [`tokens`](super::tokens), [`parquet`](super::parquet) and Arrow ([`ipc`](super::ipc)); samples of
//! [`plain`](super::plain) bytes are ranges of files.

use super::index::IndexedFormat;
use super::{litdata, mds, tar, text, tfrecord};

/// Formats that an index may name.
static INDEXED: [IndexedFormat; 8] =
    [mds::INDEXED, text::JSONL, text::XSV, text::CSV, text::TSV, tar::INDEXED, tfrecord::INDEXED, litdata::INDEXED];

/// Returns the format with this name in an index.
pub(super) fn find(name: &str) -> Option<&'static IndexedFormat> {
    INDEXED.iter().find(|format| format.name == name)
}

/// Names of all formats that an index may have, as a list in a sentence.
pub(super) fn names() -> String {
    INDEXED.each_ref().map(|format| format.name).join(", ")
}

/// Returns a noun for the data sets with the index `bytes`, if it is one in the form of another program.
pub(super) fn foreign_index(bytes: &[u8]) -> Option<&'static str> {
    let foreign = INDEXED.iter().filter_map(|format| format.foreign.as_ref());
    foreign.filter(|foreign| (foreign.is_document)(bytes)).map(|foreign| foreign.noun).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn formats_have_different_names() {
        assert_eq!(INDEXED.iter().map(|format| format.name).collect::<HashSet<_>>().len(), INDEXED.len());
        assert_eq!(names(), "mds, json, xsv, csv, tsv, tar, tfrecord, litdata");
        assert!(find("parquet").is_none());
    }
}
