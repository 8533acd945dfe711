//! Footer of a file, reduced to the parts that its rows are read by.

use super::bounds::Bounds;
use super::schema::{END_BYTES, TableSchema};
use super::{damaged, guarded, thrift};
use forebay_core::error::{Error, ErrorKind, Result};
use parquet::basic::{ColumnOrder, Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy, RowGroupMetaData,
};
use serde::{Deserialize, Serialize};

/// Bytes at the end of a file that nearly always have its whole footer.
pub const TAIL_BYTES: u64 = 64 << 10;

/// Longest footer that is read.
pub const FOOTER_BYTES_MAX: u64 = 256 << 20;

/// Footer of a file.
#[derive(Clone, Debug)]
pub struct Footer {
    /// Columns of the file.
    pub schema: TableSchema,
    /// Groups of rows, in order.
    pub groups: Vec<Group>,
}

/// Rows that are stored together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Number of rows.
    pub rows: u64,
    /// Estimate of the bytes of all columns' values, unpacked.
    pub bytes: u64,
    /// Values of each column of the file.
    pub chunks: Vec<Chunk>,
    /// Bounds of the values of each column; empty if they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bounds>,
}

/// Values of a column in a group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64, u8, u64)", into = "(u64, u64, u64, u8, u64)")]
pub struct Chunk {
    /// First byte in the file.
    pub start: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Number of values, nulls included.
    pub values: u64,
    /// Number of the compression in Parquet's format.
    pub compression: u8,
    /// Estimate of the values' bytes, unpacked.
    pub unpacked: u64,
}

impl From<(u64, u64, u64, u8, u64)> for Chunk {
    fn from((start, bytes, values, compression, unpacked): (u64, u64, u64, u8, u64)) -> Self {
        Self { start, bytes, values, compression, unpacked }
    }
}

impl From<Chunk> for (u64, u64, u64, u8, u64) {
    fn from(chunk: Chunk) -> Self {
        (chunk.start, chunk.bytes, chunk.values, chunk.compression, chunk.unpacked)
    }
}

/// Returns the bytes of a footer, with its length and the magic number, from the last bytes of a file of `file_bytes`
/// bytes.
///
/// # Errors
///
/// [`ErrorKind::Format`] for a file that is not in Parquet's format; [`ErrorKind::Unsupported`] for an encrypted one.
pub fn footer_bytes(tail: &[u8], file_bytes: u64) -> Result<u64> {
    let end = tail.len().checked_sub(END_BYTES).and_then(|at| tail[at..].split_first_chunk::<4>());
    let Some((len, magic)) = end else {
        return Err(Error::format(format!("a file of {file_bytes} bytes is not in Parquet's format")));
    };
    match magic {
        b"PAR1" => {}
        b"PARE" => return Err(Error::new(ErrorKind::Unsupported, "the file is encrypted")),
        _ => return Err(Error::format("the file is not in Parquet's format, or is cut off: it does not end in PAR1")),
    }
    let bytes = u64::from(u32::from_le_bytes(*len)) + END_BYTES as u64;
    // The file also begins with the magic number.
    if bytes + magic.len() as u64 > file_bytes {
        return Err(Error::format(format!("a footer of {bytes} bytes is in a file of {file_bytes}")));
    }
    if bytes > FOOTER_BYTES_MAX {
        return Err(Error::format(format!("the footer has {bytes} bytes, more than {FOOTER_BYTES_MAX}")));
    }
    Ok(bytes)
}

impl Footer {
    /// Parses the last bytes of a file of `file_bytes` bytes, at least [`footer_bytes`] of them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a damaged footer, with the number of the row group; [`ErrorKind::Unsupported`] for
    /// columns in further files.
    pub fn parse(tail: &[u8], file_bytes: u64) -> Result<Self> {
        let bytes = footer_bytes(tail, file_bytes)?;
        let start = usize::try_from(bytes).ok().and_then(|bytes| tail.len().checked_sub(bytes));
        let start = start.ok_or_else(|| Error::internal("a footer was not fetched whole"))?;
        let document = &tail[start..tail.len() - END_BYTES];
        guarded(|| {
            thrift::check_schema(document)?;
            let parsed = |statistics| {
                let options = ParquetMetaDataOptions::new()
                    .with_column_stats_policy(statistics)
                    .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
                ParquetMetaDataReader::decode_metadata_with_options(document, Some(&options)).map_err(damaged)
            };
            // Damaged statistics are no reason to refuse the rows.
            let footer =
                parsed(ParquetStatisticsPolicy::KeepAll).or_else(|_| parsed(ParquetStatisticsPolicy::SkipAll))?;
            let orders = footer.file_metadata();
            let group = |(number, group)| {
                let made = Group::new(group, file_bytes - bytes, |column| orders.column_order(column));
                made.map_err(|e| e.with("row_group", number))
            };
            let groups = footer.row_groups().iter().enumerate().map(group).collect::<Result<Vec<Group>>>()?;
            let rows = groups.iter().map(|group| group.rows).fold(0, u64::saturating_add);
            if i64::try_from(rows).is_err() {
                return Err(Error::format(format!(
                    "the footer declares {rows} rows, more than a file can have: the file is damaged"
                )));
            }
            Ok(Self { schema: TableSchema::of_file(footer.file_metadata())?, groups })
        })
    }
}

impl Group {
    /// `end` is the end of all values in the file, and `order` returns the order of a column's values.
    fn new(group: &RowGroupMetaData, end: u64, order: impl Fn(usize) -> ColumnOrder) -> Result<Self> {
        let rows = u64::try_from(group.num_rows())
            .map_err(|_| Error::format("a row group has a negative number of rows: the file is damaged"))?;
        let chunk = |chunk| Chunk::new(chunk, end).map_err(|e| e.with("column", chunk.column_path()));
        let chunks = group.columns().iter().map(chunk).collect::<Result<Vec<Chunk>>>()?;
        let bytes = chunks.iter().map(|chunk| chunk.unpacked).fold(0, u64::saturating_add);
        if rows > 0 && chunks.is_empty() {
            return Err(Error::format("a row group has rows without columns"));
        }
        // A column that is not nested has a value for each row, a list none at least.
        let nested = |chunk: &ColumnChunkMetaData| chunk.column_descr().max_rep_level() > 0;
        let is_other = |(column, chunk): (&ColumnChunkMetaData, &Chunk)| !nested(column) && chunk.values != rows;
        if let Some((column, chunk)) = group.columns().iter().zip(&chunks).find(|pair| is_other(*pair)) {
            let message = format!("a row group of {rows} rows has a column of {} values", chunk.values);
            return Err(Error::format(message).with("column", column.column_path()));
        }
        let bounds = group.columns().iter().enumerate().map(|(number, chunk)| Bounds::of(chunk, order(number)));
        Ok(Self { rows, bytes, chunks, bounds: bounds.collect() })
    }
}

impl Chunk {
    fn new(chunk: &ColumnChunkMetaData, end: u64) -> Result<Self> {
        if chunk.file_path().is_some_and(|path| !path.is_empty()) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a column is stored in a second file, which is not supported",
            ));
        }
        let whole = |number: i64| {
            u64::try_from(number)
                .map_err(|_| Error::format("a column has a negative offset or size: the file is damaged"))
        };
        let first = chunk.dictionary_page_offset().filter(|start| *start > 0).unwrap_or(chunk.data_page_offset());
        let (start, bytes) = (whole(first)?, whole(chunk.compressed_size())?);
        if start.checked_add(bytes).is_none_or(|stop| stop > end) {
            return Err(Error::format("the bytes of a column are not in the file"));
        }
        let values = whole(chunk.num_values())?;
        let width = match chunk.column_type() {
            Type::BOOLEAN => Some(1),
            Type::INT32 | Type::FLOAT => Some(4),
            Type::INT64 | Type::DOUBLE => Some(8),
            Type::INT96 => Some(12),
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(chunk.column_descr().type_length()).ok(),
            Type::BYTE_ARRAY => None,
        };
        let unpacked = match (width, chunk.unencoded_byte_array_data_bytes()) {
            (Some(width), _) => values.saturating_mul(width),
            (None, Some(bytes)) => whole(bytes)?,
            // Without the dictionary's effect.
            (None, None) => whole(chunk.uncompressed_size())?,
        };
        let compression = chunk.compression_codec() as u8;
        Ok(Self { start, bytes, values, compression, unpacked })
    }
}
