//! Index of files with tables: of each file the groups of rows and the offsets of their columns. A stream keeps one
//! with the columns that are read. One with all columns can be next to the files, so that a loader does not read the
//! end of each file when it is opened.

use super::table::{Projection, Table, TableKind, Wanted};
use crate::catalog::found_files::FoundFile;
use crate::catalog::kept_index::{parse, to_bytes};
use crate::error::{Context, Error, Result};
use crate::format::arrow::TableColumn;
use crate::format::ipc::Dictionary;
use crate::format::parquet::{Chunk, Group};
use crate::sources::tables::partitions::Partitions;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Name of the index next to the files. Programs that read folders of tables skip names with an underscore in front.
pub(super) const TABLES_INDEX: &str = "_forebay_tables.json";

/// Version of the document.
const VERSION: u32 = 1;

/// Index of files with tables.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableIndex {
    forebay_tables: u32,
    kind: TableKind,
    /// Columns that are read; `None` for the offsets of all columns, whatever their types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wanted: Option<Wanted>,
    /// Versions of the files as their listing has them; empty where it has none.
    versions: Vec<String>,
    /// Columns of the files, each as base64 of [`Table::bytes`].
    schemas: Vec<String>,
    pub(super) files: Vec<TableFile>,
    /// The schemas, parsed.
    #[serde(skip)]
    tables: Vec<Table>,
}

/// File with its groups of rows.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Its number in the list of schemas.
    pub(super) schema: usize,
    /// Groups, with the chunks of the columns that are read.
    pub(super) groups: Vec<Group>,
    /// Dictionaries of an Arrow file that the columns need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) dictionaries: Vec<Dictionary>,
}

impl TableFile {
    /// File without rows, with columns that are not the wanted ones.
    fn empty(name: &str, bytes: u64, groups: Vec<Group>) -> Self {
        let without_places = |group: Group| Group { chunks: Vec::new(), bounds: Vec::new(), ..group };
        let groups = groups.into_iter().map(without_places).collect();
        Self { name: name.to_owned(), bytes, schema: 0, groups, dictionaries: Vec::new() }
    }
}

impl TableIndex {
    /// Parses the document.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that are no index.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut index: Self = parse(bytes, "files with tables")?;
        if index.forebay_tables != VERSION || index.versions.len() != index.files.len() {
            return Err(Error::format("the index has a different version").with("version", index.forebay_tables));
        }
        let table = |text: &String| {
            let bytes = BASE64_STANDARD.decode(text);
            let bytes = bytes.map_err(|e| Error::format("a schema in the index is damaged").caused_by(e))?;
            Table::parse(index.kind, &bytes)
        };
        index.tables = index.schemas.iter().map(table).collect::<Result<_>>()?;
        Ok(index)
    }

    /// Parses the document next to the files. A store may have damaged it, so it is checked as the ends of the files
    /// are.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), and for a document with parts that do not fit together, with the file.
    pub(super) fn parse_whole(bytes: &[u8]) -> Result<Self> {
        let index = Self::parse(bytes)?;
        index.files.iter().try_for_each(|file| index.check_groups(file).context("file", || &file.name))?;
        Ok(index)
    }

    fn check_groups(&self, file: &TableFile) -> Result<()> {
        let table = self.table(file)?;
        for (number, group) in file.groups.iter().enumerate() {
            table.check(group, file.bytes).context("row_group", || number)?;
        }
        let is_in_file = |part: &Dictionary| part.start.checked_add(part.bytes).is_some_and(|end| end <= file.bytes);
        if !file.dictionaries.iter().all(is_in_file) {
            return Err(Error::format("the bytes of a dictionary are not in the file"));
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

    fn table(&self, file: &TableFile) -> Result<&Table> {
        self.tables.get(file.schema).ok_or_else(|| Error::format("the index has a file without a schema"))
    }

    /// Name of the first file with rows and the schema number `schema`.
    pub(super) fn file_with_rows(&self, schema: usize) -> Option<&str> {
        let has_rows = |file: &&TableFile| file.groups.iter().any(|group| group.rows > 0);
        self.files.iter().find(|file| file.schema == schema && has_rows(file)).map(|file| &*file.name)
    }

    /// Returns the schemas, and the columns that are read of each.
    ///
    /// # Errors
    ///
    /// Errors of the columns.
    pub(super) fn projections(&self) -> Result<Vec<(&Table, Projection)>> {
        let all = Wanted::default();
        let wanted = self.wanted.as_ref().unwrap_or(&all);
        let partitions = self.partitions().columns_of("");
        self.tables.iter().map(|table| Ok((table, Projection::new(table, wanted, &partitions)?))).collect()
    }

    /// Returns the columns in the paths of the files.
    pub(super) fn partitions(&self) -> Partitions {
        Partitions::of(self.files.iter().map(|file| &*file.name))
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

    /// Number of rows of all files.
    pub(super) fn rows(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.groups).map(|group| group.rows).fold(0, u64::saturating_add)
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        to_bytes(self)
    }

    /// Returns the entries of `files` with the columns that `maker` reads; `None` for those that the index does not
    /// have, and for those that were written again since.
    ///
    /// # Errors
    ///
    /// The errors of the columns.
    pub(super) fn entries(
        self,
        kind: TableKind,
        files: &[FoundFile],
        maker: &mut Maker<'_>,
    ) -> Result<Vec<Option<TableFile>>> {
        if self.kind != kind {
            return Ok(Vec::new());
        }
        let tables = self.tables;
        let with_versions = self.files.into_iter().zip(self.versions);
        let mut known: HashMap<String, (TableFile, String)> =
            with_versions.map(|(file, version)| (file.name.clone(), (file, version))).collect();
        let mut rewritten = 0;
        let entry = |found: &FoundFile| {
            let Some((file, version)) = known.remove(&found.name) else { return Ok(None) };
            let is_same = found.bytes.is_none_or(|bytes| bytes == file.bytes)
                && (found.version.is_empty() || version.is_empty() || version == found.stamp());
            if !is_same {
                rewritten += 1;
                return Ok(None);
            }
            let table = tables.get(file.schema).ok_or_else(|| Error::internal("a file without a schema"))?.clone();
            maker
                .file(&file.name, file.bytes, table, file.groups, file.dictionaries)
                .context("file", || &file.name)
                .map(Some)
        };
        let entries = files.iter().map(entry).collect::<Result<Vec<_>>>()?;
        if rewritten > 0 {
            log::warn!(
                "{rewritten} files were written again after {TABLES_INDEX}, and their ends are read: replace it with \
                 --overwrite"
            );
        }
        Ok(entries)
    }
}

/// Maker of the entries of files.
pub(super) struct Maker<'a> {
    /// Columns that are read; `None` for the offsets of all columns, whatever their types.
    wanted: Option<&'a Wanted>,
    /// Columns in the paths of the files.
    partitions: Vec<TableColumn>,
    schemas: Vec<String>,
    /// Schemas by their bytes, each with its number, and the numbers of the columns that are kept.
    known: HashMap<Vec<u8>, (usize, Option<Projection>)>,
}

impl<'a> Maker<'a> {
    /// Makes the entries of `files`.
    pub(super) fn new(wanted: Option<&'a Wanted>, files: &[FoundFile]) -> Self {
        let partitions = Partitions::of(files.iter().map(|file| &*file.name)).columns_of("");
        Self { wanted, partitions, schemas: Vec::new(), known: HashMap::new() }
    }

    /// Returns the entry of a file.
    ///
    /// # Errors
    ///
    /// Errors of the columns.
    pub(super) fn file(
        &mut self,
        name: &str,
        bytes: u64,
        table: Table,
        groups: Vec<Group>,
        mut dictionaries: Vec<Dictionary>,
    ) -> Result<TableFile> {
        let (number, projection) = match self.known.get(table.bytes()) {
            Some(known) => known.clone(),
            None => {
                let projection =
                    match self.wanted.map(|wanted| Projection::new(&table, wanted, &self.partitions)).transpose() {
                        // The types of a file without rows mean nothing: an empty frame of pandas has none.
                        Err(_) if groups.iter().all(|group| group.rows == 0) => {
                            return Ok(TableFile::empty(name, bytes, groups));
                        }
                        projection => projection?,
                    };
                if let Some(projection) = &projection {
                    warn_of_columns_left_out(name, &table, projection, self.wanted);
                }
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
        if let (Table::Arrow(head), false) = (&table, dictionaries.is_empty()) {
            let used = head.dictionaries(projection.as_ref().map(|projection| &*projection.parts));
            dictionaries.retain(|dictionary| used.contains(&dictionary.id));
        }
        Ok(TableFile { name: name.to_owned(), bytes, schema: number, groups, dictionaries })
    }

    /// Returns the index of `files`, with the entries `made` that this maker has made of them.
    pub(super) fn finish(self, kind: TableKind, files: &[FoundFile], made: Vec<TableFile>) -> TableIndex {
        TableIndex {
            forebay_tables: VERSION,
            kind,
            wanted: self.wanted.cloned(),
            versions: files.iter().map(FoundFile::stamp).collect(),
            schemas: self.schemas,
            files: made,
            tables: Vec::new(),
        }
    }
}

/// Warns of columns of the file `name` that are left out of all, since their values cannot be delivered.
fn warn_of_columns_left_out(name: &str, table: &Table, projection: &Projection, wanted: Option<&Wanted>) {
    if wanted.is_none_or(|wanted| wanted.columns.is_some()) {
        return;
    }
    let is_read = |name: &str| projection.columns.iter().any(|column| column.name == name);
    let left_out: Vec<&str> =
        table.fields().iter().map(|field| field.name().as_str()).filter(|name| !is_read(name)).collect();
    if !left_out.is_empty() {
        log::warn!(
            "{name}: columns are left out, because batches cannot have values of their types: {}. Name one in \
             `fields` for an error with its type",
            left_out.join(", ")
        );
    }
}
