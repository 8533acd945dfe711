//! Configuration of a writer of data sets, as a JSON document.

use super::json;
use super::options::{ByteSize, OptionInfo, options};
use crate::error::{Context, Error, Result};
use crate::format::writer::{Options, SIZE_LIMIT_DEFAULT, ValueIndex, Writer};
use crate::format::{Compression, Encoding, HashAlgo, Layout};
use crate::store::LibraryStores;
use crate::sync::Arc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

options! {
    /// Arguments of a writer of MDS shards. Python's `MDSWriter` has the same names, meanings and defaults.
    pub struct WriterConfig {
        /// Folder to write to, new or empty: a path, or a folder of a store such as "s3://bucket/train".
        pub out: PathBuf = PathBuf::new(),
        /// Encoding of each column by name, such as "bytes", "str", "int", "float32", "ndarray:uint16:2048" or "jpeg".
        pub columns: BTreeMap<String, String> = BTreeMap::new(),
        /// "zstd", "gz", "bz2", "br" or "snappy", optionally with a level ("zstd:7"). None: raw shards.
        pub compression: Option<String> = None,
        /// Hashes to record, such as ["xxh64"]. Without one, damaged downloads are not noticed.
        pub hashes: Vec<String> = Vec::new(),
        /// Largest raw shard, in bytes or as "64mb". None: one shard.
        #[serde(deserialize_with = "json::size_or_null")]
        pub size_limit: Option<ByteSize> = Some(SIZE_LIMIT_DEFAULT),
        /// Empty the folder if it is not empty, instead of an error.
        pub exist_ok: bool = false,
        /// Threads that compress and write. None: the CPUs of this process.
        pub threads: Option<u32> = None,
        /// Append to each shard the positions of the rows of every JPEG in "jpeg" columns, for faster crops.
        pub jpeg_row_index: bool = false,
        /// Rewrite progressive JPEGs of "jpeg" columns as baseline JPEGs with the same pixels and markers.
        pub jpeg_transcode: bool = false,
    }
}

impl WriterConfig {
    /// Reads the JSON document.
    ///
    /// # Errors
    ///
    /// `Config`, with the path to the argument, for unknown names and wrong types.
    pub fn from_json(text: &str) -> Result<Self> {
        json::read(text, "the writer's arguments")
    }

    /// Starts the writer, with `row_index` as the index of `jpeg_row_index`. `library` serves the stores of schemes
    /// besides the engine's.
    ///
    /// # Errors
    ///
    /// `Config` if an argument is wrong or fits none of the columns; the errors of the folder.
    pub fn open(&self, row_index: Arc<dyn ValueIndex>, library: Option<LibraryStores>) -> Result<Writer> {
        let wrong = |message: &str| Err(Error::config(message));
        if self.out.as_os_str().is_empty() {
            return wrong("`out` is required: the folder or the store to write to");
        }
        if self.columns.is_empty() {
            return wrong("`columns` is required: an object such as {\"image\": \"jpeg\", \"class\": \"int\"}");
        }
        if self.threads == Some(0) {
            return wrong("threads must be at least 1");
        }
        let encoding = |(name, encoding): (&String, &String)| {
            Ok((name.clone(), Encoding::parse(encoding).context("column", || name)?))
        };
        let columns: Vec<_> = self.columns.iter().map(encoding).collect::<Result<_>>()?;
        let has_jpegs = columns.iter().any(|(_, encoding)| *encoding == Encoding::Jpeg);
        if (self.jpeg_row_index || self.jpeg_transcode) && !has_jpegs {
            return wrong(
                "jpeg_row_index and jpeg_transcode are for columns of the encoding \"jpeg\", and there is none",
            );
        }
        let mut hashes: Vec<_> = self.hashes.iter().map(|name| HashAlgo::parse(name)).collect::<Result<_>>()?;
        hashes.sort_unstable();
        hashes.dedup();
        let options = Options {
            compression: self.compression.as_deref().map(Compression::parse).transpose()?,
            hashes,
            size_limit: self.size_limit.filter(|limit| *limit > 0),
            threads: self.threads.map_or(0, |threads| threads as usize),
            index: self.jpeg_row_index.then_some(row_index),
        };
        let layout = Layout::mds(columns)?;
        let sink = crate::output::open(&self.out, self.exist_ok, library)?;
        Writer::new(layout, sink, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Value;
    use crate::indexing::JpegRows;

    fn open(text: &str) -> Result<Writer> {
        WriterConfig::from_json(text)?.open(Arc::new(JpegRows), None)
    }

    #[test]
    fn a_document_makes_a_writer_with_its_options() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = serde_json::to_string(&folder.path().join("set")).expect("JSON");
        let rest =
            r#""columns": {"b": "str", "a": "int"}, "hashes": ["xxh64", "sha1", "xxh64"], "compression": "zstd:3""#;
        let mut writer = open(&format!(r#"{{"out": {out}, "size_limit": "1kb", {rest}}}"#)).expect("a writer");
        writer.write(&[Value::Int(7), Value::Str("text".into())]).expect("written");
        let shard = writer.finish().expect("an index").shards.remove(0);
        assert_eq!(shard.compression, Compression::parse("zstd:3").ok());
        assert_eq!(shard.raw_data.hashes.algos().collect::<Vec<_>>(), [HashAlgo::Sha1, HashAlgo::Xxh64]);
    }

    #[test]
    fn a_wrong_document_is_an_error_that_names_the_argument() {
        for (text, part) in [
            (r#"{"output": "x"}"#, "output"),
            ("{}", "`out` is required"),
            (r#"{"out": "ftp://host/set", "columns": {"a": "int"}}"#, "unknown scheme"),
            (r#"{"out": "http://host/set", "columns": {"a": "int"}}"#, "no common way to write"),
            (r#"{"out": "x"}"#, "`columns` is required"),
            (r#"{"out": "x", "columns": ["a"]}"#, "columns"),
            (r#"{"out": "x", "columns": {"a": "b"}}"#, "column a"),
            (r#"{"out": "x", "columns": {"a": "int"}, "hashes": ["b"]}"#, "b"),
            (r#"{"out": "x", "columns": {"a": "int"}, "threads": 0}"#, "threads"),
            (r#"{"out": "x", "columns": {"a": "int"}, "jpeg_transcode": true}"#, "jpeg_transcode"),
        ] {
            let error = open(text).err().expect(text);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        assert!(!std::path::Path::new("x").exists());
    }
}
