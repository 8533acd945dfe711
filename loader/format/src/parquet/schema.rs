//! Columns of a file, as an Arrow table.

use super::{damaged, guarded, thrift};
use crate::arrow::{CLASSES_NOTE, ClassNames, class_names};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use forebay_core::error::{Error, Result};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::schema::types::SchemaDescPtr;
use std::fmt;
use std::sync::Arc;

/// Bytes after the document of a footer: its length and the magic number.
pub(super) const END_BYTES: usize = 8;

/// Columns of a file.
#[derive(Clone)]
pub struct TableSchema {
    /// Footer without row groups.
    bytes: Arc<[u8]>,
    pub(crate) columns: SchemaDescPtr,
    /// The columns as their rows are read: texts and binary values are views of the pages.
    arrow: SchemaRef,
    class_names: Arc<ClassNames>,
}

impl TableSchema {
    /// Parses [`bytes`](Self::bytes).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for invalid bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        guarded(|| {
            thrift::check_schema(bytes)?;
            let footer = ParquetMetaDataReader::decode_metadata(bytes).map_err(damaged)?;
            Self::new(bytes.into(), footer.file_metadata().clone())
        })
    }

    /// Returns the columns of the file with the schema `file` in its footer.
    pub(super) fn of_file(file: &FileMetaData) -> Result<Self> {
        // Further entries differ from file to file.
        let is_schema = |entry: &&parquet::file::metadata::KeyValue| entry.key == ARROW_SCHEMA_META_KEY;
        let entries = file.key_value_metadata().into_iter().flatten().filter(is_schema).cloned().collect();
        let file = FileMetaData::new(1, 0, None, Some(entries), file.schema_descr_ptr(), None);
        let footer = ParquetMetaData::new(file, Vec::new());
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &footer).finish().map_err(damaged)?;
        bytes.truncate(bytes.len().saturating_sub(END_BYTES));
        Self::new(bytes.into(), footer.file_metadata().clone())
    }

    fn new(bytes: Arc<[u8]>, file: FileMetaData) -> Result<Self> {
        let columns = file.schema_descr_ptr();
        let footer = Arc::new(ParquetMetaData::new(file, Vec::new()));
        let read = |options| ArrowReaderMetadata::try_new(footer.clone(), options);
        let found = read(ArrowReaderOptions::new());
        // Types that another writer has noted may be unknown.
        let found =
            found.or_else(|_| read(ArrowReaderOptions::new().with_skip_arrow_metadata(true))).map_err(damaged)?;
        let arrow = Arc::new(Schema::new(as_views(found.schema().fields())));
        let class_names = Arc::new(class_names(found.schema().metadata().get(CLASSES_NOTE).map(|note| &**note)));
        Ok(Self { bytes, columns, arrow, class_names })
    }

    /// Form in which an index keeps it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Columns of the table.
    pub fn fields(&self) -> &Fields {
        self.arrow.fields()
    }

    /// Names of the classes of columns, as the writer has noted them.
    pub fn class_names(&self) -> &ClassNames {
        &self.class_names
    }

    /// Returns the numbers of the file's columns that have the values below `path`.
    pub fn leaves(&self, path: &[String]) -> Vec<usize> {
        let is_below = |column: &usize| {
            let parts = self.columns.column(*column).path().parts().to_vec();
            parts.len() >= path.len() && parts[..path.len()] == *path
        };
        (0..self.columns.num_columns()).filter(is_below).collect()
    }

    /// Returns the number of the column that has the values of `path`, one for each row; `None` if a value is made of
    /// further values. Such a value is not null because these values are: an empty list has a null in the file, and so
    /// has a struct of nulls.
    pub fn column_of_rows(&self, path: &[String]) -> Option<usize> {
        let is_it = |number: &usize| self.columns.column(*number).path().parts() == path;
        (0..self.columns.num_columns()).find(is_it).filter(|number| self.has_value_of_each_row(*number))
    }

    /// Returns true if the column number `number`, which exists, has a value for each row, or a null: it is in no list.
    pub fn has_value_of_each_row(&self, number: usize) -> bool {
        self.columns.column(number).max_rep_level() == 0
    }

    /// Number of the file's columns.
    pub fn leaf_count(&self) -> usize {
        self.columns.num_columns()
    }

    /// Returns a footer of these columns and of `groups` with `rows` rows, to read them.
    pub(crate) fn reader(&self, groups: Vec<RowGroupMetaData>, rows: i64) -> Result<ArrowReaderMetadata> {
        let file = FileMetaData::new(1, rows, None, None, self.columns.clone(), None);
        let options = ArrowReaderOptions::new().with_schema(self.arrow.clone());
        ArrowReaderMetadata::try_new(Arc::new(ParquetMetaData::new(file, groups)), options).map_err(damaged)
    }
}

impl PartialEq for TableSchema {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for TableSchema {}

impl fmt::Debug for TableSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableSchema").field("fields", self.fields()).finish_non_exhaustive()
    }
}

/// Returns `fields` with views instead of texts and binary values, which are then not copied, and without
/// dictionaries.
fn as_views(fields: &Fields) -> Fields {
    fields.iter().map(|field| Arc::new(as_view(field))).collect()
}

fn as_view(field: &FieldRef) -> Field {
    let inner = |field: &FieldRef| Arc::new(as_view(field));
    let kind = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => {
            let values = Field::new("", (**values).clone(), true);
            as_view(&Arc::new(values)).data_type().clone()
        }
        DataType::List(field) => DataType::List(inner(field)),
        DataType::LargeList(field) => DataType::LargeList(inner(field)),
        DataType::FixedSizeList(field, len) => DataType::FixedSizeList(inner(field), *len),
        DataType::Map(field, sorted) => DataType::Map(inner(field), *sorted),
        DataType::Struct(fields) => DataType::Struct(as_views(fields)),
        kind => kind.clone(),
    };
    // Without notes of the writer, such as extension types.
    Field::new(field.name(), kind, field.is_nullable())
}

/// Returns the error of a file with columns that another program must have changed.
pub(crate) fn different_file() -> Error {
    Error::format("the index belongs to a different file")
}
