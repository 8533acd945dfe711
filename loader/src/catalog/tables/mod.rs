//! Files with tables as a source of shards: some groups of rows of a Parquet or Arrow file are a shard.
//!
//! ```text
//!   names --find--> files: bytes, version --Kept::fetch--> places of the rows --shards--> Index of recipes
//!                                               | index.json in the stream's folder
//! ```
//!
//! * `kept`: the index; `footers` makes it of Parquet files, `scans` of Arrow files; `table` has the columns of a file;
//! * `shards`: the division of files into shards, which is the same for all columns.

mod footers;
mod kept;
mod scans;
mod shards;
mod table;

use super::found_files::{self, FoundFile};
use super::index_origin::IndexOrigin;
use crate::cache::CachedIndex;
use crate::error::Result;
use crate::format::Index;
use crate::sources::Names;
use crate::store::{Entry, Remote};
use kept::{Kept, Maker};
use std::borrow::Cow;
use std::path::Path;
pub(super) use table::{TableKind, Wanted};

/// Files with tables of a folder, of which some columns are read.
pub(super) struct TableFiles {
    kind: TableKind,
    files: Vec<FoundFile>,
    /// Columns of the loader's fields.
    wanted: Wanted,
}

impl TableFiles {
    /// Finds the files of `names`, as [`found_files::find`] does; `wanted` are the columns that are read.
    ///
    /// # Errors
    ///
    /// As [`found_files::find`].
    pub(super) fn find(
        kind: TableKind,
        names: Names,
        folder: Option<&Path>,
        list: (impl Fn() -> Result<Vec<Entry>>, bool),
        wanted: Wanted,
    ) -> Result<Self> {
        Ok(Self { kind, files: found_files::find(names, folder, list)?, wanted })
    }

    /// Text that differs for other columns and for other files, as far as their listing shows that: their shards must be in
    /// another folder.
    pub(super) fn variant(&self) -> String {
        let Wanted { columns, optional } = &self.wanted;
        let mut columns = columns.as_ref().map_or_else(|| "all".to_owned(), |columns| columns.join("\n"));
        optional.iter().for_each(|name| columns.push_str(&format!("\noptional {name}")));
        format!("{columns}\n\n{}", found_files::described(&self.files))
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
        let mut maker = Maker::new(&self.wanted);
        let files = match self.kind {
            TableKind::Parquet => footers::fetch(remote, &self.files, &mut maker, progress)?,
            TableKind::Arrow => scans::fetch(remote, &self.files, &mut maker, progress)?,
        };
        maker.finish(self.kind, files).to_bytes()
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let kept = Kept::parse(bytes, name)?;
        kept.check(self.kind, &self.files, &self.wanted)?;
        shards::index(&kept)
    }

    fn identity<'a>(&self, _: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        // The index has been parsed before.
        Kept::parse(bytes, "").map_or(bytes.into(), |kept| kept.identity().into_bytes().into())
    }
}
