//! Megatron's files of token ids: ranges of each are the shards of a stream.
//!
//! ```text
//!   prefix.idx --one pass, or its ends alone for windows--> TokenIndex, kept as the stream's index --> shards
//! ```
//!
//! Files on this machine are read where they are. Of the files of a store each shard's range is fetched, with the part
//! of the `.idx` that has its documents.

use super::again::again;
use super::found_files::FoundFile;
use super::kept_index::{KeptFile, SurveyFiles, Surveyed, parse, to_bytes};
use super::opening::{Files, OpenFiles, Opening};
use super::parallel::in_parallel;
use super::remote_file::RemoteFile;
use super::requests::peek;
use super::stream::IndexedStream;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::index::{Slice, SlicePart};
use crate::format::recipe::TokenRange;
use crate::format::tokens::{Cut, Header, Samples, TokenPart, TokenWindow};
use crate::format::{Digests, FileInfo, Index, Layout, Shard};
use crate::sources::Names;
use crate::sources::tokens::idx_of;
use crate::store::Remote;
use crate::sync::Arc;
use serde::{Deserialize, Serialize};

/// Bytes of a shard: as usual for MDS, so that few bytes are fetched for nothing when a few of its samples are used.
const SHARD_BYTES: u64 = 64 << 20;

/// Bytes that are fetched with the length of a `.bin` file.
const PEEK_BYTES: usize = 1;

/// Opener of Megatron's files.
pub(super) struct Opener;

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let names = files.into_names()?;
        let window = at.session.config.window_of(at.stream);
        // Different windows have different folders.
        let described = format!("{}\n{window:?}\n", names.listed().join("\n"));
        let is_in_place = at.folder().is_some() && at.local().is_none();
        let entries = if matches!(names, Names::Patterns(_)) { at.all()? } else { Vec::new() };
        let names = names.found(|| Ok(entries.iter().map(|entry| entry.key.clone()).collect()))?;
        let pairs = names.into_iter().flat_map(|bin| {
            let idx = idx_of(&bin);
            [bin, idx]
        });
        let files = at.find(Files::Listed { names: pairs.collect(), entries })?;
        let tokens = TokenFiles { files, window, is_in_place };
        at.install(at.list_cache(&described), &tokens)
    }
}

/// Megatron's files by their names.
struct TokenFiles {
    /// Each `.bin` file, and after it its `.idx` file.
    files: Vec<FoundFile>,
    window: Option<TokenWindow>,
    /// Shards are ranges of the files themselves.
    is_in_place: bool,
}

/// Document of the files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenIndex {
    window: Option<TokenWindow>,
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

impl SurveyFiles for TokenFiles {
    fn made_as(&self) -> String {
        self.window.map_or("tokens".to_owned(), |window| format!("tokens, {window:?}"))
    }

    fn files(&self) -> &[FoundFile] {
        &self.files
    }

    fn needs_no_copy(&self) -> bool {
        self.is_in_place
    }

    fn survey(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Surveyed> {
        let pairs: Vec<&[FoundFile]> = self.files.chunks(2).collect();
        let of_pair = |pair: &&[FoundFile]| {
            let name = &pair[0].name;
            again(remote, name, |_| self.pair(remote, name, progress)).context("file", || name)
        };
        let index = TokenIndex { window: self.window, files: in_parallel(&pairs, of_pair)? };
        let lengths = index.files.iter().flat_map(|file| [file.bin_bytes, file.idx.bytes]);
        let files = self.files.iter().zip(lengths).map(|(found, bytes)| KeptFile::of(found, bytes)).collect();
        Ok(Surveyed { document: to_bytes(&index)?, files, source: None })
    }

    fn index(&self, document: &[u8]) -> Result<Index> {
        let index: TokenIndex = parse(document, "token files")?;
        let shards = index.files.iter().map(|file| self.shards(file).context("file", || &file.bin));
        Ok(Index { shards: shards.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect() })
    }
}

impl TokenFiles {
    /// Reads the `.idx` of the `.bin` file `name`.
    fn pair(&self, remote: &Remote, name: &str, progress: &(dyn Fn() + Sync)) -> Result<TokenFile> {
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
            let part = SlicePart::Tokens(part);
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
fn windows_of_shard(window: TokenWindow, token_bytes: u64) -> u64 {
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
