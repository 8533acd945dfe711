//! Braces in names, expanded as Python's package `braceexpand` does, which WebDataset uses.

use crate::error::{Error, Result};

/// Most tars of a list. More would take gigabytes for their names alone.
pub const NAMES_MAX: usize = 10_000_000;

/// Bound of the nesting of braces, since each level is a call.
const DEPTH_MAX: usize = 32;

/// Letters of a range such as `{a..f}`, in the order that the ranges follow.
const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Part of a pattern, with its backslashes. Every name has one text of each part, and the texts of the last part
/// alternate fastest.
#[derive(Debug)]
enum BracePart {
    Text(String),
    Numbers {
        series: Series,
        /// Width that zeros fill, the sign included; 0 for none.
        width: usize,
    },
    /// Positions in [`LETTERS`].
    Letters(Series),
    Choice(Vec<Vec<BracePart>>),
}

/// Numbers from `first` to at most `last`, in either direction.
#[derive(Debug)]
struct Series {
    first: i64,
    last: i64,
    /// At least 1.
    step: u64,
}

impl Series {
    fn count(&self) -> u64 {
        (self.first.abs_diff(self.last) / self.step).saturating_add(1)
    }

    fn values(&self) -> impl Iterator<Item = i64> {
        let (first, is_up) = (i128::from(self.first), self.first < self.last);
        (0..self.count()).map(move |n| {
            let distance = i128::from(n) * i128::from(self.step);
            let value = if is_up { first + distance } else { first - distance };
            // Between `first` and `last`, so it fits.
            value as i64
        })
    }
}

/// Returns the names that `pattern` expands to, in order. A backslash takes the meaning of the character after it.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] for braces without their counterpart, and for more than `names_max` names.
pub(super) fn expand(pattern: &str, names_max: usize) -> Result<Vec<String>> {
    check_balance(pattern)?;
    let parts = parse(pattern)?;
    if count(&parts) > names_max as u64 {
        return Err(Error::config(format!(
            "the braces expand to more names than a loader takes in one stream ({}): write larger tars, or make \
             several streams",
            NAMES_MAX
        )));
    }
    Ok(texts(&parts))
}

fn check_balance(pattern: &str) -> Result<()> {
    let (mut depth, mut deepest) = (0_isize, 0);
    for (_, byte) in active(pattern) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if depth != 0 {
        return Err(Error::config(
            "a brace has no counterpart: add it, or write \\{ or \\} for one that is part of the name",
        ));
    }
    if deepest > DEPTH_MAX as isize {
        return Err(Error::config(format!(
            "braces nest deeper than {DEPTH_MAX}: write several patterns with :: between"
        )));
    }
    Ok(())
}

/// Returns the bytes of `text` that no backslash precedes, with their positions, without the backslashes.
fn active(text: &str) -> impl Iterator<Item = (usize, u8)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at) == Some(&b'\\') {
            at += 2;
        }
        let found = (at, *bytes.get(at)?);
        at += 1;
        Some(found)
    })
}

/// Parses a pattern with balanced braces.
fn parse(pattern: &str) -> Result<Vec<BracePart>> {
    let mut parts = Vec::new();
    // A closing brace before its opening one makes it negative: such a pair is text.
    let (mut start, mut depth) = (0, 0_isize);
    for (at, byte) in active(pattern) {
        match byte {
            b'{' => {
                if depth == 0 {
                    parts.push(BracePart::Text(pattern[start..at].to_owned()));
                    start = at;
                }
                depth += 1;
            }
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    push_group(&pattern[start + 1..at], &mut parts)?;
                    start = at + 1;
                }
            }
            _ => {}
        }
    }
    parts.push(BracePart::Text(pattern[start..].to_owned()));
    Ok(parts)
}

/// Appends the meaning of `inside`, which is between braces.
fn push_group(inside: &str, parts: &mut Vec<BracePart>) -> Result<()> {
    if let Some(range) = range(inside)? {
        parts.push(range);
        return Ok(());
    }
    let mut choices = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    for (at, byte) in active(inside) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                choices.push(parse(&inside[start..at])?);
                start = at + 1;
            }
            _ => {}
        }
    }
    if choices.is_empty() {
        // Neither a range nor a list: the braces are text.
        parts.push(BracePart::Text("{".to_owned()));
        parts.push(BracePart::Choice(vec![parse(inside)?]));
        parts.push(BracePart::Text("}".to_owned()));
    } else {
        choices.push(parse(&inside[start..])?);
        parts.push(BracePart::Choice(choices));
    }
    Ok(())
}

/// Parses `first..last` and `first..last..step`, of numbers or of letters. The sign of a step has no meaning.
fn range(inside: &str) -> Result<Option<BracePart>> {
    let mut ends = inside.split("..");
    let (Some(first), Some(last), step, None) = (ends.next(), ends.next(), ends.next(), ends.next()) else {
        return Ok(None);
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let step = step.map(unsigned);
    if step.is_some_and(|step| !is_digits(step)) {
        return Ok(None);
    }
    let number =
        |text: &str| text.parse::<i64>().map_err(|e| Error::config("a number in braces is too large").caused_by(e));
    let step = step.map_or(Ok(1), number)?.unsigned_abs().max(1);
    if is_digits(unsigned(first)) && is_digits(unsigned(last)) {
        let is_padded = |text: &str| unsigned(text).starts_with('0') && unsigned(text).len() > 1;
        let width = if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
        let series = Series { first: number(first)?, last: number(last)?, step };
        return Ok(Some(BracePart::Numbers { series, width }));
    }
    let letter = |text: &str| match text.as_bytes() {
        [byte] => LETTERS.iter().position(|letter| letter == byte).map(|at| at as i64),
        _ => None,
    };
    let ends = letter(first).zip(letter(last));
    Ok(ends.map(|(first, last)| BracePart::Letters(Series { first, last, step })))
}

fn unsigned(number: &str) -> &str {
    number.strip_prefix('-').unwrap_or(number)
}

/// Removes the backslashes that quote characters.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some(next)) if next != '\n' => {
                plain.push(next);
                chars.next();
            }
            _ => plain.push(c),
        }
    }
    plain
}

fn count(parts: &[BracePart]) -> u64 {
    let of_part = |part: &BracePart| match part {
        BracePart::Text(_) => 1,
        BracePart::Numbers { series, .. } | BracePart::Letters(series) => series.count(),
        BracePart::Choice(choices) => choices.iter().fold(0, |sum: u64, parts| sum.saturating_add(count(parts))),
    };
    parts.iter().map(of_part).fold(1, u64::saturating_mul)
}

fn texts(parts: &[BracePart]) -> Vec<String> {
    let mut names = vec![String::new()];
    for part in parts {
        let ends = match part {
            BracePart::Text(text) => {
                names.iter_mut().for_each(|name| name.push_str(text));
                continue;
            }
            BracePart::Numbers { series, width } => series.values().map(|n| format!("{n:0width$}")).collect(),
            BracePart::Letters(series) => {
                let letter = |at| usize::try_from(at).ok().and_then(|at: usize| LETTERS.get(at));
                series.values().filter_map(letter).map(|b| char::from(*b).to_string()).collect()
            }
            BracePart::Choice(choices) => choices.iter().flat_map(|parts| texts(parts)).collect::<Vec<_>>(),
        };
        names = names.iter().flat_map(|name| ends.iter().map(move |end| format!("{name}{end}"))).collect();
    }
    // On each level, as the package does: inside of braces a backslash that is part of the name is written four times.
    names.iter_mut().filter(|name| name.contains('\\')).for_each(|name| *name = unescape(name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `tests/oracle/braces_golden.py` with the package itself: a pattern, and its names or null for an
    /// error.
    const CASES: &str = include_str!("../../../tests/data/sources/braces.jsonl");

    #[test]
    fn braces_expand_as_in_pythons_package() {
        let mut cases = 0;
        for line in CASES.lines() {
            let (pattern, names): (String, Option<Vec<String>>) = serde_json::from_str(line).expect("a case");
            let expanded = expand(&pattern, 1_000_000);
            match names {
                Some(names) => assert_eq!(expanded.expect(&pattern), names, "{pattern}"),
                None => assert!(expanded.is_err(), "{pattern}"),
            }
            cases += 1;
        }
        assert!(cases > 1000, "{cases}");
    }

    #[test]
    fn an_expansion_is_bounded() {
        assert_eq!(expand("{1..9}", 9).expect("as many as allowed").len(), 9);
        for (pattern, says) in [
            ("{0..9}", "more names"),
            ("{0..9223372036854775807}", "more names"),
            ("{-9223372036854775808..9223372036854775807}", "more names"),
            ("{0..999999}{0..999999}{0..999999}{0..999999}", "more names"),
            ("{0..99999999999999999999}", "too large"),
            ("{0..9..99999999999999999999}", "too large"),
            ("x-{0..9.tar", "no counterpart"),
            ("x-0..9}.tar", "no counterpart"),
        ] {
            let e = expand(pattern, 9).expect_err(pattern);
            assert_eq!(e.kind(), crate::ErrorKind::Config);
            assert!(e.to_string().contains(says), "{pattern}: {e}");
        }
        let deep = format!("{}{}", "{".repeat(100_000), "}".repeat(100_000));
        assert!(expand(&deep, 9).expect_err("deep").to_string().contains("nest deeper"));
    }

    #[test]
    fn a_range_at_the_ends_of_the_numbers_is_not_cut() {
        let names = expand("{9223372036854775806..9223372036854775807}", 9).expect("two names");
        assert_eq!(names, ["9223372036854775806", "9223372036854775807"]);
        let names = expand("{-9223372036854775808..0..9223372036854775807}", 9).expect("two names");
        assert_eq!(names, ["-9223372036854775808", "-1"]);
    }
}
