//! Recipes of files with different contents than their index declares.

use super::*;
use crate::Encoding;
use forebay_core::error::ErrorKind;

#[test]
fn a_number_of_samples_that_differs_from_the_index_is_an_error() {
    let columns = FileColumns::new([("file".to_owned(), Encoding::Bytes)], [], None).unwrap();
    let layout = columns.layout().clone();
    let paths = ["a", "b"].iter().collect();
    let group = Arc::new(FileGroup { columns: columns.into(), paths, bytes: vec![3, 0], values: Vec::new() });
    let bytes = Bytes::from_static;
    for (samples, parts) in [(3, vec![bytes(b"xyz"), bytes(b"")]), (2, vec![bytes(b"xyz")])] {
        let e = FileSamples(group.clone()).assemble(&layout, samples, parts).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format, "{e}");
    }
}

#[test]
fn a_value_with_a_size_that_differs_from_its_column_is_an_error() {
    let layout = Layout::mds([("n".to_owned(), Encoding::Int)]).unwrap();
    let e = MdsBuilder::new(&layout, 0).unwrap().push(&[b"1234567"]).unwrap_err();
    assert_eq!(e.to_string(), "a value of 7 bytes is in a column of 8 bytes (column n)");
}
