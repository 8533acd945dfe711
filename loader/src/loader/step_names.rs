//! Methods of the loader for [`steps`](super::steps).

use super::Loader;
use super::first_numbers::FirstNumbers;
use super::position::Position;
use super::steps::{NamedFragment, NamedSample, batches_in, first_step, place_of};
use crate::config::PackOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::order::{Rank, Resume, ShardId, StreamId};
use crate::pipeline::{PlannedBatch, RowFragment};
use crate::state::{FirstStep, LoaderState, SkippedSteps};
use std::collections::HashSet;

impl Loader {
    /// Returns the samples of `rank` in batch `batch` of `epoch`, as in a run of this world without interruptions.
    /// Nothing is read.
    ///
    /// # Errors
    ///
    /// `Config` for a rank or a batch that does not exist, `Closed` in a forked child.
    pub fn samples_of(&self, epoch: u64, batch: u64, rank: u32) -> Result<Vec<NamedSample>> {
        let ranks = self.config.world.world_size;
        if rank >= ranks {
            return Err(Error::config("there is no such rank").with("rank", rank).with("ranks", ranks));
        }
        let (batches, resume) = {
            let position = self.position()?;
            (batches_in(&position, &self.planner, &self.config, epoch)?, position.resume())
        };
        if batch >= batches {
            return Err(Error::config("there is no such batch").with("batch", batch).with("batches", batches));
        }
        let resume = resume.map(|resume| Resume { epoch, sample_in_epoch: 0, ..resume });
        let mut order = self.planner.plan(epoch, resume.as_ref())?.rank(Rank(rank));
        let mut planned = PlannedBatch::default();
        order.seek(batch);
        order.next_batch(&mut planned)?;
        let mut numbers = self.first_numbers.lock();
        let mut names = Vec::with_capacity(planned.samples.len());
        for sample in &planned.samples {
            let located = self.catalog.locate_sample(sample.sample);
            let (id, index) =
                located.ok_or_else(|| Error::internal("a plan has a sample that the data set has not"))?;
            names.push(NamedSample { repeat: sample.repeat, ..self.named(id, index, &mut numbers) });
        }
        if let Some(groups) = planned.groups {
            return Ok(groups.starts.iter().map(|start| names[*start as usize].clone()).collect());
        }
        let Some(packs) = planned.packs else { return Ok(names) };
        let are_rows = matches!(self.config.pack(), Some(PackOptions::TokenBatches(_)));
        let fragments = packs.fragments.iter().enumerate().map(|(at, fragment)| {
            let &RowFragment { row, pack, offset, first: first_token, tokens, repeat, .. } = fragment;
            let (pack, offset) = if are_rows { (at as u32, 0) } else { (pack, offset) };
            let fragment = Some(NamedFragment { pack, offset, first_token, tokens });
            NamedSample { repeat, fragment, ..names[row as usize].clone() }
        });
        Ok(fragments.collect())
    }

    /// Returns the epoch of step number `step`, counted through all epochs, and its batch there.
    ///
    /// # Errors
    ///
    /// `Config` for an impossible order, `Closed` in a forked child.
    pub fn place_of_step(&self, step: u64) -> Result<(u64, u64)> {
        place_of(&*self.position()?, &self.planner, &self.config, step)
    }

    /// Returns the number of the first step of `epoch`.
    ///
    /// # Errors
    ///
    /// As [`place_of_step`](Self::place_of_step).
    pub fn first_step_of(&self, epoch: u64) -> Result<u64> {
        first_step(&*self.position()?, &self.planner, &self.config, epoch)
    }

    /// Returns the sample with an index in a shard of a stream, as the output `sample_ids` has it.
    ///
    /// # Errors
    ///
    /// `Config` for a stream, a shard or a sample that does not exist.
    pub fn sample(&self, stream: u32, shard: u32, index: u32) -> Result<NamedSample> {
        let shards = self.catalog.streams().get(stream as usize).map(|stream| &stream.index.shards);
        let found = shards.and_then(|shards| shards.get(shard as usize)).filter(|s| u64::from(index) < s.samples);
        if found.is_none() {
            return Err(Error::config("there is no such sample")
                .with("stream", stream)
                .with("shard", shard)
                .with("index", index));
        }
        let first = self.catalog.shape().shards_of(StreamId(stream)).start;
        Ok(self.named(ShardId(first + shard), index, &mut self.first_numbers.lock()))
    }

    fn named(&self, id: ShardId, index: u32, numbers: &mut FirstNumbers) -> NamedSample {
        let (stream, shard) = self.catalog.locate(id);
        let own = &stream.index.shards[shard as usize];
        let number = self.catalog.shape().stream_of(id).0;
        let key = own.recipe.as_ref().and_then(|recipe| recipe.path_of(index)).map(str::to_owned);
        let row = own.recipe.as_ref().and_then(|recipe| recipe.row_of(index));
        // A shard that a recipe makes has its own file only in the cache, so the file of the source is named.
        let file = row.as_ref().map(|row| row.file.to_string()).or_else(|| key.clone());
        NamedSample {
            stream: number,
            shard,
            index,
            number: numbers.of(number, &stream.index)[shard as usize] + u64::from(index),
            file: file.unwrap_or_else(|| own.raw_data.basename.to_string()),
            key,
            row_group: row.as_ref().map(|row| row.group),
            row_in_group: row.as_ref().map(|row| row.row),
            repeat: false,
            fragment: None,
        }
    }

    /// The batches of `epoch` that are left out.
    pub(super) fn left_out(&self, position: &Position, epoch: u64) -> Result<HashSet<u64>> {
        let steps = self.skip_steps.lock().clone();
        if steps.is_empty() {
            return Ok(HashSet::new());
        }
        let first = first_step(position, &self.planner, &self.config, epoch)?;
        let batches = batches_in(position, &self.planner, &self.config, epoch)?;
        Ok(steps.range(first..first.saturating_add(batches)).map(|step| step - first).collect())
    }

    /// The steps that are left out, for a checkpoint.
    pub(super) fn skipped_steps(&self) -> SkippedSteps {
        let steps = self.skip_steps.lock();
        SkippedSteps { steps: steps.iter().copied().collect(), rows: self.step_rows() }
    }

    /// Adds the steps that the run of `state` has left out.
    ///
    /// # Errors
    ///
    /// `State` if its steps have a different number of samples, unless `strict` is false, which drops them with a
    /// warning.
    pub(super) fn add_skipped_steps(&self, state: &LoaderState, strict: bool) -> Result<()> {
        let Some(skipped) = state.forebay.as_ref().map(|forebay| &forebay.skipped).filter(|s| !s.is_empty()) else {
            return Ok(());
        };
        let rows = self.step_rows();
        if skipped.rows == rows {
            self.skip_steps.lock().extend(&skipped.steps);
            return Ok(());
        }
        let message = format!(
            "the checkpoint leaves out steps of {} samples by skip_steps, and a step has {rows} here, so the numbers \
             differ",
            skipped.rows
        );
        if strict {
            let message = format!("{message}: load with strict=False, and pass skip_steps for steps of {rows}");
            return Err(Error::new(ErrorKind::State, message));
        }
        log::warn!("{message}: they are not left out");
        Ok(())
    }

    /// Returns the number of the first step of the epoch of a checkpoint, if it is known and no multiple of the epoch.
    pub(super) fn saved_first_step(&self, at: &Resume) -> Option<FirstStep> {
        let step = self.planner.known_first(at)?;
        Some(FirstStep { step, rows: self.step_rows(), drop_last: self.config.drop_last })
    }

    /// Takes the number of the first step of the epoch of a checkpoint, if its steps are as long as here.
    pub(super) fn load_first_step(&self, at: &Resume, first: FirstStep) {
        if (first.rows, first.drop_last) == (self.step_rows(), self.config.drop_last) {
            self.planner.set_start(at, first.step);
        }
    }

    /// Samples or packs of a step on all ranks.
    fn step_rows(&self) -> u64 {
        let ranks = self.config.world.world_size / self.config.order.replication.unwrap_or(1).max(1);
        u64::from(self.config.batch_size) * u64::from(ranks)
    }
}
