//! Batches of rows of similar length under a limit of tokens.

use super::limits::require;
use super::options::{OptionInfo, SampleValues, options};
use crate::error::{Error, Result};
use crate::order;
use serde::{Deserialize, Serialize};

options! {
    /// Batches of rows of similar length under a limit of tokens, in place of a number of rows.
    #[derive(PartialEq, Eq)]
    pub struct TokenBatch {
        /// Most tokens of a batch with its padding: its rows times the longest of them.
        pub max_tokens: u32 = 0,
        /// Most rows of a batch. None: no limit.
        pub max_sequences: Option<u32> = None,
        /// Most tokens of a row. None: `max_tokens`.
        pub max_length: Option<u32> = None,
        /// Documents that are longer than a row: "split" into several rows, "truncate" or "drop".
        pub overflow: String = "split".into(),
        /// Multiple of tokens that the rows of a batch are padded to.
        pub pad_to_multiple_of: u32 = 1,
        /// Numbers of tokens, as for `weights`. None: taken from the sizes of stored ids, or counted once and kept.
        pub lengths: Option<SampleValues> = None,
        /// Token id that fills the rest of a row.
        pub pad: i64 = 0,
        /// Unit of the proportions of streams: "samples" or "tokens".
        pub proportion_unit: String = "samples".into(),
    }
}

impl TokenBatch {
    pub(super) fn validate(&self) -> Result<()> {
        require(self.max_tokens >= 1, "window.max_tokens is required and must be at least 1 token")?;
        // Positions in a batch are integers of 32 bits.
        require(self.max_tokens <= i32::MAX as u32, "window.max_tokens must be at most 2,147,483,647 tokens")?;
        require(self.max_sequences != Some(0), "window.max_sequences must be at least 1, or None for no limit")?;
        let multiple = self.pad_to_multiple_of;
        let is_good = multiple >= 1 && multiple <= self.max_tokens;
        require(is_good, "window.pad_to_multiple_of must be at least 1 token and at most max_tokens")?;
        if let Some(length) = self.max_length {
            let is_good = length >= 1 && length <= self.max_tokens && length <= order::PACK_LENGTH_MAX;
            require(is_good, "window.max_length must be from 1 token to max_tokens, and at most 16,777,216")?;
            require(length.is_multiple_of(multiple), "window.max_length must be a multiple of pad_to_multiple_of")?;
        }
        self.batching().map(drop)
    }

    /// Most tokens of a row.
    fn length(&self) -> u32 {
        let whole = |most: u32| most - most % self.pad_to_multiple_of;
        self.max_length.unwrap_or_else(|| whole(self.max_tokens.min(order::PACK_LENGTH_MAX)))
    }

    /// Returns the arguments of the plan.
    ///
    /// # Errors
    ///
    /// `Config` for an unknown treatment of long documents or unit of proportions.
    pub(crate) fn batching(&self) -> Result<order::PackConfig> {
        let in_option = |name: &'static str| move |e: order::OrderError| Error::from(e).with("argument", name);
        Ok(order::PackConfig {
            overflow: self.overflow.parse().map_err(in_option("window.overflow"))?,
            proportion_unit: self.proportion_unit.parse().map_err(in_option("window.proportion_unit"))?,
            pad_sequences_to: self.pad_to_multiple_of,
            max_sequences: self.max_sequences,
            batch_tokens: Some(self.max_tokens),
            ..order::PackConfig::new(self.length())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_at_most_the_tokens_of_a_batch_in_whole_multiples() {
        let batch = TokenBatch { max_tokens: 100, pad_to_multiple_of: 8, ..TokenBatch::default() };
        let plan = batch.batching().expect("a plan");
        assert_eq!((plan.length, plan.batch_tokens, plan.pad_sequences_to), (96, Some(100), 8));
        let batch = TokenBatch { max_length: Some(32), max_sequences: Some(4), ..batch };
        let plan = batch.batching().expect("a plan");
        assert_eq!((plan.length, plan.max_sequences), (32, Some(4)));
        let long = TokenBatch { max_tokens: i32::MAX as u32, ..TokenBatch::default() };
        assert_eq!(long.batching().expect("a plan").length, order::PACK_LENGTH_MAX);
    }
}
