//! Columns of a file, and those that are read of it.

use crate::catalog::column_uses::columns_of;
use crate::decode::FieldSpec;
use crate::error::Result;
use crate::format::ColumnUse;
use crate::format::arrow::{TableColumn, columns};
use crate::format::ipc::TableHead;
use crate::format::parquet::TableSchema;
use arrow_schema::Fields;
use serde::{Deserialize, Serialize};
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

    fn fields(&self) -> &Fields {
        match self {
            Self::Parquet(schema) => schema.fields(),
            Self::Arrow(head) => head.fields(),
        }
    }

    /// Returns the numbers of the file's columns that have the values of `column`.
    fn parts(&self, column: &TableColumn) -> Vec<usize> {
        if column.path.is_empty() {
            // It is made of the others.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::catalog) struct Wanted {
    /// Names; `None` for all.
    pub(super) columns: Option<Vec<String>>,
    /// Those with a default, which a file may lack, and whose values may be null.
    pub(super) optional: Vec<String>,
}

impl Wanted {
    /// Returns the columns that a loader of `fields` reads, each once; all of them may be absent if it `may_lack_all`.
    pub(in crate::catalog) fn of(fields: Option<&[(String, FieldSpec)]>, may_lack_all: bool) -> Self {
        let Some(fields) = fields else { return Self::default() };
        let uses = columns_of(fields);
        let named = |is_wanted: &dyn Fn(&ColumnUse<'_>) -> bool| {
            let wanted = uses.iter().filter(|column| is_wanted(column));
            let mut names: Vec<String> = wanted.map(|column| column.name.to_owned()).collect();
            names.sort_unstable();
            names
        };
        let optional = named(&|column| column.has_default || may_lack_all);
        Self { columns: Some(named(&|_| true)), optional }
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
    pub(super) fn new(table: &Table, wanted: &Wanted) -> Result<Self> {
        let columns = columns(table.fields(), wanted.columns.as_deref(), &wanted.optional)?;
        let mut parts: Vec<usize> = columns.iter().flat_map(|column| table.parts(column)).collect();
        parts.sort_unstable();
        parts.dedup();
        Ok(Self { columns, parts })
    }
}
