//! Words that this repository does not use, and openers that documentation comments do not have.
//!
//! CONTRIBUTING.md has the glossary. The list here contains only words that are always wrong in technical prose: persons
//! for code, speech for data, and the second name of a concept that has one already.

use super::Violation;
use super::prose::{Piece, pieces};
use super::sources::Source;

/// Words and phrases in lower case, and the replacement.
const BANNED: &[(&[&str], &str)] = &[
    (
        &["nobody", "somebody", "everybody", "anybody", "whoever", "who", "whom"],
        "name the thread, the process, the user",
    ),
    (&["tell", "tells", "telling", "told", "say", "says", "saying", "said"], "return, report, state, document"),
    (&["hear", "hears", "heard"], "receive, is notified"),
    (&["stand", "stands", "standing", "stood", "lie", "lies", "lying"], "is, are"),
    (&["under way"], "in flight"),
    (
        &["let go", "lets go", "put back", "puts back", "give back", "gives back", "gave back", "given back"],
        "release, return",
    ),
    (&["come again", "comes again"], "is delivered again, is retried"),
    (&["mend", "mends", "mended", "mending"], "fix, repair"),
    (&["the same, but"], "state the difference"),
    (&["for the sake of"], "for, because of"),
    (&["get on", "gets on"], "proceed"),
    (&["at hand"], "available"),
    (&["goes without"], "does not use"),
    (&["all the same"], "anyway, although ..."),
];

/// First words that make a documentation comment a question or half a sentence.
const OPENERS: &[&str] = &["What", "Where", "Who", "Whether", "Which", "When"];

/// Share of documentation comments with such an opener, in percent, up to which they are accepted.
const OPENERS_MAX_PERCENT: usize = 3;

/// Files that quote what they check.
const EXEMPT: &[&str] = &["tests/src/gate/words.rs"];

/// Checks comments, strings, names and prose of every file.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut openers = Vec::new();
    let mut docs = 0;
    for source in sources.iter().filter(|source| !EXEMPT.contains(&source.path.as_str())) {
        for piece in pieces(&source.path, &source.text) {
            docs += usize::from(piece.opens_doc);
            violations.extend(banned_words(&source.path, &piece));
            openers.extend(opener(&source.path, &piece));
        }
    }
    if openers.len() * 100 > docs * OPENERS_MAX_PERCENT {
        violations.append(&mut openers);
    }
    violations
}

fn banned_words(path: &str, piece: &Piece) -> Vec<Violation> {
    let text: String = piece.text.to_lowercase();
    let violation = |word: &str, fix: &str| Violation {
        place: format!("{path}:{}", piece.line),
        problem: format!("\"{word}\" in: {}", piece.text),
        fix: fix.to_owned(),
    };
    let found = |(words, fix): &(&[&str], &'static str)| {
        let word = words.iter().find(|word| contains_word(&text, word))?;
        Some(violation(word, fix))
    };
    BANNED.iter().filter_map(found).collect()
}

fn opener(path: &str, piece: &Piece) -> Option<Violation> {
    let word = piece.text.split(|c: char| !c.is_alphanumeric()).next().filter(|_| piece.opens_doc)?;
    OPENERS.contains(&word).then(|| Violation {
        place: format!("{path}:{}", piece.line),
        problem: format!("a documentation comment opens with \"{word}\": {}", piece.text),
        fix: "open with a noun phrase (\"Ring of slots.\") or a verb (\"Returns the next batch.\")".to_owned(),
    })
}

/// True if `word` is in `text` as a word of its own; a hyphen joins words, as in "stand-in".
fn contains_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '\'');
    text.match_indices(word).any(|(at, _)| {
        let after = &text[at + word.len()..];
        // The quote or dash that ends a sentence is no part of a word.
        let joins = after.starts_with(['-', '\'']) && !after[1..].starts_with(|c: char| c.is_alphanumeric());
        !text[..at].ends_with(is_part) && (joins || !after.starts_with(is_part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&[Source { path: path.to_owned(), text: text.to_owned() }]).into_iter().map(|v| v.problem).collect()
    }

    #[test]
    fn a_banned_word_is_found_in_comments_strings_and_names() {
        let text = "// Nobody waits.\nfn who_waits() { f(\"it lies there\") }";
        let expected = ["\"nobody\" in: Nobody waits.", "\"lies\" in: it lies there", "\"who\" in: who waits"];
        assert_eq!(problems("loader/src/a.rs", text), expected);
        assert_eq!(problems("README.md", "# It\n\nThe batch is under way.\n").len(), 1);
    }

    #[test]
    fn a_part_of_another_word_and_code_are_accepted() {
        assert!(problems("a.rs", "// A stand-in, whose `tell` implies nothing.\nlet who = 1;").is_empty());
    }

    #[test]
    fn bare_openers_are_reported_above_their_share() {
        let documented = |others: usize| {
            let fine = "/// Ring of slots.\nstruct A;\n".repeat(others);
            format!("{fine}/// Whether it is open.\nfn f() {{}}\n")
        };
        assert_eq!(problems("a.rs", &documented(1)).len(), 1);
        assert!(problems("a.rs", &documented(40)).is_empty());
    }
}
