//! Windows of tokens as the samples of chunks.

use std::sync::Arc;

use super::items::ItemForm;
use super::litdata_format::Items;
use super::table_bytes;
use crate::columns::Column;
use crate::encoding::{ArrayType, Encoding};
use crate::index::{Index, Shard};
use crate::layout::Layout;
use crate::tokens::TokenWindow;
use forebay_core::error::{Error, Result};

impl Index {
    /// Returns true for chunks of tokens: their samples may be windows.
    pub fn has_tokens(&self) -> bool {
        self.shards.first().is_some_and(|shard| tokens_of(&shard.layout).is_some())
    }

    /// Returns the index of the same chunks of tokens, with windows as samples. The tokens of a chunk after its last
    /// whole window are left out, as in LitData.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for shards without tokens, and for a window without tokens or of more than 4 GiB.
    pub fn windows(&self, window: TokenWindow) -> Result<Self> {
        let mut shards: Vec<Shard> = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            let layout = Arc::new(window_layout(&shard.layout, window)?);
            let layout = match shards.last() {
                Some(last) if last.layout == layout => last.layout.clone(),
                _ => layout,
            };
            let token_bytes = u64::from(layout.columns[0].size.unwrap_or(u32::MAX)) / u64::from(window.tokens);
            let there = shard.raw_data.bytes.saturating_sub(table_bytes(shard.samples));
            shards.push(Shard { layout, samples: window.count(there / token_bytes), ..shard.clone() });
        }
        Ok(Self { shards })
    }
}

/// Returns the items of a layout of chunks of tokens.
fn tokens_of(layout: &Layout) -> Option<&Items> {
    layout.format_as().filter(|items: &&Items| items.form == ItemForm::Tokens)
}

fn window_layout(layout: &Layout, window: TokenWindow) -> Result<Layout> {
    let TokenWindow { tokens, stride } = window;
    let (Some(items), [column]) = (tokens_of(layout), &*layout.columns) else {
        return Err(Error::config(
            "windows are cut from tokens, as in LitData's TokensLoader, and this data set has no tokens",
        ));
    };
    let Encoding::Array(kind) = &column.encoding else {
        return Err(Error::internal("the encoding of the tokens is not an array type"));
    };
    let window = kind.dtype().and_then(|dtype| ArrayType::fixed(dtype, vec![tokens as usize]));
    let window = window.filter(|_| stride > 0).ok_or_else(|| {
        Error::config("a window is at least one token, and at most 4 GiB").with("tokens", tokens).with("stride", stride)
    })?;
    let items = Items { form: ItemForm::Windows { stride }, ..items.clone() };
    Ok(Layout::new(items, vec![Column::new(&column.name, Encoding::Array(window))]))
}
