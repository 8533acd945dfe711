//! Text to token ids, for the decode threads of a loader.
//!
//! ```text
//! tokenizer.json --load, once per process--> Tokenizer: Engine  --encode, in any thread--> Ids
//! file of ranks                                         Ranks
//!       |                                       |                    |
//!    settings: specials, ends, encoding      ends: ids before     pieces of a long text
//!                                            and after each text
//! ```
//!
//! * [`settings`]: the [`Settings`];
//! * [`encoding`]: an [`Encoding`], which a file of ranks needs: a pattern and special tokens;
//! * [`tokenizer`]: a [`Tokenizer`], and the table of the tokenizers that the process has loaded;
//! * `document`: the parts of `tokenizer.json` that decide on special tokens, ends and the largest id;
//! * `engine`: the two engines of a `tokenizer.json`; `newer`: the newer one; `scope`: tokenizers that it may encode;
//!   `characters` and `unicode`: characters that it may encode;
//! * `added_tokens`: the added tokens in a text; `words`: words to ids; `word_table`: the words that are kept;
//!   `common_words`: words that all threads keep together;
//! * `models`: the ids of a word; `merges`: those of pairs of tokens; `vocabulary`: tokens by their bytes; `alphabet`:
//!   characters of bytes;
//! * `ranks`: vocabularies of tiktoken; `rank_pairs`: their newer engine;
//! * `long_texts`: ids of long texts that are encoded repeatedly;
//! * `pieces`: cuts of a long text that do not change its ids; `spans`: the tokens of parts of a text;
//! * [`chat`]: conversations to the text of a chat template, with the parts that are trained.
//!
//! # Engines
//!
//! The ids of a `tokenizer.json` are the ids of the wheels `tokenizers` 0.22 and 0.23. (Both have equal ids, for all
//! characters in 21 tokenizers.) The crate `tokenizers` 0.23 is their code, and is the stable engine. Its search for
//! patterns is onig, a library in C: the feature for `fancy-regex` instead is another dialect of patterns, with other
//! tables. The crate 1.0 is a release candidate that encodes many times as fast, and its wheel is not exact: its
//! tables of Unicode are newer, and it refuses unknown patterns. It encodes a text if it has code for each part of the
//! tokenizer, and if both engines treat each character of the text alike; else the stable engine does. `unicode` has
//! the 5,261 characters without equal treatment: these are the long s, and letters, signs and digits since Unicode 8,
//! and none of the characters in wide use. The version of each crate is exact in `Cargo.toml`, because the tests
//! compare these versions. When 1.0 is released, its wheel is the definition, and the stable engine can go.
//!
//! The ids of a file of ranks are tiktoken's. `tiktoken-rs` has a copy of its code, and is the stable engine. A
//! conversion to a `tokenizer.json` is not exact, because a list of merges gives an order to pairs with equal
//! ranks. So `rank_pairs` has the merges of tiktoken, and of the newer engine only the splits: for the patterns
//! that it has code for, texts without an allowed special token, and characters that both engines treat alike.
//!
//! The crate 1.0 finds a word, a piece or an added token by a part of its hash, in its vocabularies and its cache: one
//! of four billion new words has the id of a different one. So only its normalizers and pre-tokenizers are used, and
//! the search of Unigram; the models, the added tokens and the kept words are own ones, which compare bytes. Texts of
//! 8 KiB and more are kept by 128 bits of a hash and their length.
//!
//! # Memory
//!
//! A text is encoded in pieces of 256 KiB where that is exact: byte-level BPE with a known pattern, and the
//! encodings of tiktoken. It needs its ids (4 bytes each) and no copy of the text. With other tokenizers it is
//! encoded as a whole, which needs a copy if the tokenizer has a normaliser, and several bytes for each byte of the
//! text; the stable engine needs more.
//!
//! ```
//! use forebay_text::{Ids, Settings, Tokenizer};
//!
//! let json = r#"{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
//!     "post_processor": null, "decoder": null,
//!     "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1, "world": 2}, "unk_token": "[UNK]"}}"#;
//! let tokenizer = Tokenizer::load(json, &Settings::default())?;
//! let mut ids = Ids::default();
//! tokenizer.encode("hello big world", &mut ids)?;
//! assert_eq!(ids.as_slice(), [1, 0, 2]);
//! # Ok::<(), forebay_core::Error>(())
//! ```

mod added_tokens;
mod alphabet;
mod characters;
pub mod chat;
mod common_words;
mod document;
pub mod encoding;
mod engine;
mod long_texts;
mod merges;
mod models;
mod newer;
mod pieces;
mod rank_pairs;
mod ranks;
mod scope;
pub mod settings;
mod spans;
#[cfg(test)]
mod test_inputs;
pub mod tokenizer;
mod unicode;
mod vocabulary;
mod word_table;
mod words;

pub use encoding::Encoding;
pub use settings::{End, Settings, Special};
pub use tokenizer::{Ids, Tokenizer};

/// Text that differs for encoders with different ids for some text: lengths in tokens are kept by it. The number of
/// repairs is raised with each one that changes ids.
pub const ENCODER: &str = "tokenizers 0.23.2, tiktoken-rs 0.12, repairs 5";

#[cfg(test)]
mod tests {
    #[test]
    fn lengths_in_tokens_are_kept_by_the_version_of_the_encoder() {
        let dependencies = include_str!("../../../Cargo.toml");
        let [stable, ranks, _] = super::ENCODER.split(", ").collect::<Vec<_>>()[..] else {
            panic!("it has three parts")
        };
        let stable = format!("package = \"tokenizers\", version = \"={}\"", stable.trim_start_matches("tokenizers "));
        let ranks = format!("tiktoken-rs = \"{}\"", ranks.trim_start_matches("tiktoken-rs "));
        assert!(dependencies.contains(&stable) && dependencies.contains(&ranks), "raise ENCODER with the versions");
    }
}
