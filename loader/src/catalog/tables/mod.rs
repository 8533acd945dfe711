//! Files with tables as a source of shards: some groups of rows of a Parquet or Arrow file are a shard.
//!
//! ```text
//!   files: bytes, version --footers or scans--> TableIndex: offsets of the rows --shards-> Index of recipes
//!                                               | index.json in the stream's folder, or next to the files
//! ```
//!
//! * `index`: the index of a stream, or next to the files, which saves reading their ends; `footers` makes it of
//!   Parquet files, `scans` of Arrow files; `table` has the columns of a file;
//! * `classes`: comparison of the names of classes in the files;
//! * `shards`: the division of files into shards, which is the same for all columns.

mod classes;
mod footers;
mod index;
mod scans;
mod shards;
mod table;

use super::column_uses::texts_of;
use super::found_files::{self, FoundFile};
use super::kept_index::{KeptFile, SurveyFiles, Surveyed};
use super::opening::{FileListing, Files, OpenFiles, Opening};
use super::stream::IndexedStream;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::Index;
use crate::format::index::INDEX_BYTES_MAX;
use crate::store::Remote;
use crate::sync::Mutex;
use index::{Maker, TABLES_INDEX, TableFile, TableIndex};
pub(super) use table::TableKind;
use table::Wanted;

/// Start of the addresses of data sets on the hub.
const HUB: &str = "hf://";

/// Opener of files with tables.
pub(super) struct Opener(pub(super) TableKind);

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let config = at.session.config;
        // The plan leaves out rows by their nulls.
        let may_lack_all = config.skip.missing || at.stream.select.filter.is_some();
        // Otherwise a null is an error of all rows of its shard.
        let may_be_null = config.skip.has_errors();
        let wanted = Wanted::of(config.fields.as_deref(), may_lack_all, may_be_null);
        let mut tables = TableFiles::new(self.0, at.find(files)?, wanted);
        tables.texts = config.fields.as_deref().map(texts_of).unwrap_or_default();
        at.install(at.variant_cache(&tables.variant()), &tables)
    }

    fn listing(&self, at: &Opening<'_>, files: Files) -> Result<Option<FileListing>> {
        let tables = TableFiles::new(self.0, at.find(files)?, Wanted::default());
        let (document, samples) = tables.index_file(&at.remote()?)?;
        Ok(Some(FileListing { root: at.root.to_owned(), basename: TABLES_INDEX, document, samples }))
    }
}

/// Files with tables of a folder, and the columns that are read.
struct TableFiles {
    kind: TableKind,
    files: Vec<FoundFile>,
    /// Columns of the loader's fields.
    wanted: Wanted,
    /// Columns that are read as texts: lists are JSON documents there.
    texts: Vec<String>,
    /// Identity of the index that was parsed last.
    identity: Mutex<String>,
}

impl TableFiles {
    fn new(kind: TableKind, files: Vec<FoundFile>, wanted: Wanted) -> Self {
        Self { kind, files, wanted, texts: Vec::new(), identity: Mutex::new(String::new()) }
    }

    /// Text that differs for different columns and for different files, as far as their listing shows that: their
    /// shards must be in different folders.
    fn variant(&self) -> String {
        format!("{}\n\n{}", self.columns(), found_files::described(&self.files))
    }

    /// Text that differs for different columns.
    fn columns(&self) -> String {
        let Wanted { columns, optional, may_be_null } = &self.wanted;
        let mut columns = columns.as_ref().map_or_else(|| "all".to_owned(), |columns| columns.join("\n"));
        optional.iter().for_each(|name| columns.push_str(&format!("\noptional {name}")));
        if *may_be_null && optional.is_empty() {
            columns.push_str("\nmay be null");
        }
        columns
    }

    /// Returns the entries of the files in the index that is kept next to them, if there is one.
    fn indexed(&self, remote: &Remote, maker: &mut Maker<'_>) -> Result<Vec<Option<TableFile>>> {
        if remote.name().starts_with(HUB) {
            // Data sets of the hub have none.
            return Ok(Vec::new());
        }
        let bytes = match remote.get_small(TABLES_INDEX, INDEX_BYTES_MAX as usize) {
            Ok((bytes, _)) => bytes,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        match TableIndex::parse_whole(&bytes) {
            Ok(index) => index.entries(self.kind, &self.files, maker).context("index", || TABLES_INDEX),
            Err(e) => {
                log::warn!("{TABLES_INDEX} is not used: {e}");
                Ok(Vec::new())
            }
        }
    }

    /// Reads the offsets of the rows of `files`.
    fn read(
        &self,
        remote: &Remote,
        files: &[&FoundFile],
        maker: &mut Maker<'_>,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<TableFile>> {
        match self.kind {
            TableKind::Parquet => footers::fetch(remote, files, maker, progress),
            TableKind::Arrow => scans::fetch(remote, files, maker, progress),
        }
    }

    /// Makes the index to be kept next to the files. Returns it with the number of rows.
    ///
    /// # Errors
    ///
    /// Errors of the store, and of the files.
    fn index_file(&self, remote: &Remote) -> Result<(Vec<u8>, u64)> {
        let mut maker = Maker::new(None, &self.files);
        let files = self.read(remote, &self.files.iter().collect::<Vec<_>>(), &mut maker, &|| ())?;
        let index = maker.finish(self.kind, &self.files, files);
        Ok((index.to_bytes()?, index.rows()))
    }
}

impl SurveyFiles for TableFiles {
    fn made_as(&self) -> String {
        format!("{:?}, columns {}", self.kind, self.columns())
    }

    fn files(&self) -> &[FoundFile] {
        &self.files
    }

    fn survey(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Surveyed> {
        let mut maker = Maker::new(Some(&self.wanted), &self.files);
        let mut entries = self.indexed(remote, &mut maker)?;
        entries.resize_with(self.files.len(), || None);
        let without = self.files.iter().zip(&entries).filter(|(_, entry)| entry.is_none());
        let without: Vec<&FoundFile> = without.map(|(file, _)| file).collect();
        let mut read = self.read(remote, &without, &mut maker, progress)?.into_iter();
        let files = entries.into_iter().map(|entry| entry.or_else(|| read.next())).collect::<Option<Vec<_>>>();
        let files = files.ok_or_else(|| Error::internal("a file was not read"))?;
        let kept = self.files.iter().zip(&files).map(|(found, file)| KeptFile::of(found, file.bytes)).collect();
        let document = maker.finish(self.kind, &self.files, files).to_bytes()?;
        Ok(Surveyed { document, files: kept, source: None })
    }

    fn index(&self, document: &[u8]) -> Result<Index> {
        let kept = TableIndex::parse(document)?;
        *self.identity.lock() = kept.identity();
        shards::index(&kept, &self.texts)
    }

    fn identity(&self, _: &Index, _: Vec<u8>) -> Vec<u8> {
        // Of the index that `index` has returned: a document of thousands of files is not parsed again.
        self.identity.lock().clone().into_bytes()
    }
}
