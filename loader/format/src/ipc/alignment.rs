//! Descriptions of messages with vectors at offsets that flatbuffers does not allow, as old versions of polars (1.9)
//! write them.
//!
//! Such a vector is copied behind the description, to an offset that is a multiple of its elements' alignment, and the
//! field of its table is changed to name it there. All remaining fields keep their offsets.

/// Alignment of the vectors of a batch.
const ALIGNMENT: usize = 8;

/// Vectors of a batch: number of the field, and bytes of an element.
const VECTORS: [(usize, usize); 3] = [(1, 16), (2, 16), (4, 8)];

/// Fields of a message and of a dictionary's batch.
const HEADER_TYPE: usize = 1;
const HEADER: usize = 2;
const DATA: usize = 1;

/// Numbers of the types of a message's header.
const DICTIONARY: u8 = 2;
const BATCH: u8 = 3;

/// Returns the description `message` with all vectors at allowed offsets; `None` if they are there already, or if it is
/// damaged.
pub(super) fn aligned(message: &[u8]) -> Option<Vec<u8>> {
    let batch = batch(message)?;
    let mut out: Option<Vec<u8>> = None;
    for (field, element) in VECTORS {
        let Some(at) = field_at(message, batch, field) else { continue };
        let start = follow(message, at)?;
        if (start + 4).is_multiple_of(ALIGNMENT) {
            continue;
        }
        let len = (word(message, start)? as usize).checked_mul(element)?.checked_add(4)?;
        let vector = message.get(start..start.checked_add(len)?)?;
        let out = out.get_or_insert_with(|| message.to_vec());
        // The number of elements is before them.
        while !(out.len() + 4).is_multiple_of(ALIGNMENT) {
            out.push(0);
        }
        let offset = u32::try_from(out.len() - at).ok()?;
        out[at..at + 4].copy_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(vector);
    }
    out
}

/// Returns the offset of the table of a message's batch.
fn batch(message: &[u8]) -> Option<usize> {
    let root = follow(message, 0)?;
    let kind = *message.get(field_at(message, root, HEADER_TYPE)?)?;
    let header = follow(message, field_at(message, root, HEADER)?)?;
    match kind {
        BATCH => Some(header),
        DICTIONARY => follow(message, field_at(message, header, DATA)?),
        _ => None,
    }
}

/// Returns the offset of the value of field number `field` of the table at `table`.
fn field_at(message: &[u8], table: usize, field: usize) -> Option<usize> {
    let back = word(message, table)?.cast_signed();
    let fields = usize::try_from(i64::try_from(table).ok()? - i64::from(back)).ok()?;
    let bytes = usize::from(half(message, fields)?);
    let entry = 4 + 2 * field;
    let offset = if entry + 2 <= bytes { half(message, fields.checked_add(entry)?)? } else { 0 };
    (offset != 0).then_some(table.checked_add(offset.into())?)
}

/// Returns the position that the offset at `at` names.
fn follow(message: &[u8], at: usize) -> Option<usize> {
    at.checked_add(usize::try_from(word(message, at)?).ok()?).filter(|place| *place < message.len())
}

fn half(message: &[u8], at: usize) -> Option<u16> {
    message.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn word(message: &[u8], at: usize) -> Option<u32> {
    message.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
