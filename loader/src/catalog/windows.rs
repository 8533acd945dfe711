//! Windows of tokens, which are the samples of a stream instead of documents.

use super::stream::IndexedStream;
use crate::config::{LoaderConfig, LoaderWindow};
use crate::error::{Error, Result};

/// Checks that options of windows are given only for files of tokens.
pub(super) fn check_windows(config: &LoaderConfig, opened: &[IndexedStream]) -> Result<()> {
    let has_tokens = |stream: &IndexedStream| {
        stream.cache.shards.iter().any(|shard| shard.layout.is_plain()) || stream.cache.shards.is_empty()
    };
    let message = |which: &str| {
        Error::config(format!(
            "window is an option for files of token ids, such as Megatron's .bin and LitData's chunks, and {which}"
        ))
    };
    for (stream, opened) in config.streams.iter().zip(opened) {
        if stream.window.is_some() && !has_tokens(opened) {
            return Err(message("this stream has none").with("stream", &opened.name));
        }
    }
    if matches!(config.window, Some(LoaderWindow::Tokens(_))) && !opened.iter().any(has_tokens) {
        return Err(message("no stream has any"));
    }
    Ok(())
}
