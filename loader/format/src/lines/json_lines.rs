//! JSON lines: a record is an object, and its keys are columns.

use super::counts::{LineCounts, kind};
use super::records::{LineForm, offsets};
use super::{check_values, projected};
use crate::columns::{Column, ColumnUse, Scratch, Span};
use crate::encoding::{DType, Encoding};
use crate::index::names_of;
use crate::json;
use crate::layout::Layout;
use crate::read_at::ReadAt;
use crate::shard_format::{Projection, ShardFormat};
use crate::table::OffsetTable;
use forebay_core::error::{Error, Result};
use serde_json::Value as Json;
use std::ops::Range;
use std::sync::Arc;

/// A JSON object in each line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JsonLines {
    /// Columns that some records lack, or that are null there.
    optional: Vec<String>,
    /// Numbers of the columns in the order of their names.
    by_name: Vec<usize>,
}

impl JsonLines {
    fn new(columns: &[Column], optional: Vec<String>) -> Self {
        let mut by_name: Vec<usize> = (0..columns.len()).collect();
        by_name.sort_by(|a, b| columns[*a].name.cmp(&columns[*b].name));
        Self { optional, by_name }
    }
}

impl Layout {
    /// Makes the layout of JSON lines with the columns `counts`.
    pub fn json_lines(counts: &LineCounts) -> Self {
        let (columns, optional) = counts.columns();
        Self::new(JsonLines::new(&columns, optional), columns)
    }
}

impl ShardFormat for JsonLines {
    fn name(&self) -> &'static str {
        "json lines"
    }

    // Its shards are ranges of files, which an index of this kind cannot describe.
    fn describe(&self, columns: &[Column], put: &mut dyn FnMut(&str, Json)) {
        put("column_names", names_of(columns));
    }

    fn has_table(&self) -> bool {
        false
    }

    fn file_bytes_min(&self, samples: u64) -> u64 {
        samples
    }

    fn offsets(&self, _: &[Column], file: &dyn ReadAt, samples: u64) -> Option<Result<OffsetTable>> {
        Some(offsets(file, LineForm::Json, samples))
    }

    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
        scratch.spans.resize(columns.len(), Span::Absent);
        let Scratch { spans, side, .. } = scratch;
        entries(sample, |name, value| {
            let found = self.by_name.binary_search_by(|number| columns[*number].name.as_str().cmp(name));
            if let Ok(at) = found {
                spans[self.by_name[at]] = Span::Sample(value);
            }
            Ok(())
        })?;
        for (column, span) in columns.iter().zip(spans) {
            if let Span::Sample(range) = span {
                *span =
                    value(&column.encoding, sample, range.clone(), side).map_err(|e| e.with("column", &column.name))?;
            }
        }
        check_values(columns, &self.optional, scratch)
    }

    fn optional(&self) -> &[String] {
        &self.optional
    }

    fn projected(&self, columns: &[Column], wanted: Option<&[ColumnUse<'_>]>) -> Option<Projection> {
        let (columns, optional) = projected(columns, &self.optional, wanted)?;
        let columns: Vec<Column> = columns.into_iter().map(|(_, column)| column).collect();
        Some((Arc::new(Self::new(&columns, optional)), columns))
    }

    fn document<'a>(&self, sample: &'a [u8]) -> Result<Option<&'a [u8]>> {
        Ok(Some(sample))
    }
}

/// Calls `entry` with each key of the record `object`, and the offset of its value.
fn entries(object: &[u8], mut entry: impl FnMut(&str, Range<usize>) -> Result<()>) -> Result<()> {
    json::scan_object(object, |key, value| {
        let plain = &object[key.start + 1..key.end - 1];
        if plain.contains(&b'\\') {
            return entry(&json::unescape(&object[key])?, value);
        }
        entry(std::str::from_utf8(plain).map_err(|e| Error::format("a key is not UTF-8").caused_by(e))?, value)
    })
}

/// Counts the record `object`.
pub(super) fn count(object: &[u8], counts: &mut LineCounts) -> Result<()> {
    match object.trim_ascii_start().first() {
        Some(b'{') => {}
        Some(b'[') if counts.records == 0 => {
            let why = "the file is a JSON list, and records are found by their lines: write an object in each line, as \
                       by `jq -c '.[]'`";
            return Err(Error::format(why));
        }
        _ => return Err(Error::format("a line is not a JSON object")),
    }
    // The last of two equal keys counts, and a record that is damaged has none.
    let mut found = Vec::new();
    let scanned = entries(object, |key, value| {
        found.push((key.to_owned(), kinds_of(&object[value])));
        Ok(())
    });
    scanned.map_err(|e| e.hinting("A record is a JSON object in one line"))?;
    for (key, kinds) in found {
        match kinds {
            Some(_) => counts.add(&key, kinds)?,
            None => counts.number_of(&key).map(drop)?,
        }
    }
    counts.records += 1;
    Ok(())
}

/// Returns the kinds of the value `token`; `None` for null.
fn kinds_of(token: &[u8]) -> Option<u16> {
    Some(match token.first() {
        Some(b'n') => return None,
        Some(b'"') => kind::TEXT,
        Some(b't' | b'f') => kind::BOOL,
        Some(b'[') => {
            let mut kinds = kind::NO_ITEMS;
            let each = |item: Range<usize>| {
                kinds |= match kinds_of(&token[item]) {
                    Some(whole) if whole & kind::INT != 0 => kind::INTS | whole & kind::EXACT,
                    Some(kind::FLOAT) => kind::FLOATS,
                    _ => kind::DOCUMENT,
                };
                Ok(())
            };
            // It was scanned before.
            if json::scan_list(token, each).is_err() {
                return Some(kind::DOCUMENT);
            }
            if kinds & kind::DOCUMENT != 0 { kind::DOCUMENT } else { kinds }
        }
        Some(b'{') => kind::DOCUMENT,
        _ if is_whole(token) => kind::of_whole(token).unwrap_or(kind::DOCUMENT),
        _ => kind::FLOAT,
    })
}

fn is_whole(token: &[u8]) -> bool {
    token.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9'))
}

fn int(token: &[u8]) -> Option<i64> {
    std::str::from_utf8(token).ok()?.parse().ok()
}

/// Returns the bytes of the value at `range` of the record `object`, as `encoding` reads them.
fn value(encoding: &Encoding, object: &[u8], range: Range<usize>, side: &mut Vec<u8>) -> Result<Span> {
    let token = &object[range.clone()];
    let start = side.len();
    match (encoding, token.first()) {
        (_, Some(b'n')) => return Ok(Span::Absent),
        (Encoding::Json, _) => return Ok(Span::Sample(range)),
        (Encoding::Str, Some(b'"')) if !token.contains(&b'\\') => {
            return Ok(Span::Sample(range.start + 1..range.end - 1));
        }
        (Encoding::Str, Some(b'"')) => side.extend(json::unescape(token)?.into_bytes()),
        // Python's bool is an int.
        (Encoding::StrInt | Encoding::StrFloat, Some(b't')) => side.push(b'1'),
        (Encoding::StrInt | Encoding::StrFloat, Some(b'f')) => side.push(b'0'),
        (Encoding::StrInt, Some(b'-' | b'0'..=b'9')) if is_whole(token) => return Ok(Span::Sample(range)),
        (Encoding::StrFloat, Some(b'-' | b'0'..=b'9' | b'N' | b'I')) => return Ok(Span::Sample(range)),
        (Encoding::Array(kind), Some(b'[')) => {
            let is_int = kind.dtype() == Some(DType::Int64);
            json::scan_list(token, |item| number(&token[item], is_int, side))?;
        }
        _ => return Err(other_kind(token, encoding)),
    }
    Ok(Span::Side(start..side.len()))
}

/// Appends an item of a list of numbers.
fn number(token: &[u8], is_int: bool, side: &mut Vec<u8>) -> Result<()> {
    let text = std::str::from_utf8(token).unwrap_or_default();
    let float = match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    };
    match (is_int, int(token), float) {
        (true, Some(int), _) => side.extend(int.to_le_bytes()),
        (false, _, Some(float)) => side.extend(float.to_le_bytes()),
        _ => return Err(other_kind(token, &Encoding::Json)),
    }
    Ok(())
}

fn other_kind(token: &[u8], encoding: &Encoding) -> Error {
    let shown = String::from_utf8_lossy(&token[..token.len().min(40)]).into_owned();
    Error::format(format!("`{shown}` does not fit the type {encoding}, which was found when the records were counted"))
}
