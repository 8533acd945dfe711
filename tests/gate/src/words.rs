//! Words that this repository does not use, and openers that documentation comments do not have.
//!
//! CONTRIBUTING.md has the glossary. The list here contains only words that are always wrong in technical prose:
//! persons for code, speech for data, and the second name of a concept that has one already.

use super::prose::{Piece, Prose};
use crate::violation::Violation;

/// Words of one kind.
struct Rule {
    /// Words and phrases in lower case. One that ends with `|` counts only at the end of a clause.
    words: &'static [&'static str],
    /// Phrases that contain one of the words and are technical terms or usual English.
    accepted: &'static [&'static str],
    /// The replacement.
    fix: &'static str,
}

/// Names that foreign protocols prescribe: a method of Python's file objects.
const FOREIGN_NAMES: &[&str] = &["tell"];

const fn rule(words: &'static [&'static str], fix: &'static str) -> Rule {
    Rule { words, accepted: &[], fix }
}

const BANNED: &[Rule] = &[
    rule(
        &["nobody", "somebody", "everybody", "anybody", "whoever", "who", "whom"],
        "name the thread, the process, the user",
    ),
    rule(&["tell", "tells", "telling", "told", "say", "says", "saying", "said"], "return, report, state, document"),
    rule(&["hear", "hears", "heard"], "receive, is notified"),
    rule(&["stand", "stands", "standing", "stood", "lie", "lies", "lying"], "is, are"),
    rule(&["under way", "on its way", "on their way"], "in flight"),
    rule(
        &["let go", "lets go", "put back", "puts back", "give back", "gives back", "gave back", "given back"],
        "release, return",
    ),
    rule(&["gives out", "gives away", "gave out", "gives it", "gives them", "gives everything"], "return, hand to"),
    rule(&["come again", "comes again"], "is delivered again, is retried"),
    Rule {
        words: &["go on", "goes on", "went on", "going on", "gone on", "get on", "gets on"],
        accepted: &["go on the", "goes on the", "go on a", "goes on a"],
        fix: "continue, proceed",
    },
    rule(&["mend", "mends", "mended", "mending"], "fix, repair"),
    rule(&["the same, but"], "state the difference"),
    rule(&["for the sake of"], "for, because of"),
    rule(&["at hand", "to be had"], "available"),
    rule(&["goes without"], "does not use"),
    rule(&["all the same"], "anyway, although ..."),
    Rule {
        words: &["so many", "so few", "so much"],
        accepted: &["so many that", "so few that", "so much that"],
        fix: "this many, up to the limit; or name the number",
    },
    rule(&["of its own|", "of their own|"], "a separate thread, its own table"),
    rule(
        &[
            "behind it",
            "behind them",
            "behind the end",
            "behind the last",
            "behind the header",
            "behind the samples",
            "behind the rows",
            "behind the batch",
        ],
        "after, below",
    ),
    rule(&["beside"], "next to, in addition to, compared with"),
    rule(&["straight into", "straight to", "straight from", "right into"], "directly"),
    Rule {
        words: &["that is left", "that are left", "what is left", "is left over", "are left over"],
        accepted: &["left out", "left to", "left of", "left as"],
        fix: "remaining",
    },
    rule(&["once more", "anew", "afresh"], "again"),
    rule(&["for ever"], "forever, without end"),
    rule(&["now and then"], "occasionally, at times"),
    rule(&["became of", "become of", "becomes of"], "the result of"),
];

/// First words that make a documentation comment a question or half a sentence.
const OPENERS: &[&str] = &["What", "Where", "Who", "Whether", "Which", "When"];

/// First words of a sentence that names its subject by a question ("What the user sets counts."). A heading or a real
/// question may begin with them.
const QUESTION_WORDS: &[&str] = &["What", "Whatever", "Who", "Whoever", "Whose", "Whether", "How"];

/// Share of documentation comments with such an opener, in percent, up to which they are accepted.
const OPENERS_MAX_PERCENT: usize = 3;

/// Files that quote the words that they check.
const EXEMPT: &[&str] = &["tests/gate/src/words.rs"];

/// Checks comments, strings, names and prose of every file.
pub fn check(files: &[Prose<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut openers = Vec::new();
    let mut docs = 0;
    for file in files.iter().filter(|file| !EXEMPT.contains(&file.path)) {
        let mut before = None;
        for piece in &file.pieces {
            docs += usize::from(piece.opens_doc);
            let before = before.replace(piece).filter(|before: &&Piece| before.line + 1 == piece.line);
            violations.extend(banned_words(file.path, piece, before));
            violations.extend(question(file.path, piece, before));
            openers.extend(opener(file.path, piece));
        }
    }
    if openers.len() * 100 > docs * OPENERS_MAX_PERCENT {
        violations.append(&mut openers);
    }
    violations
}

/// Violations of `piece`, and phrases that begin on the line above it, `before`.
fn banned_words(path: &str, piece: &Piece, before: Option<&Piece>) -> Vec<Violation> {
    let text: String = piece.text.to_lowercase();
    let joined = before.map(|before| (before.text.to_lowercase(), joint(&before.text, &piece.text).to_lowercase()));
    let found = |rule: &Rule| {
        let word = rule.words.iter().find(|word| {
            let crosses_lines = |(before, joined): &(String, String)| {
                word.contains(' ') && !rule.is_broken_by(before, word) && rule.is_broken_by(joined, word)
            };
            rule.is_broken_by(&text, word) || joined.as_ref().is_some_and(crosses_lines)
        })?;
        Some(Violation {
            place: format!("{path}:{}", piece.line),
            problem: format!("\"{}\" in: {}", word.trim_end_matches('|'), piece.text),
            fix: rule.fix.to_owned(),
        })
    };
    if FOREIGN_NAMES.contains(&piece.text.as_str()) {
        return Vec::new();
    }
    BANNED.iter().filter_map(found).collect()
}

impl Rule {
    fn is_broken_by(&self, text: &str, word: &str) -> bool {
        let without = self.accepted.iter().fold(text.to_owned(), |text, phrase| text.replace(phrase, ""));
        contains_word(&without, word)
    }
}

/// Returns the last two words of `before` and the first two of `after`: no phrase of the list has more than three.
fn joint(before: &str, after: &str) -> String {
    let mut end: Vec<&str> = before.split_whitespace().rev().take(2).collect();
    end.reverse();
    end.extend(after.trim_start_matches(['*', ' ']).split_whitespace().take(2));
    end.join(" ")
}

fn question(path: &str, piece: &Piece, before: Option<&Piece>) -> Option<Violation> {
    let starts = before.is_none_or(|before| before.text.ends_with(['.', ':', '?']) || before.text.is_empty());
    let first = Some(piece.text.as_str()).filter(|_| starts);
    let mut sentences = first.into_iter().chain(piece.text.split(". ").skip(1));
    let word = sentences.find_map(|sentence| {
        let word = sentence.split(|c: char| !c.is_alphanumeric()).next()?;
        (QUESTION_WORDS.contains(&word) && sentence.contains(' ') && !sentence.contains('?')).then_some(word)
    })?;
    Some(Violation {
        place: format!("{path}:{}", piece.line),
        problem: format!("a sentence begins with \"{word}\": {}", piece.text),
        fix: "begin with a noun (\"The user's settings count.\") or a verb (\"Returns true if it is open.\")"
            .to_owned(),
    })
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
    let (word, ends_clause) = word.strip_suffix('|').map_or((word, false), |word| (word, true));
    text.match_indices(word).any(|(at, _)| {
        let after = &text[at + word.len()..];
        if ends_clause && !ends_clause_before(after) {
            return false;
        }
        // The quote or dash that ends a sentence is no part of a word.
        let joins = after.starts_with(['-', '\'']) && !after[1..].starts_with(|c: char| c.is_alphanumeric());
        !text[..at].ends_with(is_part) && (joins || !after.starts_with(is_part))
    })
}

/// True if `after` begins with punctuation or a word that begins a further part of the sentence.
fn ends_clause_before(after: &str) -> bool {
    const WORDS: &[&str] =
        &["and", "as", "at", "but", "for", "in", "is", "on", "or", "over", "so", "that", "to", "which", "with"];
    let next = after.trim_start().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    next.is_empty() || WORDS.contains(&next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prose;
    use crate::sources::Source;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let sources = [Source { path: path.to_owned(), text: text.to_owned() }];
        check(&prose::read(&sources)).into_iter().map(|v| v.problem).collect()
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
    fn every_word_of_the_list_is_found_and_every_accepted_phrase_is_not() {
        for rule in BANNED {
            for word in rule.words {
                let found = problems("a.md", &format!("It is {}.", word.trim_end_matches('|')));
                assert!(!found.is_empty(), "{word}");
            }
            for phrase in rule.accepted {
                assert!(problems("a.md", &format!("It {phrase} it.")).is_empty(), "{phrase}");
            }
        }
    }

    #[test]
    fn a_phrase_may_cross_lines_and_is_reported_once() {
        assert_eq!(problems("a.rs", "// A batch that is under\n// way.").len(), 1);
        assert_eq!(problems("a.rs", "// Batches are under way.\n// Next.").len(), 1);
        assert!(problems("a.rs", "// It is under\n\n// way.").is_empty());
    }

    #[test]
    fn a_phrase_of_the_end_of_a_clause_is_accepted_before_a_noun() {
        assert_eq!(problems("a.rs", "// A thread of its own, and one of its own that waits.").len(), 1);
        assert!(problems("a.rs", "// The values of its own batch.").is_empty());
    }

    #[test]
    fn a_sentence_that_begins_with_a_question_word_is_reported_unless_it_is_a_question() {
        for text in ["// What it holds counts.", "// It waits. Whether it is open is known.", "/// How often it ran."] {
            assert_eq!(problems("a.rs", text).len(), 1, "{text}");
        }
        assert!(problems("a.md", "## What works\n\nWhat is a shard?\n").is_empty());
        assert!(problems("a.rs", "// This is\n// What it is called.").is_empty());
    }

    #[test]
    fn bare_openers_are_reported_above_their_share() {
        let documented = |others: usize| {
            let fine = "/// Ring of slots.\nstruct A;\n".repeat(others);
            format!("{fine}/// Where it is open.\nfn f() {{}}\n")
        };
        assert_eq!(problems("a.rs", &documented(1)).len(), 1);
        assert!(problems("a.rs", &documented(40)).is_empty());
    }
}
