//! Text to token ids, for the decode threads of a loader.
//!
//! ```text
//! tokenizer.json --load, once per process--> Tokenizer --encode, in any thread--> Ids
//!       |                                       |
//!    settings: specials, ends                 ends: ids before and after each text
//! ```
//!
//! * [`settings`]: the [`Settings`];
//! * [`tokenizer`]: a [`Tokenizer`], and the table of the tokenizers that the process has loaded;
//! * `document`: the parts of `tokenizer.json` that decide on special tokens, ends and the largest id.
//!
//! The engine is the crate `tokenizers` 1.0 of Hugging Face. Reasons: it has every kind of model and reads every
//! version of `tokenizer.json`; it has no library in C; one tokenizer serves all threads, each with a bounded cache of
//! words. It is a release candidate, so its version is exact in `Cargo.toml`. `python/tests/test_tokenize.py` compares
//! the ids with the stable Python package, and these are the differences to it:
//!
//! * Tables of Unicode are newer. BPE differs for letters that they have in addition, such as U+32EF0 of Unicode 17.
//!   WordPiece, WordLevel and Unigram with normalisation or with splits at words differ for characters with a class or
//!   a decomposition that changed between the two versions of Unicode, such as U+0C77 for BERT's punctuation.
//! * A `Split` by a pattern that the engine does not have as code is refused. Its reader never makes the general
//!   search.
//!
//! Memory: a text is encoded as a whole. It needs its ids (4 bytes each), a copy if the tokenizer has a normaliser, and
//! 8 bytes for each word. Texts are not cut, since a cut is exact for a few patterns only.
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

mod document;
pub mod settings;
pub mod tokenizer;

pub use settings::{End, Settings, Special};
pub use tokenizer::{Ids, Tokenizer};

/// Text that differs for encoders with different ids for some text: lengths in tokens are kept by it.
pub const ENCODER: &str = "tokenizers 1.0.0-rc.3";

#[cfg(test)]
mod tests {
    #[test]
    fn lengths_in_tokens_are_kept_by_the_version_of_the_encoder() {
        let version = super::ENCODER.trim_start_matches("tokenizers ");
        let line = format!("tokenizers = {{ version = \"={version}\"");
        assert!(include_str!("../../../Cargo.toml").contains(&line), "raise ENCODER with the version");
    }
}
