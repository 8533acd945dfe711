//! Texts for the newer engine: which tokenizers, which characters, and cuts of long ones.

use serde_json::Value;
use tokenizers::utils::{DEEPSEEK_PATTERNS, Grammar, recognize};

use crate::characters::Characters;
use crate::document::Document;
use crate::settings::Special;

/// Characters that a tokenizer distinguishes by their properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// By the classes of the known patterns.
    Patterns,
    /// By any property.
    All,
}

impl Scope {
    /// Returns the scope of the newer engine; `None` for a tokenizer with a part that is not compared with the stable
    /// engine by the tests.
    pub(crate) fn of(document: &Document, allowed: &Special) -> Option<Self> {
        let (normalizers, splits) = (document.normalizers(), document.pre_tokenizers());
        // The newer engine has a `Metaspace` as a normalizer, which the stable engine has after the added tokens.
        let has_normalizer = !normalizers.is_empty() || splits.iter().any(|part| part["type"] == "Metaspace");
        let is_plain = |token: &Value| {
            let is_set = |name: &str| token[name] == true;
            let is_normalized = is_set("normalized") && has_normalizer;
            !is_normalized && !["lstrip", "rstrip", "single_word"].into_iter().any(is_set)
        };
        if !document.found(allowed).all(is_plain) {
            return None;
        }
        // The stable engine compares positions in the text, and a normalizer may remove the first character of it.
        let keeps_first =
            |part: &&Value| matches!(part["type"].as_str(), Some("NFC" | "NFD" | "NFKC" | "NFKD" | "Lowercase"));
        let has_first = splits.iter().any(|part| part["type"] == "Metaspace" && part["prepend_scheme"] == "first");
        if has_first && !normalizers.iter().all(keeps_first) {
            return None;
        }
        let mut scope = Self::Patterns;
        for part in &normalizers {
            match part["type"].as_str()? {
                "Prepend" => (),
                "Replace" if part["pattern"]["String"].is_string() => (),
                "NFC" | "NFD" | "NFKC" | "NFKD" | "Lowercase" | "StripAccents" | "BertNormalizer" => scope = Self::All,
                _ => return None,
            }
        }
        let are_deepseek = are_deepseek(&splits);
        for part in splits {
            match part["type"].as_str()? {
                "ByteLevel" | "Metaspace" => (),
                "Split" if part["pattern"]["String"].is_string() || is_known(part) || are_deepseek => (),
                "Whitespace" | "WhitespaceSplit" | "Punctuation" | "Digits" | "BertPreTokenizer" => scope = Self::All,
                _ => return None,
            }
        }
        Some(scope)
    }

    pub(crate) fn characters(self) -> &'static Characters {
        match self {
            Self::Patterns => Characters::of_patterns(),
            Self::All => Characters::of_all(),
        }
    }
}

/// True if a split is by a pattern that the newer engine has as code.
fn is_known(split: &Value) -> bool {
    let is_removed = split["behavior"] == "Removed" && split["invert"] == true;
    (is_isolated(split) || is_removed) && is_known_pattern(split["pattern"]["Regex"].as_str().unwrap_or_default())
}

fn is_isolated(split: &Value) -> bool {
    split["behavior"] == "Isolated" && split["invert"] != true
}

/// True for the three splits of DeepSeek and the letters of bytes. The newer engine has one code for all three
/// patterns, and none for each of them; it ignores further splits after them.
fn are_deepseek(splits: &[&Value]) -> bool {
    let [first @ .., last] = splits else { return false };
    let is_equal = |(split, pattern): (&&Value, &str)| is_isolated(split) && split["pattern"]["Regex"] == pattern;
    first.len() == DEEPSEEK_PATTERNS.len()
        && first.iter().zip(DEEPSEEK_PATTERNS).all(is_equal)
        && last["type"] == "ByteLevel"
        && last["use_regex"] == false
}

/// True for a pattern of a whole split that the newer engine has as code.
pub(crate) fn is_known_pattern(pattern: &str) -> bool {
    match recognize(pattern) {
        // Kimi's pattern has classes of scripts, which the tables of characters do not cover.
        None | Some(Grammar::Kimi) => false,
        // Its code has words of three digits for all other numbers of them.
        Some(Grammar::Cl100k { digit_cap }) => matches!(digit_cap, 1 | 3),
        Some(_) => true,
    }
}

/// True if a text may be cut as [`crate::pieces`] cuts it.
pub(crate) fn has_exact_cuts(document: &Document, allowed: &Special) -> bool {
    let is_local = |part: &&Value| matches!(part["type"].as_str(), Some("NFC" | "NFD" | "NFKC" | "NFKD"));
    let (normalizers, parts) = (document.normalizers(), document.pre_tokenizers());
    let are_deepseek = are_deepseek(&parts);
    let mut splits = 0;
    let has_exact_splits = parts.iter().all(|part| match part["type"].as_str() {
        Some("Split") => {
            splits += 1;
            is_known(part) || are_deepseek
        }
        Some("ByteLevel") => {
            splits += usize::from(part["use_regex"] != false);
            part["add_prefix_space"] == false
        }
        _ => false,
    });
    // A normaliser may make a token of different characters, on both sides of a cut.
    let is_normalized = |token: &Value| token["normalized"] == true && !normalizers.is_empty();
    let is_simple = |token: &Value| {
        let is_stripped = ["lstrip", "rstrip", "single_word"].into_iter().any(|name| token[name] == true);
        !is_stripped
            && !is_normalized(token)
            && token["content"].as_str().is_some_and(|content| !content.contains(crate::pieces::is_after_cut))
    };
    document.model()["type"] == "BPE"
        && normalizers.iter().all(is_local)
        && has_exact_splits
        && splits > 0
        && document.found(allowed).all(is_simple)
}
