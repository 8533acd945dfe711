//! LitData's `index.json`.

use serde::Deserialize;
use serde_json::Value as Json;
use std::sync::Arc;

use super::items::ItemForm;
use super::litdata_format::layout;
use super::members::members;
use super::rows::{has_rows, may_be_rows};
use super::table_bytes;
use super::tree::leaf_names;
use crate::compression::{Compression, chunk_frames};
use crate::index::{Digests, FileInfo, Index, Shard, check_basename};
use crate::json;
use crate::layout::Layout;
use forebay_core::error::{Context, Error, ErrorKind, Result};

/// Bytes at the front of a compressed chunk that have the bytes of its content.
const FRAME_BYTES: usize = 18;

/// Most bytes of the table of a chunk that are read for its kind: four million items.
const TABLE_BYTES_MAX: usize = 16 << 20;

/// Fronts that are in memory at the same time.
const FRONTS_AT_ONCE: usize = 256;

/// Data set of LitData.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSet {
    /// Chunks in their order.
    pub chunks: Vec<Chunk>,
    layout: Arc<Layout>,
    packing: Packing,
    /// The samples may be rows of Arrow files, by their types.
    may_have_rows: bool,
}

/// Compression of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    /// None, or of each item.
    Plain,
    /// Of the whole file.
    Whole(Compression),
    /// Of groups of items.
    Frames,
}

/// Chunk of a data set.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Chunk {
    /// Path below the index.
    #[serde(rename = "filename")]
    pub name: String,
    /// Bytes of the chunk before it is compressed, or only of its items, which earlier versions counted.
    #[serde(rename = "chunk_bytes")]
    bytes: u64,
    /// Number of items.
    #[serde(rename = "chunk_size")]
    items: u64,
    /// Number of tokens, if the items are tokens.
    #[serde(rename = "dim")]
    tokens: Option<u64>,
}

/// First bytes of files, and their lengths.
pub trait Fronts {
    /// Returns the first `bytes` bytes of each file, or all that it has, and its length.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    fn fronts(&self, names: &[&str], bytes: usize) -> Result<Vec<(Vec<u8>, u64)>>;
}

/// Settings of the writer.
#[derive(Deserialize)]
struct Config {
    data_format: Vec<String>,
    data_spec: Option<String>,
    compression: Option<String>,
    compression_level: Option<Json>,
    encryption: Option<Json>,
    item_loader: Option<String>,
    types: Option<Json>,
}

impl DataSet {
    /// Parses the document; `None` if it is none of LitData's.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a document that is damaged; [`ErrorKind::Unsupported`] for encrypted chunks and the
    /// like, with the field.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        match members(bytes) {
            Ok(Some((config, chunks))) => Self::of_parts(&bytes[config], &bytes[chunks]).map(Some),
            // The parser of our index has the message about unknown documents.
            _ => Ok(None),
        }
    }

    fn of_parts(config: &[u8], list: &[u8]) -> Result<Self> {
        let config: Config = read(config).context("field", || "config")?;
        config.check()?;
        let mut chunks: Vec<Chunk> = Vec::new();
        if !list.starts_with(b"[") {
            return Err(Error::format("a list of chunks is expected").with("field", "chunks"));
        }
        json::scan_list(list, |entry| {
            let number = chunks.len();
            let chunk: Chunk = read(&list[entry]).context("chunk", || number)?;
            check_basename(&chunk.name).context("chunk", || number)?;
            chunks.push(chunk);
            Ok(())
        })?;
        let is_of_tokens = match config.item_loader.as_deref() {
            Some("TokensLoader") => true,
            _ => chunks.iter().any(|chunk| chunk.tokens.is_some()),
        };
        let (packing, leaves) = config.packing()?;
        let (form, root) = if is_of_tokens { (ItemForm::Tokens, "tokens") } else { (leaves, "0") };
        let names = match &config.data_spec {
            Some(spec) => leaf_names(spec, root)?,
            None => (0..config.data_format.len()).map(|number| number.to_string()).collect(),
        };
        let may_have_rows = !is_of_tokens && config.types.as_ref().is_some_and(may_be_rows);
        let layout = Arc::new(layout(names, config.data_format, form)?);
        Ok(Self { chunks, layout, packing, may_have_rows })
    }

    /// Returns the names of the chunks if their samples are the rows of Arrow files, as the samples of the first chunk.
    ///
    /// # Errors
    ///
    /// Errors of `files`.
    pub fn files_of_rows(&self, files: &dyn Fronts) -> Result<Option<Vec<String>>> {
        let Some(first) = self.chunks.iter().find(|chunk| chunk.items > 0 && self.may_have_rows) else {
            return Ok(None);
        };
        let table = usize::try_from(table_bytes(first.items)).unwrap_or(usize::MAX).min(TABLE_BYTES_MAX);
        let found = files.fronts(&[&*first.name], table)?;
        let are_rows = found.iter().any(|(front, bytes)| has_rows(front, first.items, *bytes));
        Ok(are_rows.then(|| self.chunks.iter().map(|chunk| chunk.name.clone()).collect()))
    }

    /// Returns the index of the data set with the files `files`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a compressed chunk that is damaged; errors of `files`.
    pub fn index(&self, files: &dyn Fronts) -> Result<Index> {
        let sizes = match self.packing {
            Packing::Plain => self.plain_sizes(files)?.into_iter().map(|bytes| (bytes, None)).collect(),
            Packing::Whole(compression) => self.packed_sizes(files, FRAME_BYTES, |chunk, front| {
                // Compressors that do not know the length beforehand do not write it.
                Ok(compression.content_bytes(front).unwrap_or(chunk.bytes))
            })?,
            Packing::Frames => {
                let most = self.chunks.iter().map(|chunk| chunk.items).max().unwrap_or(0);
                let front = usize::try_from(chunk_frames::front_bytes(most)).unwrap_or(usize::MAX);
                self.packed_sizes(files, front, |chunk, front| chunk_frames::raw_bytes(front, chunk.items))?
            }
        };
        let compression = match self.packing {
            Packing::Plain => None,
            Packing::Whole(compression) => Some(compression),
            Packing::Frames => Some(Compression::CHUNK_FRAMES),
        };
        let shard = |(chunk, (raw, packed)): (&Chunk, (u64, Option<u64>))| Shard {
            compression,
            zip_data: packed.map(|bytes| file(&chunk.name, bytes)),
            ..Shard::new(self.layout.clone(), chunk.items, file(&self.raw_name(&chunk.name), raw))
        };
        Ok(Index { shards: self.chunks.iter().zip(sizes).map(shard).collect() })
    }

    /// Name of a chunk that is unpacked.
    fn raw_name(&self, name: &str) -> String {
        match self.packing {
            Packing::Plain => name.to_owned(),
            Packing::Whole(compression) => match name.replace(&format!(".{compression}"), "") {
                same if same == name => format!("{name}.raw"),
                raw => raw,
            },
            Packing::Frames => format!("{name}.raw"),
        }
    }

    /// Returns the bytes of each chunk. All come from one version of LitData, unless several wrote to the data set:
    /// then the length of each is requested.
    fn plain_sizes(&self, files: &dyn Fronts) -> Result<Vec<u64>> {
        let ends: Vec<&Chunk> = [self.chunks.first(), self.chunks.last()].into_iter().flatten().collect();
        let found = files.fronts(&ends.iter().map(|chunk| &*chunk.name).collect::<Vec<_>>(), 1)?;
        let rules: [fn(&Chunk) -> u64; 2] = [|chunk| chunk.bytes, Chunk::with_table];
        let rule = rules.into_iter().find(|rule| ends.iter().zip(&found).all(|(chunk, (_, len))| rule(chunk) == *len));
        match rule {
            Some(rule) => Ok(self.chunks.iter().map(rule).collect()),
            None => Ok(files.fronts(&self.names(), 1)?.into_iter().map(|(_, len)| len).collect()),
        }
    }

    /// Returns the bytes of each chunk, unpacked and packed. `raw_bytes` follow from the first `bytes` of its file.
    fn packed_sizes(
        &self,
        files: &dyn Fronts,
        bytes: usize,
        raw_bytes: impl Fn(&Chunk, &[u8]) -> Result<u64>,
    ) -> Result<Vec<(u64, Option<u64>)>> {
        let mut sizes = Vec::with_capacity(self.chunks.len());
        // The fronts of all chunks together may be large.
        for group in self.chunks.chunks(FRONTS_AT_ONCE) {
            let fronts = files.fronts(&group.iter().map(|chunk| &*chunk.name).collect::<Vec<_>>(), bytes)?;
            for (chunk, (front, len)) in group.iter().zip(fronts) {
                sizes.push((raw_bytes(chunk, &front).context("file", || &chunk.name)?, Some(len)));
            }
        }
        Ok(sizes)
    }

    fn names(&self) -> Vec<&str> {
        self.chunks.iter().map(|chunk| &*chunk.name).collect()
    }
}

impl Chunk {
    /// Bytes of the table and of the items.
    fn with_table(&self) -> u64 {
        self.bytes.saturating_add(table_bytes(self.items))
    }
}

impl Config {
    /// Rejects data sets that cannot be read.
    fn check(&self) -> Result<()> {
        let unsupported =
            |field: &str, message: String| Err(Error::new(ErrorKind::Unsupported, message).with("field", field));
        if self.encryption.is_some() {
            return unsupported("encryption", "the chunks are encrypted: write them without encryption".to_owned());
        }
        match self.item_loader.as_deref() {
            None | Some("PyTreeLoader" | "TokensLoader") => {}
            Some("ParquetLoader") => {
                return unsupported(
                    "item_loader",
                    "this is LitData's index of Parquet files: name those files".to_owned(),
                );
            }
            Some(loader) => {
                return unsupported(
                    "item_loader",
                    format!("chunks for {loader} cannot be read: write them for PyTreeLoader"),
                );
            }
        }
        Ok(())
    }

    /// Returns the compression of the chunks, and the form of items of leaves.
    fn packing(&self) -> Result<(Packing, ItemForm)> {
        let Some(name) = self.compression.as_deref().filter(|name| !name.is_empty()) else {
            return Ok((Packing::Plain, ItemForm::Leaves));
        };
        if name.split(':').next() != Some(Compression::ZSTD.name()) {
            let message = format!("the compression {name} is not one of LitData's, which is zstd");
            return Err(Error::new(ErrorKind::Unsupported, message).with("field", "compression"));
        }
        match &self.compression_level {
            None | Some(Json::Null) => {}
            Some(Json::String(level)) if level == "chunk" => {}
            Some(Json::String(level)) if level == "batch" => return Ok((Packing::Frames, ItemForm::Leaves)),
            Some(Json::String(level)) if level == "sample" => return Ok((Packing::Plain, ItemForm::PackedLeaves)),
            Some(level) => {
                let message = format!("the compression level {level} is not one of chunk, batch and sample");
                return Err(Error::new(ErrorKind::Unsupported, message).with("field", "compression_level"));
            }
        }
        let compression = Compression::parse(name).context("field", || "compression")?;
        Ok((Packing::Whole(compression), ItemForm::Leaves))
    }
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| Error::format("LitData does not write it in this form").caused_by(e))
}

fn file(name: &str, bytes: u64) -> FileInfo {
    FileInfo { basename: name.into(), bytes, hashes: Digests::default() }
}
