//! Data set of a loader: streams, their shards, and the folders of both. `open` fetches the streams' indexes.
//!
//! ```text
//!   StreamConfig --rules--> Source::DataSet ------------------> data_set --IndexOrigin--> install --> IndexedStream
//!                  |    `-> Source::Files --openers--> Opener of the kind --IndexOrigin--^
//!                facts
//! ```
//!
//! Opening a catalogue fetches every stream's `index.json` (or reads the cached one and compares it), opens its cache
//! directory and numbers all shards in the order of the streams. No shard is read.
//!
//! * `rules`: the table of rules that choose how a stream is opened, by `facts` about its folder and the stores;
//! * `openers`: the opener of each kind of files, an implementation of [`OpenFiles`](opening::OpenFiles) in the folder
//!   of the kind: `tars`, `tables`, `tfrecords`, `array_records`, `lines`, `tokens`, `files`;
//! * `kept_index`: the index of files as it is kept, with the versions of the files; a kind makes its document, by
//!   [`SurveyFiles`](kept_index::SurveyFiles);
//! * `data_set`: the `index.json` of a data set;
//! * `install`: the index in the stream's folder on local disk, fetched or made by an
//!   [`IndexOrigin`](index_origin::IndexOrigin);
//! * `session`: the configuration and the stores; `stream_folders`: names of streams and their folders.

mod absent_columns;
mod again;
mod array_records;
mod cache_folder;
mod column_classes;
mod column_units;
mod column_uses;
mod data_set;
mod facts;
mod file_ends;
mod files;
mod found_files;
mod fronts;
mod index_origin;
mod install;
mod kept_index;
mod known_columns;
mod lines;
mod open;
mod openers;
mod opening;
mod parallel;
mod pass;
mod pass_journal;
mod remote_file;
mod requests;
mod rules;
mod sample_positions;
mod select;
mod selection;
mod session;
mod store_set;
mod stream;
mod stream_folders;
mod tables;
mod tars;
#[cfg(test)]
mod tests;
mod tfrecords;
mod tokens;
mod unpacked_file;
mod whole_files;
mod windows;

use crate::cache::{Blocks, CacheGroup, check_limit, disk_bytes};
use crate::config::{ExtraOutput, LoaderConfig, SkipConfig};
use crate::decode::FieldSpec;
use crate::error::{Context, Error, Result};
use crate::format::recipe::{FileColumns, Texts};
use crate::format::tar::KEY;
use crate::format::{ColumnForm, ColumnUse, Layout, Recipe, Shard};
use crate::order::{DataSetShape, SampleId, ShardId};
use crate::stats::Stats;
use crate::store::{LibraryStores, Simulation};
use crate::sync::Arc;
use crate::topology::Topology;
pub(crate) use absent_columns::StreamColumns;
pub(crate) use again::repeated;
pub use cache_folder::root as cache_root;
pub(crate) use cache_folder::writable_local;
pub(crate) use column_units::check_units;
pub(crate) use column_uses::columns_of;
pub use known_columns::KnownColumn;
pub(crate) use open::open_streams;
pub use opening::FileListing;
pub(crate) use sample_positions::{name_of_shard, position_in};
pub(crate) use select::Selections;
pub(crate) use selection::shortened;
pub(crate) use session::Session;
pub(crate) use store_set::StoreSet;
pub(crate) use stream::{IndexedStream, Stream, StreamOrigin};
pub use tars::TarSet;

/// All streams of a loader.
#[derive(Debug)]
pub(crate) struct Catalog {
    streams: Vec<Stream>,
    /// Kept samples per shard and stream.
    shape: DataSetShape,
    /// True if all samples of all streams are kept.
    is_whole: bool,
    /// Distinct layouts of all shards, usually one, with the columns that are read.
    layouts: Vec<Arc<Layout>>,
    /// Index into `layouts` of each shard.
    layout_of: Vec<u16>,
    /// The layouts with all columns of the shards.
    whole_layouts: Vec<Arc<Layout>>,
}

impl Catalog {
    /// Opens every stream; `library` serves the remotes of schemes that the engine does not have.
    ///
    /// # Errors
    ///
    /// Errors of the index, the cache directory or the store, with the stream's name.
    pub(crate) fn open(
        config: &LoaderConfig,
        stats: &Arc<Stats>,
        topology: &Topology,
        network: &Simulation,
        library: Option<LibraryStores>,
    ) -> Result<Self> {
        let opened = open_streams(&Session::new(config, stats, topology, network, library))?;
        check_cache_limit(config.cache_limit, &opened)?;
        let mut catalog = Self::assemble(opened, config.cache_limit, config.engine.allow_unsafe_types, stats)?;
        catalog.project(config.fields.as_deref(), config.has_extra(ExtraOutput::SampleKeys), config.skip)?;
        catalog.check_labels(config.fields.as_deref())?;
        check_units(catalog.streams.iter().map(|stream| stream.index.shards.iter()), config)?;
        Ok(catalog)
    }

    /// Opens the cache directories of streams with an index that was read. They hold at most `cache_limit` bytes
    /// together. Columns of Python pickles are rejected unless `allow_unsafe_types` is true.
    ///
    /// # Errors
    ///
    /// Errors of the cache directory, and `Config` for an index that cannot be used, with the stream's name.
    pub(crate) fn assemble(
        opened: Vec<IndexedStream>,
        cache_limit: Option<u64>,
        allow_unsafe_types: bool,
        stats: &Stats,
    ) -> Result<Self> {
        let group = CacheGroup::new(cache_limit);
        let mut streams: Vec<Stream> = Vec::new();
        let mut shards = 0;
        for o in opened {
            let (name, count) = (o.name.clone(), o.cache.shards.len() as u32);
            let stream = o.finish(&group, shards, allow_unsafe_types, stats);
            streams.push(stream.context("stream", || &name)?);
            shards += count;
        }
        let (shape, is_whole) = shape_of(&streams)?;
        let (mut layouts, mut layout_of): (Vec<Arc<Layout>>, Vec<u16>) = Default::default();
        for stream in &streams {
            for shard in &stream.index.shards {
                if shard.samples == 0 {
                    // Nothing is read of it: an empty tar has no fields.
                    layout_of.push(0);
                    continue;
                }
                // Shards of one index share their layout, so the last layout nearly always matches.
                let known = layouts.iter().rposition(|l| Arc::ptr_eq(l, &shard.layout) || **l == *shard.layout);
                let known = known.unwrap_or_else(|| {
                    layouts.push(shard.layout.clone());
                    layouts.len() - 1
                });
                layout_of.push(u16::try_from(known).map_err(|_| too_many_layouts())?);
            }
        }
        Ok(Self { streams, shape, is_whole, whole_layouts: layouts.clone(), layouts, layout_of })
    }

    /// Counts the kept samples of the streams again.
    fn count(&mut self) -> Result<()> {
        (self.shape, self.is_whole) = shape_of(&self.streams)?;
        Ok(())
    }

    /// Reduces layouts with columns that some samples lack to the columns of `fields`, and the keys if they are wanted.
    fn project(&mut self, fields: Option<&[(String, FieldSpec)]>, with_keys: bool, skip: SkipConfig) -> Result<()> {
        let mut wanted = fields.map(columns_of);
        if let (true, Some(wanted)) = (with_keys, &mut wanted)
            && wanted.iter().all(|column| column.name != KEY)
        {
            wanted.push(ColumnUse { name: KEY, has_default: false, form: ColumnForm::Value });
        }
        for column in wanted.iter().flatten().filter(|column| column.has_default) {
            self.check_known(column.name)?;
        }
        for layout in &mut self.layouts {
            // All its samples have the default, which need not fit the bytes of a file of that name.
            let is_read = |column: &&ColumnUse<'_>| !column.has_default || !layout.is_unknown(column.name);
            let mut read: Option<Vec<_>> =
                wanted.as_ref().map(|wanted| wanted.iter().filter(is_read).copied().collect());
            if skip.missing {
                // The plan leaves out the samples without them.
                read.iter_mut().flatten().for_each(|column| column.has_default = true);
            }
            if let Some(projected) = layout.projected(read.as_deref()) {
                *layout = Arc::new(projected);
            }
        }
        Ok(())
    }

    /// Reports a column that no shard is known to have: a mistyped name would give every sample the default.
    fn check_known(&self, name: &str) -> Result<()> {
        if self.layouts.iter().any(|layout| layout.has_column(name)) {
            return Ok(());
        }
        let known = StreamColumns::of(&self.streams);
        // Counts that came with the files do not have the fields of all samples.
        if self.layouts.iter().any(|layout| layout.may_have_more_columns()) {
            known.warn_of(name, "the default may replace it in all");
            return Ok(());
        }
        Err(known.absent(name, "the data set", "all samples would have the field's default"))
    }

    /// Rejects labels that mean different classes in two streams.
    fn check_labels(&self, fields: Option<&[(String, FieldSpec)]>) -> Result<()> {
        let is_label = |column: &str| column == FileColumns::LABEL;
        let is_read = |fields: &[(String, FieldSpec)]| {
            fields.iter().any(|(_, field)| field.columns().into_iter().any(|(column, _)| is_label(column)))
        };
        if !fields.is_none_or(is_read) {
            return Ok(());
        }
        let classes = self.streams.iter().filter_map(|stream| Some((stream, stream.classes()?))).collect::<Vec<_>>();
        let other = classes.windows(2).find(|pair| pair[0].1 != pair[1].1);
        let Some([(first, a), (second, b)]) = other else { return Ok(()) };
        let differs = (0..).find(|n| a.iter().nth(*n) != b.iter().nth(*n)).unwrap_or(0);
        let shown = |classes: &Texts| classes.iter().nth(differs).unwrap_or("none").to_owned();
        let message = format!(
            "two streams have different classes, and number {differs} is the first that differs, so their labels do \
             not fit: read the column `class` instead of `label`, or give both the same folders"
        );
        Err(Error::config(message)
            .with("class", shown(a))
            .with("stream", &first.name)
            .with("class", shown(b))
            .with("stream", &second.name))
    }

    /// Kept samples per shard and stream. The order knows only these.
    pub(crate) fn shape(&self) -> &DataSetShape {
        &self.shape
    }

    /// Streams in their order.
    pub(crate) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Distinct layouts of the shards.
    pub(crate) fn layouts(&self) -> &[Arc<Layout>] {
        &self.layouts
    }

    /// Columns of the samples, whether fields read them or not.
    ///
    /// # Errors
    ///
    /// `Config` for a column that has two encodings.
    pub(crate) fn columns(&self) -> Result<Vec<KnownColumn>> {
        known_columns::known_columns(&self.whole_layouts)
    }

    /// Index of the layout of `shard`.
    pub(crate) fn layout_of(&self, shard: ShardId) -> usize {
        self.layout_of[shard.index()].into()
    }

    /// Returns for each layout the column with the keys of its samples, or the paths of their files, if it has one.
    pub(crate) fn key_columns(&self) -> Vec<Option<&'static str>> {
        let mut keys: Vec<_> = self.layouts.iter().map(|layout| layout.format.key_column()).collect();
        let shards = self.streams.iter().flat_map(|stream| &stream.index.shards);
        for (shard, layout) in shards.zip(&self.layout_of) {
            let key = shard.recipe.as_ref().and_then(|recipe| recipe.key_column());
            if key.is_some() && shard.samples > 0 {
                keys[usize::from(*layout)] = key;
            }
        }
        keys
    }

    /// Returns for each layout true if samples of it are rows of tables.
    pub(crate) fn of_tables(&self) -> Vec<bool> {
        let mut of_tables = vec![false; self.layouts.len()];
        let shards = self.streams.iter().flat_map(|stream| &stream.index.shards);
        for (shard, layout) in shards.zip(&self.layout_of).filter(|(shard, _)| shard.samples > 0) {
            of_tables[usize::from(*layout)] |= shard.recipe.as_deref().is_some_and(<dyn Recipe>::is_table);
        }
        of_tables
    }

    /// Returns the stream of `shard` and the shard's number in it.
    pub(crate) fn locate(&self, shard: ShardId) -> (&Stream, u32) {
        let stream = self.shape.stream_of(shard);
        (&self.streams[stream.index()], shard.0 - self.shape.shards_of(stream).start)
    }

    /// Returns the shard that holds `sample` of the order, and the sample's index in the shard's file; `None` after the
    /// last sample. This is the only function that turns a number of the order into one of a file.
    pub(crate) fn locate_sample(&self, sample: SampleId) -> Option<(ShardId, u32)> {
        let (shard, nth) = self.shape.locate(sample)?;
        if self.is_whole {
            return Some((shard, nth));
        }
        let (stream, local) = self.locate(shard);
        Some((shard, stream.index_of(local, nth)))
    }

    /// Returns the entry of `shard` in its index.
    pub(crate) fn shard(&self, shard: ShardId) -> &Shard {
        let (stream, local) = self.locate(shard);
        &stream.index.shards[local as usize]
    }

    /// Bytes of all shards, unpacked.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.streams.iter().flat_map(|s| &s.index.shards).map(Shard::raw_bytes).sum()
    }

    /// Mean bytes of a sample, unpacked.
    pub(crate) fn sample_bytes_mean(&self) -> u64 {
        let samples = self.streams.iter().map(|stream| stream.index.samples()).sum::<u64>();
        self.raw_bytes() / samples.max(1)
    }

    /// Bytes of memory for the fetch of the largest shard, stored and unpacked together.
    pub(crate) fn shard_bytes_max(&self) -> u64 {
        let shards = self.streams.iter().flat_map(|s| &s.index.shards);
        shards.map(Shard::fetch_bytes).max().unwrap_or(0)
    }
}

/// Returns the numbers of kept samples, and true if all are kept.
fn shape_of(streams: &[Stream]) -> Result<(DataSetShape, bool)> {
    let counts: Vec<Vec<u64>> = streams.iter().map(Stream::counts).collect();
    Ok((DataSetShape::new(&counts)?, streams.iter().all(|stream| stream.selection.is_none())))
}

fn too_many_layouts() -> Error {
    let message = "the shards have more than 65,536 different layouts of columns: write the data set again with the \
                   same \
                   columns in all shards";
    Error::config(message)
}

/// Checks that `limit` holds all indexes and the largest shard.
fn check_cache_limit(limit: Option<u64>, streams: &[IndexedStream]) -> Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let cached = || {
        let cached = streams.iter().filter(|stream| stream.cache.has_remote);
        cached.map(|stream| (stream, Blocks::of(&stream.cache.dir)))
    };
    let index = |(stream, blocks): (&IndexedStream, Blocks)| {
        blocks.of_file(stream.index_bytes) + blocks.of_folder(&stream.cache.dir)
    };
    let index_bytes = cached().map(index).sum();
    let sizes = cached().flat_map(|(IndexedStream { cache, .. }, blocks)| {
        cache.shards.iter().map(move |shard| (disk_bytes(shard, cache.keep_zip, blocks), shard))
    });
    sizes.max_by_key(|(bytes, _)| *bytes).map_or(Ok(()), |(bytes, shard)| check_limit(limit, index_bytes, shard, bytes))
}
