//! Texts and numbers of headers: pax records, decimal numbers.

use forebay_core::error::{Error, Result};

/// Pax records: `length key=value\n`, by their lengths, since a value may contain anything.
pub(super) struct Records<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = Result<(&'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        // Some programs fill the records with zeros.
        if self.0.first().is_none_or(|byte| *byte == 0) {
            return None;
        }
        let record = split_record(self.0);
        self.0 = record.map_or(&[], |(_, rest)| rest);
        Some(record.map(|(record, _)| record).ok_or_else(|| Error::format("damaged pax records")))
    }
}

type Split<'a> = ((&'a [u8], &'a [u8]), &'a [u8]);

fn split_record(records: &[u8]) -> Option<Split<'_>> {
    let space = records.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&records[..space]).ok()?.parse().ok()?;
    let record = records.get(..length)?.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some(((&record[..equals], &record[equals + 1..]), &records[length..]))
}

/// Parses a decimal number.
pub(super) fn number(text: &[u8]) -> Result<u64> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        let text = String::from_utf8_lossy(&text[..text.len().min(40)]);
        Error::format(format!("`{text}` is not a number of bytes"))
    })
}

/// Error for a header with numbers that cannot be read.
pub(super) fn damaged(error: std::io::Error) -> Error {
    Error::format(format!("a damaged header: {error}"))
}
