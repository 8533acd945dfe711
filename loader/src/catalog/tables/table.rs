//! Columns of a file, and those that are read of it.

use crate::catalog::column_uses::columns_of;
use crate::decode::FieldSpec;
use crate::error::{Error, Result};
use crate::format::ColumnUse;
use crate::format::arrow::{CLASSES_NOTE, ClassNames, TableColumn, class_names, columns, list_of_columns};
use crate::format::ipc::TableHead;
use crate::format::parquet::{Group, TableSchema};
use arrow_schema::Fields;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// Format of files with tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::catalog) enum TableKind {
    Parquet,
    Arrow,
}

/// Columns of a file.
#[derive(Clone)]
pub(super) enum Table {
    Parquet(Arc<TableSchema>),
    Arrow(Arc<TableHead>),
}

impl Table {
    pub(super) fn parse(kind: TableKind, bytes: &[u8]) -> Result<Self> {
        Ok(match kind {
            TableKind::Parquet => Self::Parquet(Arc::new(TableSchema::parse(bytes)?)),
            TableKind::Arrow => Self::Arrow(Arc::new(TableHead::parse(bytes)?)),
        })
    }

    /// Form in which an index keeps it.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Parquet(schema) => schema.bytes(),
            Self::Arrow(head) => head.bytes(),
        }
    }

    /// Names of the classes of columns, as the writer has noted them.
    pub(super) fn class_names(&self) -> Cow<'_, ClassNames> {
        match self {
            Self::Parquet(schema) => Cow::Borrowed(schema.class_names()),
            Self::Arrow(head) => Cow::Owned(class_names(head.note(CLASSES_NOTE))),
        }
    }

    pub(super) fn fields(&self) -> &Fields {
        match self {
            Self::Parquet(schema) => schema.fields(),
            Self::Arrow(head) => head.fields(),
        }
    }

    /// Checks a group of rows, with the offsets of all columns, of a file of `file_bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a group that the file cannot have.
    pub(super) fn check(&self, group: &Group, file_bytes: u64) -> Result<()> {
        let columns = match self {
            Self::Parquet(schema) => schema.leaf_count(),
            // A batch has one part with all columns.
            Self::Arrow(_) => 1,
        };
        if group.chunks.len() != columns || group.bounds.len() != columns && !group.bounds.is_empty() {
            return Err(Error::format("a group of rows has a different number of columns than the file"));
        }
        if group.rows > 0 && columns == 0 {
            return Err(Error::format("a group of rows has no columns"));
        }
        let mut bytes = 0_u64;
        for (number, chunk) in group.chunks.iter().enumerate() {
            if chunk.start.checked_add(chunk.bytes).is_none_or(|end| end > file_bytes) {
                return Err(Error::format("the bytes of a column are not in the file").with("column", number));
            }
            let is_of_rows = match self {
                Self::Parquet(schema) => schema.has_value_of_each_row(number),
                Self::Arrow(_) => true,
            };
            // A list has a value for its row at least.
            let is_other = if is_of_rows { chunk.values != group.rows } else { chunk.values < group.rows };
            if is_other || i64::try_from(chunk.values).is_err() {
                let message = format!("a group of {} rows has a column of {} values", group.rows, chunk.values);
                return Err(Error::format(message).with("column", number));
            }
            bytes = bytes.saturating_add(chunk.unpacked);
        }
        if bytes != group.bytes {
            return Err(Error::format("a group of rows has a different number of bytes than its columns together"));
        }
        Ok(())
    }

    /// Returns the numbers of the file's columns that have the values of `column`.
    fn parts(&self, column: &TableColumn) -> Vec<usize> {
        if column.path.is_empty() {
            // It is made of the remaining columns.
            return Vec::new();
        }
        match self {
            Self::Parquet(schema) => schema.leaves(&column.path),
            Self::Arrow(head) => {
                let root = column.path.first().and_then(|root| head.fields().find(root));
                root.map(|(number, _)| number).into_iter().collect()
            }
        }
    }
}

/// Columns that a loader reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wanted {
    /// Names; `None` for all.
    pub(super) columns: Option<Vec<String>>,
    /// Those with a default, which a file may lack.
    pub(super) optional: Vec<String>,
    /// Values may be null: the rows have a list of their columns without a null.
    pub(super) may_be_null: bool,
}

impl Wanted {
    /// Returns the columns that a loader of `fields` reads, each once. Those with a default may be absent, and all of
    /// them if it `may_lack_all`. Values may be null if columns may be absent, or if they `may_be_null`.
    pub(super) fn of(fields: Option<&[(String, FieldSpec)]>, may_lack_all: bool, may_be_null: bool) -> Self {
        let may_be_null = may_be_null || may_lack_all;
        let Some(fields) = fields else { return Self { may_be_null, ..Self::default() } };
        let uses = columns_of(fields);
        let named = |is_wanted: &dyn Fn(&ColumnUse<'_>) -> bool| {
            let wanted = uses.iter().filter(|column| is_wanted(column));
            let mut names: Vec<String> = wanted.map(|column| column.name.to_owned()).collect();
            names.sort_unstable();
            names
        };
        let optional = named(&|column| column.has_default || may_lack_all);
        let may_be_null = may_be_null || !optional.is_empty();
        Self { columns: Some(named(&|_| true)), optional, may_be_null }
    }
}

/// Columns of a file that are read.
#[derive(Clone)]
pub(super) struct Projection {
    pub(super) columns: Vec<TableColumn>,
    /// Numbers of the file's columns that have their values, in order.
    pub(super) parts: Vec<usize>,
}

impl Projection {
    /// Returns the columns `wanted` of a table, and of `partitions`, the columns in the paths of the files. A column of
    /// the table with the name of one of these comes first.
    pub(super) fn new(table: &Table, wanted: &Wanted, partitions: &[TableColumn]) -> Result<Self> {
        let is_in_file = |name: &str| table.fields().find(name).is_some();
        let partitions: Vec<&TableColumn> = partitions.iter().filter(|column| !is_in_file(&column.name)).collect();
        let is_partition = |name: &String| partitions.iter().any(|column| column.name == *name);
        let names = wanted.columns.as_ref().map(|names| names.iter().filter(|name| !is_partition(name)));
        let names: Option<Vec<String>> = names.map(|names| names.cloned().collect());
        let mut columns = columns(table.fields(), names.as_deref(), &wanted.optional)?;
        let is_wanted =
            |column: &&&TableColumn| wanted.columns.as_ref().is_none_or(|names| names.contains(&column.name));
        columns.extend(partitions.iter().filter(is_wanted).map(|column| (*column).clone()));
        if wanted.may_be_null {
            columns.push(list_of_columns());
        }
        let mut parts: Vec<usize> = columns.iter().flat_map(|column| table.parts(column)).collect();
        parts.sort_unstable();
        parts.dedup();
        Ok(Self { columns, parts })
    }
}
