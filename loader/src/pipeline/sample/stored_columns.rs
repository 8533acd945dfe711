//! Columns with rows that are read directly into their destination.

use crate::format::OmittedColumn;

/// Columns of one layout with their stored bytes as rows, which get to their destination without the decoder.
#[derive(Debug)]
pub(crate) struct StoredColumns {
    /// Numbers of their outputs.
    pub(crate) outputs: Vec<usize>,
    /// Their offsets and lengths, ascending.
    pub(crate) omitted: Vec<OmittedColumn>,
    /// Nothing else of a sample is needed, not even to validate it.
    pub(crate) are_all: bool,
}
