//! Columns and lines of manifests of all forms of text, before the columns have types.

use super::values::Cells;
use crate::error::{Error, Result};

/// Most columns of a manifest.
pub(super) const COLUMNS_MAX: usize = 1000;

/// Message about bytes that are not UTF-8, as in Latin-1.
pub(super) const NOT_UTF8: &str = "a line is not in UTF-8, but perhaps in Latin-1: write the manifest in UTF-8";

/// Columns by their names, in the order of the file, and the line of each sample.
pub(super) type Table = (Vec<(String, Cells)>, Vec<u64>);

/// Checks the names of all columns.
pub(super) fn check_names(names: &[String]) -> Result<()> {
    let repeated = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name));
    if names.len() > COLUMNS_MAX {
        return Err(Error::format(format!("the manifest has more than {COLUMNS_MAX} columns")));
    }
    match repeated {
        Some((_, name)) => Err(Error::format("a column name is used twice").with("column", name)),
        None => Ok(()),
    }
}
