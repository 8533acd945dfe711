//! Recipe of a shard that is made of a table's rows.

use super::table::{RowPosition, TableRow, TableRows, append_row, for_each_row, position_in};
use super::{MdsBuilder, ObjectRange, Recipe, Texts};
use crate::arrow::{ClassNames, TableColumn};
use crate::compression::check_expansion;
use crate::layout::Layout;
use crate::parquet::{Bounds, Chunk, Group, Parts, TableSchema, damaged, different_file, guarded};
use arrow_schema::Fields;
use bytes::Bytes;
use forebay_core::error::{Error, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::CompressionCodec;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnChunkMetaDataBuilder, RowGroupMetaData};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Bytes between two columns that are fetched with them: cheaper than a second request.
const GAP_BYTES: u64 = 64 << 10;

/// Advice for rows that become too many bytes. Neighbouring groups up to 16 MiB are a shard together.
const SMALLER_GROUPS: &str = "if they are data, such as padded tokens, write smaller row groups (pyarrow: \
                              row_group_size=10_000) into smaller files: row groups of less than 16 MiB together are \
                              one shard, and 256 MiB of values are always accepted";

/// Bytes and rows of a batch, in which rows are decoded.
const BATCH_BYTES: u64 = 8 << 20;
const BATCH_ROWS_MAX: u64 = 4096;

/// File with the rows to read, with the columns that are wanted of it.
#[derive(Debug, PartialEq, Eq)]
pub struct RowFile {
    /// Key relative to the remote.
    pub key: Arc<str>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Columns of the file.
    pub schema: Arc<TableSchema>,
    /// Columns of the shards, in the order of their layout.
    pub columns: Arc<[TableColumn]>,
    /// Numbers of the file's columns that these need, in order.
    pub leaves: Arc<[usize]>,
    /// Columns that are parts of its path, also those that are not read.
    pub partitions: Arc<[TableColumn]>,
    /// Names of the classes of its labels, if the writer has noted them.
    pub classes: Option<Arc<Texts>>,
}

/// Rows of neighbouring groups of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowGroups {
    /// The file.
    pub file: Arc<RowFile>,
    /// Number of the first group in the file.
    pub first: usize,
    /// The groups, each with a [`Chunk`] for each of the file's `leaves`.
    pub groups: Arc<[Group]>,
    /// The rows, counted from the first of the first group.
    pub rows: Range<u64>,
}

impl RowGroups {
    /// Returns the layout of columns, and the columns in its order.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a name that is used twice.
    pub fn layout(columns: Vec<TableColumn>) -> Result<(Layout, Vec<TableColumn>)> {
        let layout = Layout::mds(columns.iter().map(|column| (column.name.clone(), column.encoding.clone())))?;
        let mut columns = columns;
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((layout, columns))
    }

    /// Estimate of the shard's bytes.
    pub fn file_bytes(&self, layout: &Layout) -> u64 {
        let rows = self.rows.end - self.rows.start;
        MdsBuilder::file_bytes(layout, rows, self.value_bytes())
    }

    /// Estimate of the bytes of all values.
    fn value_bytes(&self) -> u64 {
        let all = self.chunks().map(|chunk| chunk.unpacked).fold(0, u64::saturating_add);
        let share = u128::from(all) * u128::from(self.rows.end - self.rows.start) / u128::from(self.all_rows().max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    fn all_rows(&self) -> u64 {
        self.groups.iter().map(|group| group.rows).fold(0, u64::saturating_add)
    }

    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.groups.iter().flat_map(|group| &group.chunks)
    }

    /// Offsets of the parts of the file that have the columns, in the order of the file.
    fn parts(&self) -> Vec<Range<u64>> {
        let mut all: Vec<Range<u64>> = self.chunks().map(|chunk| chunk.start..chunk.start + chunk.bytes).collect();
        all.sort_by_key(|part| (part.start, part.end));
        let mut parts: Vec<Range<u64>> = Vec::new();
        for part in all.into_iter().filter(|part| !part.is_empty()) {
            match parts.last_mut() {
                Some(last) if part.start <= last.end.saturating_add(GAP_BYTES) => last.end = last.end.max(part.end),
                _ => parts.push(part),
            }
        }
        parts
    }

    fn visit(&self, contents: Vec<Bytes>, mut each: impl FnMut(&TableRow<'_>) -> Result<()>) -> Result<()> {
        let starts = self.parts().into_iter().map(|part| part.start);
        let parts = Parts::new(starts.zip(contents).collect(), self.file.bytes);
        guarded(|| self.read(parts, &mut each)).map_err(|e| e.with("file", &self.file.key))
    }

    fn read(&self, parts: Parts, each: &mut impl FnMut(&TableRow<'_>) -> Result<()>) -> Result<()> {
        let RowFile { schema, columns, leaves, .. } = &*self.file;
        let rows = self.rows.end - self.rows.start;
        let groups = self.groups.iter().map(|group| self.group(group)).collect::<Result<Vec<_>>>()?;
        let all_rows = i64::try_from(self.all_rows()).map_err(|_| different_file())?;
        let footer = schema.reader(groups, all_rows)?;
        let batch_rows = BATCH_BYTES.saturating_mul(rows.max(1)) / self.value_bytes().max(1);
        let count = |rows: u64| usize::try_from(rows).map_err(|_| different_file());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(parts, footer)
            .with_projection(ProjectionMask::leaves(&schema.columns, leaves.iter().copied()))
            .with_batch_size(count(batch_rows.clamp(1, BATCH_ROWS_MAX))?)
            .with_offset(count(self.rows.start)?)
            .with_limit(count(rows)?)
            .build()
            .map_err(damaged)?;
        let mut row = self.rows.start;
        for batch in reader {
            let batch = batch.map_err(|e| Error::format("the file is damaged").caused_by(e))?;
            let count = batch.num_rows() as u64;
            for_each_row(columns, &batch, 0..count, |e, at| self.describe(e, row + at), each)?;
            row += count;
        }
        Ok(())
    }

    /// Adds the position of `row`, counted from the first of the first group, to `error`.
    fn describe(&self, error: Error, row: u64) -> Error {
        let (number, row) = position_in(row, self.groups.iter().map(|group| group.rows));
        error.with("row_group", self.first + number).with("row", row)
    }

    /// Returns the library's description of a group, in which only the columns that are read are described.
    fn group(&self, group: &Group) -> Result<RowGroupMetaData> {
        let schema = &self.file.schema;
        if group.chunks.len() != self.file.leaves.len() {
            return Err(different_file());
        }
        let mut wanted = self.file.leaves.iter().zip(&group.chunks).peekable();
        let column = |number: usize| {
            let column = ColumnChunkMetaData::builder(schema.columns.column(number));
            match wanted.next_if(|(leaf, _)| **leaf == number) {
                Some((_, chunk)) => described(chunk, column),
                None => column.build().map_err(damaged),
            }
        };
        let columns = (0..schema.leaf_count()).map(column).collect::<Result<Vec<_>>>()?;
        let rows = i64::try_from(group.rows).map_err(|_| different_file())?;
        let group = RowGroupMetaData::builder(schema.columns.clone()).set_num_rows(rows).set_column_metadata(columns);
        group.build().map_err(damaged)
    }
}

impl Recipe for RowGroups {
    fn ranges(&self) -> Vec<ObjectRange> {
        let file = &self.file;
        let range = |part: Range<u64>| ObjectRange {
            key: file.key.clone(),
            start: part.start,
            bytes: part.end - part.start,
            object_bytes: Some(file.bytes),
        };
        self.parts().into_iter().map(range).collect()
    }

    fn stored_bytes(&self) -> u64 {
        self.parts().iter().map(|part| part.end - part.start).sum()
    }

    fn assemble(&self, layout: &Layout, samples: u64, parts: Vec<Bytes>) -> Result<Vec<u8>> {
        let bytes = usize::try_from(self.file_bytes(layout)).unwrap_or(usize::MAX);
        let mut file = MdsBuilder::new(layout, bytes).map_err(|e| e.with("file", &self.file.key))?;
        let stored = parts.iter().map(|part| part.len() as u64).sum();
        self.visit(parts, |row| {
            append_row(&mut file, row)?;
            check_expansion(stored, file.bytes()).map_err(|e| e.hinting(SMALLER_GROUPS))
        })?;
        file.finish(samples)
    }

    fn has_exact_size(&self) -> bool {
        false
    }

    fn as_table(&self) -> Option<&dyn TableRows> {
        Some(self)
    }

    fn classes(&self) -> Option<&Texts> {
        self.file.classes.as_deref()
    }
}

impl TableRows for RowGroups {
    fn fields(&self) -> &Fields {
        self.file.schema.fields()
    }

    fn class_names(&self) -> Cow<'_, ClassNames> {
        Cow::Borrowed(self.file.schema.class_names())
    }

    fn partitions(&self) -> &[TableColumn] {
        &self.file.partitions
    }

    fn position_of(&self, index: u64) -> RowPosition {
        let (number, row) = position_in(self.rows.start + index, self.groups.iter().map(|group| group.rows));
        RowPosition { file: self.file.key.clone(), group: self.first + number, row }
    }

    fn bounds(&self, column: usize) -> Option<Bounds> {
        let file = &*self.file;
        let path = file.columns.get(column).map(|column| &column.path).filter(|path| !path.is_empty())?;
        let leaf = file.schema.column_of_rows(path)?;
        let at = file.leaves.iter().position(|number| *number == leaf)?;
        let mut all: Option<Bounds> = None;
        for group in &*self.groups {
            let bounds = group.bounds.get(at)?;
            all = Some(all.map_or_else(|| bounds.clone(), |all| all.joined(bounds)));
        }
        all
    }

    fn for_each_row(&self, parts: Vec<Bytes>, each: &mut dyn FnMut(&TableRow<'_>) -> Result<()>) -> Result<()> {
        self.visit(parts, each)
    }
}

fn described(chunk: &Chunk, column: ColumnChunkMetaDataBuilder) -> Result<ColumnChunkMetaData> {
    let number = |value: u64| i64::try_from(value).map_err(|_| different_file());
    let column = column
        .set_compression_codec(compression(chunk.compression).ok_or_else(different_file)?)
        .set_num_values(number(chunk.values)?)
        .set_data_page_offset(number(chunk.start)?)
        .set_total_compressed_size(number(chunk.bytes)?);
    column.build().map_err(damaged)
}

fn compression(number: u8) -> Option<CompressionCodec> {
    use CompressionCodec as Codec;
    let all = [
        Codec::UNCOMPRESSED,
        Codec::SNAPPY,
        Codec::GZIP,
        Codec::LZO,
        Codec::BROTLI,
        Codec::LZ4,
        Codec::ZSTD,
        Codec::LZ4_RAW,
    ];
    all.into_iter().find(|codec| *codec as u8 == number)
}
