//! Packs of token sequences, which are the rows of a batch in place of documents.

use super::limits::require;
use super::options::{OptionInfo, SampleValues, options};
use crate::error::{Error, Result};
use crate::order;
use serde::{Deserialize, Serialize};

options! {
    /// Packs of token sequences, which are the rows of a batch in place of documents.
    #[derive(PartialEq, Eq)]
    pub struct PackConfig {
        /// Tokens of a pack.
        pub length: u32 = 0,
        /// Method of packing: "best_fit", which cuts no document that fits into a pack, or "cut", one after the other.
        pub method: String = "best_fit".into(),
        /// Documents that are longer than a pack: "split" into several sequences, "truncate" or "drop".
        pub overflow: String = "split".into(),
        /// Most sequences of a pack. None: no limit.
        pub max_sequences: Option<u32> = None,
        /// Multiple of tokens at which each sequence begins, with padding before the next one.
        pub pad_sequences_to: u32 = 1,
        /// Numbers of tokens, as for `weights`. None: taken from the sizes of stored ids, or counted once and kept.
        pub lengths: Option<SampleValues> = None,
        /// Outputs of a batch: "padding_free", "segments", "indexed_mask", "sequence_id", "thd" or "document_ids".
        pub form: PackForm = PackForm::PaddingFree,
        /// Token id that fills the rest of a row.
        pub pad: i64 = 0,
        /// Unit of the proportions of streams: "samples" or "tokens".
        pub proportion_unit: String = "samples".into(),
    }
}

/// Form of a batch of packs, by the trainers that take it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PackForm {
    /// One row of all sequences without padding, as Hugging Face's `DataCollatorWithFlattening`.
    PaddingFree,
    /// Rows with `segment_ids` and `positions`, for JAX.
    Segments,
    /// Rows with the numbers of the sequences as `attention_mask`.
    IndexedMask,
    /// Rows with `sequence_id` and `attention_mask`, as llm-foundry.
    SequenceId,
    /// One row of padded sequences with the labels of the next tokens, as Megatron and Transformer Engine.
    Thd,
    /// Rows with `document_ids` and the labels of the next tokens, for FlexAttention.
    DocumentIds,
}

impl PackConfig {
    pub(super) fn validate(&self) -> Result<()> {
        require(self.length >= 1, "window.length is required and must be at least 1 token")?;
        require(self.max_sequences != Some(0), "window.max_sequences must be at least 1, or None for no limit")?;
        require(self.pad_sequences_to >= 1, "window.pad_sequences_to must be at least 1 token")?;
        let is_padded = self.pad_sequences_to > 1 && self.form == PackForm::PaddingFree;
        require(!is_padded, "window.pad_sequences_to pads sequences, and window.form \"padding_free\" has no padding")?;
        self.packing().map(drop)
    }

    /// Returns the arguments of the plan.
    ///
    /// # Errors
    ///
    /// `Config` for an unknown method, treatment of long documents or unit of proportions.
    pub(crate) fn packing(&self) -> Result<order::PackConfig> {
        let in_option = |name: &'static str| move |e: order::OrderError| Error::from(e).with("argument", name);
        Ok(order::PackConfig {
            length: self.length,
            method: self.method.parse().map_err(in_option("window.method"))?,
            overflow: self.overflow.parse().map_err(in_option("window.overflow"))?,
            pad_sequences_to: self.pad_sequences_to,
            max_sequences: self.max_sequences,
            window: None,
            batch_tokens: None,
            proportion_unit: self.proportion_unit.parse().map_err(in_option("window.proportion_unit"))?,
            added: None,
        })
    }
}
