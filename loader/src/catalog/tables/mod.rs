//! Files with tables as a source of shards: some groups of rows of a Parquet or Arrow file are a shard.
//!
//! ```text
//!   names --find--> files: bytes, version --Kept::fetch--> places of the rows --shards--> Index of recipes
//!                                               | index.json in the stream's folder
//! ```
//!
//! * `files`: the files, as far as a listing describes them;
//! * `kept`: the index; `footers` makes it of Parquet files, `scans` of Arrow files; `table` has the columns of a file;
//! * `shards`: the division of files into shards, which is the same for all columns.

mod files;
mod footers;
mod kept;
mod scans;
mod shards;
mod table;

use super::index_origin::IndexOrigin;
use crate::cache::CachedIndex;
use crate::decode::FieldSpec;
use crate::error::Result;
use crate::format::Index;
use crate::sources::Names;
use crate::store::{Entry, Remote};
use files::FoundFile;
use kept::{Kept, Maker};
use std::borrow::Cow;
use std::path::Path;
pub(super) use table::TableKind;

/// Files with tables of a folder, of which some columns are read.
pub(super) struct TableFiles {
    kind: TableKind,
    files: Vec<FoundFile>,
    /// Columns of the loader's fields; `None` for all.
    columns: Option<Vec<String>>,
}

impl TableFiles {
    /// Finds the files of `names`, as [`files::find`] does.
    ///
    /// # Errors
    ///
    /// As [`files::find`].
    pub(super) fn find(
        kind: TableKind,
        names: Names,
        folder: Option<&Path>,
        list: (impl Fn() -> Result<Vec<Entry>>, bool),
        columns: Option<Vec<String>>,
    ) -> Result<Self> {
        Ok(Self { kind, files: files::find(names, folder, list)?, columns })
    }

    /// Returns the columns that a loader of `fields` reads, each once.
    pub(super) fn columns_of(fields: Option<&[(String, FieldSpec)]>) -> Option<Vec<String>> {
        let columns = fields?.iter().flat_map(|(_, field)| field.columns());
        let mut columns: Vec<String> = columns.map(|(name, _)| name.to_owned()).collect();
        columns.sort_unstable();
        columns.dedup();
        Some(columns)
    }

    /// Text that differs for other columns and for other files, as far as their listing shows that: their shards must be in
    /// another folder.
    pub(super) fn variant(&self) -> String {
        let columns = self.columns.as_ref().map_or_else(|| "all".to_owned(), |columns| columns.join("\n"));
        let files = self.files.iter().map(|file| format!("\n{} {:?} {}", file.name, file.bytes, file.version));
        format!("{columns}\n\n{}", files.collect::<String>())
    }
}

impl IndexOrigin for TableFiles {
    fn cached(&self) -> CachedIndex {
        // Names and sizes are compared instead, and each file's size when it is read.
        CachedIndex::OfRemote
    }

    fn reads_in_place(&self) -> bool {
        false
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let mut maker = Maker::new(self.columns.as_deref());
        let files = match self.kind {
            TableKind::Parquet => footers::fetch(remote, &self.files, &mut maker, progress)?,
            TableKind::Arrow => scans::fetch(remote, &self.files, &mut maker, progress)?,
        };
        maker.finish(self.kind, files).to_bytes()
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let kept = Kept::parse(bytes, name)?;
        kept.check(self.kind, &self.files, self.columns.as_deref())?;
        shards::index(&kept)
    }

    fn identity<'a>(&self, _: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        // The index has been parsed before.
        Kept::parse(bytes, "").map_or(bytes.into(), |kept| kept.identity().into_bytes().into())
    }
}
