//! `forebay which`: the samples of a step of a run.

use crate::run_file::RunArg;
use crate::samples::Samples;
use crate::text::one_line;
use crate::{Command, Exit, Session};
use clap::{Args, ValueHint};
use forebay_loader::config::EngineConfig;
use forebay_loader::format::Value;
use forebay_loader::loader::NamedSample;
use forebay_loader::store::LibraryStores;
use forebay_loader::sync::Arc;
use forebay_loader::worker::DataSet;
use forebay_loader::{Loader, LoaderConfig, Result};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Name the samples of a step of a run
///
/// The order is a function of the loader's arguments, so the file of a run names the samples of every step, before and
/// after it happened. Only indexes are read, and shards only for the keys of tars.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay which run.json --step 1200
  forebay which run.json --epoch 3 --step 40 --rank 5 --keys")]
pub(crate) struct WhichArgs {
    /// File of the run, which Loader.save_run writes
    #[arg(value_name = "RUN.json", value_hint = ValueHint::AnyPath)]
    run: RunArg,
    /// Number of the step, from 0, over all epochs
    #[arg(long, value_name = "N")]
    step: u64,
    /// Epoch of the step; the number of the step then counts from its start
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
    /// Only the samples of this rank
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Address of the data, if it has moved or needs a signature; for each stream, if there are several
    #[arg(long, value_name = "URL")]
    remote: Vec<String>,
    /// Read the keys of samples in tars; fetches tars that are not on this machine
    #[arg(long)]
    keys: bool,
}

impl Command for WhichArgs {
    fn addresses(&self) -> Vec<String> {
        self.run.addresses(&self.remote)
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let (run, output) = (self.run.run(&self.remote)?, &session.output);
        let (config, loader) = (run.config(0)?, run.loader(0, session.library.clone())?);
        let first = self.epoch.map_or(Ok(0), |epoch| loader.first_step_of(epoch))?;
        let step = self.step.saturating_add(first);
        let (epoch, batch) = loader.place_of_step(step)?;
        let ranks = self.rank.map_or(0..config.world.world_size, |rank| rank..rank.saturating_add(1));
        let mut samples = RowOfStep::all(&loader, epoch, batch, ranks)?;
        if self.keys {
            let mut tars = Tars { config: &config, library: session.library.clone(), opened: BTreeMap::new() };
            samples.iter_mut().try_for_each(|row| tars.name(&mut row.sample))?;
        }
        if !output.is_json() {
            let count = samples.len();
            output.print(&format!("step {step}: batch {batch} of epoch {epoch}, {count} samples"));
        }
        samples.iter().for_each(|row| output.line(&row.record(), || one_line(&row.text())));
        Ok(Exit::Success)
    }
}

/// Sample with its rank and its row there: of several samples in one pack, the number of the pack.
pub(crate) struct RowOfStep {
    rank: u32,
    row: usize,
    sample: NamedSample,
}

/// Equal rows have the same sample, also of data sets with different numbers of samples before it.
impl PartialEq for RowOfStep {
    fn eq(&self, other: &Self) -> bool {
        let part = |row: &Self| row.sample.fragment.map(|fragment| fragment.first_token);
        let place = |row: &Self| (row.rank, row.row, row.sample.stream, row.sample.index, row.sample.repeat, part(row));
        place(self) == place(other) && self.sample.file == other.sample.file
    }
}

impl RowOfStep {
    /// Returns the rows of batch number `batch` of an epoch on the `ranks`.
    ///
    /// # Errors
    ///
    /// `Config` for a batch or a rank that the run does not have; the errors of the loader.
    pub(crate) fn all(loader: &Loader, epoch: u64, batch: u64, ranks: Range<u32>) -> Result<Vec<Self>> {
        let mut rows = Vec::new();
        for rank in ranks {
            let samples = loader.samples_of(epoch, batch, rank)?.into_iter().enumerate();
            rows.extend(samples.map(|(number, sample)| {
                let row = sample.fragment.map_or(number, |fragment| fragment.pack as usize);
                Self { rank, row, sample }
            }));
        }
        Ok(rows)
    }

    fn record(&self) -> Json {
        let mut record = json!(self.sample);
        if let Some(members) = record.as_object_mut() {
            members.remove("pack");
            for name in ["offset", "first_token", "tokens"] {
                members.entry(name).or_insert(Json::Null);
            }
            members.insert("rank".to_owned(), json!(self.rank));
            members.insert("row".to_owned(), json!(self.row));
        }
        record
    }

    /// Returns the rank, the row, and the sample by its file.
    pub(crate) fn title(&self) -> String {
        let Self { rank, row, sample } = self;
        let (file, index) = (&sample.file, sample.index);
        let place = match (&sample.key, sample.row_group.zip(sample.row_in_group)) {
            (_, Some((group, row))) => format!("{file}, row group {group}, row {row}"),
            (Some(key), None) if key == file => file.clone(),
            (Some(key), None) => format!("{file}, sample {index}, key {key}"),
            (None, None) => format!("{file}, sample {index}"),
        };
        format!("rank {rank} row {row}: {place}")
    }

    fn text(&self) -> String {
        let (title, sample) = (self.title(), &self.sample);
        let tokens = sample.fragment.map_or_else(String::new, |part| {
            let last = u64::from(part.first_token) + u64::from(part.tokens) - 1;
            format!(", tokens {} to {last} at {}", part.first_token, part.offset)
        });
        let repeat = if sample.repeat { "  (repeat)" } else { "" };
        format!("{title} (stream {}, number {}){tokens}{repeat}", sample.stream, sample.number)
    }
}

/// Tars of a run, which are read for the keys of their samples.
struct Tars<'a> {
    config: &'a LoaderConfig,
    library: Option<LibraryStores>,
    /// By stream.
    opened: BTreeMap<u32, Samples>,
}

impl Tars<'_> {
    /// Gives a sample of a tar its key. Tars that are not on this machine are fetched into the folders of the run.
    fn name(&mut self, sample: &mut NamedSample) -> Result<()> {
        if sample.key.is_some() || !sample.file.to_lowercase().ends_with(".tar") {
            return Ok(());
        }
        let stream = match self.opened.entry(sample.stream) {
            Entry::Occupied(opened) => opened.into_mut(),
            Entry::Vacant(vacant) => {
                let streams = self.config.streams.get(sample.stream as usize).cloned().into_iter().collect();
                let engine = EngineConfig { ca_file: self.config.engine.ca_file.clone(), ..EngineConfig::default() };
                let (cache_limit, fetch) = (self.config.cache_limit, self.config.fetch.clone());
                let config = LoaderConfig { streams, batch_size: 1, cache_limit, fetch, engine, ..Default::default() };
                let data = Arc::new(DataSet::of_loader(&config, self.library.clone())?);
                vacant.insert(Samples::open(data, self.library.clone())?)
            }
        };
        let record = stream.read(sample.number)?;
        let stored = record.columns().find(|(column, _)| column.name == "__key__");
        if let Some((column, Some(stored))) = stored
            && let Value::Str(key) = column.encoding.decode(stored)?
        {
            sample.key = Some(key.into_owned());
        }
        Ok(())
    }
}
