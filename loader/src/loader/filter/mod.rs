//! Filters of streams, and other questions about each sample: their columns are read once, and the answers are kept on local
//! disk.
//!
//! ```text
//!   kept: answers of earlier runs --------------+
//!                                               +--> a bit for each sample of the shards that are needed --> the catalog
//!   pass: shards, several at once --> Answer ---+
//!                                       |-- files: values that a list of files has
//!                                       |-- tables: the columns of Parquet and Arrow files
//!                                       `-- samples: shards, read as for an epoch
//! ```
//!
//! * `answer`: the trait of the sources' ways, and the bits of a shard;
//! * `kept`: the answers of a stream, and their file;
//! * `numbers`: weights and lengths of samples;
//! * `pass`: the pass over the shards whose answers are not known, by one process of a machine;
//! * `columns`: the columns that a filter names, and the cells of their values;
//! * `context`: the parts of a loader that all ways use.
//!
//! A shard of which other conditions keep no sample is not read. The answers follow from the data and the filter, so all
//! ranks have the same, and the catalog's digest of the kept samples is part of checkpoints.

mod answer;
mod columns;
mod context;
mod files;
mod kept;
mod numbers;
mod pass;
mod samples;
mod tables;

use crate::catalog::{Catalog, ColumnNames, IndexedStream, Stream, columns_of, default_local, may_lack, open_streams};
use crate::config::{LoaderConfig, OnError, StreamConfig};
use crate::decode::FieldSpec;
use crate::error::{Context, Error, Result};
use crate::format::hash::Hasher;
use crate::format::{FIELDS, HashAlgo, Recipe, Shard};
use crate::stats::Stats;
use crate::store::{Outside, Simulation};
use crate::subsets::filter::Filter;
use crate::subsets::question::Question;
use crate::sync::Arc;
use crate::topology::Topology;
use answer::{Answer, Bits};
use context::FilteredStream;
use files::Files;
use kept::KeptAnswers;
pub(super) use numbers::SampleArguments;
use pass::Pass;
use samples::Samples;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use tables::Tables;

/// Parts of a loader in which filters are applied.
pub(super) struct Filters<'a> {
    pub(super) config: &'a LoaderConfig,
    pub(super) stats: &'a Arc<Stats>,
    pub(super) topology: &'a Topology,
    pub(super) network: &'a Simulation,
    pub(super) outside: Option<Outside>,
}

impl Filters<'_> {
    /// Keeps the samples of `catalog` that the streams' filters accept.
    ///
    /// # Errors
    ///
    /// `Config` for columns that a filter cannot use, and if it keeps no sample; errors of shards and stores.
    pub(super) fn apply(&self, catalog: &mut Catalog) -> Result<()> {
        for (number, config) in self.config.streams.iter().enumerate() {
            let stream = &catalog.streams()[number];
            let present = self.presence(stream).context("stream", || &stream.name)?;
            let text = match (&config.filter, &present) {
                (None, None) => continue,
                (Some(filter), None) => filter.clone(),
                (None, Some(present)) => present.clone(),
                (Some(filter), Some(present)) => format!("({filter}) and {present}"),
            };
            let filter = Filter::parse(&text)?;
            let words = format!("filter={:?}", filter.text());
            let question = Question::Condition(filter);
            let answers = self.answers_of(stream, config, &question).context("stream", || &stream.name)?;
            let keeps = |shard: u32, index| answers[shard as usize].as_ref().is_some_and(|bits| bits.get(index));
            catalog.narrow(number, &words, keeps)?;
        }
        Ok(())
    }

    /// Returns the condition that a sample of `stream` has the columns of all fields without a default; `None` if no sample is to
    /// be left out for lack of them.
    ///
    /// # Errors
    ///
    /// `Config` for a column that no sample is known to have.
    fn presence(&self, stream: &Stream) -> Result<Option<String>> {
        if self.config.on_missing != OnError::Skip {
            return Ok(None);
        }
        let shards = || stream.index.shards.iter().filter(|shard| shard.samples > 0);
        let has_nulls = |shard: &Shard| shard.recipe.as_deref().is_some_and(Recipe::is_table);
        let needed: Vec<&str> = match &self.config.fields {
            Some(fields) => {
                columns_of(fields).into_iter().filter(|column| !column.has_default).map(|column| column.name).collect()
            }
            // Every column of a table is a field. Other sources deliver those that all samples have.
            None => {
                let columns = shards().find(|shard| has_nulls(shard)).map(|shard| &shard.layout.columns);
                columns.into_iter().flatten().map(|column| &*column.name).filter(|name| *name != FIELDS).collect()
            }
        };
        // The counts of other programs show the fields of the first samples alone.
        let is_partly_known = |shard: &Shard| has_nulls(shard) || shard.layout.is_sampled();
        let is_lacked = |name: &str| shards().any(|shard| is_partly_known(shard) || may_lack(&shard.layout, name));
        let columns: Vec<&str> = needed.into_iter().filter(|name| is_lacked(name)).collect();
        if let Some(name) = columns.iter().find(|name| !shards().any(|shard| shard.layout.has_column(name))) {
            let error = ColumnNames::of([stream]).absent(name, "on_missing=\"skip\" would leave out all samples");
            return Err(error);
        }
        let columns: Vec<String> = columns.iter().map(|name| format!("`{name}` is not null")).collect();
        Ok((!columns.is_empty()).then(|| columns.join(" and ")))
    }

    /// Returns the answers of all shards that have kept samples.
    fn answers_of(&self, stream: &Stream, config: &StreamConfig, question: &Question) -> Result<Vec<Option<Bits>>> {
        let filtered = FilteredStream::new(stream, question, self.config, self.stats);
        let mut answer = answer_of(&filtered)?;
        let sizes = (0..stream.index.shards.len() as u32).map(|shard| filtered.bits_of(shard)).collect();
        let folder = if answer.is_kept() { folder_of(stream, question) } else { None };
        let kept = KeptAnswers::open(folder, sizes);
        let is_needed = |shard: &u32| {
            let mut is_needed = false;
            stream.visit_kept(*shard, |_| is_needed = true);
            is_needed
        };
        let needed: Vec<u32> = (0..stream.index.shards.len() as u32).filter(is_needed).collect();
        if !needed.iter().all(|shard| kept.has(*shard)) {
            answer.open(&|columns| self.open_with(config, columns))?;
            let pass = Pass {
                name: &stream.name,
                question: &question.words(),
                shards: &stream.index.shards,
                needed: &needed,
                answer: &*answer,
                kept: &kept,
                run: &filtered.run,
                threads: self.topology.threads_default(self.config.world.local_world_size as usize).max(2),
                clock: self.network.clock.clone(),
                stall_timeout: filtered.stall_timeout(),
                read: &self.stats.counter("filter_shards_read"),
            };
            pass.run()?;
        }
        Ok(kept.finish())
    }

    /// Opens the stream of `config` with the columns `columns` alone, and with all samples.
    fn open_with(&self, config: &StreamConfig, columns: &[String]) -> Result<IndexedStream> {
        let (subset, fraction, fraction_seed, filter) = (None, None, None, None);
        let stream = StreamConfig { subset, fraction, fraction_seed, filter, ..config.clone() };
        let field = |name: &String| (name.clone(), FieldSpec::Bytes { column: name.clone(), default: None });
        let fields = Some(columns.iter().map(field).collect());
        let (on_error, on_missing) = (OnError::Raise, OnError::Raise);
        let config = LoaderConfig { streams: vec![stream], fields, on_error, on_missing, ..self.config.clone() };
        let opened = open_streams(&config, self.stats, self.topology, self.network, self.outside.clone())?;
        opened.into_iter().next().ok_or_else(|| Error::internal("no stream was opened"))
    }
}

/// Returns the way of the stream's source to the answers.
fn answer_of<'a>(of: &'a FilteredStream<'a>) -> Result<Box<dyn Answer + 'a>> {
    let first = of.stream.index.shards.iter().find(|shard| shard.samples > 0);
    Ok(match first.and_then(|shard| shard.recipe.as_deref()) {
        Some(Recipe::Files(_)) => Box::new(Files::new(of)?),
        Some(Recipe::Rows(_) | Recipe::Batches(_)) => Box::new(Tables::new(of)?),
        Some(Recipe::Tokens(_) | Recipe::Records(_)) | None => Box::new(Samples::new(of)?),
    })
}

/// Returns the folder for the answers to `question`: in the stream's folder, or in the user's cache folder if the shards are
/// read where they are.
fn folder_of(stream: &Stream, question: &Question) -> Option<PathBuf> {
    let mut hasher = Hasher::new(HashAlgo::Xxh3_128);
    hasher.update(format!("{}\n{}", stream.index_digest, question.text()).as_bytes());
    if let Some(version) = &stream.version {
        hasher.update(format!("\n{version}").as_bytes());
    }
    let folder = if stream.dir.has_remote() {
        stream.dir.folder().to_owned()
    } else {
        // A file that was written again may have the size of the old one. Shards of loose files have no such file: their
        // answers are not kept.
        for path in (0..stream.index.shards.len() as u32).flat_map(|shard| stream.dir.raw_paths(shard)) {
            let found = std::fs::metadata(&path).ok()?;
            hasher.update(format!("\n{} {} {}", found.len(), found.mtime(), found.mtime_nsec()).as_bytes());
        }
        default_local(&stream.name).ok()?
    };
    Some(folder.join(format!("filter-{}", hasher.finish_hex())))
}
