//! Origin of a stream's index: the document of a data set, ours or LitData's. [`tars`](super::tars), [`files`](super::files),
//! [`tfrecords`](super::tfrecords), [`array_records`](super::array_records), [`token_files`](super::token_files) and
//! [`tables`](super::tables) have others.

use super::file_versions;
use super::fronts::{LocalFiles, StoredFiles};
use crate::cache::CachedIndex;
use crate::error::{Context, Error, Result};
use crate::format::index::{INDEX_BYTES_MAX, is_document};
use crate::format::litdata::DataSet;
use crate::format::tokens::Window;
use crate::format::{HashAlgo, INDEX_BASENAME, Index, ShardFormat};
use crate::io::read_regular;
use crate::sources::files::FileSet;
use crate::store::Remote;
use std::borrow::Cow;
use std::path::PathBuf;

/// Origin of a stream's index.
pub(super) trait IndexOrigin {
    /// Condition for the use of a cached index.
    fn cached(&self) -> CachedIndex;

    /// True if the shards of a remote on this machine are read where they are.
    fn reads_in_place(&self) -> bool;

    /// Fetches the index from `remote`, or makes it. A fetch of many parts calls `progress` after each, on any thread.
    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>>;

    /// Parses the index of the remote `name`.
    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index>;

    /// Returns a text that differs for other contents of the files, as far as their versions are known; `None` if none is. Answers to
    /// filters are kept by it.
    fn version(&self) -> Option<String> {
        None
    }

    /// Returns the part of an index that is the same for every copy of the data set, by which a checkpoint knows it. The index was
    /// parsed from `bytes`.
    fn identity<'a>(&self, _: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        bytes.into()
    }
}

/// `index.json` of a data set: ours, LitData's, or a list of files. That of LitData is kept in the form of ours, after a digest
/// of the original.
#[derive(Default)]
pub(super) struct Document {
    /// Folder of the index on local disk.
    pub(super) folder: PathBuf,
    /// True if the shards are read there, too.
    pub(super) is_in_place: bool,
    /// Windows that are the samples of chunks of tokens, in place of documents.
    pub(super) window: Option<Window>,
}

impl IndexOrigin for Document {
    fn cached(&self) -> CachedIndex {
        CachedIndex::Compared
    }

    fn reads_in_place(&self) -> bool {
        // The folder is opened as the cache itself, unless shards must be unpacked.
        false
    }

    fn fetch(&self, remote: &Remote, _: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let (bytes, _) = remote.get_whole(INDEX_BASENAME, INDEX_BYTES_MAX as usize, is_document)?;
        let Some(chunks) = DataSet::parse(&bytes).context("file", || INDEX_BASENAME)? else { return Ok(bytes) };
        let head = format!("{{\"litdata\": \"{}\", ", HashAlgo::Xxh3_128.hex(&bytes));
        // The lengths of the chunks need not be requested again.
        match read_regular(&self.folder.join(INDEX_BASENAME), INDEX_BYTES_MAX) {
            Ok(kept) if kept.starts_with(head.as_bytes()) => Ok(kept),
            _ => Ok([&head, &chunks.index(&StoredFiles(remote))?.to_json()[1..]].concat().into_bytes()),
        }
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        if FileSet::is_start(bytes) {
            return FileSet::parse(bytes)?.index().context("remote", || name);
        }
        if file_versions::has_head(bytes) {
            return Err(Error::format("the index was made of a list of files").with("remote", name));
        }
        let file = format!("{name}/{INDEX_BASENAME}");
        let chunks = if self.is_in_place { DataSet::parse(bytes).context("file", || &file)? } else { None };
        let index = match chunks {
            // The parser has the checks.
            Some(chunks) => Index::parse(chunks.index(&LocalFiles(&self.folder))?.to_json().as_bytes(), &file)?,
            None => Index::parse(bytes, &file)?,
        };
        match self.window {
            Some(window) if index.has_tokens() => index.windows(window),
            _ => Ok(index),
        }
    }

    fn identity<'a>(&self, index: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if FileSet::is_start(bytes) {
            return FileSet::identity(bytes).into();
        }
        match index.shards.first().map(|shard| &shard.layout.format) {
            // The bytes may be LitData's, and then differ from place to place.
            Some(ShardFormat::LitData(_)) => index.to_json().into_bytes().into(),
            _ => bytes.into(),
        }
    }
}
