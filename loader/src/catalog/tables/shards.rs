//! Division of files into shards. It depends on all columns of the files, not on the ones that are read, so that the
//! order of samples and checkpoints stay the same when a loader reads different columns.

use super::classes;
use super::index::{TableFile, TableIndex};
use super::table::Table;
use crate::error::{Context, Error, Result};
use crate::format::arrow::TableColumn;
use crate::format::ipc::Batch;
use crate::format::parquet::Group;
use crate::format::recipe::{BatchFile, Recipe, RowBatches, RowFile, RowGroups, Texts};
use crate::format::{Digests, Encoding, FileInfo, HashAlgo, Index, Layout, Shard};
use std::ops::Range;
use std::sync::Arc;

/// Bytes up to which neighbouring groups are one shard: a request for less takes as long.
const COMBINED_BYTES: u64 = 16 << 20;

/// Bytes above which a group is divided. Each part needs the whole stored group, so only groups that are too large for
/// the memory of a fetch are.
const GROUP_BYTES_MAX: u64 = 1 << 30;

/// Most parts of a group: more bytes than any writer keeps in memory.
const PARTS_MAX: u64 = 1 << 12;

/// Returns the index of the shards of all files. Lists in the columns `texts` are JSON documents.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for a document with parts that do not fit together; the errors of [`classes::check`].
pub(super) fn index(kept: &TableIndex, texts: &[String]) -> Result<Index> {
    let mut readers: Vec<Reader<'_>> = Vec::new();
    let tables = kept.projections()?;
    classes::check(kept, &tables)?;
    for (table, mut projection) in tables {
        let forms = forms(&mut projection.columns, texts);
        let classes = classes::of_labels(table, &projection.columns).map(Arc::new);
        let (layout, columns) = RowGroups::layout(projection.columns)?;
        let known = readers.iter().find(|known| *known.layout == layout).map(|known| known.layout.clone());
        let layout = known.unwrap_or_else(|| Arc::new(layout));
        readers.push(Reader { table, layout, columns: columns.into(), parts: projection.parts.into(), forms, classes });
    }
    let (partitions, mut shards) = (kept.partitions(), Vec::new());
    for file in kept.files.iter().filter(|file| file.groups.iter().any(|group| group.rows > 0)) {
        let other = || Error::format("the index has a file without a schema").with("file", &file.name);
        let reader = readers.get(file.schema).ok_or_else(other)?;
        let opened = reader.open(file, partitions.columns_of(&file.name));
        for part in parts(&file.groups).context("file", || &file.name)? {
            shards.push(shard(file, &opened, reader, part, shards.len())?);
        }
    }
    Ok(Index { shards })
}

/// Makes lists in the columns `texts` documents. Returns their names, and the names of further columns that a shard of
/// the same rows may have in a different form: lists of bytes, and columns in paths.
fn forms(columns: &mut [TableColumn], texts: &[String]) -> String {
    let mut names = String::new();
    for TableColumn { name, encoding, .. } in
        columns.iter().filter(|column| column.partition.is_some() || column.encoding == Encoding::BytesList)
    {
        names.push_str(&format!(" {name}={encoding}"));
    }
    let is_list = |column: &&mut TableColumn| matches!(column.encoding, Encoding::Array(_));
    for column in columns.iter_mut().filter(is_list).filter(|column| texts.contains(&column.name)) {
        column.encoding = Encoding::Json;
        names.push_str(&format!(" {}", column.name));
    }
    names
}

/// Columns that are read of the files of a schema.
struct Reader<'a> {
    table: &'a Table,
    layout: Arc<Layout>,
    columns: Arc<[TableColumn]>,
    parts: Arc<[usize]>,
    /// Forms of some columns, for the names of shards.
    forms: String,
    /// Names of the classes of the labels.
    classes: Option<Arc<Texts>>,
}

/// File of the shards.
enum Opened {
    Parquet(Arc<RowFile>),
    Arrow(Arc<BatchFile>),
}

impl Reader<'_> {
    /// Opens `file`, which has the columns `partitions` in its path.
    fn open(&self, file: &TableFile, partitions: Vec<TableColumn>) -> Opened {
        let (key, bytes) = (Arc::from(&*file.name), file.bytes);
        let (columns, parts) = (self.columns_with(&partitions), self.parts.clone());
        let (partitions, classes) = (partitions.into(), self.classes.clone());
        match self.table {
            Table::Parquet(schema) => Opened::Parquet(Arc::new(RowFile {
                key,
                bytes,
                schema: schema.clone(),
                columns,
                leaves: parts,
                partitions,
                classes,
            })),
            Table::Arrow(head) => {
                let (head, dictionaries) = (head.clone(), file.dictionaries.as_slice().into());
                Opened::Arrow(Arc::new(BatchFile {
                    key,
                    bytes,
                    head,
                    columns,
                    roots: parts,
                    dictionaries,
                    partitions,
                    classes,
                }))
            }
        }
    }
}

impl Reader<'_> {
    /// Returns the columns, with the values of `partitions`.
    fn columns_with(&self, partitions: &[TableColumn]) -> Arc<[TableColumn]> {
        if self.columns.iter().all(|column| column.partition.is_none()) {
            return self.columns.clone();
        }
        let with_value = |column: &TableColumn| {
            let value = partitions.iter().find(|found| column.partition.is_some() && found.name == column.name);
            value.unwrap_or(column).clone()
        };
        self.columns.iter().map(with_value).collect()
    }
}

impl Opened {
    /// Returns the recipe of `rows` of `groups`, the first of them with number `first`, and an estimate of the shard's
    /// bytes.
    fn recipe(
        &self,
        layout: &Layout,
        first: usize,
        groups: &[Group],
        rows: Range<u64>,
    ) -> Result<(Arc<dyn Recipe>, u64)> {
        match self {
            Self::Parquet(file) => {
                let recipe = RowGroups { file: file.clone(), first, groups: groups.into(), rows };
                let bytes = recipe.file_bytes(layout);
                Ok((Arc::new(recipe), bytes))
            }
            Self::Arrow(file) => {
                let batch = |group: &Group| {
                    let [chunk] = group.chunks.as_slice() else { return None };
                    Some(Batch { start: chunk.start, bytes: chunk.bytes, rows: group.rows })
                };
                let batches = groups.iter().map(batch).collect::<Option<Vec<Batch>>>();
                let batches = batches.ok_or_else(|| Error::format("the index has a batch without its offset"))?;
                let recipe = RowBatches { file: file.clone(), first, batches: batches.into(), rows };
                let bytes = recipe.file_bytes(layout);
                Ok((Arc::new(recipe), bytes))
            }
        }
    }
}

/// Groups of a shard by their numbers, and its rows counted from the first of them.
#[derive(Debug, PartialEq)]
struct GroupRange {
    groups: Range<usize>,
    rows: Range<u64>,
}

/// Returns the shards of the groups of a file.
fn parts(groups: &[Group]) -> Result<Vec<GroupRange>> {
    let mut parts: Vec<GroupRange> = Vec::new();
    // Bytes of the last part, if it can have more groups.
    let mut open: Option<u64> = None;
    for (number, group) in groups.iter().enumerate() {
        if group.rows == 0 {
            open = None;
            continue;
        }
        if let (Some(bytes), Some(last)) = (&mut open, parts.last_mut())
            && bytes.saturating_add(group.bytes) <= COMBINED_BYTES
        {
            *bytes += group.bytes;
            last.groups.end = number + 1;
            last.rows.end = last.rows.end.saturating_add(group.rows);
            continue;
        }
        let count = group.bytes.div_ceil(GROUP_BYTES_MAX).clamp(1, group.rows);
        if count > PARTS_MAX {
            let message =
                format!("a row group declares {} bytes: the file is damaged, or must be written again", group.bytes);
            return Err(Error::format(message).with("row_group", number));
        }
        // As equal as possible.
        let at = |part: u64| (u128::from(group.rows) * u128::from(part) / u128::from(count)) as u64;
        parts.extend((0..count).map(|part| GroupRange { groups: number..number + 1, rows: at(part)..at(part + 1) }));
        open = (count == 1).then_some(group.bytes);
    }
    Ok(parts)
}

fn shard(file: &TableFile, opened: &Opened, reader: &Reader<'_>, part: GroupRange, number: usize) -> Result<Shard> {
    let (GroupRange { groups, rows }, layout) = (part, &reader.layout);
    let samples = rows.end - rows.start;
    // Names of different rows differ: a shard of a file that was replaced is never taken for one of the new file.
    let described = format!("{} {} {groups:?} {rows:?}{}", file.name, file.bytes, reader.forms);
    let basename = format!("rows.{number:05}.{}.mds", &HashAlgo::Xxh3_64.hex(described.as_bytes())[..8]);
    let (recipe, bytes) = opened.recipe(layout, groups.start, &file.groups[groups], rows)?;
    let raw_data = FileInfo { basename: basename.into(), bytes, hashes: Digests::default() };
    Ok(Shard { recipe: Some(recipe), ..Shard::new(layout.clone(), samples, raw_data) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(groups: &[(u64, u64)]) -> Vec<(Range<usize>, Range<u64>)> {
        let groups: Vec<Group> = groups
            .iter()
            .map(|(rows, bytes)| Group { rows: *rows, bytes: *bytes, chunks: Vec::new(), bounds: Vec::new() })
            .collect();
        parts(&groups).unwrap().into_iter().map(|part| (part.groups, part.rows)).collect()
    }

    #[test]
    fn small_groups_are_one_shard_and_large_ones_a_shard_each() {
        let mib = 1 << 20;
        let groups = [(10, mib), (5, 14 * mib), (7, 2 * mib), (1, 100 * mib), (2, mib)];
        assert_eq!(divided(&groups), [(0..2, 0..15), (2..3, 0..7), (3..4, 0..1), (4..5, 0..2)]);
    }

    #[test]
    fn a_large_group_is_divided_into_equal_parts_and_an_empty_one_is_none() {
        assert_eq!(
            divided(&[(0, 0), (10, 5 << 29), (0, 0), (3, 1)]),
            [(1..2, 0..3), (1..2, 3..6), (1..2, 6..10), (3..4, 0..3)]
        );
        assert_eq!(divided(&[(2, u64::MAX)]), [(0..1, 0..1), (0..1, 1..2)]);
    }

    #[test]
    fn a_group_that_declares_more_bytes_than_any_writer_makes_is_an_error() {
        let e = parts(&[Group { rows: 1 << 60, bytes: 1 << 60, chunks: Vec::new(), bounds: Vec::new() }]).unwrap_err();
        assert!(e.to_string().contains("row_group 0"), "{e}");
    }
}
