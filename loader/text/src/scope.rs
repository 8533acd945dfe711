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
        let normalizers = document.normalizers();
        let is_plain = |token: &Value| {
            let is_set = |name: &str| token[name] == true;
            let is_normalized = is_set("normalized") && !normalizers.is_empty();
            !is_normalized && !["lstrip", "rstrip", "single_word"].into_iter().any(is_set)
        };
        if !document.found(allowed).all(is_plain) {
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
        for part in document.pre_tokenizers() {
            match part["type"].as_str()? {
                "ByteLevel" | "Metaspace" => (),
                "Split" if part["pattern"]["String"].is_string() || is_known(part) => (),
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
    let pattern = split["pattern"]["Regex"].as_str().unwrap_or_default();
    let is_isolated = split["behavior"] == "Isolated" && split["invert"] != true;
    let is_removed = split["behavior"] == "Removed" && split["invert"] == true;
    (is_isolated && DEEPSEEK_PATTERNS.contains(&pattern)) || ((is_isolated || is_removed) && is_known_pattern(pattern))
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
    let mut splits = 0;
    let has_exact_splits = document.pre_tokenizers().iter().all(|part| match part["type"].as_str() {
        Some("Split") => {
            splits += 1;
            is_known(part)
        }
        Some("ByteLevel") => {
            splits += usize::from(part["use_regex"] != false);
            part["add_prefix_space"] == false
        }
        _ => false,
    });
    let is_simple = |token: &Value| {
        let is_stripped = ["lstrip", "rstrip", "single_word"].into_iter().any(|name| token[name] == true);
        !is_stripped && token["content"].as_str().is_some_and(|content| !content.contains(crate::pieces::is_after_cut))
    };
    document.model()["type"] == "BPE"
        && document.normalizers().iter().all(is_local)
        && has_exact_splits
        && splits > 0
        && document.found(allowed).all(is_simple)
}
