//! Outputs of a batch that the fields do not have.

use serde::{Deserialize, Serialize};

/// Output that a loader adds to a batch. Its name is the variant's in snake case.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtraOutput {
    /// Bool output, true for rows that only make ranks equally long.
    Repeat,
    /// Int64 output: for each row its stream, shard of the stream and index in the shard.
    SampleIds,
    /// Int64 output: epoch, stream and draw of each row, which key its random draws.
    SampleDraws,
    /// Text output: key of each row's sample in a tar, or path of its file; else empty.
    SampleKeys,
}

impl ExtraOutput {
    /// Name of the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::SampleIds => "sample_ids",
            Self::SampleDraws => "sample_draws",
            Self::SampleKeys => "sample_keys",
        }
    }
}
