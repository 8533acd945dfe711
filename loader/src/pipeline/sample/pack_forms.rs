//! Forms of a batch of packs: a table of outputs for each trainer.
//!
//! A form is a constant with its line in [`of`] and its variant of [`PackForm`]. No further code names the forms: an
//! output has a [`ElementKind`], which is how the tokens of a sequence become its elements.

use self::ElementKind::{
    AllLabels, Ids, Labels, Longest, LossMask, Mask, NextIds, Positions, Sequences, Starts, TokenStarts,
};
use crate::config::PackForm;
use crate::decode::DType::{self, Float32, Int32, Int64};

/// Meaning of the elements of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementKind {
    /// Token ids.
    Ids,
    /// Token ids, except the first of each sequence: no token of its sequence predicts it. The model shifts them. Or
    /// the labels that come with the ids.
    Labels,
    /// Token ids, or the labels that come with them, with the first of each sequence: the model shifts them.
    AllLabels,
    /// The next token id of the sequence for each token but its last one.
    NextIds,
    /// 1 for tokens with a next one in their sequence, otherwise 0.
    LossMask,
    /// Number of the token in its sequence, from 0.
    Positions,
    /// Number of the sequence in its pack, from this one; the padding has one less.
    Sequences(i64),
    /// 1 for tokens, 0 for padding.
    Mask,
    /// Tokens before each sequence, and the number of all tokens.
    TokenStarts,
    /// Elements before each sequence with padding, and the number of all elements.
    Starts,
    /// Elements of the longest sequence, with its padding.
    Longest,
}

impl ElementKind {
    /// True if the elements belong to tokens, and not to sequences or the batch.
    pub(super) fn is_of_tokens(self) -> bool {
        !matches!(self, Self::TokenStarts | Self::Starts | Self::Longest)
    }

    /// True if some elements are the label that no loss counts.
    pub(super) fn has_unlabelled(self) -> bool {
        matches!(self, Self::Labels | Self::AllLabels | Self::NextIds)
    }
}

/// Elements of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchShape {
    /// A row for each pack, padded at its end.
    Rows,
    /// One row of the packs, one after the other, each with its padding. A sequence without tokens is still one.
    Row,
    /// One row of all tokens, without padding.
    Tokens,
    /// A row for each sequence, padded to the longest one. A skipped sequence has none.
    Sequences,
}

/// Output of a form.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormOutput {
    /// `None`: the name of the field of the ids.
    pub(super) name: Option<&'static str>,
    pub(super) kind: ElementKind,
    /// `None`: the type of the ids.
    pub(super) dtype: Option<DType>,
}

/// Form of a batch.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) shape: BatchShape,
    pub(super) outputs: &'static [FormOutput],
    /// Names under which the batch has the tokens of its longest sequence as a number.
    pub(super) longest: &'static [&'static str],
}

/// Returns the form of a name.
pub(super) fn of(form: PackForm) -> &'static Form {
    match form {
        PackForm::PaddingFree => &PADDING_FREE,
        PackForm::Segments => &SEGMENTS,
        PackForm::IndexedMask => &INDEXED_MASK,
        PackForm::SequenceId => &SEQUENCE_ID,
        PackForm::Thd => &THD,
        PackForm::DocumentIds => &DOCUMENT_IDS,
    }
}

const fn output(name: &'static str, kind: ElementKind, dtype: DType) -> FormOutput {
    FormOutput { name: Some(name), kind, dtype: Some(dtype) }
}

const IDS: FormOutput = FormOutput { name: None, kind: Ids, dtype: None };
pub(super) const LABELS: FormOutput = FormOutput { name: Some("labels"), kind: Labels, dtype: None };
const NEXT_IDS: FormOutput = FormOutput { name: Some("labels"), kind: NextIds, dtype: None };

static PADDING_FREE: Form = Form {
    shape: BatchShape::Tokens,
    outputs: &[
        IDS,
        LABELS,
        output("position_ids", Positions, Int64),
        output("cu_seq_lens_q", TokenStarts, Int32),
        output("cu_seq_lens_k", TokenStarts, Int32),
    ],
    longest: &["max_length_q", "max_length_k"],
};

static SEGMENTS: Form = Form {
    shape: BatchShape::Rows,
    outputs: &[IDS, output("segment_ids", Sequences(1), Int32), output("positions", Positions, Int32)],
    longest: &[],
};

static INDEXED_MASK: Form = Form {
    shape: BatchShape::Rows,
    outputs: &[IDS, LABELS, output("attention_mask", Sequences(1), Int64), output("position_ids", Positions, Int64)],
    longest: &[],
};

static SEQUENCE_ID: Form = Form {
    shape: BatchShape::Rows,
    outputs: &[IDS, LABELS, output("attention_mask", Mask, Int64), output("sequence_id", Sequences(0), Int64)],
    longest: &[],
};

static THD: Form = Form {
    shape: BatchShape::Row,
    outputs: &[
        IDS,
        NEXT_IDS,
        output("loss_mask", LossMask, Float32),
        output("position_ids", Positions, Int64),
        output("cu_seqlens", TokenStarts, Int32),
        output("cu_seqlens_padded", Starts, Int32),
        output("max_seqlen", Longest, Int32),
    ],
    longest: &[],
};

static DOCUMENT_IDS: Form = Form {
    shape: BatchShape::Rows,
    outputs: &[IDS, NEXT_IDS, output("positions", Positions, Int64), output("document_ids", Sequences(0), Int32)],
    longest: &[],
};

/// Rows of sequences, as the collators of Hugging Face pad them.
pub(super) static ROWS: Form = Form {
    shape: BatchShape::Sequences,
    outputs: &[
        IDS,
        FormOutput { name: Some("labels"), kind: AllLabels, dtype: None },
        output("attention_mask", Mask, Int64),
        output("position_ids", Positions, Int64),
    ],
    longest: &[],
};
