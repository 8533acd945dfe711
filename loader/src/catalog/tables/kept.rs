//! Index of files with tables as it is kept: of each file the groups of rows and the places of their columns.

use super::table::{Projection, Table, TableKind, Wanted};
use crate::catalog::found_files::FoundFile;
use crate::error::{Context, Error, Result};
use crate::format::parquet::Group;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Version of the document.
const VERSION: u32 = 1;

/// Index of files with tables.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    version: u32,
    pub(super) kind: TableKind,
    /// Columns that are read; `None` for all.
    columns: Option<Vec<String>>,
    /// Those of them that may be absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    optional: Vec<String>,
    /// Their values may be null.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    may_be_null: bool,
    /// Columns of the files, each as base64 of [`Table::bytes`].
    schemas: Vec<String>,
    pub(super) files: Vec<KeptFile>,
}

/// File with its groups of rows.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Its number in the list of schemas.
    pub(super) schema: usize,
    /// Groups, with the chunks of the columns that are read.
    pub(super) groups: Vec<Group>,
}

impl Kept {
    /// Parses the document of the remote `name`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for other bytes.
    pub(super) fn parse(bytes: &[u8], name: &str) -> Result<Self> {
        let kept: Self = serde_json::from_slice(bytes)
            .map_err(|e| Error::format("the file is no index of such files").with("remote", name).caused_by(e))?;
        if kept.version != VERSION {
            return Err(Error::format("the index has another version").with("version", kept.version));
        }
        Ok(kept)
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::internal("an index cannot be written").caused_by(e))
    }

    /// Checks that the document is of `files` and of the columns `wanted`.
    pub(super) fn check(&self, kind: TableKind, files: &[FoundFile], wanted: &Wanted) -> Result<()> {
        let is_of = |(kept, found): (&KeptFile, &FoundFile)| {
            kept.name == found.name && found.bytes.is_none_or(|bytes| bytes == kept.bytes)
        };
        if self.kind != kind || self.files.len() != files.len() || !self.files.iter().zip(files).all(is_of) {
            return Err(Error::format("the index is of other files").with("files", files.len()));
        }
        if self.wanted() != *wanted {
            return Err(Error::format("the index is of other columns"));
        }
        Ok(())
    }

    fn wanted(&self) -> Wanted {
        Wanted { columns: self.columns.clone(), optional: self.optional.clone(), may_be_null: self.may_be_null }
    }

    /// Returns the schemas, and the columns that are read of each.
    pub(super) fn projections(&self) -> Result<Vec<(Table, Projection)>> {
        let wanted = self.wanted();
        let schema = |text: &String| {
            let bytes = BASE64_STANDARD.decode(text);
            let bytes = bytes.map_err(|e| Error::format("a schema in the index is damaged").caused_by(e))?;
            let table = Table::parse(self.kind, &bytes)?;
            let projection = Projection::new(&table, &wanted)?;
            Ok((table, projection))
        };
        self.schemas.iter().map(schema).collect()
    }

    /// Text that is the same for all columns: the groups of rows of each file.
    pub(super) fn identity(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            // Writing to a text never fails.
            let _ = write!(text, "{} {}:", file.name, file.bytes);
            file.groups.iter().for_each(|group| {
                let _ = write!(text, " {} {}", group.rows, group.bytes);
            });
            text.push('\n');
        }
        text
    }
}

/// Maker of the entries of files.
pub(super) struct Maker<'a> {
    /// Columns that are read; `None` for the places of all columns, whatever their types.
    wanted: Option<&'a Wanted>,
    schemas: Vec<String>,
    /// Schemas by their bytes, each with its number, and the numbers of the columns that are kept.
    known: HashMap<Vec<u8>, (usize, Option<Projection>)>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(wanted: Option<&'a Wanted>) -> Self {
        Self { wanted, schemas: Vec::new(), known: HashMap::new() }
    }

    /// Returns the entry of a file.
    ///
    /// # Errors
    ///
    /// Those of the columns, with the file's name.
    pub(super) fn file(&mut self, name: &str, bytes: u64, table: Table, groups: Vec<Group>) -> Result<KeptFile> {
        self.entry(name, bytes, table, groups).context("file", || name)
    }

    pub(super) fn entry(&mut self, name: &str, bytes: u64, table: Table, groups: Vec<Group>) -> Result<KeptFile> {
        let (number, projection) = match self.known.get(table.bytes()) {
            Some(known) => known.clone(),
            None => {
                let projection = self.wanted.map(|wanted| Projection::new(&table, wanted)).transpose()?;
                let made = (self.schemas.len(), projection);
                self.schemas.push(BASE64_STANDARD.encode(table.bytes()));
                self.known.insert(table.bytes().to_vec(), made.clone());
                made
            }
        };
        let group = |group: Group| {
            // A batch of an Arrow file has one part with all columns.
            let (Table::Parquet(_), Some(projection)) = (&table, &projection) else { return Ok(group) };
            let chunks = projection.parts.iter().map(|part| group.chunks.get(*part).copied());
            let chunks = chunks.collect::<Option<_>>();
            let chunks = chunks.ok_or_else(|| Error::format("a row group has fewer columns than the file"))?;
            let bounds = projection.parts.iter().map(|part| group.bounds.get(*part).cloned());
            Ok(Group { chunks, bounds: bounds.collect::<Option<_>>().unwrap_or_default(), ..group })
        };
        let groups = groups.into_iter().map(group).collect::<Result<_>>()?;
        Ok(KeptFile { name: name.to_owned(), bytes, schema: number, groups })
    }

    /// Returns the index of a stream.
    pub(super) fn finish(self, kind: TableKind, files: Vec<KeptFile>) -> Kept {
        let Wanted { columns, optional, may_be_null } = self.wanted.cloned().unwrap_or_default();
        Kept { version: VERSION, kind, columns, optional, may_be_null, schemas: self.schemas, files }
    }

    /// Returns the schemas of the files, as an index has them.
    pub(super) fn into_schemas(self) -> Vec<String> {
        self.schemas
    }
}
