use std::collections::{BTreeMap, HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fancy_regex::Regex;
use tiktoken_rs::CoreBPE;
use tokenizers::pipeline::{PipelineToken, PreTokenizer as _};

use super::{RankPairs, join_end};
use crate::characters::Characters;
use crate::encoding::Encoding;
use crate::merges::{Merge, SEARCHED_MAX};
use crate::ranks::Ranks;
use crate::settings::Special;
use crate::test_inputs::draws;
use crate::unicode::{PATTERNS, REST};

const ENCODINGS: [&str; 3] = ["r50k_base", "cl100k_base", "o200k_base"];

const PARTS: [&str; 48] = [
    "<|endoftext|>",
    "<|",
    "the",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\n\n",
    "\t",
    "'s",
    "'S",
    "'\u{17f}",
    "'LL",
    "'",
    ".",
    "..",
    ",",
    "=",
    "====",
    "-",
    "aaa",
    "a",
    "aa",
    "ba",
    "ab",
    "1",
    "12345",
    "\u{b2}",
    "中文",
    "。",
    "ell",
    "\u{301}",
    "\u{a0}",
    "\u{85}",
    "\u{3000}",
    "\u{200b}",
    "Привет",
    "X",
    "XyZ",
    "\u{1c5}",
    "🤣",
    "한국",
    "カナ",
    "/",
    "/\n",
    "\u{5d0}\u{5b0}",
    "\0",
    "é",
];

/// All bytes, and pairs of tokens that a text would be merged to, with some tokens that no merge makes.
fn vocabulary(draw: &mut impl FnMut(usize) -> usize) -> Vec<(Vec<u8>, u32)> {
    let mut tokens: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
    let mut known: HashSet<Vec<u8>> = tokens.iter().cloned().collect();
    let common = b"aab==- th\n";
    while tokens.len() < 700 {
        let mut half = || match draw(3) {
            0 => vec![common[draw(common.len())]],
            1 => PARTS[draw(PARTS.len())].as_bytes().to_vec(),
            _ => tokens[256.min(tokens.len() - 1) + draw(tokens.len().saturating_sub(256).max(1))].clone(),
        };
        let token = [half(), half()].concat();
        if token.len() < 40 && known.insert(token.clone()) {
            tokens.push(token);
        }
    }
    tokens.into_iter().zip(0..).collect()
}

fn engines(tokens: &[(Vec<u8>, u32)], encoding: &Encoding) -> (CoreBPE, RankPairs) {
    let ranks = tokens.iter().cloned().collect();
    let stable =
        CoreBPE::new(ranks, std::iter::empty::<(String, u32)>().collect(), encoding.pattern().unwrap()).unwrap();
    let (pattern, ends_whole) = encoding.newer_pattern().unwrap();
    (stable, RankPairs::new(tokens, pattern, ends_whole).unwrap())
}

fn encodings() -> Vec<Encoding> {
    let own = |pattern: &str| Encoding::Own(pattern.to_owned(), BTreeMap::new());
    let llama_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let named = ENCODINGS.map(|name| Encoding::Named(name.to_owned()));
    named.into_iter().chain([own(llama_3), own(&llama_3.replace("{1,3}", ""))]).collect()
}

fn ids(fast: &RankPairs, text: &str) -> Vec<u32> {
    let mut ids: Vec<PipelineToken> = Vec::new();
    fast.encode(text, &mut ids).unwrap();
    PipelineToken::cast_slice(&ids).to_vec()
}

/// The file of a vocabulary.
fn file(tokens: &[(Vec<u8>, u32)]) -> String {
    tokens.iter().map(|(token, id)| format!("{} {id}\n", STANDARD.encode(token))).collect()
}

#[test]
fn ids_are_those_of_tiktoken_for_texts_of_any_parts() {
    let mut draw = draws();
    for encoding in encodings() {
        let tokens = vocabulary(&mut draw);
        let special = encoding.special().unwrap();
        let ranks = tokens.iter().cloned().collect();
        let stable = CoreBPE::new(ranks, special.iter().cloned().collect(), encoding.pattern().unwrap()).unwrap();
        let known: HashSet<&str> = special.iter().map(|(token, _)| &**token).collect();
        for allowed in [Special::Nothing, Special::All] {
            let ours = Ranks::new(&file(&tokens), &encoding, &allowed).unwrap();
            assert!(ours.fast.is_some());
            let allowed = if allowed == Special::All { known.clone() } else { HashSet::new() };
            for number in 0..2_000 {
                let count = draw(if number % 50 == 0 { 300 } else { 20 });
                let few = 1 + draw(PARTS.len());
                let text: String = (0..count).map(|_| PARTS[draw(PARTS.len()) % few]).collect();
                let mut found: Vec<PipelineToken> = Vec::new();
                ours.encode(&text, &mut found).unwrap();
                let expected = stable.encode(&text, &allowed).unwrap().0;
                assert_eq!(PipelineToken::cast_slice(&found), expected, "{encoding:?} {text:?}");
            }
        }
    }
}

#[test]
fn long_words_have_the_merges_of_short_ones() {
    let mut draw = draws();
    let tokens = vocabulary(&mut draw);
    let (stable, fast) = engines(&tokens, &encodings()[0]);
    for _ in 0..300 {
        let (length, kinds) = (1 + draw(4 * SEARCHED_MAX), 1 + draw(3));
        let word: String = (0..length).map(|_| ["a", "b", "th"][draw(3) % kinds]).collect();
        let (mut searched, mut queued) = (Merge::default(), Merge::default());
        fast.merges.begin(&word, &mut searched);
        fast.merges.search(&mut searched);
        fast.merges.begin(&word, &mut queued);
        fast.merges.merge_long(&mut queued);
        assert_eq!(searched.tokens, queued.tokens, "{word}");
        assert_eq!(ids(&fast, &word), stable.encode_ordinary(&word), "{word}");
    }
}

/// A word of many letters takes no time that grows with its square.
#[test]
fn a_very_long_word_is_merged() {
    let tokens = vocabulary(&mut draws());
    let (_, fast) = engines(&tokens, &encodings()[0]);
    let word = "ab".repeat(1 << 16);
    let lengths: HashMap<u32, usize> = tokens.iter().map(|(token, id)| (*id, token.len())).collect();
    assert_eq!(ids(&fast, &word).iter().map(|id| lengths[id]).sum::<usize>(), word.len());
}

#[test]
fn a_pattern_that_the_newer_engine_does_not_know_has_the_stable_one_alone() {
    let tokens = vocabulary(&mut draws());
    let llama_3 = &encodings()[3];
    let digits = ["{1,2}", "+"].map(|digits| llama_3.pattern().unwrap().replace("{1,3}", digits));
    for pattern in [r"\w+|\W+", r"[\p{Han}]+|x", "("].into_iter().chain(digits.iter().map(|pattern| &**pattern)) {
        assert!(RankPairs::new(&tokens, pattern, false).is_none(), "{pattern}");
    }
}

#[test]
fn white_space_at_the_end_is_one_word() {
    let tokens = vocabulary(&mut draws());
    let (_, fast) = engines(&tokens, &Encoding::Named("cl100k_base".to_owned()));
    for (text, last) in [("a. \n \n ", " \n \n "), ("a.\n\n  ", "  "), (" \n ", " \n "), ("ab", "ab")] {
        let (mut scratch, mut words) = (super::PreTokenizerScratch::default(), Vec::new());
        fast.split.pre_tokenize(text, &mut scratch, &mut words).unwrap();
        join_end(text, &mut words);
        let word = words.last().unwrap();
        assert_eq!(&text[word.start as usize..word.end as usize], last, "{text:?}");
    }
}

/// Characters around the ends of the ranges of the tables, and each 13th one of the rest, or all.
fn characters() -> impl Iterator<Item = char> {
    let step = if std::env::var_os("FOREBAY_TEST_CHARACTERS").is_some() { 1 } else { 13 };
    let ends = PATTERNS.iter().chain(REST).flat_map(|&(first, last)| (first - 2..=first).chain(last..=last + 2));
    let all = (0..0x4e00).chain(0x9fa6..0xac00).chain(0xd7a4..0xd800).chain(0xf900..0x3_3500).step_by(step);
    ends.chain(all).filter_map(char::from_u32).filter(|c| Characters::of_patterns().have_all(&c.to_string()))
}

#[test]
fn characters_have_the_splits_of_tiktoken() {
    let tokens = vocabulary(&mut draws());
    let mut different = Vec::new();
    for encoding in encodings() {
        let regex = Regex::new(encoding.pattern().unwrap()).unwrap();
        let (_, fast) = engines(&tokens, &encoding);
        let (mut scratch, mut words) = (super::PreTokenizerScratch::default(), Vec::new());
        for c in characters() {
            let text = format!(
                "a{c} {c}A{c}a1{c}1 {c}1.{c}. .{c}a  {c}\n{c}\u{e9}{c}'s'{c}\u{301}{c}\u{4e2d}{c} a'{c}b '{c}b"
            );
            words.clear();
            fast.split.pre_tokenize(&text, &mut scratch, &mut words).unwrap();
            if fast.ends_whole {
                join_end(&text, &mut words);
            }
            let found = words.iter().map(|word| (word.start as usize, word.end as usize));
            let expected = regex.find_iter(&text).map(|found| found.unwrap()).map(|found| (found.start(), found.end()));
            if !found.eq(expected) {
                different.push(c as u32);
            }
        }
    }
    different.sort_unstable();
    different.dedup();
    assert!(different.is_empty(), "{different:x?}");
}
