//! Description of a data set by its indexes, without a read of a shard.

use super::data::{DataSet, OpenedOrigin};
use crate::catalog::KnownColumn;
use crate::format::{Compression, FIELDS, HashAlgo, INDEX_BASENAME, Layout, Recipe, Shard};
use crate::order::ShardId;
use crate::sync::Arc;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Facts about a stream, from its index.
#[derive(Clone, Debug)]
pub struct StreamDescription {
    /// Address without secrets, or folder.
    pub name: String,
    /// Name of the kind of its files, such as `parquet`; `None` for a data set with an index.
    pub kind: Option<&'static str>,
    /// Formats of the shards, as they are on local disk.
    pub formats: Vec<&'static str>,
    /// Samples.
    pub samples: u64,
    /// Shards.
    pub shards: u64,
    /// Bytes in the store, as they are fetched.
    pub stored_bytes: u64,
    /// Bytes of the unpacked shards.
    pub raw_bytes: u64,
    /// The index has estimates of `raw_bytes`.
    pub is_estimated: bool,
    /// Fewest and most samples of a shard; `None` without shards.
    pub shard_samples: Option<RangeInclusive<u64>>,
    /// Smallest and largest unpacked shard in bytes; `None` without shards.
    pub shard_bytes: Option<RangeInclusive<u64>>,
    /// Columns with their encodings: a column with two of them is there twice.
    pub columns: Vec<KnownColumn>,
    /// Samples may have columns besides these.
    pub may_have_more: bool,
    /// Compressions of the stored files.
    pub compressions: Vec<Compression>,
    /// Hashes that the index has of every stored file.
    pub hashes: Vec<HashAlgo>,
    /// Folder of the index, and of the shards unless they are read where they are.
    pub folder: PathBuf,
    /// The shards are read where they are.
    pub is_in_place: bool,
    /// The index; `None` if the caller has read it.
    pub index: Option<IndexDescription>,
}

/// Origin of an index.
#[derive(Clone, Debug)]
pub struct IndexDescription {
    /// It was made of the files' own headers; otherwise the data set has it.
    pub is_made: bool,
    /// It was on local disk already.
    pub was_kept: bool,
    /// Its file on local disk, if it is kept there.
    pub file: Option<PathBuf>,
    /// Length in bytes.
    pub bytes: u64,
}

impl DataSet {
    /// Describes each stream by its index. No shard is read.
    pub fn describe(&self) -> Vec<StreamDescription> {
        (0..self.shards.len()).map(|number| self.describe_stream(number)).collect()
    }

    /// Bytes that the fetch of `shard` moves: 0 if it is read where it is.
    ///
    /// # Panics
    ///
    /// If the data set has no such shard.
    pub fn fetch_bytes(&self, shard: ShardId) -> u64 {
        let stream = self.shape().stream_of(shard);
        let number = stream.index();
        if self.files[number].is_some() || !self.config.streams[number].has_remote() {
            return 0;
        }
        let entry = &self.shards[number][(shard.0 - self.shape().shards_of(stream).start) as usize];
        entry.recipe.as_ref().map_or_else(|| entry.stored_bytes(), |recipe| recipe.stored_bytes())
    }

    fn describe_stream(&self, number: usize) -> StreamDescription {
        let (place, shards, files) = (&self.config.streams[number], &self.shards[number], &self.files[number]);
        let origin = self.origins.get(number);
        let mut facts = ShardFacts::default();
        shards.iter().for_each(|shard| facts.add(shard));
        let index = origin.map(|OpenedOrigin { origin, index_bytes, .. }| {
            let file = place.dir.join(INDEX_BASENAME);
            let (is_made, was_kept) = (origin.kind.is_some(), origin.was_kept);
            IndexDescription { is_made, was_kept, file: file.exists().then_some(file), bytes: *index_bytes }
        });
        StreamDescription {
            name: origin.map_or_else(|| place.name(), |origin| origin.name.clone()),
            kind: origin.and_then(|origin| origin.origin.kind),
            formats: facts.formats(),
            samples: facts.samples,
            shards: shards.len() as u64,
            stored_bytes: facts.stored_bytes,
            raw_bytes: facts.raw_bytes,
            is_estimated: facts.is_estimated,
            shard_samples: facts.shard_samples.map(|(least, most)| least..=most),
            shard_bytes: facts.shard_bytes.map(|(least, most)| least..=most),
            columns: columns(&facts.layouts),
            may_have_more: facts.layouts.iter().any(|layout| layout.may_have_more_columns()),
            compressions: facts.compressions,
            hashes: facts.hashes.unwrap_or_default(),
            folder: place.dir.clone(),
            is_in_place: files.is_some() || !place.has_remote(),
            index,
        }
    }
}

/// Sums over the shards of a stream.
#[derive(Default)]
struct ShardFacts<'a> {
    samples: u64,
    stored_bytes: u64,
    raw_bytes: u64,
    is_estimated: bool,
    shard_samples: Option<(u64, u64)>,
    shard_bytes: Option<(u64, u64)>,
    layouts: Vec<&'a Arc<Layout>>,
    compressions: Vec<Compression>,
    /// `None` before the first shard.
    hashes: Option<Vec<HashAlgo>>,
    /// Compressed objects that several shards are parts of: each is fetched once.
    packed: HashSet<Arc<str>>,
}

impl<'a> ShardFacts<'a> {
    fn add(&mut self, shard: &'a Shard) {
        let raw_bytes = shard.raw_bytes();
        self.samples += shard.samples;
        self.raw_bytes = self.raw_bytes.saturating_add(raw_bytes);
        self.stored_bytes = self.stored_bytes.saturating_add(self.stored_bytes_of(shard));
        self.is_estimated |= shard.is_estimated();
        widen(&mut self.shard_samples, shard.samples);
        widen(&mut self.shard_bytes, raw_bytes);
        let is_known = |known: &&Arc<Layout>| Arc::ptr_eq(known, &shard.layout) || **known == shard.layout;
        if shard.samples > 0 && !self.layouts.iter().rev().any(is_known) {
            self.layouts.push(&shard.layout);
        }
        let packed = shard.recipe.as_ref().and_then(|recipe| recipe.packed()).map(|part| part.compression);
        let compression = shard.zip_data.as_ref().and(shard.compression).or(packed);
        if let Some(compression) = compression.filter(|compression| !self.compressions.contains(compression)) {
            self.compressions.push(compression);
        }
        for file in shard.files().map(|pair| pair.stored()) {
            let has = |algo: &HashAlgo| file.hashes.algos().any(|known| known == *algo);
            match &mut self.hashes {
                Some(hashes) => hashes.retain(has),
                None => self.hashes = Some(file.hashes.algos().collect()),
            }
        }
    }

    fn stored_bytes_of(&mut self, shard: &Shard) -> u64 {
        let Some(recipe) = shard.recipe.as_deref() else { return shard.stored_bytes() };
        if <dyn Recipe>::packed(recipe).is_none() {
            return recipe.stored_bytes();
        }
        let objects = recipe.ranges().into_iter().filter(|range| self.packed.insert(range.key.clone()));
        objects.map(|range| range.bytes).fold(0, u64::saturating_add)
    }

    fn formats(&self) -> Vec<&'static str> {
        let mut formats = Vec::new();
        for name in self.layouts.iter().map(|layout| layout.format.name()) {
            if !formats.contains(&name) {
                formats.push(name);
            }
        }
        formats
    }
}

/// Makes `range`, from its least to its greatest number, contain `number`.
fn widen(range: &mut Option<(u64, u64)>, number: u64) {
    let (least, most) = range.unwrap_or((number, number));
    *range = Some((least.min(number), most.max(number)));
}

/// Returns the distinct columns of `layouts`. The list of a sample's fields is no column.
fn columns(layouts: &[&Arc<Layout>]) -> Vec<KnownColumn> {
    let mut known: Vec<KnownColumn> = Vec::new();
    for column in layouts.iter().flat_map(|layout| &layout.columns).filter(|column| column.name != FIELDS) {
        if !known.iter().any(|other| other.column == *column) {
            let is_optional = layouts.iter().any(|layout| layout.may_lack(&column.name));
            known.push(KnownColumn { column: column.clone(), is_optional });
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LoaderConfig, StreamConfig};
    use crate::format::writer::{LocalDir, Options, Writer};
    use crate::format::{Encoding, Value};

    fn described(remote: &std::path::Path, local: &std::path::Path) -> StreamDescription {
        let remote = Some(remote.display().to_string());
        let stream = StreamConfig { remote, local: Some(local.to_owned()), ..StreamConfig::default() };
        let config = LoaderConfig { streams: vec![stream], batch_size: 1, ..LoaderConfig::default() };
        DataSet::of_loader(&config, None).expect("opened").describe().remove(0)
    }

    #[test]
    fn a_compressed_data_set_is_described_by_its_index() {
        let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let layout = Layout::mds([("text".to_owned(), Encoding::Str)]).expect("a layout");
        let into = LocalDir::create(folder.path(), false).expect("a folder");
        let options = Options {
            compression: Some(Compression::parse("zstd").expect("known")),
            hashes: vec![HashAlgo::Sha1],
            size_limit: Some(512),
            ..Options::default()
        };
        let mut writer = Writer::new(layout, Box::new(into), options).expect("a writer");
        for _ in 0..40 {
            writer.write(&[Value::Str("sample ".repeat(8).into())]).expect("written");
        }
        writer.finish().expect("an index");
        let found = described(folder.path(), cache.path());
        assert_eq!((found.kind, found.formats), (None, vec!["mds"]));
        assert_eq!((found.samples, found.hashes), (40, vec![HashAlgo::Sha1]));
        assert!(found.shards > 1 && found.stored_bytes < found.raw_bytes && !found.is_in_place);
        assert_eq!(found.compressions[0].to_string(), "zstd");
        assert!(found.shard_bytes.expect("shards").end() <= &512);
        let index = found.index.expect("read here");
        assert!(!index.is_made && !index.was_kept && index.file == Some(cache.path().join("index.json")));
        assert!(described(folder.path(), cache.path()).index.expect("read here").was_kept);
    }

    #[test]
    fn files_without_an_index_are_described_by_their_kind() {
        let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        std::fs::write(folder.path().join("a.jsonl"), "{\"a\": 1}\n{\"a\": 2}\n").expect("written");
        let found = described(&folder.path().join("a.jsonl"), cache.path());
        assert_eq!((found.kind, found.samples, found.stored_bytes), (Some("json lines"), 2, 18));
        // A folder that is named is the cache of the files.
        assert!(!found.is_in_place && found.index.expect("read here").is_made);
    }
}
