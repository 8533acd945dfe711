//! Choice of columns and sizes of the rows.

use super::boxes::BoxForm;

/// Options of the rows.
pub(super) struct Shape<'a> {
    /// Names of the columns that are shown; none: all.
    pub(super) columns: &'a [String],
    /// Column of boxes.
    pub(super) boxes: Option<&'a str>,
    pub(super) boxes_form: Option<BoxForm>,
    /// Longest side of a picture in pixels.
    pub(super) side_max: u32,
}

impl Shape<'_> {
    /// Returns true if a column is shown.
    pub(super) fn shows(&self, name: &str) -> bool {
        self.columns.is_empty() || self.columns.iter().any(|column| column == name)
    }
}
