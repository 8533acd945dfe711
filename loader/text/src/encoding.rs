//! Patterns and special tokens of tiktoken's encodings, which a file of ranks does not have.

use std::collections::BTreeMap;

use forebay_core::error::{Error, Result};

/// Pattern and special tokens of a file of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// An encoding of tiktoken, such as `"cl100k_base"`.
    Named(String),
    /// A regular expression and the ids of special tokens.
    Own(String, BTreeMap<String, u32>),
}

const R50K: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s";
const CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// Patterns of the newer engine with the splits of `R50K`, and of `CL100K` except for white space at the end of a text.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Names of the encodings.
const NAMES: &str = "gpt2, r50k_base, p50k_base, p50k_edit, cl100k_base, o200k_base and o200k_harmony";

const TEXT: (&str, u32) = ("<|endoftext|>", 50256);
const EDIT: [(&str, u32); 4] = [TEXT, ("<|fim_prefix|>", 50281), ("<|fim_middle|>", 50282), ("<|fim_suffix|>", 50283)];
const CL100K_SPECIAL: [(&str, u32); 5] = [
    ("<|endoftext|>", 100_257),
    ("<|fim_prefix|>", 100_258),
    ("<|fim_middle|>", 100_259),
    ("<|fim_suffix|>", 100_260),
    ("<|endofprompt|>", 100_276),
];
const O200K_SPECIAL: [(&str, u32); 2] = [("<|endoftext|>", 199_999), ("<|endofprompt|>", 200_018)];
const HARMONY_SPECIAL: [(&str, u32); 9] = [
    ("<|startoftext|>", 199_998),
    ("<|endoftext|>", 199_999),
    ("<|return|>", 200_002),
    ("<|constrain|>", 200_003),
    ("<|channel|>", 200_005),
    ("<|start|>", 200_006),
    ("<|end|>", 200_007),
    ("<|message|>", 200_008),
    ("<|call|>", 200_012),
];

impl Encoding {
    pub(crate) fn pattern(&self) -> Result<&str> {
        match self {
            Self::Own(pattern, _) => Ok(pattern),
            Self::Named(name) => match name.as_str() {
                "gpt2" | "r50k_base" | "p50k_base" | "p50k_edit" => Ok(R50K),
                "cl100k_base" => Ok(CL100K),
                "o200k_base" | "o200k_harmony" => Ok(O200K),
                _ => Err(unknown(name)),
            },
        }
    }

    /// Returns the pattern of the newer engine with the same splits, and true if white space at the end of a text is
    /// one word beyond it. The newer engine may not know the pattern.
    pub(crate) fn newer_pattern(&self) -> Result<(&str, bool)> {
        Ok(match self.pattern()? {
            R50K => (GPT2, false),
            CL100K => (LLAMA3, true),
            pattern => (pattern, false),
        })
    }

    /// Returns the special tokens and their ids.
    pub(crate) fn special(&self) -> Result<Vec<(String, u32)>> {
        let named = |tokens: &[(&str, u32)]| tokens.iter().map(|(token, id)| ((*token).to_owned(), *id)).collect();
        let name = match self {
            Self::Own(_, special) => return Ok(special.clone().into_iter().collect()),
            Self::Named(name) => name.as_str(),
        };
        Ok(match name {
            "gpt2" | "r50k_base" | "p50k_base" => named(&[TEXT]),
            "p50k_edit" => named(&EDIT),
            "cl100k_base" => named(&CL100K_SPECIAL),
            "o200k_base" => named(&O200K_SPECIAL),
            "o200k_harmony" => harmony(named(&HARMONY_SPECIAL)),
            _ => return Err(unknown(name)),
        })
    }

    /// True if texts may be cut as [`crate::pieces`] cuts them.
    pub(crate) fn has_exact_cuts(&self) -> bool {
        matches!(self, Self::Named(_))
    }
}

/// Adds the reserved tokens, which have the ids that the tokens with a meaning leave.
fn harmony(mut special: Vec<(String, u32)>) -> Vec<(String, u32)> {
    let free = (200_000..201_088).filter(|id| !special.iter().any(|(_, used)| used == id)).collect::<Vec<_>>();
    special.extend(free.into_iter().map(|id| (format!("<|reserved_{id}|>"), id)));
    special.push(("<|endofprompt|>".to_owned(), 200_018));
    special
}

fn unknown(name: &str) -> Error {
    Error::config(format!("`encoding` is one of {NAMES}, or a pattern with special tokens")).with("encoding", name)
}
