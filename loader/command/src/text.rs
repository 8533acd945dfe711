//! Numbers and values as text for people.

use indicatif::{BinaryBytes, HumanCount};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns a length in bytes with its unit.
pub(crate) fn bytes(count: u64) -> String {
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

/// Returns `text` in one line without characters that control a terminal.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => line.push('⏎'),
            '\t' => line.push(' '),
            // Bidirectional marks would change the order of the rest of the line.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                line.extend(character.escape_unicode());
            }
            control if control.is_control() => line.extend(control.escape_default()),
            shown => line.push(shown),
        }
    }
    line
}

/// Returns `text` with at most `columns` columns of a terminal, with an ellipsis if it is longer.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut short, mut used) = (String::new(), 0);
    for character in text.chars() {
        let width = character.width().unwrap_or(0);
        if used + width >= columns {
            break;
        }
        used += width;
        short.push(character);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// Columns of `text` in a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shortened_to_columns_of_the_terminal() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("猫猫猫", 4), "猫…");
        assert_eq!(shortened("a", 0), "");
    }

    #[test]
    fn no_text_controls_the_terminal() {
        assert_eq!(one_line("a\nb\tc\u{1b}[31m\u{202e}"), "a⏎b c\\u{1b}[31m\\u{202e}");
    }

    #[test]
    fn floats_have_few_digits() {
        assert_eq!([0.0, 1.5, 2.0, 1234.56789, -0.25].map(float), ["0", "1.5", "2", "1234.568", "-0.25"]);
        assert_eq!(float(1.5e-7), "1.500e-7");
    }
}
