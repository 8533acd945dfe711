//! Texts that resemble a language, from a seed: frequent words, rare ones, and some that no text has had before.

use super::work::SEED;
use forebay_tests::data::Draws;

/// A language: its words, the most frequent first.
pub(super) struct Language {
    pub(super) words: Vec<String>,
    new_word: fn(&mut Draws) -> String,
    /// Between words, after a clause, and after a sentence.
    separators: [&'static str; 3],
    has_capitals: bool,
}

impl Language {
    pub(super) fn english() -> Self {
        Self::new(400, latin_word, [" ", ", ", ". "], true)
    }

    pub(super) fn chinese() -> Self {
        Self::new(400, han_word, ["", "\u{ff0c}", "\u{3002}"], false)
    }

    fn new(words: u64, new_word: fn(&mut Draws) -> String, separators: [&'static str; 3], has_capitals: bool) -> Self {
        let words = (0..words).map(|number| new_word(&mut Draws::new(SEED, number))).collect();
        Self { words, new_word, separators, has_capitals }
    }

    /// Returns text number `number`, of `words` words.
    pub(super) fn text(&self, number: u64, words: u64) -> String {
        let mut draws = Draws::new(SEED + 1, number);
        let (mut text, mut starts) = (String::new(), true);
        for _ in 0..words {
            let word = match draws.below(40) {
                0 => (self.new_word)(&mut draws),
                1 => draws.below(3_000).to_string(),
                _ => self.words[(draws.unit().powi(3) * self.words.len() as f64) as usize].clone(),
            };
            match word.chars().next().filter(|_| starts && self.has_capitals) {
                Some(first) => text.extend(first.to_uppercase().chain(word.chars().skip(1))),
                None => text.push_str(&word),
            }
            let separator = match draws.below(12) {
                0 => 2,
                1 => 1,
                _ => 0,
            };
            text.push_str(self.separators[separator]);
            starts = separator == 2;
        }
        text
    }
}

/// Returns one to four syllables.
fn latin_word(draws: &mut Draws) -> String {
    let (starts, middles, ends) = (b"bcdfghklmnprstvw", b"aeiou", b"nrstl");
    let mut word = String::new();
    for _ in 0..=draws.below(4) {
        word.push(starts[draws.below(16) as usize].into());
        word.push(middles[draws.below(5) as usize].into());
        if draws.below(3) == 0 {
            word.push(ends[draws.below(5) as usize].into());
        }
    }
    word
}

/// Returns one to three of a thousand characters.
fn han_word(draws: &mut Draws) -> String {
    let character = |draws: &mut Draws| char::from_u32(0x4e00 + 19 * draws.below(1_000) as u32).unwrap_or_default();
    (0..=draws.below(3)).map(|_| character(draws)).collect()
}
