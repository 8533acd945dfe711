//! Tokens that random draws add to documents before they are packed.

use std::fmt::Debug;

use crate::ids::StreamId;

/// Tokens that the draws of an epoch add to documents, so that the length of a document differs from epoch to epoch.
pub trait AddedTokens: Debug + Send + Sync {
    /// Tokens that are added to a document of `tokens` tokens; `draw` is its index in the epoch's resampled list.
    fn added(&self, epoch: u64, stream: StreamId, draw: u64, tokens: u32) -> u32;

    /// Text that differs for arguments with different numbers, for checkpoints.
    fn argument(&self) -> String;
}
