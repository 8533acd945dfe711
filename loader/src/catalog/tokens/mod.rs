//! Megatron's files of token ids: ranges of each are the shards of a stream.
//!
//! ```text
//!   prefix.idx --one pass, or its ends alone for windows--> TokenIndex, kept as the stream's index --> shards
//! ```
//!
//! Files on this machine are read in place. Of the files of a store each shard's range is fetched, with the part of the
//! `.idx` that has its documents.

use super::documents::{parse, to_bytes};
use super::index_origin::IndexOrigin;
use super::opening::{Files, OpenFiles, Opening};
use super::parallel::in_parallel;
use super::remote_file::RemoteFile;
use super::requests::peek;
use super::stream::IndexedStream;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::index::Slice;
use crate::format::recipe::TokenRange;
use crate::format::tokens::{Cut, Header, Samples, TokenPart, Window};
use crate::format::{Digests, FileInfo, Index, Layout, Shard};
use crate::sources::tokens::idx_of;
use crate::store::Remote;
use crate::sync::Arc;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a shard: as usual for MDS, so that few bytes are fetched for nothing when a few of its samples are used.
const SHARD_BYTES: u64 = 64 << 20;

/// Bytes that are fetched with the length of a `.bin` file.
const PEEK_BYTES: usize = 1;

/// Opener of Megatron's files.
pub(super) struct Opener;

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let names = files.into_names()?;
        let described = names.listed().join("\n");
        let names = names.found(|| Ok(at.all()?.into_iter().map(|entry| entry.key).collect()))?;
        let folder = at.folder().filter(|_| at.local().is_none());
        let window = at.session.config.window_of(at.stream);
        // Files that are written again, and other windows, have another folder.
        let described = format!("{described}\n{window:?}\n{}", stamp(folder.as_deref(), &names));
        let tokens = TokenFiles { names, window, is_in_place: folder.is_some() };
        at.install(at.list_cache(&described), &tokens)
    }
}

/// Megatron's files by their names.
struct TokenFiles {
    /// Paths of the `.bin` files below the remote.
    names: Vec<String>,
    window: Option<Window>,
    /// Shards are ranges of the files themselves.
    is_in_place: bool,
}

/// Index as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenIndex {
    window: Option<Window>,
    files: Vec<TokenFile>,
}

/// One pair of files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    /// Path of the `.bin` file.
    bin: String,
    bin_bytes: u64,
    idx: Header,
    /// Tokens of the whole file.
    tokens: u64,
    /// Starts of the shards, and the end of the last. Empty for windows.
    cuts: Vec<Cut>,
}

impl IndexOrigin for TokenFiles {
    fn reads_in_place(&self) -> bool {
        self.is_in_place
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let files = in_parallel(&self.names, |name| self.survey(remote, name, progress).context("file", || name))?;
        let index = TokenIndex { window: self.window, files };
        to_bytes(&index)
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let index: TokenIndex = parse(bytes, "token files").context("remote", || name)?;
        if index.window != self.window
            || !index.files.iter().map(|file| file.bin.as_str()).eq(self.names.iter().map(String::as_str))
        {
            return Err(Error::format("the index is of other files or windows").with("remote", name));
        }
        let shards = index.files.iter().map(|file| self.shards(file).context("file", || &file.bin));
        Ok(Index { shards: shards.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect() })
    }
}

impl TokenFiles {
    /// Reads the `.idx` of the `.bin` file `name`.
    fn survey(&self, remote: &Remote, name: &str, progress: &(dyn Fn() + Sync)) -> Result<TokenFile> {
        let idx_name = idx_of(name);
        let progress: &dyn Fn() = progress;
        let idx = RemoteFile::open(remote, &idx_name, progress).map_err(|e| without_idx(e, &idx_name))?;
        let header = Header::read(&idx).context("index", || &idx_name)?;
        let bin_bytes = peek(remote, name, PEEK_BYTES)?.len;
        let (tokens, cuts) = match self.window {
            Some(_) => (header.tokens(&idx, bin_bytes), Vec::new()),
            None => {
                let cuts = header.cuts(&idx, bin_bytes, SHARD_BYTES).context("index", || &idx_name)?;
                (Ok(cuts.last().map_or(0, |cut| cut.token)), cuts)
            }
        };
        let tokens = tokens.context("index", || &idx_name)?;
        Ok(TokenFile { bin: name.into(), bin_bytes, idx: header, tokens, cuts })
    }

    /// Shards of a file.
    fn shards(&self, file: &TokenFile) -> Result<Vec<Shard>> {
        file.idx.check_cuts(&file.cuts, file.bin_bytes)?;
        let token_bytes = file.idx.token_bytes();
        if file.tokens.checked_mul(token_bytes).is_none_or(|bytes| bytes > file.bin_bytes) {
            return Err(Error::format("the index has more tokens than the file"));
        }
        let layout = Arc::new(TokenPart::layout(file.idx.dtype, self.window)?);
        let part = |start, tokens, samples| TokenPart {
            dtype: file.idx.dtype,
            start: start * token_bytes,
            bytes: tokens * token_bytes,
            samples,
        };
        let parts: Vec<_> = match self.window {
            None => {
                let documents = |from: Cut, to| Samples::Documents { header: file.idx, from, to };
                let part =
                    |pair: &[Cut]| part(pair[0].token, pair[1].token - pair[0].token, documents(pair[0], pair[1]));
                file.cuts.windows(2).map(part).collect()
            }
            Some(window) => {
                let (count, in_shard) = (window.count(file.tokens), windows_of_shard(window, token_bytes));
                let shard = |number: u64| {
                    let first = number * in_shard;
                    let windows = in_shard.min(count - first);
                    part(first * u64::from(window.stride), window.span(windows), Samples::Windows(window))
                };
                (0..count.div_ceil(in_shard)).map(shard).collect()
            }
        };
        Ok(parts.into_iter().enumerate().map(|(number, part)| self.shard(file, &layout, number, part)).collect())
    }

    fn shard(&self, file: &TokenFile, layout: &Arc<Layout>, number: usize, part: TokenPart) -> Shard {
        let (samples, idx) = (part.len(), idx_of(&file.bin));
        let info = |name: &str, bytes| FileInfo { basename: name.into(), bytes, hashes: Digests::default() };
        if self.is_in_place {
            let idx_bytes = part.index_ranges().iter().map(|(_, bytes)| bytes).sum();
            let raw_meta = self.window.is_none().then(|| Box::new(info(&idx, idx_bytes)));
            let shard = Shard::new(layout.clone(), samples, info(&file.bin, part.bytes));
            let slice = Slice { part, data_bytes: file.bin_bytes, meta_bytes: file.idx.bytes };
            return Shard { raw_meta, slice: Some(Box::new(slice)), ..shard };
        }
        let kind = self.window.map_or("documents".to_owned(), |w| format!("w{}s{}", w.tokens, w.stride));
        let name = format!("{}.{kind}.{number:05}", file.bin);
        let shard = Shard::new(layout.clone(), samples, info(&name, part.assembled_bytes()));
        let data = (file.bin.as_str().into(), file.bin_bytes);
        let range = TokenRange { part, data, index: (idx.into(), file.idx.bytes) };
        Shard { recipe: Some(Arc::new(range)), ..shard }
    }
}

/// Number of windows of a shard: at least as many as make the overlap of two shards small.
fn windows_of_shard(window: Window, token_bytes: u64) -> u64 {
    let bytes = SHARD_BYTES.max(4 * u64::from(window.tokens) * token_bytes);
    (bytes / (u64::from(window.stride) * token_bytes)).max(1)
}

/// Describes the error for an `.idx` file that does not exist.
fn without_idx(error: Error, name: &str) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    let message = "a .bin file is read with the .idx file of the same name, as Megatron writes them, and there is none";
    Error::new(ErrorKind::NotFound, message).with("index", name).caused_by(error)
}

/// Returns sizes and times of change of the `.idx` files of `names` in `folder`; empty without a folder.
fn stamp(folder: Option<&Path>, names: &[String]) -> String {
    let Some(folder) = folder else { return String::new() };
    let stamp = |name: &String| {
        let meta = std::fs::metadata(folder.join(idx_of(name))).ok();
        meta.map_or(String::new(), |meta| format!("{} {}.{}\n", meta.len(), meta.mtime(), meta.mtime_nsec()))
    };
    names.iter().map(stamp).collect()
}
