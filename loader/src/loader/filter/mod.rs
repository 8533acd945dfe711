//! Filters of streams, and further questions about each sample: their columns are read once, and the answers are kept
//! on local disk.
//!
//! ```text
//!   kept: answers of earlier runs --------------+
//!                                               +--> a bit for each sample of the needed shards --> the catalog
//!   pass: shards, several at once --> Answer ---+
//!                                       |-- files: values that a list of files has
//!                                       |-- tables: the columns of Parquet and Arrow files
//!                                       `-- samples: shards, read as for an epoch
//! ```
//!
//! * `answer`: the trait of the sources' ways, and the bits of a shard; `answers`: the answers of all shards;
//! * `kept`: the answers of a stream, and their file;
//! * `numbers`: weights and lengths of samples;
//! * `lengths`: tokens of samples; `counting` has the counters, and `sizes` counts tokens without reading a sample;
//! * `pass`: the pass over the shards without known answers, by one process of a machine;
//! * `columns`: the columns that a filter names, and the cells of their values;
//! * `context`: the parts of a loader that all ways use.
//!
//! A shard without a sample that the remaining conditions keep is not read. The answers follow from the data and the
//! filter, so all ranks have the same, and the catalog's digest of the kept samples is part of checkpoints.

mod answer;
mod answers;
mod columns;
mod context;
mod counting;
mod files;
mod kept;
mod lengths;
mod numbers;
mod pass;
mod samples;
mod sizes;
mod tables;

use crate::catalog::{
    Catalog, IndexedStream, Session, Stream, StreamColumns, columns_of, open_streams, writable_local,
};
use crate::config::{LoaderConfig, SelectConfig, SkipConfig, StreamConfig};
use crate::decode::{FieldSpec, TokenCounter};
use crate::error::{Context, Error, Result};
use crate::format::hash::Hasher;
use crate::format::{FIELDS, HashAlgo, Recipe, Shard};
use crate::stats::Stats;
use crate::store::{LibraryStores, Simulation};
use crate::subsets::filter::Filter;
use crate::subsets::question::Question;
use crate::sync::Arc;
use crate::topology::Topology;
use answer::Answer;
use answers::Answers;
use context::FilteredStream;
use files::Files;
use kept::KeptAnswers;
pub(super) use lengths::TokenSource;
pub(super) use numbers::SampleArguments;
use pass::Pass;
use samples::Samples;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tables::Tables;

/// Option by which samples without a column are left out, and its effect with a column that none has.
const SKIP_WORDS: &str = "skip.missing";
const SKIPS_ALL: &str = "skip.missing would leave out all samples";

/// Shards with columns that are read at once at most: enough to hide a store's latency.
const SHARDS_AT_ONCE: usize = 16;

/// Parts of a loader in which filters are applied.
pub(super) struct Filters<'a> {
    pub(super) config: &'a LoaderConfig,
    pub(super) stats: &'a Arc<Stats>,
    pub(super) topology: &'a Topology,
    pub(super) network: &'a Simulation,
    pub(super) library: Option<LibraryStores>,
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
            let needed = self.needed_columns(stream).context("stream", || &stream.name)?;
            if config.select.filter.is_none() && needed.is_empty() {
                continue;
            }
            let words = config.select.filter.iter().map(|filter| format!("filter={filter:?}"));
            let words: Vec<String> = words.chain((!needed.is_empty()).then(|| SKIP_WORDS.to_owned())).collect();
            let filter = config.select.filter.as_deref().map(Filter::parse).transpose()?;
            let question = Question::Condition(Filter::with_present(filter, &needed));
            let answers = self.answers_of(stream, config, &question, None).context("stream", || &stream.name)?;
            let keeps = |shard: u32, index| answers.bit(shard, index);
            // All samples have been read for a column that none was known to have.
            let is_whole = config.select.filter.is_none() && stream.selection.is_none();
            let absent = needed.iter().find(|name| is_whole && !has_column(stream, name));
            let absent = absent.map(|name| self.absent(stream, name));
            catalog.narrow(number, &words.join(", "), keeps).map_err(|e| absent.unwrap_or(e))?;
        }
        Ok(())
    }

    /// Returns the columns without which a sample of `stream` is left out: the columns of all fields without a default,
    /// as far as some samples may lack them.
    ///
    /// # Errors
    ///
    /// `Config` for a column that no sample can have.
    fn needed_columns<'a>(&'a self, stream: &'a Stream) -> Result<Vec<&'a str>> {
        if !self.config.skip.missing {
            return Ok(Vec::new());
        }
        let shards = || stream.index.shards.iter().filter(|shard| shard.samples > 0);
        let table_of = |shard: &'a Shard| shard.recipe.as_ref().and_then(|recipe| recipe.as_table());
        let needed: Vec<&str> = match &self.config.fields {
            Some(fields) => {
                columns_of(fields).into_iter().filter(|column| !column.has_default).map(|column| column.name).collect()
            }
            // Every column of a table is a field. The remaining sources deliver the columns that all samples have.
            None => {
                let columns = shards().find(|shard| table_of(shard).is_some()).map(|shard| &shard.layout.columns);
                columns.into_iter().flatten().map(|column| &*column.name).filter(|name| *name != FIELDS).collect()
            }
        };
        let is_lacked = |shard: &'a Shard, name: &str| match table_of(shard) {
            Some(table) => {
                let bounds = shard.layout.column(name).and_then(|column| table.bounds(column));
                bounds.is_none_or(|bounds| bounds.has_nulls)
            }
            // The counts of other programs show the fields of only the first samples.
            None => shard.layout.is_sampled() || shard.layout.may_lack(name),
        };
        let columns: Vec<&str> =
            needed.into_iter().filter(|name| shards().any(|shard| is_lacked(shard, name))).collect();
        for name in columns.iter().filter(|name| !has_column(stream, name)) {
            if shards().any(|shard| shard.layout.may_have_more_columns()) {
                StreamColumns::of([stream]).warn_of(name, &format!("{SKIP_WORDS} may leave out all"));
            } else if shards().any(|shard| shard.layout.is_sampled()) {
                return Err(StreamColumns::of([stream]).unknown(name, SKIPS_ALL));
            } else {
                return Err(self.absent(stream, name));
            }
        }
        Ok(columns)
    }

    /// The error of a column that no sample of `stream` has.
    fn absent(&self, stream: &Stream, name: &str) -> Error {
        let whole = if self.config.streams.len() > 1 { "the stream" } else { "the data set" };
        StreamColumns::of([stream]).absent(name, whole, SKIPS_ALL)
    }

    /// Returns the answers of all shards that have kept samples. A question about tokens has their counter.
    fn answers_of(
        &self,
        stream: &Stream,
        config: &StreamConfig,
        question: &Question,
        counter: Option<&TokenCounter>,
    ) -> Result<Answers> {
        let filtered = FilteredStream::new(stream, (question, counter), self.config, self.stats);
        let mut answer = answer_of(&filtered)?;
        let bits: Vec<u64> = (0..stream.index.shards.len() as u32).map(|shard| filtered.bits_of(shard)).collect();
        let folder = if answer.is_kept() { folder_of(stream, question) } else { None };
        let kept = KeptAnswers::open(folder, &bits)?;
        let is_needed = |shard: &u32| {
            let mut is_needed = false;
            stream.visit_kept(*shard, |_| is_needed = true);
            is_needed
        };
        let needed: Vec<u32> = (0..stream.index.shards.len() as u32).filter(is_needed).collect();
        if !needed.iter().all(|shard| kept.has(*shard)) {
            let field = |name: &String| (name.clone(), FieldSpec::bytes(name.clone()));
            let fields = |names: &[String]| {
                counter.map_or_else(|| names.iter().map(field).collect(), |counter| counter.fields().to_vec())
            };
            answer.open(&|columns| self.open_with(config, fields(columns)))?;
            let pass = Pass {
                name: &stream.name,
                question: &question.words(),
                shards: &stream.index.shards,
                needed: &needed,
                answer: &*answer,
                kept: &kept,
                run: &filtered.run,
                threads: self.threads_of(question),
                clock: self.network.clock.clone(),
                stall_timeout: filtered.stall_timeout(),
                read: &self.stats.counter("filter_shards_read"),
            };
            pass.run()?;
        }
        Ok(kept.finish())
    }

    /// Shards that are read at once.
    fn threads_of(&self, question: &Question) -> usize {
        match question {
            // One process of the machine works, and the rest wait for it.
            Question::Tokens { .. } => self.topology.threads_default(1).max(2),
            _ => {
                let threads = self.topology.threads_default(self.config.world.local_world_size as usize);
                threads.clamp(2, SHARDS_AT_ONCE)
            }
        }
    }

    /// Opens the stream of `config` with only `fields`, and with all samples.
    fn open_with(&self, config: &StreamConfig, fields: Vec<(String, FieldSpec)>) -> Result<IndexedStream> {
        let stream = StreamConfig { select: SelectConfig::default(), ..config.clone() };
        let (fields, skip) = (Some(fields), SkipConfig::default());
        let config = LoaderConfig { streams: vec![stream], fields, skip, ..self.config.clone() };
        let library = self.library.clone();
        let opened = open_streams(&Session::new(&config, self.stats, self.topology, self.network, library))?;
        opened.into_iter().next().ok_or_else(|| Error::internal("no stream was opened"))
    }
}

/// Returns true if a sample of `stream` is known to have the column `name`.
fn has_column(stream: &Stream, name: &str) -> bool {
    stream.index.shards.iter().any(|shard| shard.samples > 0 && shard.layout.has_column(name))
}

/// Returns the way of the stream's source to the answers.
fn answer_of<'a>(of: &'a FilteredStream<'a>) -> Result<Box<dyn Answer + 'a>> {
    let first = of.stream.index.shards.iter().find(|shard| shard.samples > 0);
    Ok(match first.and_then(|shard| shard.recipe.as_deref()) {
        Some(recipe) if recipe.as_files().is_some() => Box::new(Files::new(of)?),
        Some(recipe) if recipe.is_table() => Box::new(Tables::new(of)?),
        _ => Box::new(Samples::new(of)?),
    })
}

/// Returns the folder for the answers to `question`: in the stream's folder, or in the user's cache folder if the
/// shards are read where they are.
fn folder_of(stream: &Stream, question: &Question) -> Option<PathBuf> {
    let mut hasher = Hasher::new(HashAlgo::Xxh3_128);
    hasher.update(format!("{}\n{}", stream.index_digest, question.text()).as_bytes());
    if let Some(version) = &stream.version {
        hasher.update(format!("\n{version}").as_bytes());
    }
    let counts_tokens = matches!(question, Question::Tokens { .. });
    let is_table = |shard: &Shard| shard.recipe.as_deref().is_some_and(<dyn Recipe>::is_table);
    let folder = if stream.dir.has_remote() {
        // The folder of tables has the columns that all fields read, and tokens only one field's columns.
        let shared = counts_tokens && stream.index.shards.iter().any(is_table);
        let shared = if shared { writable_local(&stream.name) } else { None };
        shared.unwrap_or_else(|| stream.dir.folder().to_owned())
    } else {
        for shard in 0..stream.index.shards.len() as u32 {
            hash_files(stream, shard, question, &mut hasher)?;
        }
        writable_local(&stream.name)?
    };
    let kind = if counts_tokens { "lengths" } else { "filter" };
    Some(folder.join(format!("{kind}-{}", hasher.finish_hex())))
}

/// Adds the sizes and times of a shard's files to `hasher`: a file that was written again may have the size of the old
/// one. `None` for a file that cannot be found.
fn hash_files(stream: &Stream, shard: u32, question: &Question, hasher: &mut Hasher) -> Option<()> {
    let mut add = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        hasher.update(format!("\n{} {} {}", found.len(), found.mtime(), found.mtime_nsec()).as_bytes());
        Some(())
    };
    let recipe = stream.index.shards[shard as usize].recipe.as_ref();
    match (recipe.and_then(|recipe| recipe.as_files()), stream.dir.folder_of_files(shard)) {
        // Such a shard is no file. To count its tokens costs more than to look at each of its files.
        (Some(group), Some(folder)) if matches!(question, Question::Tokens { .. }) => {
            let mut files = (0..group.samples()).flat_map(|sample| group.files(sample));
            files.try_for_each(|(path, _)| add(&folder.join(path)))
        }
        _ => stream.dir.raw_paths(shard).iter().try_for_each(|path| add(path)),
    }
}
