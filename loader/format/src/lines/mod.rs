//! Texts of records as they are: JSON lines, CSV and TSV files.
//!
//! ```text
//!   text --survey, one pass--> LineRange: start, bytes, samples, line --> shard, a range of the file
//!                         `--> LineCounts: columns with the kinds of their values --> Layout: an encoding for each
//! ```
//!
//! A record is a line, or in CSV and TSV several, where quotes have line ends in them. Empty lines are no records,
//! and a line may end in `\r\n`. The bytes of a sample are the bytes of its record, without the line end.
//!
//! * `records` — the records of a text, in sequence;
//! * `survey` — the one pass over a text; `counts` — columns and the kinds of their values, which become encodings;
//! * `range` — neighbouring records of a text, which are a shard, with their line numbers;
//! * `json_lines`, `cells` — the formats of shards: a record's bytes to its columns.
//!
//! The shards are ranges of files, which an `index.json` cannot describe: the registry has no entry for these formats.

mod cells;
mod counts;
mod json_lines;
mod range;
mod records;
mod survey;
#[cfg(test)]
mod tests;

pub use counts::LineCounts;
pub use range::{LineRange, TextLine};
pub use records::LineForm;
pub use survey::{TextSurvey, survey};

use crate::columns::{Column, ColumnUse, Scratch, Span};
use forebay_core::error::{Error, Result};

/// Checks that each of `columns` has a value, or may lack one.
fn check_values(columns: &[Column], optional: &[String], scratch: &Scratch) -> Result<()> {
    let is_absent = |span: &Span| matches!(span, Span::Absent);
    let mut absent = columns.iter().zip(&scratch.spans).filter(|(_, span)| is_absent(span));
    match absent.find(|(column, _)| !optional.contains(&column.name)) {
        None => Ok(()),
        Some((column, _)) => {
            let message = "the record has no value of this column: give the field a `default`, if it takes one, or \
                           leave such records out with skip.errors";
            Err(Error::format(message).with("column", &column.name))
        }
    }
}

/// Columns that are read, each with its number among all, and the names of those that records may lack.
type ProjectedColumns = (Vec<(usize, Column)>, Vec<String>);

/// Returns only the columns `wanted`, each with its number among `columns`, and the names of those with a default;
/// without `wanted`, the columns that every record has. `None` if a column is lacking: the layout then stays as it
/// is, so that an error can name the columns that it has.
fn projected(columns: &[Column], optional: &[String], wanted: Option<&[ColumnUse<'_>]>) -> Option<ProjectedColumns> {
    let numbered = || columns.iter().cloned().enumerate();
    let Some(wanted) = wanted else {
        return Some((numbered().filter(|(_, column)| !optional.contains(&column.name)).collect(), Vec::new()));
    };
    let found = wanted.iter().map(|wanted| numbered().find(|(_, column)| column.name == wanted.name));
    let with_default = wanted.iter().filter(|column| column.has_default).map(|column| column.name.to_owned());
    Some((found.collect::<Option<_>>()?, with_default.collect()))
}
