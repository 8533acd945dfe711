//! Steps of a run by number: their samples, and those that are left out.
//!
//! A step is a batch on all ranks. Its number counts the batches of all epochs from the first, also after a resume.
//!
//! Epochs of packs differ a little in length, so the number of a step follows from the lengths of all earlier epochs. A
//! run knows the lengths of the epochs that it has begun, and a checkpoint has the number of its epoch's first step.
//! The rest are planned, once each.

use super::planner::Planner;
use super::position::Position;
use crate::config::LoaderConfig;
use crate::error::{Error, Result};
use serde::Serialize;
use std::collections::BTreeSet;

/// Most epochs that are planned to find a step: each takes seconds for a large data set.
const EPOCHS_PLANNED_MAX: u64 = 1000;

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
    /// Part of the sample in a pack, if documents are packed.
    #[serde(flatten)]
    pub fragment: Option<NamedFragment>,
}

/// Part of a document in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NamedFragment {
    /// Pack of the batch, from 0; the row of it, if a limit of tokens makes the batches.
    pub pack: u32,
    /// First token in the pack.
    pub offset: u32,
    /// First token in the document.
    pub first_token: u32,
    /// Tokens.
    pub tokens: u32,
}

/// Batches of the whole of `epoch` for this rank.
pub(super) fn batches_in(position: &Position, planner: &Planner, config: &LoaderConfig, epoch: u64) -> Result<u64> {
    planner.batches(config, position.resume(), (epoch, 0))
}

/// Number of the first step of `epoch`.
pub(super) fn first_step(position: &Position, planner: &Planner, config: &LoaderConfig, epoch: u64) -> Result<u64> {
    if !planner.makes_packs() {
        return Ok(epoch.saturating_mul(batches_in(position, planner, config, epoch)?));
    }
    let (known, mut first) = planner.known_start(position.resume(), |start, _| start <= epoch);
    if epoch - known > EPOCHS_PLANNED_MAX {
        return Err(too_far());
    }
    for before in known..epoch {
        first += batches_in(position, planner, config, before)?;
    }
    Ok(first)
}

/// Epoch of a step, and its batch there.
pub(super) fn place_of(position: &Position, planner: &Planner, config: &LoaderConfig, step: u64) -> Result<(u64, u64)> {
    if !planner.makes_packs() {
        let batches = batches_in(position, planner, config, 0)?.max(1);
        return Ok((step / batches, step % batches));
    }
    let (known, first) = planner.known_start(position.resume(), |_, start| start <= step);
    let mut batch = step - first;
    // Epochs have about as many steps as the first one.
    if batch / batches_in(position, planner, config, known)?.max(1) > EPOCHS_PLANNED_MAX {
        return Err(too_far());
    }
    for epoch in known..=known + 2 * EPOCHS_PLANNED_MAX {
        let batches = batches_in(position, planner, config, epoch)?.max(1);
        if batch < batches {
            return Ok((epoch, batch));
        }
        batch -= batches;
    }
    Err(too_far())
}

fn too_far() -> Error {
    Error::config(format!(
        "the step is more than {EPOCHS_PLANNED_MAX} epochs after the last known one, and epochs of packs differ in \
         their numbers of steps: pass the step's epoch, and its number in that epoch"
    ))
}

/// The steps that `config` leaves out.
pub(super) fn of(config: &LoaderConfig) -> BTreeSet<u64> {
    config.order.skip_steps.iter().flatten().copied().collect()
}
