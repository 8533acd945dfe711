//! Bytes of a record to its columns.

use std::ops::Range;

use super::example::{Feature, FeatureKind, Numbers, features, numbers, texts};
use super::features::count_values;
use super::parts::{RecordPart, Values, values_of};
use super::record::data;
use crate::columns::{Column, Scratch, Span};
use crate::wire::Fields;
use forebay_core::error::{Context, Error, Result};

/// Splits the record `sample` into `columns`, which are `parts` of it. Those in `optional` may be absent.
pub(super) fn split(
    columns: &[Column],
    parts: &[RecordPart],
    optional: &[String],
    sample: &[u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let data = data(sample)?;
    let Scratch { spans, side, .. } = scratch;
    let is_whole = |part: &RecordPart| *part == RecordPart::Whole;
    spans.extend(parts.iter().map(|part| if is_whole(part) { Span::Sample(data.clone()) } else { Span::Absent }));
    if parts.iter().all(is_whole) {
        return Ok(());
    }
    let mut failed: Vec<(usize, Error)> = Vec::new();
    features(sample, data.clone(), |feature| {
        let is_named =
            |(column, part): (&Column, &RecordPart)| column.name.as_bytes() == feature.name && !is_whole(part);
        let Some(i) = columns.iter().zip(parts).position(is_named) else { return Ok(()) };
        // Of two features of one name the last counts.
        failed.retain(|(column, _)| *column != i);
        match value(&columns[i], parts[i], &feature, sample, side) {
            Ok(found) => spans[i] = found.unwrap_or(Span::Absent),
            Err(e) => failed.push((i, e)),
        }
        Ok(())
    })?;
    if let Some((i, e)) = failed.into_iter().next() {
        return Err(e).context("column", || &columns[i].name);
    }
    for (span, column) in spans.iter().zip(columns) {
        if matches!(span, Span::Absent) && !optional.contains(&column.name) {
            let message = "the record has no value of this feature: give the field a `default`, if it takes one, or \
                           leave such records out with skip.errors";
            return Err(Error::format(message).with("column", &column.name));
        }
    }
    Ok(())
}

/// Returns the bytes of a column's value, as its encoding reads them; `None` for a feature without values.
fn value(
    column: &Column,
    part: RecordPart,
    feature: &Feature<'_>,
    sample: &[u8],
    side: &mut Vec<u8>,
) -> Result<Option<Span>> {
    let Some(kind) = feature.kind else { return Ok(None) };
    let values = values_of(&column.encoding, part);
    let expected = match values {
        Values::Text | Values::Texts => FeatureKind::Bytes,
        Values::Int | Values::Ints => FeatureKind::Int64,
        Values::Float | Values::Floats => FeatureKind::Float,
    };
    let start = side.len();
    if kind != expected {
        // A list without values may be of any type, as in the counts.
        if count_values(sample, kind, feature.list.clone())?.0 == 0 {
            let is_list = matches!(values, Values::Texts | Values::Ints | Values::Floats);
            return Ok(is_list.then_some(Span::Side(start..start)));
        }
        let message = format!(
            "a record has a {} here, but the records that were counted have a {}",
            kind.name(),
            expected.name()
        );
        return Err(Error::format(message));
    }
    match values {
        Values::Text => {
            let mut texts = texts(sample, feature.list.clone());
            let (Some(first), second) = (texts.next().transpose()?, texts.next().transpose()?) else { return Ok(None) };
            return if second.is_none() { Ok(Some(Span::Sample(first))) } else { Err(several()) };
        }
        Values::Texts => return Ok(Some(Span::Sample(feature.list.clone()))),
        Values::Int | Values::Ints => {
            for part in numbers(sample, kind, feature.list.clone()) {
                match part? {
                    Numbers::Int(int) => side.extend(int.to_le_bytes()),
                    Numbers::Packed(range) => {
                        let mut ints = Fields::new(sample, range);
                        while !ints.is_at_end() {
                            side.extend(ints.varint()?.to_le_bytes());
                        }
                    }
                    Numbers::Word(_) => {}
                }
            }
        }
        Values::Float | Values::Floats => {
            if let Some(range) = packed(sample, feature.list.clone())? {
                let is_one = range.len() == 4 || values == Values::Floats;
                return if is_one { Ok(Some(Span::Sample(range))) } else { Err(several()) };
            }
            for part in numbers(sample, kind, feature.list.clone()) {
                if let Numbers::Packed(range) | Numbers::Word(range) = part? {
                    side.extend_from_slice(&sample[range]);
                }
            }
        }
    }
    let bytes = side.len() - start;
    match (values, bytes) {
        (Values::Int | Values::Float, 0) => Ok(None),
        (Values::Int, bytes) if bytes > 8 => Err(several()),
        (Values::Float, bytes) if bytes > 4 => Err(several()),
        _ => Ok(Some(Span::Side(start..side.len()))),
    }
}

/// Returns the range of a list of floats that is one packed part, as usual.
fn packed(sample: &[u8], list: Range<usize>) -> Result<Option<Range<usize>>> {
    let mut parts = numbers(sample, FeatureKind::Float, list);
    match (parts.next().transpose()?, parts.next()) {
        (Some(Numbers::Packed(range)), None) if !range.is_empty() => Ok(Some(range)),
        _ => Ok(None),
    }
}

fn several() -> Error {
    Error::format("a record has several values of a feature that has one in those that were counted")
        .hinting("Stream(ignore_counts=True) counts the values of all records")
}
