//! Encoding of one sample's values to the bytes in a shard.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Context, Error, Result};
use crate::format::columns::{Column, Scratch};
use crate::format::encoding::{Encoding, Value, is_integer};
use crate::format::json;
use crate::format::layout::{Layout, ShardFormat};
use crate::format::mds::head_bytes;
use crate::format::xsv::text_type;

/// Appends the sample with `values`, one for each column of `layout` in its order. `scratch` is overwritten.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] with the column, for a value that its column does not accept; `out` is then unchanged.
pub fn encode(layout: &Layout, values: &[Value<'_>], scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
    if values.len() != layout.columns.len() {
        return Err(Error::config(format!("{} values for {} columns", values.len(), layout.columns.len())));
    }
    let start = out.len();
    let encoded = match &layout.format {
        ShardFormat::Mds => mds(&layout.columns, values, out),
        ShardFormat::Jsonl { newline } => jsonl(&layout.columns, newline, values, out),
        ShardFormat::Xsv { separator, newline, .. } => xsv(&layout.columns, separator, newline, values, out)
            .and_then(|cells| check_reads_back(layout, &out[start..], &cells, scratch)),
        ShardFormat::Tar { .. } | ShardFormat::LitData(_) | ShardFormat::TfRecord { .. } | ShardFormat::Plain => {
            Err(Error::config("files of this format are read only: write MDS, JSONL or CSV"))
        }
    };
    encoded.inspect_err(|_| out.truncate(start))
}

fn mds(columns: &[Column], values: &[Value<'_>], out: &mut Vec<u8>) -> Result<()> {
    let mut size_at = out.len();
    out.resize(size_at + head_bytes(columns), 0);
    for (column, value) in columns.iter().zip(values) {
        let start = out.len();
        column.encoding.encode(value, out).context("column", || &column.name)?;
        if column.size.is_none() {
            let size = u32::try_from(out.len() - start)
                .map_err(|_| Error::config("a value of 4 GiB or more cannot be stored").with("column", &column.name))?;
            out[size_at..size_at + 4].copy_from_slice(&size.to_le_bytes());
            size_at += 4;
        }
    }
    Ok(())
}

fn jsonl(columns: &[Column], newline: &str, values: &[Value<'_>], out: &mut Vec<u8>) -> Result<()> {
    let mut text = String::from("{");
    for (i, (column, value)) in columns.iter().zip(values).enumerate() {
        text.push_str(if i == 0 { "" } else { ", " });
        json::write_str(&column.name, &mut text);
        text.push_str(": ");
        match (&column.encoding, value) {
            (Encoding::Str, Value::Str(string)) => json::write_str(string, &mut text),
            _ => text.push_str(&number(column, value, json::JSON_WORDS)?),
        }
    }
    text.push('}');
    text.push_str(newline);
    out.extend(text.bytes());
    Ok(())
}

/// Appends a row, and returns the places of its cells relative to the row's start.
fn xsv(
    columns: &[Column],
    separator: &str,
    newline: &str,
    values: &[Value<'_>],
    out: &mut Vec<u8>,
) -> Result<Vec<Range<usize>>> {
    let mut text = String::new();
    let mut cells = Vec::with_capacity(columns.len());
    for (i, (column, value)) in columns.iter().zip(values).enumerate() {
        text.push_str(if i == 0 { "" } else { separator });
        let start = text.len();
        match (&column.encoding, value) {
            (Encoding::Str, Value::Str(string)) => text.push_str(string),
            _ => text.push_str(&number(column, value, json::STR_WORDS)?),
        }
        if text[start..].contains(separator) || text[start..].contains(newline) {
            let what = "a value contains the separator or the newline, and the format has no quoting";
            return Err(Error::config(what).with("column", &column.name));
        }
        cells.push(start..text.len());
    }
    text.push_str(newline);
    out.extend(text.bytes());
    Ok(cells)
}

/// With separators of several characters, the end of a value and the separator after it can look like a separator that
/// starts earlier. Such a row would be read as other cells, so it is rejected.
fn check_reads_back(layout: &Layout, row: &[u8], cells: &[Range<usize>], scratch: &mut Scratch) -> Result<()> {
    let columns = layout.split(row, scratch).map_err(|e| e.of_kind(crate::ErrorKind::Config))?;
    if columns.iter().ne(cells.iter().map(|cell| &row[cell.clone()])) {
        return Err(Error::config("the row would be read back as other cells; use another separator"));
    }
    Ok(())
}

/// Returns the text of a number; other values do not belong into `column`.
fn number<'a>(column: &Column, value: &'a Value<'_>, words: [&str; 2]) -> Result<Cow<'a, str>> {
    match (&column.encoding, value) {
        (Encoding::StrFloat, Value::Float(float)) => Ok(json::python_float(*float, words).into()),
        (Encoding::StrInt, Value::Int(int)) => Ok(int.to_string().into()),
        (Encoding::StrInt, Value::BigInt(digits)) if is_integer(digits) => Ok((&**digits).into()),
        (encoding, _) => {
            let message = format!("a value of type {} cannot be stored as {}", value.kind(), text_type(encoding));
            Err(Error::config(message).with("column", &column.name))
        }
    }
}
