//! The one pass over a text: ranges of its records, and the columns that they have.

use super::counts::LineCounts;
use super::range::LineRange;
use super::records::{LineForm, Record, Records};
use super::{cells, json_lines};
use crate::read_at::ReadAt;
use forebay_core::error::Result;

/// Outcome of a pass over a text.
#[derive(Clone, Debug, PartialEq)]
pub struct TextSurvey {
    /// Names of the columns in their order, by the first line of CSV and TSV; none for JSON.
    pub header: Vec<String>,
    /// Columns of the records.
    pub counts: LineCounts,
    /// Neighbouring records of some `range_bytes` bytes.
    pub ranges: Vec<LineRange>,
    /// Number of records that cannot be read, and the reason for the first of them.
    pub damaged: (u64, Option<String>),
}

/// Reads `text` once. A range ends after `range_bytes` bytes, or a record more.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] with the line for a text without a record that can be read at its front, and for a
/// quote that is not closed; errors of its storage.
pub fn survey(text: &dyn ReadAt, form: LineForm, range_bytes: u64) -> Result<TextSurvey> {
    let mut records = Records::of_file(text, form)?;
    let mut found =
        TextSurvey { header: Vec::new(), counts: LineCounts::default(), ranges: Vec::new(), damaged: (0, None) };
    if let Some(separator) = form.separator() {
        let Some(Record { bytes, line, .. }) = records.next()? else { return Ok(found) };
        found.header = cells::header(bytes, separator).map_err(|e| e.with("line", line))?;
    }
    let mut range = LineRange { start: records.end(), ..LineRange::default() };
    while let Some(Record { line, bytes, .. }) = records.next()? {
        let counted = match form.separator() {
            None => json_lines::count(bytes, &mut found.counts),
            Some(separator) => cells::count(bytes, separator, &found.header, &mut found.counts),
        };
        if let Err(e) = counted.map_err(|e| e.with("line", line)) {
            // A program may have been stopped in the middle of any record but the first.
            if found.counts.records == 0 {
                return Err(e);
            }
            found.damaged.0 += 1;
            found.damaged.1.get_or_insert_with(|| e.to_string());
        }
        range.add(line);
        let end = records.end();
        if end - range.start >= range_bytes {
            range.bytes = end - range.start;
            found.ranges.push(std::mem::replace(&mut range, LineRange { start: end, ..LineRange::default() }));
        }
    }
    if range.samples > 0 {
        range.bytes = records.end() - range.start;
        found.ranges.push(range);
    }
    Ok(found)
}
