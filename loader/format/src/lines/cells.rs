//! CSV and TSV: a record is a row of cells, which may be in quotes, after a row with the names of the columns.

use super::counts::{LineCounts, kind};
use super::records::{CellState, LineForm, offsets};
use super::{check_values, projected};
use crate::columns::{Column, ColumnUse, Scratch, Span};
use crate::encoding::Encoding;
use crate::index::names_of;
use crate::layout::Layout;
use crate::read_at::ReadAt;
use crate::shard_format::{Projection, ShardFormat};
use crate::table::OffsetTable;
use forebay_core::error::{Error, Result};
use serde_json::Value as Json;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Rows of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cells {
    form: LineForm,
    /// Cells of a row.
    width: usize,
    /// Number of each column's cell; `None` for columns of further files.
    cells: Vec<Option<usize>>,
    /// Columns that some rows lack.
    optional: Vec<String>,
}

impl Layout {
    /// Makes the layout of texts of `form` with the columns `counts`. The columns in `header` are in each row, in
    /// that order.
    pub fn cells(form: LineForm, counts: &LineCounts, header: &[String]) -> Self {
        let (columns, optional) = counts.columns();
        let cells = columns.iter().map(|column| header.iter().position(|name| *name == column.name)).collect();
        Self::new(Cells { form, width: header.len(), cells, optional }, columns)
    }
}

impl ShardFormat for Cells {
    fn name(&self) -> &'static str {
        if self.form == LineForm::Tsv { "tsv text" } else { "csv text" }
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
        Some(offsets(file, self.form, samples))
    }

    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
        let Scratch { spans, side, ranks } = &mut *scratch;
        spans.resize(columns.len(), Span::Absent);
        // Start and end of each cell.
        ranks.clear();
        for cell in row(sample, self.form.separator().unwrap_or_default()) {
            ranks.extend([cell.start, cell.end]);
        }
        check_width(ranks.len() / 2, self.width)?;
        for ((column, cell), span) in columns.iter().zip(&self.cells).zip(spans) {
            let Some(cell) = *cell else { continue };
            let cell = ranks[2 * cell]..ranks[2 * cell + 1];
            *span = match unquoted(&sample[cell.clone()], side) {
                None => Span::Sample(cell),
                Some(text) => text,
            };
            let is_empty = match span {
                Span::Sample(range) | Span::Side(range) => range.start == range.end,
                Span::Absent => true,
            };
            if is_empty && column.encoding != Encoding::Str {
                *span = Span::Absent;
            }
        }
        check_values(columns, &self.optional, scratch)
    }

    fn optional(&self) -> &[String] {
        &self.optional
    }

    fn projected(&self, columns: &[Column], wanted: Option<&[ColumnUse<'_>]>) -> Option<Projection> {
        let (columns, optional) = projected(columns, &self.optional, wanted)?;
        let cells = columns.iter().map(|(number, _)| self.cells[*number]).collect();
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        Some((Arc::new(Self { cells, optional, ..self.clone() }), columns))
    }
}

fn check_width(found: usize, width: usize) -> Result<()> {
    if found == width {
        return Ok(());
    }
    Err(Error::format(format!("the row has {found} cells, and the first line of the file names {width} columns")))
}

/// Returns the offsets of the cells of `row`, with their quotes.
fn row(row: &[u8], separator: u8) -> impl Iterator<Item = Range<usize>> {
    let (mut at, mut is_at_end) = (0, false);
    std::iter::from_fn(move || {
        if is_at_end {
            return None;
        }
        let (start, mut state) = (at, CellState::Start);
        while at < row.len() {
            if state == CellState::Plain {
                at += memchr::memchr(separator, &row[at..]).unwrap_or(row.len() - at);
                if at == row.len() {
                    break;
                }
            }
            let next = state.after(row[at], separator);
            at += 1;
            if next == CellState::Start {
                return Some(start..at - 1);
            }
            state = next;
        }
        is_at_end = true;
        Some(start..at)
    })
}

/// Appends the text of a cell in quotes to `side`; `None` for a cell without: its text are its bytes.
fn unquoted(cell: &[u8], side: &mut Vec<u8>) -> Option<Span> {
    let (b'"', rest) = cell.split_first()? else { return None };
    let (start, mut state) = (side.len(), CellState::Quoted);
    for byte in rest {
        // No byte ends the cell, so the separator has no meaning.
        let next = match (state, byte) {
            (CellState::AfterQuote, byte) if *byte != b'"' => CellState::Plain,
            (CellState::Plain, _) => CellState::Plain,
            (state, byte) => state.after(*byte, b'"'),
        };
        if next != CellState::AfterQuote {
            side.push(*byte);
        }
        state = next;
    }
    Some(Span::Side(start..side.len()))
}

/// Returns the text of a cell.
fn text<'a>(cell: &'a [u8], side: &'a mut Vec<u8>) -> &'a [u8] {
    side.clear();
    match unquoted(cell, side) {
        None => cell,
        Some(_) => side,
    }
}

/// Returns the names of the columns in the first row of a file. One without a name has the name of pandas.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for names that are no text or are used twice, and for a different separator.
pub(super) fn header(first: &[u8], separator: u8) -> Result<Vec<String>> {
    let (mut names, mut known, mut side) = (Vec::new(), HashSet::new(), Vec::new());
    for (number, cell) in row(first, separator).enumerate() {
        let name = std::str::from_utf8(text(&first[cell], &mut side));
        let name =
            name.map_err(|e| Error::format("the first line, which names the columns, is not UTF-8").caused_by(e))?;
        let name = if name.is_empty() { format!("Unnamed: {number}") } else { name.to_owned() };
        if !known.insert(name.clone()) {
            let why = "the first line of the file, which names the columns, has a name twice";
            return Err(Error::format(why).with("column", name));
        }
        names.push(name);
    }
    let other = [(b';', "semicolons"), (b'\t', "tabs"), (b',', "commas")]
        .into_iter()
        .find(|(byte, _)| names.len() == 1 && *byte != separator && first.contains(byte));
    match other {
        None => Ok(names),
        Some((byte, noun)) => {
            let expected = if separator == b'\t' { "a tab" } else { "a comma" };
            let advice = if byte == b'\t' { "name the file .tsv" } else { "write it as .csv with commas" };
            let why = format!("the first line, which names the columns, has {noun} in it and not {expected}: {advice}");
            Err(Error::format(why))
        }
    }
}

/// Counts the row `sample` with the columns `header`.
pub(super) fn count(sample: &[u8], separator: u8, header: &[String], counts: &mut LineCounts) -> Result<()> {
    let mut side = Vec::new();
    check_width(row(sample, separator).count(), header.len())?;
    for (name, cell) in header.iter().zip(row(sample, separator)) {
        let kinds = match text(&sample[cell], &mut side) {
            b"" => None,
            cell => Some(kind::CELL | kind_of(cell)),
        };
        counts.add(name, kinds)?;
    }
    counts.records += 1;
    Ok(())
}

/// Returns the kind of a cell. Only a text that every reader takes for a number is one.
fn kind_of(cell: &[u8]) -> u16 {
    let digits = cell.strip_prefix(b"-").unwrap_or(cell);
    if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        return kind::of_whole(cell).unwrap_or(kind::TEXT);
    }
    let is_word = [&b"nan"[..], b"inf"].iter().any(|word| digits.eq_ignore_ascii_case(word));
    let may_be = digits.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.');
    let is_float = |text: &[u8]| std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok());
    if is_word || may_be && is_float(cell) { kind::FLOAT } else { kind::TEXT }
}
