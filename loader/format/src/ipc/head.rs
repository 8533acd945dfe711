//! Columns of a file, and its rows.

use super::alignment;
use super::dictionaries::add_ids;
use super::guard::{damaged, guarded, of_library};
use super::message::{MAGIC, lengths};

use crate::compression::check_expansion;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::{try_fb_to_schema, try_schema_from_flatbuffer_bytes};
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_ipc::{Block, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{Fields, SchemaRef};
use bytes::Bytes;
use forebay_core::error::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// Most bytes of a compressed batch when it is unpacked.
const UNPACKED_BYTES_MAX: i64 = 8 << 30;

/// Columns of a file.
#[derive(Clone, Debug)]
pub struct TableHead {
    bytes: Arc<[u8]>,
    schema: SchemaRef,
    version: MetadataVersion,
}

/// Offsets of messages in a footer.
pub(super) struct Blocks {
    pub(super) batches: Vec<Block>,
    pub(super) dictionaries: Vec<Block>,
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
    /// [`crate::ErrorKind::Format`] for invalid bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        guarded(|| {
            if let Some(footer) = bytes.strip_prefix(MAGIC) {
                return Ok(Self { bytes: bytes.into(), ..Self::of_footer(footer)?.0 });
            }
            let version = root_as_message(bytes).map_err(|e| damaged().caused_by(e.to_string()))?.version();
            let schema = try_schema_from_flatbuffer_bytes(bytes).map_err(of_library)?;
            Ok(Self { bytes: bytes.into(), schema: Arc::new(schema), version })
        })
    }

    /// Parses the footer of a file. Returns the offsets of its messages, too.
    pub(super) fn of_footer(bytes: &[u8]) -> Result<(Self, Blocks)> {
        let footer = root_as_footer(bytes).map_err(|e| damaged().caused_by(e.to_string()))?;
        let (schema, version) = (footer.schema().ok_or_else(damaged)?, footer.version());
        let schema = Arc::new(try_fb_to_schema(schema).map_err(of_library)?);
        let mut ids = HashSet::new();
        schema.fields().iter().for_each(|field| add_ids(field, &mut ids));
        // As a message the schema is short, and the same for all files with these columns. The library gives
        // dictionaries different numbers in it.
        let bytes = match message_of(&schema, version) {
            Some(message) if ids.is_empty() => message.into(),
            _ => [MAGIC, bytes].concat().into(),
        };
        let blocks = Blocks {
            batches: footer.recordBatches().into_iter().flatten().copied().collect(),
            dictionaries: footer.dictionaries().into_iter().flatten().copied().collect(),
        };
        Ok((Self { bytes, schema, version }, blocks))
    }

    /// Form in which an index keeps it: the message with the schema, or the magic number and the footer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Columns of the table.
    pub fn fields(&self) -> &Fields {
        self.schema.fields()
    }

    /// Returns the writer's note `key`.
    pub fn note(&self, key: &str) -> Option<&str> {
        self.schema.metadata().get(key).map(|note| &**note)
    }

    /// Numbers of the dictionaries that the columns `roots` need; `None` for all columns.
    pub fn dictionaries(&self, roots: Option<&[usize]>) -> HashSet<i64> {
        let mut found = HashSet::new();
        let fields = self.fields().iter().enumerate();
        let wanted = fields.filter(|(number, _)| roots.is_none_or(|roots| roots.contains(number)));
        wanted.for_each(|(_, field)| add_ids(field, &mut found));
        found
    }

    /// Returns a reader of the columns `roots`.
    pub fn reader(&self, roots: &[usize]) -> Reader {
        Reader(FileDecoder::new(self.schema.clone(), self.version).with_projection(roots.to_vec()))
    }
}

/// Returns the message with `schema`, if the library writes it without a loss.
fn message_of(schema: &SchemaRef, version: MetadataVersion) -> Option<Vec<u8>> {
    let options = IpcWriteOptions::try_new(8, false, version).ok()?;
    let mut tracker = DictionaryTracker::new(false);
    let written = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &options);
    let read = try_schema_from_flatbuffer_bytes(&written.ipc_message).ok()?;
    (read == **schema).then_some(written.ipc_message)
}

/// Reader of the rows of a file.
pub struct Reader(FileDecoder);

impl Reader {
    /// Reads the dictionary in `message`, which counts for the batches after it.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that are not a dictionary of the table.
    pub fn add_dictionary(&mut self, message: Bytes) -> Result<()> {
        guarded(|| {
            let (message, block) = block(message)?;
            self.0.read_dictionary(&block, &Buffer::from(message)).map_err(of_library)
        })
    }

    /// Reads the batch in `message`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that are not such a batch.
    pub fn read(&self, message: Bytes) -> Result<RecordBatch> {
        guarded(|| {
            let (message, block) = block(message)?;
            let batch = self.0.read_record_batch(&block, &Buffer::from(message)).map_err(of_library)?;
            batch.ok_or_else(damaged)
        })
    }
}

/// Returns `message` as the library reads it, and the offset of the body in it.
fn block(mut message: Bytes) -> Result<(Bytes, Block)> {
    let (mut prefix, mut head) = lengths(&message).ok_or_else(damaged)?;
    let parts = message.split_at_checked((prefix + head) as usize).ok_or_else(damaged)?;
    if let Some(aligned) = alignment::aligned(&parts.0[prefix as usize..]) {
        let padded = aligned.len().next_multiple_of(8);
        let len = i32::try_from(padded).map_err(|_| damaged())?;
        let pad = vec![0; padded - aligned.len()];
        message = [&[0xff; 4], &len.to_le_bytes()[..], &aligned, &pad, parts.1].concat().into();
        (prefix, head) = (8, padded as u64);
    }
    let head = i32::try_from(prefix + head).map_err(|_| damaged())?;
    let body = message.len().checked_sub(head.unsigned_abs() as usize).ok_or_else(damaged)?;
    check_unpacked(&message, head.unsigned_abs() as usize, prefix as usize)?;
    let block = Block::new(0, head, i64::try_from(body).map_err(|_| damaged())?);
    Ok((message, block))
}

/// Checks the sizes that the compressed parts of a batch declare, since the library reserves memory for them.
fn check_unpacked(message: &[u8], body: usize, prefix: usize) -> Result<()> {
    let head = message.get(prefix..body).ok_or_else(damaged)?;
    let head = root_as_message(head).map_err(|e| damaged().caused_by(e.to_string()))?;
    let of_dictionary = head.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let batch = head.header_as_record_batch().or(of_dictionary);
    let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return Ok(()) };
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
    // Parts may share bytes of the message.
    check_expansion(message.len() as u64, unpacked.unsigned_abs())
}
