//! Index of files with tables that is kept next to them, so that a loader does not read the end of each file when it is opened.
//!
//! It has the groups of rows of each file with the places of all columns. The index of a stream is made of it, with the columns that
//! are read.

use super::kept::{KeptFile, Maker};
use super::table::{Table, TableKind};
use crate::catalog::found_files::FoundFile;
use crate::error::{Context, Error, Result};
use crate::format::parquet::Chunk;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Name of the index. Programs that read folders of tables skip names with an underscore in front.
pub(super) const TABLES_INDEX: &str = "_forebay_tables.json";

/// Version of the document.
const VERSION: u32 = 1;

/// Index of files with tables.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableIndex {
    forebay_tables: u32,
    kind: TableKind,
    /// Versions of the files as their listing has them; empty where it has none.
    versions: Vec<String>,
    /// Columns of the files, each as base64 of [`Table::bytes`].
    schemas: Vec<String>,
    files: Vec<KeptFile>,
    /// The schemas, parsed.
    #[serde(skip)]
    tables: Vec<Table>,
}

impl TableIndex {
    /// The index of `files`, of which `maker` has made the entries `kept` with all columns.
    pub(super) fn new(kind: TableKind, files: &[FoundFile], maker: Maker<'_>, kept: Vec<KeptFile>) -> Self {
        let versions = files.iter().map(FoundFile::stamp).collect();
        let (schemas, tables) = (maker.into_schemas(), Vec::new());
        Self { forebay_tables: VERSION, kind, versions, schemas, files: kept, tables }
    }

    /// Parses the document. A store may have damaged it, so it is checked as the ends of the files are.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for another one, and for one whose parts do not fit together, with the file.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut index: Self = serde_json::from_slice(bytes)
            .map_err(|e| Error::format("the file is no index of such files").caused_by(e))?;
        if index.forebay_tables != VERSION || index.versions.len() != index.files.len() {
            return Err(Error::format("the index has another version").with("version", index.forebay_tables));
        }
        let table = |text: &String| {
            let bytes = BASE64_STANDARD.decode(text);
            let bytes = bytes.map_err(|e| Error::format("a schema in the index is damaged").caused_by(e))?;
            Table::parse(index.kind, &bytes)
        };
        index.tables = index.schemas.iter().map(table).collect::<Result<_>>()?;
        for file in &index.files {
            index.check(file).context("file", || &file.name)?;
        }
        Ok(index)
    }

    fn check(&self, file: &KeptFile) -> Result<()> {
        let table =
            self.tables.get(file.schema).ok_or_else(|| Error::format("the index has a file without a schema"))?;
        for (number, group) in file.groups.iter().enumerate() {
            table.check(group, file.bytes).context("row_group", || number)?;
        }
        let chunks = file.groups.iter().flat_map(|group| &group.chunks).filter(|chunk| chunk.bytes > 0);
        let mut chunks: Vec<&Chunk> = chunks.collect();
        chunks.sort_by_key(|chunk| (chunk.start, chunk.bytes));
        if chunks.windows(2).any(|pair| pair[0].start + pair[0].bytes > pair[1].start) {
            return Err(Error::format("two columns have bytes of the file in common"));
        }
        let rows = file.groups.iter().map(|group| group.rows).fold(0, u64::saturating_add);
        if i64::try_from(rows).is_err() {
            return Err(Error::format(format!("the index declares {rows} rows")));
        }
        Ok(())
    }

    /// Number of rows of all files.
    pub(super) fn rows(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.groups).map(|group| group.rows).fold(0, u64::saturating_add)
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::internal("an index cannot be written").caused_by(e))
    }

    /// Returns the entries of `files` with the columns that `maker` reads; `None` for those that the index does not have, and for
    /// those that were written again since.
    ///
    /// # Errors
    ///
    /// Those of the columns.
    pub(super) fn entries(
        self,
        kind: TableKind,
        files: &[FoundFile],
        maker: &mut Maker<'_>,
    ) -> Result<Vec<Option<KeptFile>>> {
        if self.kind != kind {
            return Ok(files.iter().map(|_| None).collect());
        }
        let tables = self.tables;
        let mut known: HashMap<String, (KeptFile, String)> = self
            .files
            .into_iter()
            .zip(self.versions)
            .map(|(file, version)| (file.name.clone(), (file, version)))
            .collect();
        let mut others = 0;
        let entry = |found: &FoundFile| {
            let Some((file, version)) = known.remove(&found.name) else { return Ok(None) };
            let stamp = found.stamp();
            let is_same = found.bytes.is_none_or(|bytes| bytes == file.bytes)
                && (found.version.is_empty() || version.is_empty() || version == stamp);
            if !is_same {
                others += 1;
                return Ok(None);
            }
            let table = tables.get(file.schema).ok_or_else(|| Error::internal("a file without a schema"))?.clone();
            maker.file(&file.name, file.bytes, table, file.groups).map(Some)
        };
        let entries = files.iter().map(entry).collect::<Result<Vec<_>>>()?;
        if others > 0 {
            log::warn!(
                "{others} files were written again after {TABLES_INDEX}, and their ends are read: replace it with --overwrite"
            );
        }
        Ok(entries)
    }
}
