//! Data sets that are checked, opened once, with the names of their parts.

use super::values::ColumnId;
use forebay_loader::config::{LoaderConfig, StreamConfig};
use forebay_loader::format::{FIELDS, Layout, Scratch, Shard};
use forebay_loader::order::{SampleId, ShardId, StreamId};
use forebay_loader::store::{LibraryStores, local_folder, redact};
use forebay_loader::sync::Arc;
use forebay_loader::worker::{ATTEMPTS, DataSet, SampleReader};
use forebay_loader::{Error, Result};
use std::path::PathBuf;

/// Column of tars and Energon's data sets with the name of a sample.
const KEY: &str = "__key__";

/// Opened data sets.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) data: Arc<DataSet>,
    pub(super) reader: SampleReader,
    pub(super) columns: ColumnTable,
    /// Addresses of the streams without secrets.
    pub(super) streams: Vec<String>,
    /// Folders of the streams that are on this machine.
    pub(super) folders: Vec<Option<PathBuf>>,
}

impl Source {
    /// Opens the data sets of `config`, a stream each.
    pub(super) fn open(config: &LoaderConfig, library: Option<LibraryStores>) -> Result<Self> {
        let data = Arc::new(DataSet::of_loader(config, library.clone())?);
        let reader = SampleReader::open(data.clone(), Vec::new())?.with_library(library);
        let columns = ColumnTable::new(config.streams.len(), reader.layouts());
        let streams = config.streams.iter().map(name_of).collect();
        let folders = config.streams.iter().map(folder_of).collect();
        Ok(Self { data, reader, columns, streams, folders })
    }

    /// Stream of a sample.
    pub(super) fn stream_of(&self, sample: SampleId) -> usize {
        self.data.shape().stream_of_sample(sample).index()
    }

    /// The shards of a stream.
    pub(super) fn shards(&self, stream: usize) -> &[Shard] {
        self.data.index(stream).map_or(&[], |index| &index.shards)
    }

    /// Name of a shard: its stored file.
    pub(super) fn name_of_shard(&self, stream: usize, shard: usize) -> String {
        self.in_stream(stream, self.file_of_shard(stream, shard))
    }

    /// Stored file of a shard.
    pub(super) fn file_of_shard(&self, stream: usize, shard: usize) -> String {
        let first = self.data.shape().shards_of(StreamId(stream as u32)).start;
        let samples = self.data.shape().samples_in(ShardId(first + shard as u32));
        let name = self.reader.name_of(SampleId(samples.start)).unwrap_or_default();
        name.split(',').next().unwrap_or_default().to_owned()
    }

    /// Name of a sample: its file and position, and its key if it has one.
    pub(super) fn name_of_sample(&self, sample: SampleId) -> String {
        let name = self.reader.name_of(sample).unwrap_or_else(|_| format!("sample {}", sample.0));
        let key = self.key_of(sample).map(|key| format!(", key {key}"));
        self.in_stream(self.stream_of(sample), name + &key.unwrap_or_default())
    }

    /// Adds the address of the stream to a name if there are several streams.
    pub(super) fn in_stream(&self, stream: usize, name: String) -> String {
        if self.streams.len() == 1 { name } else { format!("{}: {name}", self.streams[stream]) }
    }

    fn key_of(&self, sample: SampleId) -> Option<String> {
        let has_key = |layout: &Arc<Layout>| layout.columns.iter().any(|column| column.name == KEY);
        if !self.reader.layouts().iter().any(has_key) {
            return None;
        }
        let mut bytes = Vec::new();
        let info = self.reader.fetch_and_read(sample, &mut bytes, ATTEMPTS).ok()?;
        let layout = &self.reader.layouts()[info.layout];
        let mut scratch = Scratch::default();
        let columns = layout.split(&bytes[..info.bytes], &mut scratch).ok()?;
        let key = columns.find(layout.column(KEY)?)?;
        Some(String::from_utf8_lossy(key).into_owned())
    }
}

fn name_of(stream: &StreamConfig) -> String {
    let address = stream.remote.as_deref().unwrap_or_default();
    match local_folder(address) {
        Some(folder) => folder.display().to_string(),
        None => redact(address).into_owned(),
    }
}

/// Folder of a stream on this machine. A split is a folder in it, or a part of its files.
fn folder_of(stream: &StreamConfig) -> Option<PathBuf> {
    let folder = local_folder(stream.remote.as_deref()?)?;
    let of_split = stream.split.as_ref().map(|split| folder.join(split)).filter(|folder| folder.is_dir());
    Some(of_split.unwrap_or(folder))
}

/// Columns of all streams.
#[derive(Debug)]
pub(super) struct ColumnTable {
    names: Vec<String>,
    /// By stream and layout, the numbers of the columns in their order.
    ids: Vec<Vec<Vec<ColumnId>>>,
}

impl ColumnTable {
    fn new(streams: usize, layouts: &[Arc<Layout>]) -> Self {
        let mut names: Vec<String> =
            layouts.iter().flat_map(|layout| &layout.columns).map(|column| column.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let id = |stream: usize, name: &String| {
            let name = names.binary_search(name).unwrap_or_default() as u32;
            ColumnId { stream: stream as u32, name }
        };
        let of_layout = |stream, layout: &Arc<Layout>| {
            layout.columns.iter().map(|column| id(stream, &column.name)).collect::<Vec<_>>()
        };
        let of_stream = |stream| layouts.iter().map(|layout| of_layout(stream, layout)).collect();
        let ids = (0..streams).map(of_stream).collect();
        Self { names, ids }
    }

    /// Numbers of the columns of a layout.
    pub(super) fn of(&self, stream: usize, layout: usize) -> &[ColumnId] {
        &self.ids[stream][layout]
    }

    /// Name of a column.
    pub(super) fn name(&self, column: ColumnId) -> &str {
        self.names.get(column.name as usize).map_or(FIELDS, String::as_str)
    }
}

/// Error for a check that does not exist.
pub(super) fn unknown_check(name: &str, known: &[&str]) -> Error {
    Error::config(format!("there is no check `{name}`; there are {}", known.join(", ")))
}
