//! Numbers, times and values as text for people.

use indicatif::{BinaryBytes, HumanCount};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::SystemTime;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns a length in bytes with its unit.
pub fn bytes(count: u64) -> String {
    BinaryBytes(count).to_string()
}

/// Returns a count with separators between thousands.
pub(crate) fn count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// Returns `count` with a noun in its number, which has a regular plural.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Returns a float with three digits after the point at most.
pub(crate) fn float(number: f64) -> String {
    if number != 0.0 && !(1e-3..1e15).contains(&number.abs()) {
        return format!("{number:.3e}");
    }
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads a number of seconds of an option.
pub(crate) fn seconds(text: &str, limits: RangeInclusive<f64>) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| limits.contains(seconds));
    seconds.ok_or_else(|| format!("it must be between {} and {} seconds", limits.start(), limits.end()))
}

/// Returns a time in UTC for people, in whole seconds.
pub(crate) fn time(time: SystemTime) -> String {
    json_time(time).trim_end_matches('Z').replace('T', " ")
}

/// Returns a time in UTC as JSON has it.
pub(crate) fn json_time(time: SystemTime) -> String {
    // An object may claim any time, and the format has years from 1970 to 9999.
    let start = SystemTime::UNIX_EPOCH;
    let years = time.duration_since(start).ok().filter(|since| since.as_secs() < 253_402_300_800);
    humantime::format_rfc3339_seconds(years.map_or(start, |since| start + since)).to_string()
}

/// Returns `text` in lines of at most `columns` columns, the further ones indented by two; a longer word has its own.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let (mut lines, mut used) = (String::new(), 0);
    for word in text.split(' ') {
        if used > 0 && used + 1 + word.width() > columns {
            lines.push_str("\n  ");
            used = 2;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += word.width();
    }
    lines
}

/// Returns `text` in one line without characters that control a terminal.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => line.push('⏎'),
            '\t' => line.push(' '),
            // Bidirectional marks would change the order of the rest of the line.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                line.extend(character.escape_unicode());
            }
            control if control.is_control() => line.extend(control.escape_default()),
            shown => line.push(shown),
        }
    }
    line
}

/// Returns `text` with at most `columns` columns of a terminal, with an ellipsis if it is longer.
pub(crate) fn shortened(text: &str, columns: usize) -> Cow<'_, str> {
    // The end of the text that has room for an ellipsis after it.
    let (mut used, mut short) = (0, 0);
    for (start, character) in text.char_indices() {
        // A string counts a control character as one column, too.
        used += character.width().unwrap_or(1);
        if used > columns {
            return if columns == 0 { "".into() } else { format!("{}…", &text[..short]).into() };
        }
        if used < columns {
            short = start + character.len_utf8();
        }
    }
    text.into()
}

/// Columns of `text` in a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn text_is_shortened_to_columns_of_the_terminal() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("猫猫猫", 4), "猫…");
        assert_eq!(shortened("a", 0), "");
        assert_eq!(shortened("a\nb\n", 3), "a\n…");
    }

    #[test]
    fn no_text_controls_the_terminal() {
        assert_eq!(one_line("a\nb\tc\u{1b}[31m\u{202e}"), "a⏎b c\\u{1b}[31m\\u{202e}");
    }

    #[test]
    fn times_are_in_utc_and_of_any_year() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(time(at(1_700_000_000)), "2023-11-14 22:13:20");
        assert_eq!(json_time(at(1_700_000_000)), "2023-11-14T22:13:20Z");
        assert_eq!(json_time(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00Z");
        assert_eq!(json_time(at(253_402_300_800)), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn floats_have_few_digits() {
        assert_eq!([0.0, 1.5, 2.0, 1234.56789, -0.25].map(float), ["0", "1.5", "2", "1234.568", "-0.25"]);
        assert_eq!(float(1.5e-7), "1.500e-7");
    }
}
