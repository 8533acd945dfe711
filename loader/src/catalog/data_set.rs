//! Data sets with an `index.json`: ours, LitData's, or a list of files.

use super::fronts::{LocalFiles, StoredFiles};
use super::index_origin::IndexOrigin;
use super::install::{IndexFolders, no_index};
use super::kept_index::KeptIndex;
use super::remote_file::RemoteFile;
use super::requests::peek;
use super::session::Session;
use super::stream::IndexedStream;
use super::stream_folders::cache_folder;
use crate::cache::CachedIndex;
use crate::config::StreamConfig;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::ReadAt;
use crate::format::hash::Hasher;
use crate::format::index::{INDEX_BYTES_MAX, is_document};
use crate::format::litdata::{DataSet, Fronts};
use crate::format::tokens::TokenWindow;
use crate::format::{HashAlgo, INDEX_BASENAME, Index};
use crate::io::{read_regular, read_up_to_at};
use crate::sources::files::FileSet;
use crate::store::{Remote, local_folder};
use crate::sync::Mutex;
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Data set with an `index.json`.
pub(super) enum Opened {
    Stream(Box<IndexedStream>),
    /// The index is LitData's, and these files in its folder have Arrow files in them, with the samples as rows.
    Rows(Vec<String>),
}

/// Opens the data set in the folder `name`.
///
/// # Errors
///
/// `NotFound` for a folder without an index; as [`Session::install`].
pub(super) fn open(session: &Session<'_>, stream: &StreamConfig, name: &str) -> Result<Opened> {
    let opened = |folder: PathBuf, remote: Option<Remote>| {
        let window = session.config.window_of(stream);
        let (is_in_place, needs_no_copy) = (remote.is_none(), false);
        let rows = Mutex::new(None);
        let fetch_bytes_max = session.index_bytes_max();
        let folder_of_index = folder.clone();
        let document = Document { folder: folder_of_index, is_in_place, needs_no_copy, window, rows, fetch_bytes_max };
        let stream = session.install(stream, IndexFolders { name, folder, files: None, remote }, &document);
        let rows = document.rows.lock().take();
        rows.map_or_else(|| Ok(Opened::Stream(Box::new(stream?))), |files| Ok(Opened::Rows(files)))
    };
    let Some(_) = stream.remote else { return opened(cache_folder(stream, name), None) };
    let remote = session.remote(stream, name)?;
    if let (None, Some(folder)) = (&stream.local, local_folder(name)) {
        // A folder on this machine is read where it is, unless its shards must be unpacked.
        if !folder.join(INDEX_BASENAME).exists() {
            return Err(no_index(&folder));
        }
        let in_place = opened(folder, None)?;
        let is_packed = |stream: &IndexedStream| stream.cache.shards.iter().any(|shard| shard.compression.is_some());
        if !matches!(&in_place, Opened::Stream(stream) if is_packed(stream)) {
            return Ok(in_place);
        }
    }
    opened(cache_folder(stream, name), Some(remote))
}

/// Starts of the indexes of our data sets, without spaces. The indexes of different programs and kept documents
/// have different ones.
const OWN_STARTS: [&[u8]; 2] = [b"{\"shards\":[", b"{\"version\":"];

/// Bytes of a piece in which two indexes are compared.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes at the front of an index, with spaces, that have such a start.
const FRONT_BYTES: usize = 64;

/// Returns true if `text` begins with `start`, but for spaces.
fn is_start(start: &[u8], text: &[u8]) -> bool {
    text.iter().filter(|byte| !byte.is_ascii_whitespace()).take(start.len()).eq(start)
}

/// Text that is hashed while it is read.
struct HashedText<'a> {
    file: &'a File,
    hasher: Hasher,
}

impl Read for HashedText<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

/// `index.json` of a data set: ours, LitData's, or a list of files. The index of LitData is kept in the form of ours,
/// after a digest of the original.
#[derive(Default)]
pub(super) struct Document {
    /// Folder of the index on local disk.
    pub(super) folder: PathBuf,
    /// True if the shards are read there, too: the folder is opened as the cache itself.
    pub(super) is_in_place: bool,
    /// True if the shards of a remote on this machine are read where they are, and only the index is copied.
    pub(super) needs_no_copy: bool,
    /// Windows that are the samples of chunks of tokens, instead of documents.
    pub(super) window: Option<TokenWindow>,
    /// Files with the samples as rows, once the index shows that: it then is no index of shards.
    pub(super) rows: Mutex<Option<Vec<String>>>,
    /// Most bytes of an index of a known length that is fetched.
    pub(super) fetch_bytes_max: u64,
}

impl IndexOrigin for Document {
    fn cached(&self) -> CachedIndex {
        CachedIndex::Compared
    }

    fn needs_no_copy(&self) -> bool {
        self.needs_no_copy
    }

    fn fetch(&self, remote: &Remote, _: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let (bytes, _) = remote.get_whole(INDEX_BASENAME, INDEX_BYTES_MAX as usize, is_document).or_else(|e| {
            if e.kind() != ErrorKind::Format {
                return Err(e);
            }
            // A server that does not end its answer has no length.
            match peek(remote, INDEX_BASENAME, 1) {
                Ok(peek) if (INDEX_BYTES_MAX + 1..=self.fetch_bytes_max).contains(&peek.len) => {
                    remote.get_whole(INDEX_BASENAME, peek.len as usize, is_document)
                }
                _ => Err(e),
            }
        })?;
        if FileSet::is_start(&bytes) {
            return Ok(bytes);
        }
        let Some(chunks) = DataSet::parse(&bytes).context("file", || INDEX_BASENAME)? else { return Ok(bytes) };
        self.check_rows(&chunks, &StoredFiles(remote))?;
        let head = format!("{{\"litdata\": \"{}\", ", HashAlgo::Xxh3_128.hex(&bytes));
        // The lengths of the chunks need not be requested again.
        match read_regular(&self.folder.join(INDEX_BASENAME), INDEX_BYTES_MAX) {
            Ok(kept) if kept.starts_with(head.as_bytes()) => Ok(kept),
            _ => Ok([&head, &chunks.index(&StoredFiles(remote))?.to_json()[1..]].concat().into_bytes()),
        }
    }

    fn read(&self, file: &File, name: &str) -> Option<Result<(Index, String)>> {
        let mut front = [0; FRONT_BYTES];
        let read = read_up_to_at(file, &mut front, 0).ok()?;
        if !OWN_STARTS.iter().any(|start| is_start(start, &front[..read])) {
            return None;
        }
        let mut text = HashedText { file, hasher: Hasher::new(HashAlgo::Xxh3_64) };
        let index = match Index::read(&mut text, &format!("{name}/{INDEX_BASENAME}")) {
            Ok(index) => index,
            Err(e) if e.kind() == ErrorKind::Full => return Some(Err(e)),
            // Maybe the index of a different program. The parser of the whole has the message.
            Err(_) => return None,
        };
        // Of LitData's chunks the samples may be windows, and the digest is a different one.
        let is_own = index.shards.first().is_none_or(|shard| !shard.layout.format.has_foreign_index());
        is_own.then(|| Ok((index, text.hasher.finish_hex())))
    }

    fn is_current(&self, remote: &Remote, file: &File) -> Result<bool> {
        if !remote.has_ranges() {
            return Ok(false);
        }
        let current = RemoteFile::open(remote, INDEX_BASENAME, &|| ())?;
        let failed = |e| Error::from_io(e, "the index cannot be read");
        let length = file.metadata().map_err(failed)?.len();
        if current.bytes() != length {
            return Ok(false);
        }
        let (mut kept, mut found) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        for start in (0..length).step_by(PIECE_BYTES) {
            let bytes = PIECE_BYTES.min((length - start) as usize);
            file.read_exact_at(&mut kept[..bytes], start).map_err(failed)?;
            current.read_at(&mut found[..bytes], start)?;
            if kept[..bytes] != found[..bytes] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let bytes = &*self.document(bytes).context("remote", || name)?;
        if FileSet::is_start(bytes) {
            return FileSet::parse(bytes)?.index().context("remote", || name);
        }
        let file = format!("{name}/{INDEX_BASENAME}");
        let chunks = if self.is_in_place { DataSet::parse(bytes).context("file", || &file)? } else { None };
        let index = match chunks {
            // The parser has the checks.
            Some(chunks) => {
                let files = LocalFiles(&self.folder);
                self.check_rows(&chunks, &files)?;
                Index::parse(chunks.index(&files)?.to_json().as_bytes(), &file)?
            }
            None => Index::parse(bytes, &file)?,
        };
        match self.window {
            Some(window) if index.has_tokens() => index.windows(window),
            _ => Ok(index),
        }
    }

    fn identity<'a>(&self, index: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match (self.document(bytes).unwrap_or(bytes.into()), index.shards.first()) {
            (list, _) if FileSet::is_start(&list) => FileSet::identity(&list).to_vec().into(),
            // The bytes may be LitData's, and then differ between folders.
            (_, Some(shard)) if shard.layout.format.has_foreign_index() => index.to_json().into_bytes().into(),
            (document, _) => document,
        }
    }
}

impl Document {
    /// Notes the files of `chunks` if their samples are rows, which is an error here.
    fn check_rows(&self, chunks: &DataSet, files: &dyn Fronts) -> Result<()> {
        let Some(names) = chunks.files_of_rows(files)? else { return Ok(()) };
        *self.rows.lock() = Some(names);
        Err(Error::new(ErrorKind::Unsupported, "the samples of LitData's chunks are rows of Arrow files"))
    }

    /// Returns the document of a folder that is the cache of files: without their remote the shards that it has are
    /// read. If the bytes are no such document, they are returned.
    fn document<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        match KeptIndex::parse(bytes) {
            Ok(kept) if self.is_in_place => Ok(kept.document().into()),
            Ok(_) => Err(Error::format("the index was made of a list of files")),
            Err(_) => Ok(bytes.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::writer::{LocalDir, Options, Writer};
    use crate::format::{Encoding, Layout, Value};

    #[test]
    fn an_index_that_is_read_in_pieces_has_the_digest_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::mds([("x".to_owned(), Encoding::Int)]).unwrap();
        let target = LocalDir::create(folder.path(), true).unwrap();
        let mut writer = Writer::new(layout, Box::new(target), Options::default()).unwrap();
        writer.write(&[Value::Int(3)]).unwrap();
        writer.finish().unwrap();
        let path = folder.path().join(INDEX_BASENAME);
        let written = std::fs::read_to_string(&path).unwrap();
        let document = Document::default();
        for text in
            [&written, &format!(" \n{written}\n"), &written.replace("{\"shards\"", "{ \"version\": 2, \"shards\"")]
        {
            std::fs::write(&path, text).unwrap();
            let (index, digest) = document.read(&File::open(&path).unwrap(), "a").expect("an own index").unwrap();
            assert_eq!(index, document.parse(text.as_bytes(), "a").unwrap());
            assert_eq!(digest, HashAlgo::Xxh3_64.hex(&document.identity(&index, text.as_bytes())));
        }
        // The parser of the whole reads the remaining documents, and has the messages about damaged ones.
        for text in
            ["", "[]", &written[..written.len() - 1], "{\"chunks\": [], \"config\": {}}", "{\"forebay_kept\": {}}"]
        {
            std::fs::write(&path, text).unwrap();
            assert!(document.read(&File::open(&path).unwrap(), "a").is_none(), "{text}");
        }
    }
}
