//! Arguments of packing.

use std::sync::Arc;

use super::added::AddedTokens;
use crate::config::{BatchingMethod, OrderConfig, named};
use crate::error::OrderError;

/// Most tokens of a pack.
pub const PACK_LENGTH_MAX: u32 = 1 << 24;
/// Most documents of a window; a process takes up to 40 bytes for each of them.
pub const PACK_WINDOW_MAX: u64 = 1 << 22;
/// Documents of a window by default: few enough that their lengths stay in the processor's cache, and so many that the
/// last packs, which are not full, do not count.
const WINDOW: u64 = 1 << 16;

named!(
    /// Method of packing.
    PackMethod, "packing method", "`best_fit` or `cut`", {
        /// The longest document first, each into the fullest pack that has room for it. No document that fits into a
        /// pack is cut.
        BestFit = "best_fit",
        /// One document after the next, cut where a pack is full.
        Cut = "cut",
    }
);
named!(
    /// Treatment of documents that are longer than a pack.
    Overflow, "overflow", "`split`, `truncate` or `drop`", {
        /// They are cut into several.
        Split = "split",
        /// Only their first tokens are kept.
        Truncate = "truncate",
        /// They are left out.
        Drop = "drop",
    }
);

named!(
    /// Unit of the proportions of streams.
    ProportionUnit, "the unit of proportions", "`samples` or `tokens`", {
        /// Documents.
        Samples = "samples",
        /// Their tokens.
        Tokens = "tokens",
    }
);

/// Arguments of packing.
#[derive(Clone, Debug)]
pub struct PackConfig {
    /// Tokens of a pack.
    pub length: u32,
    /// Method.
    pub method: PackMethod,
    /// Treatment of documents that are longer than a pack.
    pub overflow: Overflow,
    /// Each document begins at a multiple of this number of tokens, and its end is padded to a multiple of it. 1: no
    /// such padding.
    pub pad_sequences_to: u32,
    /// Most documents of a pack; `None`: no limit.
    pub max_sequences: Option<u32>,
    /// Documents of one canonical node that are packed together; `None`: 65,536.
    pub window: Option<u64>,
    /// Tokens of a batch of rows with their padding: packs are such batches, of sequences of similar length, `length`
    /// is the longest row, and the rows of a batch are padded to a multiple of `pad_sequences_to`. `None`: sequences
    /// are packed by `method`.
    pub batch_tokens: Option<u32>,
    /// Unit of the proportions of streams.
    pub proportion_unit: ProportionUnit,
    /// Tokens that draws add to documents.
    pub added: Option<Arc<dyn AddedTokens>>,
}

impl PackConfig {
    /// Packs of `length` tokens with the defaults: best fit, long documents are split, no limits.
    pub fn new(length: u32) -> Self {
        Self {
            length,
            method: PackMethod::BestFit,
            overflow: Overflow::Split,
            pad_sequences_to: 1,
            max_sequences: None,
            window: None,
            batch_tokens: None,
            proportion_unit: ProportionUnit::Samples,
            added: None,
        }
    }

    /// Checks the arguments, and that `order` has none that packs do not have.
    ///
    /// # Errors
    /// An argument is outside its range.
    pub fn validate(&self, order: &OrderConfig) -> Result<(), OrderError> {
        let range = OrderError::unless;
        range((1..=PACK_LENGTH_MAX).contains(&self.length), "the length of a pack", "from 1 to 16,777,216 tokens")?;
        let multiple = self.pad_sequences_to;
        let divides = multiple > 0 && self.length.is_multiple_of(multiple);
        range(divides, "pad_sequences_to", "a divisor of the length of a pack")?;
        range(self.max_sequences != Some(0), "max_sequences", "at least 1")?;
        let window = self.window.unwrap_or(1);
        range((1..=PACK_WINDOW_MAX).contains(&window), "the window of packing", "from 1 to 4,194,304 documents")?;
        if let Some(tokens) = self.batch_tokens {
            range(tokens >= self.length, "the tokens of a batch", "at least as many as the tokens of its longest row")?;
            range(order.batch_size == 1, "batch_size", "1 where a limit of tokens makes the batches")?;
        }
        let is_random = order.batching_method == BatchingMethod::Random;
        range(is_random, "batching_method", "`random` where documents are packed")?;
        range(order.repeat_augment == 1, "repeat_augment", "1 where documents are packed")?;
        range(order.buckets.is_none(), "bucket_by", "absent where documents are packed: packs have equal lengths")
    }

    /// Documents of a window.
    pub(super) fn window(&self) -> u64 {
        self.window.unwrap_or(WINDOW)
    }

    /// Tokens that a fragment of `tokens` takes in a pack.
    pub(super) fn occupied(&self, tokens: u32) -> u32 {
        // The length of a pack is a multiple too, so the result is at most that length.
        tokens.next_multiple_of(self.pad_sequences_to)
    }

    /// Tokens that a pack has room for.
    pub(super) fn capacity(&self) -> u32 {
        self.batch_tokens.unwrap_or(self.length)
    }

    /// Most fragments of a pack.
    pub(super) fn sequences_max(&self) -> u32 {
        self.max_sequences.unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Buckets;

    #[test]
    fn arguments_out_of_range_are_rejected_by_name() {
        let good = PackConfig::new(4096);
        let message = |config: PackConfig, order: OrderConfig| config.validate(&order).map_err(|e| e.to_string());
        assert_eq!(message(good.clone(), OrderConfig::default()), Ok(()));
        for (config, name) in [
            (PackConfig { length: 0, ..good.clone() }, "length"),
            (PackConfig { pad_sequences_to: 0, ..good.clone() }, "pad_sequences_to"),
            (PackConfig { pad_sequences_to: 3, ..good.clone() }, "divisor"),
            (PackConfig { max_sequences: Some(0), ..good.clone() }, "max_sequences"),
            (PackConfig { window: Some(0), ..good.clone() }, "window"),
            (PackConfig { batch_tokens: Some(4095), ..good.clone() }, "tokens of a batch"),
        ] {
            let error = message(config, OrderConfig::default()).expect_err(name);
            assert!(error.contains(name), "{error}");
        }
        let buckets = Some(Buckets { lengths: Vec::new(), batches: 1 });
        for (order, name) in [
            (OrderConfig { batching_method: BatchingMethod::PerStream, ..OrderConfig::default() }, "batching_method"),
            (OrderConfig { repeat_augment: 2, ..OrderConfig::default() }, "repeat_augment"),
            (OrderConfig { buckets, ..OrderConfig::default() }, "bucket_by"),
        ] {
            let error = message(good.clone(), order).expect_err(name);
            assert!(error.contains(name), "{error}");
        }
    }
}
