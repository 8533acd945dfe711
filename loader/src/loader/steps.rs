//! Steps of a run by number: their samples, and those that are left out.
//!
//! A step is a batch on all ranks. Its number counts the batches of all epochs from the first, also after a resume.

use super::planner::Planner;
use super::position::Position;
use crate::config::LoaderConfig;
use crate::error::Result;
use serde::Serialize;
use std::collections::BTreeSet;

/// Sample of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedSample {
    /// Stream, from 0.
    pub stream: u32,
    /// Shard of the stream, from 0.
    pub shard: u32,
    /// Index in the shard.
    pub index: u32,
    /// Number in the stream, as in `subset`.
    pub number: u64,
    /// File of the sample, below the stream's folder: the first one, if it is several, else the file of its shard.
    pub file: String,
    /// Path of the sample's first file, if it is one or several files.
    pub key: Option<String>,
    /// Row group of a Parquet file, or batch of an Arrow file, from 0, if the sample is a row of a table.
    pub row_group: Option<usize>,
    /// Row in that group, from 0.
    pub row_in_group: Option<u64>,
    /// True if the row only makes ranks equally long.
    pub repeat: bool,
}

/// Batches of a whole epoch for this rank.
pub(super) fn batches_of(position: &mut Position, planner: &Planner, config: &LoaderConfig) -> Result<u64> {
    if let Some(batches) = position.batches {
        return Ok(batches);
    }
    let batches = planner.batches(config, position.resume(), 0)?;
    position.batches = Some(batches);
    Ok(batches)
}

/// The steps that `config` leaves out.
pub(super) fn of(config: &LoaderConfig) -> BTreeSet<u64> {
    config.order.skip_steps.iter().flatten().copied().collect()
}
