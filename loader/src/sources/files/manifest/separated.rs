//! CSV and TSV manifests: rows of cells, which may be in quotes, after a row with the names of the columns.

use super::table::{NOT_UTF8, Table, check_names};
use super::values::Cells;
use crate::error::{Error, Result};

/// Reads the columns of all rows, with cells between `separator`.
pub(super) fn separated(bytes: &[u8], separator: u8) -> Result<Table> {
    check_quotes(bytes, separator)?;
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).from_reader(bytes);
    let failed = |e: csv::Error| {
        let line = e.position().map_or(1, csv::Position::line);
        let message = match e.kind() {
            csv::ErrorKind::Utf8 { .. } => NOT_UTF8,
            _ => "a line cannot be read",
        };
        Error::format(message).caused_by(e).with("line", line)
    };
    let names: Vec<String> = reader.headers().map_err(failed)?.iter().map(str::to_owned).collect();
    check_names(&names)?;
    check_separator(&names)?;
    let mut columns: Vec<_> = names.into_iter().map(|name| (name, Cells::default())).collect();
    let mut lines = Vec::new();
    let mut record = csv::StringRecord::new();
    let (mut at, mut line) = (0, 1);
    while reader.read_record(&mut record).map_err(failed)? {
        let mut start = record.position().and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or(at);
        // The crate's position is before empty lines, and between the two characters of a line's end.
        while matches!(bytes.get(start), Some(b'\r' | b'\n')) {
            start += 1;
        }
        line += bytes[at..start.max(at)].iter().filter(|byte| **byte == b'\n').count() as u64;
        at = start.max(at);
        lines.push(line);
        columns.iter_mut().zip(&record).for_each(|((_, cells), cell)| cells.texts.push(cell));
    }
    Ok((columns, lines))
}

/// Checks that every quote that begins a cell ends it. Without that, the library would take all lines up to the next
/// quote, or to the end of the file, for one cell.
fn check_quotes(bytes: &[u8], separator: u8) -> Result<()> {
    #[derive(PartialEq)]
    enum Cell {
        Starts,
        IsPlain,
        /// In quotes since this line.
        IsQuoted(u64),
        /// After a quote in quotes, which ends the cell or is the first of two.
        MayEnd(u64),
    }
    let failed = |message: &str, line: u64| Err(Error::format(message.to_owned()).with("line", line));
    let (mut cell, mut line) = (Cell::Starts, 1);
    for byte in bytes {
        cell = match (cell, *byte) {
            (Cell::IsQuoted(start), b'"') => Cell::MayEnd(start),
            (Cell::IsQuoted(start), _) => Cell::IsQuoted(start),
            (Cell::MayEnd(start), b'"') => Cell::IsQuoted(start),
            (_, b'\r' | b'\n') => Cell::Starts,
            (_, byte) if byte == separator => Cell::Starts,
            (Cell::MayEnd(start), _) => {
                let message = "a cell in quotes goes on after the closing quote: an earlier quote is not closed, or a \
                               quote in the cell is not written twice (a backslash does not escape it)";
                return failed(message, start);
            }
            (Cell::Starts, b'"') => Cell::IsQuoted(line),
            (Cell::Starts | Cell::IsPlain, _) => Cell::IsPlain,
        };
        line += u64::from(*byte == b'\n');
    }
    match cell {
        Cell::IsQuoted(start) => failed("a quote is not closed: all lines after it would be one cell", start),
        _ => Ok(()),
    }
}

/// Reports a manifest if its one column is a line of cells with a separator that the manifest's name does not imply.
fn check_separator(names: &[String]) -> Result<()> {
    let [name] = names else { return Ok(()) };
    let separators = [(';', "semicolons"), ('\t', "tabs"), (',', "commas"), ('|', "vertical bars")];
    match separators.iter().find(|(separator, _)| name.contains(*separator)) {
        Some((_, noun)) => Err(Error::format(format!(
            "the cells are separated by {noun}: a .csv manifest has commas, a .tsv manifest has tabs"
        ))
        .with("line", 1)),
        None => Ok(()),
    }
}
