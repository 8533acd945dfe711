//! Bytes of a sample to its columns.

use super::fields::{alternatives, unpacked};
use super::member::Members;
use super::name::{KEY, key_and_field};
use super::samples::about;
use crate::Compression;
use crate::columns::{Column, FIELDS, Scratch, Span};
use crate::read_at::ReadAt;
use forebay_core::error::{Error, Result};
use std::ops::Range;

/// Splits `sample` into `columns`. The columns in `optional` may be absent. Compressed files of the columns `packed`
/// are unpacked.
pub(super) fn split(
    columns: &[Column],
    optional: &[String],
    packed: &[String],
    sample: &[u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let Scratch { spans, side, ranks } = scratch;
    spans.resize(columns.len(), Span::Absent);
    // Index among its column's names of the file that was found; the first one has priority.
    ranks.clear();
    ranks.resize(columns.len(), usize::MAX);
    let mut members = Members::of_part(sample);
    let mut key = 0..0;
    let has_fields = columns.iter().any(|column| column.name == FIELDS);
    let mut fields = Vec::new();
    while let Some(member) = members.next_member()? {
        let Some((name, field)) = key_and_field(&member.name).filter(|_| member.is_file) else { continue };
        if key.is_empty() {
            let start = side.len();
            side.extend_from_slice(name);
            key = start..side.len();
        }
        if has_fields {
            fields.push(field.clone());
        }
        for (i, column) in columns.iter().enumerate() {
            let rank = alternatives(&column.name).position(|name| name == field);
            let Some(rank) = rank.filter(|rank| *rank < ranks[i]) else { continue };
            ranks[i] = rank;
            let start = member.content.0 as usize;
            let stored = start..start + member.content.1 as usize;
            spans[i] = match &member.sparse {
                None => Span::Sample(stored),
                Some(map) => {
                    let start = side.len();
                    map.check_room(start).map_err(|e| about(e, name))?;
                    map.expand(&sample[stored], side);
                    Span::Side(start..side.len())
                }
            };
        }
    }
    // After all files are known, as one of several fields may be replaced by a later one.
    for (column, (span, rank)) in columns.iter().zip(spans.iter_mut().zip(&*ranks)) {
        let field = alternatives(&column.name).nth(*rank);
        if packed.contains(&column.name) && field.and_then(unpacked).is_some() {
            *span =
                unpack(span, sample, side).map_err(|e| about(e.with("column", &column.name), &side[key.clone()]))?;
        }
    }
    for (i, column) in columns.iter().enumerate() {
        if column.name == KEY {
            spans[i] = Span::Side(key.clone());
        } else if column.name == FIELDS {
            let start = side.len();
            side.extend_from_slice(fields.join("\n").as_bytes());
            spans[i] = Span::Side(start..side.len());
        } else if ranks[i] == usize::MAX && !optional.contains(&column.name) {
            let message = "the sample has no file of this field: give the field a `default`, if it takes one, or \
                           leave such samples out with skip.missing or skip.errors";
            return Err(about(Error::format(message).with("column", &column.name), &side[key]));
        }
    }
    Ok(())
}

/// Returns the range in `sample` of the content of the file of the column `name`; `None` if there is no file, or one
/// that is stored without its zeros.
pub(super) fn value_range(name: &str, sample: &dyn ReadAt) -> Result<Option<Range<u64>>> {
    let mut members = Members::of_part(sample);
    let (mut place, mut best) = (None, usize::MAX);
    while let Some(member) = members.next_member()? {
        let Some((_, field)) = key_and_field(&member.name).filter(|_| member.is_file) else { continue };
        let rank = alternatives(name).position(|name| name == field);
        if let Some(rank) = rank.filter(|rank| *rank < best) {
            let (start, bytes) = member.content;
            best = rank;
            place = member.sparse.is_none().then_some(start..start + bytes);
        }
    }
    Ok(place)
}

/// Unpacks the file at `span`, within the bounds of the [compression](crate::compression).
fn unpack(span: &Span, sample: &[u8], side: &mut Vec<u8>) -> Result<Span> {
    let Some(packed) = span.bytes(sample, side) else { return Ok(Span::Absent) };
    // The bounds of every stream hold, so no further number is needed.
    let unpacked = Compression::GZIP.decompress_all(&packed, u64::MAX)?;
    let start = side.len();
    side.extend_from_slice(&unpacked);
    Ok(Span::Side(start..side.len()))
}
