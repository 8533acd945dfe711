//! Rates of vague words in the prose of each crate and folder, per 1,000 words.
//!
//! "The size of the file and that of its index" makes a reader search for the noun. Such words are correct English, so
//! [`words`](crate::words) does not ban them: only their number is limited, to about the number in well-kept projects.

use crate::prose::Prose;
use crate::violation::Violation;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Words of one kind, and the number of them in 1,000 words that is accepted.
struct Rate {
    words: &'static [&'static str],
    most: f64,
    fix: &'static str,
}

const RATES: [Rate; 5] = [
    Rate { words: &["that of", "those of", "of which"], most: 0.3, fix: "name the noun again, or make two sentences" },
    Rate { words: &["whose"], most: 0.4, fix: "\"with\" and a noun, or two sentences" },
    Rate {
        words: &["another", "other", "others"],
        most: 1.5,
        fix: "\"different\" for one that differs, \"next\", or the name of the thing",
    },
    Rate { words: &["place", "places"], most: 0.5, fix: "path, offset, index, position, location, slot" },
    Rate { words: &["what"], most: 0.5, fix: "name the thing" },
];

/// Smallest number of words of a group that has rates; a smaller group is a part of the folder above it.
const WORDS_MIN: usize = 1000;

/// Number of all words and of the words of each rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct WordCount {
    all: usize,
    found: [usize; RATES.len()],
}

impl WordCount {
    fn rate(&self, index: usize) -> f64 {
        self.found[index] as f64 * 1000.0 / self.all.max(1) as f64
    }
}

/// Checks the rates of every group of files.
pub fn check(counts: &BTreeMap<String, WordCount>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (group, count) in counts.iter().filter(|(_, count)| count.all >= WORDS_MIN) {
        for (index, rate) in RATES.iter().enumerate() {
            if count.rate(index) > rate.most {
                violations.push(Violation {
                    place: group.clone(),
                    problem: format!(
                        "\"{}\" {:.2} times in 1,000 words, where {} is the most",
                        rate.words.join(" | "),
                        count.rate(index),
                        rate.most
                    ),
                    fix: rate.fix.to_owned(),
                });
            }
        }
    }
    violations
}

/// Returns the rates of all groups as lines of text.
pub fn table(counts: &BTreeMap<String, WordCount>) -> String {
    let mut lines = format!("  {:<24} {:>7}", "per 1,000 words", "words");
    for rate in &RATES {
        write!(lines, " {:>10}", rate.words[0]).expect("text has room");
    }
    for (group, count) in counts {
        write!(lines, "\n  {group:<24} {:>7}", count.all).expect("text has room");
        for index in 0..RATES.len() {
            write!(lines, " {:>10.2}", count.rate(index)).expect("text has room");
        }
    }
    lines
}

/// Counts the words of every group of files.
pub fn counts(files: &[Prose<'_>]) -> BTreeMap<String, WordCount> {
    let mut counts = BTreeMap::<String, WordCount>::new();
    // These files quote the words.
    let files = files.iter().filter(|file| !file.path.starts_with("tests/gate/src/word"));
    for file in files {
        let count = counts.entry(group(file.path)).or_default();
        for piece in &file.pieces {
            let text = piece.text.to_lowercase().replace('`', " ` ");
            let is_between = |c: char| !c.is_alphabetic() && c != '`';
            // A backtick replaces code: no phrase continues across it.
            let words: Vec<&str> = text.split(is_between).filter(|word| !word.is_empty()).collect();
            count.all += words.iter().filter(|word| **word != "`").count();
            for (found, rate) in count.found.iter_mut().zip(&RATES) {
                *found += rate.words.iter().map(|phrase| occurrences(&words, phrase)).sum::<usize>();
            }
        }
    }
    counts
}

fn occurrences(words: &[&str], phrase: &str) -> usize {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    words.windows(phrase.len()).filter(|window| *window == phrase).count()
}

/// Crate or folder of a file: `loader/store`, `python/tests`, `gpu`; `forebay.streaming` is apart from the package.
fn group(path: &str) -> String {
    let mut parts = path.split('/');
    let first = parts.next().unwrap_or(path);
    match (first, parts.next()) {
        ("python", Some("py_src")) if path.contains("/streaming/") => "python/streaming".to_owned(),
        ("python", Some("py_src")) => "python/forebay".to_owned(),
        ("loader" | "python", Some(second)) if parts.next().is_some() => format!("{first}/{second}"),
        (_, None) => "texts of the root".to_owned(),
        _ => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prose;
    use crate::sources::Source;

    fn source(path: &str, text: String) -> Source {
        Source { path: path.to_owned(), text }
    }

    fn counted(sources: &[Source]) -> BTreeMap<String, WordCount> {
        counts(&prose::read(sources))
    }

    #[test]
    fn a_word_above_its_rate_is_found_in_its_group_alone() {
        let filler = "word ".repeat(WORDS_MIN);
        let sources = [
            source("gpu/a.md", format!("{filler}whose size is that of a file")),
            source("ffi/a.md", filler.clone()),
            source("loader/order/src/a.rs", format!("// {filler}\nlet x = \"another place\"; // Whose?")),
        ];
        let places: Vec<_> = check(&counted(&sources)).into_iter().map(|found| (found.place, found.problem)).collect();
        let problems = |group: &str| places.iter().filter(|(place, _)| place == group).count();
        assert_eq!([problems("gpu"), problems("ffi"), problems("loader/order")], [2, 0, 2], "{places:?}");
    }

    #[test]
    fn a_small_group_has_no_rates() {
        assert!(check(&counted(&[source("ffi/a.md", "whose whose whose".to_owned())])).is_empty());
    }

    #[test]
    fn code_and_names_in_backticks_do_not_count() {
        let text = format!("// {}\n// The word `whose` is code.\nlet whose = other;", "word ".repeat(WORDS_MIN));
        assert!(check(&counted(&[source("gpu/src/a.rs", text)])).is_empty());
    }

    #[test]
    fn a_phrase_does_not_continue_across_code() {
        let text = format!("// {}\n// Bytes of `file`, which is open.\nlet x = 1;", "word ".repeat(WORDS_MIN));
        assert!(check(&counted(&[source("gpu/src/a.rs", text)])).is_empty());
    }

    #[test]
    fn the_table_has_a_line_for_each_group() {
        let sources = [source("gpu/a.md", "Whose file?".to_owned()), source("README.md", "A file.".to_owned())];
        let table = table(&counted(&sources));
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(table.contains("500.00"), "{table}");
    }
}
