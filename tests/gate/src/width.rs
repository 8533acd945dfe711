//! Width of the lines of Rust sources.
//!
//! rustfmt changes neither comments nor strings, and leaves the code around a string that it cannot fit. A comment and
//! a plain string can be broken (`\` at the end of a line of a string). The text of a raw string cannot, so it does not
//! count; nor does a comment of one word, such as a link.

use super::sources::Source;
use crate::violation::Violation;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;

/// Characters of a line, as in rustfmt.toml.
const COLUMNS_MAX: usize = 120;

/// Checks every Rust source.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    sources.iter().filter(|source| source.path.ends_with(".rs")).flat_map(check_file).collect()
}

fn check_file(source: &Source) -> Vec<Violation> {
    let is_wide = |line: &str| line.chars().count() > COLUMNS_MAX;
    let mut wide: Vec<(usize, &str)> =
        source.text.lines().enumerate().filter(|(_, line)| is_wide(line)).map(|(at, line)| (at + 1, line)).collect();
    if wide.is_empty() {
        return Vec::new();
    }
    let raw = raw_strings(&source.text);
    wide.retain(|(number, line)| {
        let in_raw: usize = raw.get(number).into_iter().flatten().map(|columns| columns.len()).sum();
        line.chars().count() - in_raw > COLUMNS_MAX && !is_one_word(line)
    });
    let violation = |(number, line): (usize, &str)| Violation {
        place: format!("{}:{number}", source.path),
        problem: format!("the line has {} columns, more than {COLUMNS_MAX}", line.chars().count()),
        fix: "break the comment, or the string with a `\\` at the end of the line".to_owned(),
    };
    wide.into_iter().map(violation).collect()
}

/// True for a comment without a space to break it.
fn is_one_word(line: &str) -> bool {
    line.trim_start()
        .strip_prefix("//")
        .is_some_and(|text| text.split_whitespace().filter(|word| *word != "/").count() < 2)
}

/// Returns the columns of raw strings, by the number of the line.
fn raw_strings(text: &str) -> BTreeMap<usize, Vec<Range<usize>>> {
    let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
    let mut columns = BTreeMap::new();
    if let Ok(tokens) = TokenStream::from_str(text) {
        walk(tokens, &lines, &mut columns);
    }
    columns
}

fn walk(tokens: TokenStream, lines: &[Vec<char>], columns: &mut BTreeMap<usize, Vec<Range<usize>>>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => walk(group.stream(), lines, columns),
            TokenTree::Literal(literal) => {
                let (start, end) = (literal.span().start(), literal.span().end());
                // A documentation comment is a literal, too.
                let is_raw = lines.get(start.line - 1).and_then(|line| line.get(start.column..)).is_some_and(|rest| {
                    let prefix: String = rest.iter().take(3).collect();
                    ["r\"", "r#", "br\"", "br#", "cr\"", "cr#"].iter().any(|raw| prefix.starts_with(raw))
                });
                for line in (start.line..=end.line).filter(|_| is_raw) {
                    let from = if line == start.line { start.column } else { 0 };
                    let to = if line == end.line { end.column } else { lines[line - 1].len() };
                    columns.entry(line).or_default().push(from..to);
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: path.to_owned(), text: text.to_owned() };
        check(&[source]).into_iter().map(|violation| violation.place).collect()
    }

    #[test]
    fn a_line_of_more_columns_than_allowed_is_caught_in_comments_strings_and_code() {
        // Characters count, not bytes.
        let words = "é ".repeat(60);
        for mark in ["// ", "/// ", "    //! "] {
            let line = format!("{mark}{words}");
            assert!(places("gpu/src/copy.rs", &format!("\n{line:.120}\n")).is_empty(), "{mark}");
            assert_eq!(places("gpu/src/copy.rs", &format!("\n{line:.121}\n")), ["gpu/src/copy.rs:2"], "{mark}");
        }
        let fits = "é ".repeat(56);
        let string = format!("const A: &str =\n    \"{fits}\";\nconst B: &str = \"{fits}\";");
        assert_eq!(places("gpu/tests/copy.rs", &string), ["gpu/tests/copy.rs:3"]);
        assert!(places("python/py_src/forebay/_loader.py", &string).is_empty());
    }

    #[test]
    fn the_text_of_raw_strings_does_not_count() {
        let json = "{ \"a\": 1 }".repeat(20);
        let code = "x ".repeat(55);
        assert!(places("gpu/src/a.rs", &format!("const A: &[u8] = br#\"{json}\n{json}\"#;")).is_empty());
        assert_eq!(places("gpu/src/a.rs", &format!("fn f() {{ g({code} r\"{json}\", 1) }}")), ["gpu/src/a.rs:1"]);
        // Its end is known from its delimiter.
        assert_eq!(places("gpu/src/a.rs", &format!("const A: &str = r\"\"; // {code}{code}")), ["gpu/src/a.rs:1"]);
    }

    #[test]
    fn a_comment_of_one_word_cannot_be_broken() {
        let link = format!("https://example.com/{}", "a".repeat(120));
        assert!(places("gpu/src/a.rs", &format!("/// {link}\nfn f() {{\n    // {link}\n}}")).is_empty());
        assert_eq!(places("gpu/src/a.rs", &format!("/// See {link}")), ["gpu/src/a.rs:1"]);
    }
}
