//! Texts to rows of token ids. The first pass has different texts than the second, so that the counted one has words
//! that were kept, and new ones.

use super::language::Language;
use super::vocabulary::{byte_pairs, unigram as scored_pieces, word_piece as pieces};
use super::work::{SEED, Work};
use forebay_loader::decode::{DrawKey, FieldPlan, FieldSpec, Row};
use forebay_loader::format::{Column, Encoding};
use forebay_loader::{Error, Result};
use serde_json::{Value, json};
use std::hint::black_box;

/// Texts of a pass.
const TEXTS: u64 = 8;
/// A text has fewer than 8 KiB: the ids of longer ones are kept.
const WORDS: u64 = 500;

pub(super) fn bpe_english() -> Result<Work> {
    encoded(&Language::english(), byte_pairs)
}

pub(super) fn bpe_cjk() -> Result<Work> {
    encoded(&Language::chinese(), byte_pairs)
}

pub(super) fn unigram() -> Result<Work> {
    encoded(&Language::english(), scored_pieces)
}

pub(super) fn word_piece() -> Result<Work> {
    encoded(&Language::english(), pieces)
}

fn encoded(language: &Language, vocabulary: fn(&[String]) -> Value) -> Result<Work> {
    let spec = json!({"kind": "tokenize", "column": "text", "tokenizer": vocabulary(&language.words).to_string(),
                      "length": 4096, "pad": 0, "truncate": true});
    let spec: FieldSpec =
        serde_json::from_value(spec).map_err(|e| Error::internal("the field is not the engine's").caused_by(e))?;
    let plan = FieldPlan::compile(Some(&[("x".to_owned(), spec)]), &[Column::new("text", Encoding::Str)], SEED)?;
    let mut row = vec![0; plan.outputs()[0].row_bytes().expect("a fixed size")];
    let mut decoder = plan.decoder();
    let texts: Vec<String> = (0..2 * TEXTS).map(|number| language.text(number, WORDS)).collect();
    Ok(Box::new(move |pass| {
        for text in texts.iter().skip((pass * TEXTS) as usize).take(TEXTS as usize) {
            decoder.decode(|_| Some(text.as_bytes()), |_| &[], DrawKey::default(), [Row::Fixed(&mut row)])?;
            black_box(&row);
        }
        Ok(())
    }))
}
