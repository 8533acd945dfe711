//! Samples by their numbers: text such as `"0:1000, 5000:6000"`, or a file of numbers.
//!
//! A file is a numpy array (`.npy`) of whole numbers, or of one bool for each sample of the stream; or text with
//! numbers and ranges as above, on any number of lines, with comments from `#` to the end of the line.

use super::npy::{self, Numbers};
use crate::error::{Error, Result};
use std::ops::Range;

/// Largest index file: 512 million numbers.
pub(crate) const FILE_BYTES_MAX: u64 = 4 << 30;

/// Characters of an entry that a message shows.
const SHOWN_MAX: usize = 40;

/// Returns true if `subset` is a list of numbers and ranges, and false if it is the path of a file.
pub(crate) fn is_list(subset: &str) -> bool {
    subset.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | ',') || c.is_ascii_whitespace())
}

/// Returns the ranges of a list for a stream of `samples`, ascending.
///
/// # Errors
///
/// `Config` for an entry that is no number or range, that is not in the stream, or with samples that are listed before.
pub(crate) fn of_list(list: &str, samples: u64) -> Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    add_entries(list, samples, &mut ranges)?;
    ascending(ranges)
}

/// Returns the ranges of an index file for a stream of `samples`, ascending.
///
/// # Errors
///
/// As [`of_list`], with the line; `Format` for an array that is not one of numbers.
pub(crate) fn of_file(bytes: &[u8], samples: u64) -> Result<Vec<Range<u64>>> {
    let ranges = match npy::read(bytes)? {
        Some(Numbers::Mask(mask)) => {
            if mask.len() as u64 != samples {
                let message = "the index file has a different number of bools than the stream has samples";
                return Err(Error::config(message).with("bools", mask.len()).with("samples", samples));
            }
            let kept = (0..).zip(mask).filter(|(_, is_kept)| **is_kept != 0);
            kept.map(|(number, _)| number..number + 1).collect()
        }
        Some(Numbers::Whole(numbers)) => {
            let one = |number: i128| -> Result<Range<u64>> {
                let number = u64::try_from(number).ok().filter(|number| *number < samples);
                number.map(|number| number..number + 1).ok_or_else(|| outside(&"a number in the index file", samples))
            };
            let named = |number: i128| one(number).map_err(|e| e.with("number", number));
            numbers.map(named).collect::<Result<_>>()?
        }
        None => {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Error::format("an index file is an array of numpy or text, and this is neither"))?;
            let mut ranges = Vec::new();
            for (line, text) in (1..).zip(text.lines()) {
                let entries = text.split('#').next().unwrap_or("");
                add_entries(entries, samples, &mut ranges).map_err(|e| e.with("line", line))?;
            }
            ranges
        }
    };
    ascending(ranges)
}

fn outside(entry: &dyn std::fmt::Display, samples: u64) -> Error {
    Error::config(format!("{entry} is outside of the stream: its samples have the numbers from 0 to {}", samples - 1))
}

fn add_entries(list: &str, samples: u64, ranges: &mut Vec<Range<u64>>) -> Result<()> {
    for entry in list.split([',', ' ', '\t', '\r', '\n', '\x0c']).filter(|entry| !entry.is_empty()) {
        ranges.push(entry_of(entry, samples)?);
    }
    Ok(())
}

fn entry_of(entry: &str, samples: u64) -> Result<Range<u64>> {
    let shown: String = entry.chars().take(SHOWN_MAX).collect();
    let number = |text: &str, default: u64| match text {
        "" => Ok(default),
        text => text.parse::<u64>().map_err(|_| {
            Error::config(format!("`{shown}` is neither the number of a sample nor a range such as 5000:6000"))
        }),
    };
    let range = match entry.split_once(':') {
        Some((first, end)) => number(first, 0)?..number(end, samples)?,
        None => {
            let number = number(entry, 0)?;
            number..number.saturating_add(1)
        }
    };
    if range.end > samples || !entry.contains(':') && range.start >= samples {
        return Err(outside(&format_args!("`{shown}`"), samples));
    }
    if range.is_empty() {
        return Err(Error::config(format!("the range `{shown}` has no samples: its end is exclusive")));
    }
    Ok(range)
}

/// Sorts `ranges` and joins neighbours.
fn ascending(mut ranges: Vec<Range<u64>>) -> Result<Vec<Range<u64>>> {
    if ranges.is_empty() {
        return Err(Error::config("the subset lists no samples"));
    }
    ranges.sort_unstable_by_key(|range| range.start);
    if let Some(pair) = ranges.windows(2).find(|pair| pair[1].start < pair[0].end) {
        let message = "the subset lists a sample twice: list each once, and give the stream a weight, such as repeat=2";
        return Err(Error::config(message).with("number", pair[1].start));
    }
    ranges.dedup_by(|next, last| {
        let touches = last.end == next.start;
        if touches {
            last.end = next.end;
        }
        touches
    });
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_numbers_and_ranges_in_any_order() {
        for (list, expected) in [
            ("5000:6000, 0:1000", vec![0..1000, 5000..6000]),
            ("7 3,5\n4", vec![3..6, 7..8]),
            (":2,9998:", vec![0..2, 9998..10_000]),
        ] {
            assert!(is_list(list));
            assert_eq!(of_list(list, 10_000).expect(list), expected, "{list}");
        }
        for (list, end) in [("0:10", 10), (":", 10_000), ("3:10,0:3", 10)] {
            let ranges = of_list(list, 10_000).expect(list);
            assert!(ranges.len() == 1 && ranges[0] == (0..end), "{list}: {ranges:?}");
        }
        for path in ["kept.npy", "/data/0:5.txt", "-1:5", "a:b", "s3://b/1"] {
            assert!(!is_list(path), "{path}");
        }
    }

    #[test]
    fn entries_that_are_wrong_are_named() {
        for (list, message) in [
            ("", "lists no samples"),
            (" , ", "lists no samples"),
            ("1:2:3", "`1:2:3` is neither"),
            ("5:5", "`5:5` has no samples"),
            ("7:3", "`7:3` has no samples"),
            ("100", "`100` is outside of the stream: its samples have the numbers from 0 to 99"),
            ("0:101", "`0:101` is outside"),
            ("100:", "`100:` has no samples"),
            ("99999999999999999999", "`99999999999999999999` is neither"),
            ("18446744073709551615", "outside"),
            (
                "0:10, 9",
                "lists a sample twice: list each once, and give the stream a weight, such as repeat=2 (number 9)",
            ),
            ("3,3", "number 3"),
        ] {
            let error = of_list(list, 100).expect_err(list).to_string();
            assert!(error.contains(message), "{list}: {error}");
        }
    }

    #[test]
    fn a_text_file_has_comments_and_its_errors_name_the_line() {
        let text = b"# kept\n3\n\n5:7 # two\r\n 90:\n";
        assert_eq!(of_file(text, 100).expect("good"), [3..4, 5..7, 90..100]);
        let error = of_file(b"1\n2\nx\n", 100).expect_err("x").to_string();
        assert!(error.contains("`x` is neither") && error.contains("line 3"), "{error}");
        let error = of_file(b"\xff\xfe", 100).expect_err("bytes").to_string();
        assert!(error.contains("array of numpy or text"), "{error}");
        assert!(of_file(b"", 100).is_err());
    }
}
