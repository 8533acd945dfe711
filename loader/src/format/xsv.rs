//! XSV samples: one row of cells each, no quoting. A column's bytes are its cell.

use super::columns::{Column, Scratch, Span};
use super::encoding::Encoding;
use crate::error::{Error, Result};

/// Returns the text formats' name of an encoding: `str`, `int` or `float`.
pub(super) fn text_type(encoding: &Encoding) -> &'static str {
    match encoding {
        Encoding::StrInt => "int",
        Encoding::StrFloat => "float",
        _ => "str",
    }
}

pub(super) fn parse_text_type(name: &str) -> Result<Encoding> {
    match name {
        "str" => Ok(Encoding::Str),
        "int" => Ok(Encoding::StrInt),
        "float" => Ok(Encoding::StrFloat),
        _ => Err(Error::config(format!("`{name}` is not a type of a text format; write str, int or float"))),
    }
}

/// Splits `sample` into `columns`: exactly one cell for each.
pub(super) fn split(
    columns: &[Column],
    separator: &str,
    newline: &str,
    sample: &[u8],
    scratch: &mut Scratch,
) -> Result<()> {
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
    use crate::format::columns::{Column, Scratch};
    use crate::format::encoding::Encoding;
    use crate::format::layout::{Layout, ShardFormat, XsvKind};

    #[test]
    fn a_row_without_one_cell_per_column_is_rejected() {
        let column = |(name, encoding): (&str, Encoding)| Column { name: name.into(), encoding, size: None };
        let columns = [("a", Encoding::StrInt), ("b", Encoding::Str), ("c", Encoding::Str)].map(column).into();
        let format = ShardFormat::Xsv { kind: XsvKind::Xsv, separator: "::".into(), newline: "\n".into() };
        let layout = Layout { format, columns };
        let mut scratch = Scratch::default();
        let cells = layout.split("1::é::\n".as_bytes(), &mut scratch).unwrap();
        assert_eq!(cells.iter().collect::<Vec<_>>(), [&b"1"[..], "é".as_bytes(), b""]);
        for row in ["1::2\n", "1::2::3::4\n", "\n", "", "1::2::3"] {
            assert!(layout.split(row.as_bytes(), &mut scratch).is_err(), "{row:?}");
        }
        assert!(layout.split(b"1::\xff::3\n", &mut scratch).is_err());
    }
}
