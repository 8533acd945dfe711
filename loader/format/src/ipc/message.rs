//! Descriptions of the messages of an Arrow IPC file.

use super::alignment;
use super::guard::damaged;
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::{DataType, Fields, UnionMode};
use forebay_core::error::{Error, Result};

/// First bytes of the file format, with messages from byte 8 on, and its last ones.
pub(super) const MAGIC: &[u8; 6] = b"ARROW1";

/// Longest description of a message.
pub(super) const HEAD_BYTES_MAX: u64 = 64 << 20;

/// Bytes before a message: a mark, and the length of its description.
pub(super) const PREFIX_BYTES: u64 = 8;

/// Description of a message.
pub(super) struct Message {
    pub(super) kind: MessageHeader,
    pub(super) rows: u64,
    pub(super) body: u64,
    /// Number of a dictionary, and true if its values come after the values of the one before it.
    pub(super) dictionary: Option<(i64, bool)>,
    is_compressed: bool,
}

impl Message {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let aligned = alignment::aligned(bytes);
        let bytes = aligned.as_deref().unwrap_or(bytes);
        let message = root_as_message(bytes).map_err(|e| damaged().caused_by(e.to_string()))?;
        let whole = |number: i64| u64::try_from(number).map_err(|_| damaged());
        let batch = message.header_as_record_batch();
        let dictionary = message.header_as_dictionary_batch();
        Ok(Self {
            kind: message.header_type(),
            rows: whole(batch.map_or(0, |batch| batch.length()))?,
            dictionary: dictionary.map(|dictionary| (dictionary.id(), dictionary.isDelta())),
            body: whole(message.bodyLength())?,
            is_compressed: batch.is_some_and(|batch| batch.compression().is_some()),
        })
    }

    /// Rejects a batch with more rows than its bytes can have, since a shard reserves memory for them before it reads
    /// them.
    pub(super) fn check_rows(&self, fields: &Fields) -> Result<()> {
        // Of all columns the widest, and not their sum: buffers may share bytes.
        let bits = fields.iter().map(|field| row_bits(field.data_type())).max().unwrap_or(0);
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

/// Returns the bytes before the description of a message, and the bytes of the description.
pub(super) fn lengths(message: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = message.split_first_chunk::<4>()?;
    let (prefix, len) = if *first == [0xff; 4] { (8, rest.first_chunk::<4>()?) } else { (4, first) };
    Some((prefix, u64::try_from(i32::from_le_bytes(*len)).ok()?))
}
