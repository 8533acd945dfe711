//! Arrow's stream and file formats: messages one after another, of which the first has the schema.

use super::read_at::ReadAt;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_schema_from_flatbuffer_bytes;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MessageHeader, MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, DataType, Fields, SchemaRef, UnionMode};
use bytes::Bytes;
use forebay_core::error::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// First bytes of the file format, whose messages begin at byte 8.
const MAGIC: &[u8; 6] = b"ARROW1";

/// First bytes of Feather's first version, which is another format. The second one is the file format.
const FEATHER1: &[u8; 4] = b"FEA1";

/// Longest description of a message.
const HEAD_BYTES_MAX: u64 = 64 << 20;

/// Most bytes of a compressed batch when it is unpacked.
const UNPACKED_BYTES_MAX: i64 = 8 << 30;

/// Bytes before a message: a mark, and the length of its description.
const PREFIX_BYTES: u64 = 8;

/// Places of the rows of a file.
#[derive(Debug)]
pub struct Batches {
    /// The columns.
    pub schema: TableHead,
    /// Batches of rows, in order.
    pub batches: Vec<Batch>,
}

/// Batch of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// First byte of its message.
    pub start: u64,
    /// Bytes of its message.
    pub bytes: u64,
    /// Number of rows.
    pub rows: u64,
}

/// Columns of a file.
#[derive(Clone, Debug)]
pub struct TableHead {
    bytes: Arc<[u8]>,
    schema: SchemaRef,
    version: MetadataVersion,
}

impl PartialEq for TableHead {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for TableHead {}

impl TableHead {
    /// Parses [`bytes`](Self::bytes).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for other bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        guarded(|| {
            let version = root_as_message(bytes).map_err(|e| damaged().caused_by(e.to_string()))?.version();
            let schema = try_schema_from_flatbuffer_bytes(bytes).map_err(of_library)?;
            Ok(Self { bytes: bytes.into(), schema: Arc::new(schema), version })
        })
    }

    /// Form in which an index keeps it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Columns of the table.
    pub fn fields(&self) -> &Fields {
        self.schema.fields()
    }

    /// Reads the columns `roots` of the batch in `message`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for bytes that are not such a batch.
    pub fn read(&self, message: Bytes, roots: &[usize]) -> Result<RecordBatch> {
        guarded(|| {
            let (prefix, head) = lengths(&message).ok_or_else(damaged)?;
            let head = i32::try_from(prefix + head).map_err(|_| damaged())?;
            let body = message.len().checked_sub(head.unsigned_abs() as usize).ok_or_else(damaged)?;
            check_unpacked(&message, head.unsigned_abs() as usize, prefix as usize)?;
            let block = Block::new(0, head, i64::try_from(body).map_err(|_| damaged())?);
            let decoder = FileDecoder::new(self.schema.clone(), self.version).with_projection(roots.to_vec());
            let batch = decoder.read_record_batch(&block, &Buffer::from(message)).map_err(of_library)?;
            batch.ok_or_else(damaged)
        })
    }
}

/// Checks the sizes that the compressed parts of a batch declare, since the library reserves memory for them.
fn check_unpacked(message: &[u8], body: usize, prefix: usize) -> Result<()> {
    let head = message.get(prefix..body).ok_or_else(damaged)?;
    let head = root_as_message(head).map_err(|e| damaged().caused_by(e.to_string()))?;
    let Some(batch) = head.header_as_record_batch().filter(|batch| batch.compression().is_some()) else {
        return Ok(());
    };
    let mut unpacked = 0_i64;
    for part in batch.buffers().into_iter().flatten().filter(|part| part.length() > 0) {
        let start = usize::try_from(part.offset()).ok().and_then(|at| at.checked_add(body)).ok_or_else(damaged)?;
        let size = message.get(start..).and_then(|part| part.first_chunk()).ok_or_else(damaged)?;
        // -1 for a part that is stored as it is.
        unpacked = unpacked.saturating_add(i64::from_le_bytes(*size).max(0));
    }
    if unpacked > UNPACKED_BYTES_MAX {
        return Err(Error::format(format!("a batch of rows declares {unpacked} bytes")));
    }
    Ok(())
}

/// Returns the places of all rows of `file`.
///
/// # Errors
///
/// [`ErrorKind::Format`] for another file, with the place; [`ErrorKind::Unsupported`] for dictionaries and for
/// version 1 of Feather; errors of its storage.
pub fn batches<R: ReadAt + ?Sized>(file: &R) -> Result<Batches> {
    let end = file.bytes();
    let mut front = [0; MAGIC.len()];
    if end >= PREFIX_BYTES {
        file.read_at(&mut front, 0)?;
    }
    if front.starts_with(FEATHER1) {
        let why = "the file is in version 1 of Feather, which is not Arrow's format: write it with version=2";
        return Err(Error::new(ErrorKind::Unsupported, why));
    }
    let mut at = if front == *MAGIC { PREFIX_BYTES } else { 0 };
    let (mut schema, mut batches) = (None, Vec::new());
    // A stream may end without a mark.
    while at + PREFIX_BYTES <= end {
        let mut prefix = [0; PREFIX_BYTES as usize];
        file.read_at(&mut prefix, at)?;
        let (prefix, head) = lengths(&prefix).ok_or_else(|| damaged().with("byte", at))?;
        if head == 0 {
            break;
        }
        if head > HEAD_BYTES_MAX || at + prefix + head > end {
            return Err(damaged().with("byte", at));
        }
        let mut bytes = vec![0; usize::try_from(head).unwrap_or(usize::MAX)];
        file.read_at(&mut bytes, at + prefix)?;
        let message = guarded(|| Message::parse(&bytes)).map_err(|e| e.with("byte", at))?;
        let whole = (prefix + head).checked_add(message.body).filter(|whole| *whole <= end - at);
        let whole = whole.ok_or_else(|| damaged().with("byte", at))?;
        match message.kind {
            MessageHeader::Schema if schema.is_none() => schema = Some(TableHead::parse(&bytes)?),
            MessageHeader::RecordBatch => {
                let schema = schema.as_ref().ok_or_else(damaged);
                schema.and_then(|schema| message.check_rows(schema)).map_err(|e| e.with("byte", at))?;
                batches.push(Batch { start: at, bytes: whole, rows: message.rows });
            }
            MessageHeader::DictionaryBatch => {
                let why = "columns with dictionaries cannot be read from Arrow files: write the file as Parquet";
                return Err(Error::new(ErrorKind::Unsupported, why));
            }
            _ => return Err(damaged().with("byte", at)),
        }
        at += whole;
    }
    let schema = schema.ok_or_else(|| Error::format("the file is not in Arrow's format"))?;
    Ok(Batches { schema, batches })
}

/// Description of a message.
struct Message {
    kind: MessageHeader,
    rows: u64,
    body: u64,
    is_compressed: bool,
}

impl Message {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let message = root_as_message(bytes).map_err(|e| damaged().caused_by(e.to_string()))?;
        let whole = |number: i64| u64::try_from(number).map_err(|_| damaged());
        let batch = message.header_as_record_batch();
        Ok(Self {
            kind: message.header_type(),
            rows: whole(batch.map_or(0, |batch| batch.length()))?,
            body: whole(message.bodyLength())?,
            is_compressed: batch.is_some_and(|batch| batch.compression().is_some()),
        })
    }

    /// Rejects a batch with more rows than its bytes can have, since a shard reserves memory for them before it reads
    /// them.
    fn check_rows(&self, head: &TableHead) -> Result<()> {
        // Of all columns the widest, and not their sum: buffers may share bytes.
        let bits = head.fields().iter().map(|field| row_bits(field.data_type())).max().unwrap_or(0);
        if !self.is_compressed && u128::from(self.rows) * u128::from(bits) > u128::from(self.body) * 8 {
            let message = format!(
                "a batch of rows has {} bytes, which are too few for the {} rows that it declares",
                self.body, self.rows
            );
            return Err(Error::format(message));
        }
        Ok(())
    }
}

/// Least bits of a row in the largest buffer of an array that is not compressed; 0 if rows need none.
fn row_bits(kind: &DataType) -> u64 {
    let times = |count: i32, bits: u64| u64::try_from(count).unwrap_or(0).saturating_mul(bits);
    match kind {
        DataType::Boolean => 1,
        DataType::Union(_, UnionMode::Sparse) => 8,
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::ListView(_) | DataType::Map(..) => 32,
        DataType::Union(_, UnionMode::Dense) => 32,
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) | DataType::LargeListView(_) => 64,
        DataType::Utf8View | DataType::BinaryView => 128,
        DataType::FixedSizeBinary(bytes) => times(*bytes, 8),
        DataType::FixedSizeList(field, len) => times(*len, row_bits(field.data_type())),
        DataType::Struct(fields) => fields.iter().map(|field| row_bits(field.data_type())).max().unwrap_or(0),
        DataType::Dictionary(keys, _) => row_bits(keys),
        kind => kind.primitive_width().map_or(0, |bytes| bytes as u64 * 8),
    }
}

/// Returns the bytes before the description of a message, and those of the description.
fn lengths(message: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = message.split_first_chunk::<4>()?;
    let (prefix, len) = if *first == [0xff; 4] { (8, rest.first_chunk::<4>()?) } else { (4, first) };
    Some((prefix, u64::try_from(i32::from_le_bytes(*len)).ok()?))
}

/// Returns the result of `read`. A panic of the library is an error: the file is damaged in a way that it does not
/// expect.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged()))
}

fn of_library(error: ArrowError) -> Error {
    damaged().caused_by(error)
}

fn damaged() -> Error {
    Error::format("the file is damaged, or not in Arrow's format")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, new_null_array};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
    use arrow_schema::{Field, Schema, UnionFields};

    /// Number of rows that is not in a file for other reasons.
    const ROWS: usize = 1_234;

    /// Returns a stream of one batch of a column of nulls.
    fn stream(kind: &DataType, options: IpcWriteOptions) -> Vec<u8> {
        let column: ArrayRef = new_null_array(kind, ROWS);
        let schema = Arc::new(Schema::new(vec![Field::new("x", kind.clone(), true)]));
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
        writer.write(&RecordBatch::try_new(schema, vec![column]).unwrap()).unwrap();
        writer.into_inner().unwrap()
    }

    /// Returns `file` whose batch and columns declare `rows` rows.
    fn declaring(file: &[u8], rows: u64) -> Vec<u8> {
        let mut out = file.to_vec();
        let places = out.windows(8).enumerate().filter(|(_, bytes)| *bytes == (ROWS as u64).to_le_bytes());
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        assert!(places.len() > 1);
        places.iter().for_each(|at| out[*at..][..8].copy_from_slice(&rows.to_le_bytes()));
        out
    }

    fn item(kind: DataType) -> Arc<Field> {
        Arc::new(Field::new("item", kind, true))
    }

    #[test]
    fn a_batch_whose_bytes_cannot_have_its_rows_is_an_error() {
        let pair = vec![Field::new("a", DataType::Null, true), Field::new("b", DataType::Int16, true)];
        let parts = UnionFields::try_new(vec![0], vec![Field::new("a", DataType::Null, true)]).unwrap();
        for kind in [
            DataType::Boolean,
            DataType::Int32,
            DataType::Decimal256(9, 2),
            DataType::Utf8,
            DataType::LargeBinary,
            DataType::Utf8View,
            DataType::FixedSizeBinary(3),
            DataType::List(item(DataType::Int8)),
            DataType::FixedSizeList(item(DataType::Int8), 3),
            DataType::Struct(pair.into()),
            DataType::Union(parts, UnionMode::Sparse),
        ] {
            let file = stream(&kind, IpcWriteOptions::default());
            assert_eq!(batches(&file[..]).unwrap().batches[0].rows, ROWS as u64, "{kind}");
            // As many rows as bits can be of truth values alone.
            let e = batches(&declaring(&file, file.len() as u64 * 8)[..]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Format, "{kind}");
            assert!(e.to_string().contains("too few for the") && e.to_string().contains("byte"), "{kind}: {e}");
        }
    }

    #[test]
    fn a_batch_may_have_more_rows_than_bytes() {
        let many = 1 << 40;
        let nothing = [DataType::Null, DataType::FixedSizeBinary(0), DataType::Struct(Fields::empty())];
        for kind in nothing {
            let file = declaring(&stream(&kind, IpcWriteOptions::default()), many);
            assert_eq!(batches(&file[..]).unwrap().batches[0].rows, many, "{kind}");
        }
        let zstd = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
        let file = declaring(&stream(&DataType::Int64, zstd), many);
        assert_eq!(batches(&file[..]).unwrap().batches[0].rows, many);
    }
}
