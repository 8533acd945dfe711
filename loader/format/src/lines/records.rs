//! Records of a text, from front to back.

use crate::read_at::ReadAt;
use crate::table::OffsetTable;
use forebay_core::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Most bytes of a record: a longer one is a file of a different kind, or has a quote that is not closed.
const RECORD_BYTES_MAX: usize = 256 << 20;

/// Byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Form of the records of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineForm {
    /// A JSON object in each line.
    Json,
    /// Cells with commas between them, after a line with the names of the columns.
    Csv,
    /// Cells with tabs between them, after a line with the names of the columns.
    Tsv,
}

impl LineForm {
    /// Byte between two cells; `None` for JSON.
    pub(super) fn separator(self) -> Option<u8> {
        match self {
            Self::Json => None,
            Self::Csv => Some(b','),
            Self::Tsv => Some(b'\t'),
        }
    }
}

/// Record of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// First byte in the file.
    pub(super) start: u64,
    /// Number of its first line, from 1.
    pub(super) line: u64,
    /// Its bytes, without the line end.
    pub(super) bytes: &'a [u8],
}

/// Records of a range of a file.
pub(super) struct Records<'a> {
    file: &'a dyn ReadAt,
    form: LineForm,
    /// Bytes that were read, from byte `start` of the file.
    window: Vec<u8>,
    start: u64,
    /// End of the range in the file; `None` for the end of the file.
    end: Option<u64>,
    /// Start of the next record in the window.
    at: usize,
    line: u64,
}

/// State of the search for the end of a record.
#[derive(Default)]
struct Search {
    /// Bytes of the record that were searched.
    searched: usize,
    cell: CellState,
    has_quotes: bool,
}

/// State of the search in a row of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CellState {
    /// At the start of a cell.
    #[default]
    Start,
    /// In a cell, or in a part of one, where a quote has no meaning.
    Plain,
    Quoted,
    /// After a quote in a quoted part: it ends there, or two quotes are one.
    AfterQuote,
}

impl CellState {
    /// Returns the state after `byte`, which is no line end unless it is quoted.
    pub(super) fn after(self, byte: u8, separator: u8) -> Self {
        match (self, byte) {
            (Self::Start | Self::AfterQuote, b'"') => Self::Quoted,
            (Self::Quoted, b'"') => Self::AfterQuote,
            (Self::Quoted, _) => Self::Quoted,
            (_, byte) if byte == separator => Self::Start,
            _ => Self::Plain,
        }
    }
}

impl<'a> Records<'a> {
    /// Returns the records of `range`; the first one begins in line `line`.
    pub(super) fn new(file: &'a dyn ReadAt, form: LineForm, range: Range<u64>, line: u64) -> Self {
        Self { file, form, window: Vec::new(), start: range.start, end: Some(range.end), at: 0, line }
    }

    /// Returns all records of a file in UTF-8, after its byte order mark.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for UTF-16; errors of the file's storage.
    pub(super) fn of_file(file: &'a dyn ReadAt, form: LineForm) -> Result<Self> {
        let mut front = [0; 4];
        let front = &mut front[..file.bytes_seen_from(0).min(4) as usize];
        file.read_at(front, 0)?;
        if matches!(front, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..]) {
            return Err(Error::format("the file is UTF-16 or not text: write it as UTF-8"));
        }
        let start = if front.starts_with(BOM) { BOM.len() as u64 } else { 0 };
        Ok(Self { end: None, ..Self::new(file, form, start..start, 1) })
    }

    /// Returns the next record.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a quote that is not closed and for a record that is too long, with the line;
    /// errors of the file's storage.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>> {
        let found = loop {
            let Some((length, has_quotes)) = self.find_end()? else { return Ok(None) };
            let (at, line) = (self.at, self.line);
            let whole = &self.window[at..at + length];
            let lines = if has_quotes { memchr::memchr_iter(b'\n', whole).count() } else { 1 };
            let bytes = whole.strip_suffix(b"\n").unwrap_or(whole);
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes).len();
            let is_blank = match self.form {
                LineForm::Json => whole.iter().all(u8::is_ascii_whitespace),
                LineForm::Csv | LineForm::Tsv => bytes == 0,
            };
            self.at += length;
            self.line += lines as u64;
            if !is_blank {
                break (at..at + bytes, line);
            }
        };
        let (range, line) = found;
        Ok(Some(Record { start: self.start + range.start as u64, line, bytes: &self.window[range] }))
    }

    /// First byte in the file after the records so far.
    pub(super) fn end(&self) -> u64 {
        self.start + self.at as u64
    }

    /// End of the records for a reader at `offset`.
    fn end_seen_from(&self, offset: u64) -> u64 {
        self.end.unwrap_or_else(|| self.file.bytes_seen_from(offset))
    }

    /// Returns the bytes of the next record with its line end, and true if it has quotes; `None` at the end.
    fn find_end(&mut self) -> Result<Option<(usize, bool)>> {
        let mut search = Search::default();
        loop {
            let rest = &self.window[self.at..];
            let end = match self.form.separator() {
                None => memchr::memchr(b'\n', &rest[search.searched..]).map(|at| search.searched + at + 1),
                Some(separator) => search.end_of_row(rest, separator),
            };
            if let Some(end) = end {
                return Ok(Some((end, search.has_quotes)));
            }
            search.searched = rest.len();
            let bytes = rest.len();
            let read = self.end() + bytes as u64;
            if read == self.end_seen_from(read) {
                if search.cell == CellState::Quoted {
                    return Err(Error::format("a quote is not closed").with("line", self.line));
                }
                return Ok((bytes > 0).then_some((bytes, search.has_quotes)));
            }
            if bytes > RECORD_BYTES_MAX {
                let why = "a record has more than 256 MiB: the file does not consist of lines of text, or a quote is \
                           not closed";
                return Err(Error::format(why).with("line", self.line));
            }
            self.read_on()?;
        }
    }

    /// Reads more of the file. The record that begins at the current offset stays in the window.
    fn read_on(&mut self) -> Result<()> {
        self.window.drain(..self.at);
        self.start += self.at as u64;
        self.at = 0;
        let known = self.window.len();
        let from = self.start + known as u64;
        self.window.resize(known + READ_BYTES.min(self.end_seen_from(from).saturating_sub(from)) as usize, 0);
        self.file.read_at(&mut self.window[known..], from)
    }
}

impl Search {
    /// Returns the bytes of a row with its line end, if `rest` has it.
    fn end_of_row(&mut self, rest: &[u8], separator: u8) -> Option<usize> {
        let mut at = self.searched;
        while at < rest.len() {
            // Most bytes are in the middle of cells.
            let skipped = match self.cell {
                CellState::Plain => memchr::memchr2(separator, b'\n', &rest[at..]),
                CellState::Quoted => memchr::memchr(b'"', &rest[at..]),
                CellState::Start | CellState::AfterQuote => Some(0),
            };
            at += skipped?;
            if rest[at] == b'\n' && self.cell != CellState::Quoted {
                return Some(at + 1);
            }
            self.cell = self.cell.after(rest[at], separator);
            self.has_quotes |= self.cell == CellState::Quoted;
            at += 1;
        }
        None
    }
}

/// Reads the offsets of the records of `file`, which the index declares to be `samples`.
pub(super) fn offsets(file: &dyn ReadAt, form: LineForm, samples: u64) -> Result<OffsetTable> {
    let mut records = Records::new(file, form, 0..file.bytes(), 1);
    let mut ranges = Vec::new();
    while let Some(record) = records.next()? {
        ranges.push((record.start, record.start + record.bytes.len() as u64));
    }
    if ranges.len() as u64 != samples {
        let message =
            format!("the text has {} records where its index declares {samples}: it was written again", ranges.len());
        return Err(Error::format(message).with("field", "samples"));
    }
    OffsetTable::of_blocks(&ranges, 1, file.bytes())
}
