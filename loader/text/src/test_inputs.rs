//! Inputs of several tests: random numbers, and documents of byte-level tokenizers.

use serde_json::{Value, json};

/// Returns a generator of numbers below its argument, which are the same in every run.
pub(crate) fn draws() -> impl FnMut(usize) -> usize {
    let mut state = 1_u64;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or_default() % below
    }
}

/// Returns a document of byte pairs without added tokens and normalizer, which splits texts by `pattern`.
pub(crate) fn byte_level(pattern: &str, vocab: &serde_json::Map<String, Value>, merges: Value) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
        "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": merges},
    })
}
