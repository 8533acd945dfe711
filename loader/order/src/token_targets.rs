//! Tokens that each stream has in an epoch, where the proportions of streams count tokens.
//!
//! A stream with some more samples than its share is drawn, and picks are taken out of it until its tokens are the
//! share, so that it misses the share by less than a document. Whole repeats of a stream stay.

use std::sync::Arc;

use super::ids::StreamId;
use super::packing::{Overflow, TokenLengths};

/// Shares of the streams in tokens.
#[derive(Clone, Debug)]
pub(super) struct TokenTargets {
    /// By stream: tokens of an epoch.
    pub(super) targets: Vec<u64>,
    /// By stream: mean tokens of a drawn document.
    pub(super) means: Vec<f64>,
    /// By stream: tokens of all its documents, and the number of these.
    pub(super) totals: Vec<(u64, u64)>,
    pub(super) lengths: Vec<Arc<TokenLengths>>,
    /// Longest document, and the treatment of longer ones.
    pub(super) longest: u32,
    pub(super) overflow: Overflow,
}

impl TokenTargets {
    /// Tokens of a document with `tokens` tokens that packs have.
    pub(super) fn counted(tokens: u32, longest: u32, overflow: Overflow) -> u64 {
        match overflow {
            Overflow::Split => tokens.into(),
            Overflow::Truncate => tokens.min(longest).into(),
            Overflow::Drop if tokens > longest => 0,
            Overflow::Drop => tokens.into(),
        }
    }

    /// Tokens of a stream.
    pub(super) fn of(&self, stream: StreamId) -> u64 {
        self.targets[stream.index()]
    }

    /// Tokens of document number `number` of a stream.
    pub(super) fn tokens_of(&self, stream: StreamId, number: u64) -> u64 {
        let tokens = self.lengths[stream.index()].values()[number as usize];
        Self::counted(tokens, self.longest, self.overflow)
    }

    /// Samples of a stream to draw at first: a little more than its share.
    pub(super) fn samples(&self, stream: StreamId, is_weighted: bool) -> u64 {
        let target = self.targets[stream.index()];
        if target == 0 {
            return 0;
        }
        let samples = (target as f64 / self.means[stream.index()] * 1.02) as u64 + 8;
        // Of one more repeat as a whole, nothing could be taken out.
        if is_weighted { samples } else { samples.min(self.repeats_end(stream) - 1).max(1) }
    }

    /// Samples of a stream to draw where `samples` of them lacked `missing` tokens.
    pub(super) fn more_samples(&self, stream: StreamId, is_weighted: bool, samples: u64, missing: u64) -> u64 {
        let more = samples + (missing as f64 / self.means[stream.index()] * 1.1) as u64 + 1;
        // As many repeats as a whole have the tokens of the share, or more.
        if is_weighted { more } else { more.min(self.repeats_end(stream)) }
    }

    /// Repeats of the whole stream that its share has room for.
    pub(super) fn repeats(&self, stream: StreamId) -> u64 {
        self.of(stream) / self.totals[stream.index()].0.max(1)
    }

    /// Samples of one repeat more, which have more tokens than the share.
    fn repeats_end(&self, stream: StreamId) -> u64 {
        (self.repeats(stream) + 1) * self.totals[stream.index()].1
    }
}
