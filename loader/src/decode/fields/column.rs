//! Columns of a data set, as the fields find them.

use crate::error::{ColumnNames, Error, Result};
use crate::format::encoding::Encoding;
use crate::format::{Column, FIELDS};

/// Columns of a data set.
#[derive(Clone, Copy)]
pub(in crate::decode) struct Columns<'a>(pub &'a [Column]);

impl<'a> Columns<'a> {
    /// Returns the column with this name, and its number.
    pub(in crate::decode) fn find(self, name: &str) -> Result<(usize, &'a Column)> {
        self.0.iter().enumerate().find(|(_, c)| c.name == name).ok_or_else(|| {
            let names = || self.0.iter().map(|c| c.name.as_str()).filter(|name| *name != FIELDS);
            let known: ColumnNames = names().collect();
            let plain = |name: &str| name.replace(' ', "").to_lowercase();
            match name.split(';').find_map(|name| names().find(|known| plain(known) == plain(name))) {
                Some(meant) => {
                    let message =
                        format!("the data set has no such column, but `{meant}`: write it like that, without spaces");
                    known.error_without_hint(name, message)
                }
                None => known.error_about(name, "the data set has no such column"),
            }
        })
    }

    /// Returns true if there is a column with this name.
    pub(in crate::decode) fn has(self, name: &str) -> bool {
        self.0.iter().any(|known| known.name == name)
    }
}

/// Returns the error for a field that needs a column of a different encoding.
pub(super) fn unsuitable(column: &Column, message: &str) -> Error {
    let error = |message| Error::config(message).with("column", &column.name).with("encoding", &column.encoding);
    match &column.encoding {
        Encoding::Custom(name) if Encoding::parse(name).is_ok() => {
            let size = column.size.map_or_else(|| "variable".to_owned(), |size| size.to_string());
            error(format!(
                "{message}: its size in the index, {size}, is not the size of the built-in `{name}`, so its values are \
                 bytes of an encoding that was registered under that name"
            ))
        }
        _ => error(message.to_owned()),
    }
}

/// Returns true if the column's values are text.
pub(super) fn is_text(column: &Column) -> bool {
    use Encoding::{Json, Str, StrDecimal, StrFloat, StrInt};
    matches!(column.encoding, Str | Json | StrInt | StrFloat | StrDecimal)
}
