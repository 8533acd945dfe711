//! XSV, CSV and TSV: one row of cells per sample, no quoting. A column's bytes are its cell.

use super::types::{number, text_column, text_type};
use crate::columns::{Column, SampleColumns, Scratch, Span, sorted};
use crate::encoding::{Encoding, Value};
use crate::index::{IndexedFormat, JsonObject, names_of};
use crate::json;
use crate::layout::Layout;
use crate::shard_format::ShardFormat;
use forebay_core::error::{Error, ErrorKind, Result};
use serde_json::Value as Json;
use std::ops::Range;

/// Entries of a shard in an index.
pub(crate) const XSV: IndexedFormat = IndexedFormat {
    name: "xsv",
    keys: &["raw_meta", "zip_meta", "newline", "column_names", "column_encodings", "separator"],
    layout: |entry| layout(entry, XsvKind::Xsv),
    foreign: None,
};
pub(crate) const CSV: IndexedFormat =
    IndexedFormat { name: "csv", keys: &KEYS, layout: |entry| layout(entry, XsvKind::Csv), foreign: None };
pub(crate) const TSV: IndexedFormat =
    IndexedFormat { name: "tsv", keys: &KEYS, layout: |entry| layout(entry, XsvKind::Tsv), foreign: None };

/// Keys of the formats that imply their separator.
const KEYS: [&str; 5] = ["raw_meta", "zip_meta", "newline", "column_names", "column_encodings"];

/// Names of formats of separated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XsvKind {
    /// Any separator, recorded in the index.
    Xsv,
    /// Commas.
    Csv,
    /// Tabs.
    Tsv,
}

impl XsvKind {
    /// Returns the separator that the name implies.
    pub fn separator(self) -> Option<&'static str> {
        match self {
            Self::Xsv => None,
            Self::Csv => Some(","),
            Self::Tsv => Some("\t"),
        }
    }
}

/// One row of text per sample, after a row of column names; offsets in a `.meta` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Xsv {
    /// Name of the format in the index.
    pub(super) kind: XsvKind,
    /// Text between two cells; never empty.
    pub(super) separator: String,
    /// Text after every row; never empty.
    pub(super) newline: String,
}

impl Layout {
    /// Makes a layout of separated values with these columns, of the types `str`, `int` and `float`. `separator` is
    /// used for [`XsvKind::Xsv`] only; the rest imply theirs.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a different type, a repeated column, an empty separator or newline, or a column
    /// name that contains either.
    pub fn xsv<'a>(
        kind: XsvKind,
        columns: impl IntoIterator<Item = (&'a str, &'a str)>,
        separator: &str,
        newline: &str,
    ) -> Result<Self> {
        let separator = kind.separator().unwrap_or(separator);
        if separator.is_empty() || newline.is_empty() {
            return Err(Error::config("separator and newline cannot be empty"));
        }
        let columns = sorted(columns.into_iter().map(text_column))?;
        if let Some(column) = columns.iter().find(|c| c.name.contains(separator) || c.name.contains(newline)) {
            let what = "a column name contains the separator or the newline";
            return Err(Error::config(what).with("column", &column.name));
        }
        Ok(Self::new(Xsv { kind, separator: separator.to_owned(), newline: newline.to_owned() }, columns))
    }
}

fn layout(entry: &JsonObject<'_>, kind: XsvKind) -> Result<Layout> {
    let separator = kind.separator().map_or_else(|| entry.text("separator"), Ok)?.to_owned();
    let newline = entry.text("newline")?.to_owned();
    if separator.is_empty() || newline.is_empty() {
        return Err(Error::format("separator and newline cannot be empty").with("field", "newline"));
    }
    let names = entry.texts("column_names")?;
    let encodings = entry.texts("column_encodings")?;
    if encodings.len() != names.len() {
        let what = format!("{} names, {} encodings", names.len(), encodings.len());
        return Err(Error::format(what).with("field", "column_names"));
    }
    // Cells are in the order of the index, whatever the names.
    let columns = names.into_iter().zip(encodings).map(text_column).collect::<Result<_>>();
    let columns = columns.map_err(|e| e.of_kind(ErrorKind::Format).with("field", "column_encodings"))?;
    Ok(Layout::new(Xsv { kind, separator, newline }, columns))
}

impl ShardFormat for Xsv {
    fn name(&self) -> &'static str {
        match self.kind {
            XsvKind::Xsv => XSV.name,
            XsvKind::Csv => CSV.name,
            XsvKind::Tsv => TSV.name,
        }
    }

    fn describe(&self, columns: &[Column], put: &mut dyn FnMut(&str, Json)) {
        put("column_encodings", columns.iter().map(|column| text_type(&column.encoding)).collect());
        put("column_names", names_of(columns));
        put("newline", self.newline.as_str().into());
        if self.kind.separator().is_none() {
            put("separator", self.separator.as_str().into());
        }
    }

    fn is_split(&self) -> bool {
        true
    }

    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
        split(columns, &self.separator, &self.newline, sample, scratch)
    }

    fn has_empty_numbers(&self) -> bool {
        true
    }

    fn encode(&self, columns: &[Column], values: &[Value<'_>], scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let cells = self.append_row(columns, values, out)?;
        self.check_reads_back(columns, &out[start..], &cells, scratch)
    }

    fn head(&self, columns: &[Column]) -> Vec<u8> {
        let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
        (names.join(&self.separator) + &self.newline).into_bytes()
    }
}

impl Xsv {
    /// Appends a row, and returns the offsets of its cells relative to the row's start.
    fn append_row(&self, columns: &[Column], values: &[Value<'_>], out: &mut Vec<u8>) -> Result<Vec<Range<usize>>> {
        let mut text = String::new();
        let mut cells = Vec::with_capacity(columns.len());
        for (i, (column, value)) in columns.iter().zip(values).enumerate() {
            text.push_str(if i == 0 { "" } else { &self.separator });
            let start = text.len();
            match (&column.encoding, value) {
                (Encoding::Str, Value::Str(string)) => text.push_str(string),
                _ => text.push_str(&number(column, value, json::STR_WORDS)?),
            }
            if text[start..].contains(&self.separator) || text[start..].contains(&self.newline) {
                let what = "a value contains the separator or the newline, and the format has no quoting";
                return Err(Error::config(what).with("column", &column.name));
            }
            cells.push(start..text.len());
        }
        text.push_str(&self.newline);
        out.extend(text.bytes());
        Ok(cells)
    }

    /// With separators of several characters, the end of a value and the separator after it can look like a separator
    /// that starts earlier. Such a row would be read as different cells, so it is rejected.
    fn check_reads_back(
        &self,
        columns: &[Column],
        row: &[u8],
        cells: &[Range<usize>],
        scratch: &mut Scratch,
    ) -> Result<()> {
        scratch.clear();
        self.split(columns, row, scratch).map_err(|e| e.of_kind(ErrorKind::Config))?;
        if SampleColumns::new(row, scratch).iter().ne(cells.iter().map(|cell| &row[cell.clone()])) {
            return Err(Error::config("the row would be read back as different cells; use a different separator"));
        }
        Ok(())
    }
}

/// Splits `sample` into `columns`: exactly one cell for each.
fn split(columns: &[Column], separator: &str, newline: &str, sample: &[u8], scratch: &mut Scratch) -> Result<()> {
    let Some(row) = sample.strip_suffix(newline.as_bytes()) else {
        return Err(Error::format(format!("the row does not end with its newline {newline:?}")));
    };
    let row = std::str::from_utf8(row).map_err(|e| Error::format("the row is not UTF-8").caused_by(e))?;
    let mut start = 0;
    let mut cells = 0;
    for cell in row.split(separator) {
        cells += 1;
        if cells <= columns.len() {
            scratch.spans.push(Span::Sample(start..start + cell.len()));
        }
        start += cell.len() + separator.len();
    }
    if cells != columns.len() {
        return Err(Error::format(format!("the row has {cells} cells for {} columns", columns.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Xsv, XsvKind};
    use crate::columns::{Column, Scratch};
    use crate::encoding::Encoding;
    use crate::layout::Layout;

    #[test]
    fn a_row_without_one_cell_per_column_is_rejected() {
        let column = |(name, encoding): (&str, Encoding)| Column { name: name.into(), encoding, size: None };
        let columns = [("a", Encoding::StrInt), ("b", Encoding::Str), ("c", Encoding::Str)].map(column).into();
        let layout = Layout::new(Xsv { kind: XsvKind::Xsv, separator: "::".into(), newline: "\n".into() }, columns);
        let mut scratch = Scratch::default();
        let cells = layout.split("1::é::\n".as_bytes(), &mut scratch).unwrap();
        assert_eq!(cells.iter().collect::<Vec<_>>(), [&b"1"[..], "é".as_bytes(), b""]);
        for row in ["1::2\n", "1::2::3::4\n", "\n", "", "1::2::3"] {
            assert!(layout.split(row.as_bytes(), &mut scratch).is_err(), "{row:?}");
        }
        assert!(layout.split(b"1::\xff::3\n", &mut scratch).is_err());
    }
}
