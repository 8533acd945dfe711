//! Bytes of a record to its columns.

use std::ops::Range;

use super::example::{Feature, Kind, Numbers, features, numbers, texts};
use super::features::{Values, is_record, values_of};
use super::record::data;
use super::wire::{Fields, damaged};
use crate::error::{Context, Error, Result};
use crate::format::columns::{Column, Scratch, Span};

/// Splits the record `sample` into `columns`, of which those in `optional` may be absent.
pub(in crate::format) fn split(
    columns: &[Column],
    optional: &[String],
    sample: &[u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let data = data(sample)?;
    let Scratch { spans, side, .. } = scratch;
    if is_record(columns) {
        spans.push(Span::Sample(data));
        return Ok(());
    }
    spans.resize(columns.len(), Span::Absent);
    features(sample, data, |feature| {
        let column = columns.iter().position(|column| column.name.as_bytes() == feature.name);
        let Some((i, column)) = column.map(|i| (i, &columns[i])) else { return Ok(()) };
        let found = value(column, &feature, sample, side).context("column", || &column.name)?;
        spans[i] = found.unwrap_or(Span::Absent);
        Ok(())
    })?;
    for (span, column) in spans.iter().zip(columns) {
        if matches!(span, Span::Absent) && !optional.contains(&column.name) {
            let message = "the record has no value of this feature: give the field a `default`, if it takes one, or leave such \
                           records out with on_error=\"skip\"";
            return Err(Error::format(message).with("column", &column.name));
        }
    }
    Ok(())
}

/// Returns the bytes of a column's value, as its encoding reads them; `None` for a feature without values.
fn value(column: &Column, feature: &Feature<'_>, sample: &[u8], side: &mut Vec<u8>) -> Result<Option<Span>> {
    let Some(kind) = feature.kind else { return Ok(None) };
    let values = values_of(&column.encoding);
    let expected = match values {
        Values::Text | Values::Texts => Kind::Bytes,
        Values::Int | Values::Ints => Kind::Int64,
        Values::Float | Values::Floats => Kind::Float,
    };
    if kind != expected {
        let message = format!("a record has a {} here, and others a {}", kind.name(), expected.name());
        return Err(Error::format(message));
    }
    let start = side.len();
    match values {
        Values::Text => {
            let mut texts = texts(sample, feature.list.clone());
            let (Some(first), second) = (texts.next().transpose()?, texts.next().transpose()?) else { return Ok(None) };
            return if second.is_none() { Ok(Some(Span::Sample(first))) } else { Err(several()) };
        }
        Values::Texts => return Ok(Some(Span::Sample(feature.list.clone()))),
        Values::Int | Values::Ints => {
            for part in numbers(sample, feature.list.clone()) {
                match part? {
                    Numbers::Int(int) => side.extend(int.to_le_bytes()),
                    Numbers::Packed(place) => {
                        let mut ints = Fields::new(sample, place);
                        while !ints.is_at_end() {
                            side.extend(ints.varint()?.to_le_bytes());
                        }
                    }
                    Numbers::Word(_) => return Err(damaged()),
                }
            }
        }
        Values::Float | Values::Floats => {
            if let Some(place) = packed(sample, feature.list.clone())? {
                let is_one = place.len() == 4 || values == Values::Floats;
                return if is_one { Ok(Some(Span::Sample(place))) } else { Err(several()) };
            }
            for part in numbers(sample, feature.list.clone()) {
                match part? {
                    Numbers::Packed(place) | Numbers::Word(place) => side.extend_from_slice(&sample[place]),
                    Numbers::Int(_) => return Err(damaged()),
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

/// Returns the place of a list of floats that is one packed part, as usual.
fn packed(sample: &[u8], list: Range<usize>) -> Result<Option<Range<usize>>> {
    let mut parts = numbers(sample, list);
    match (parts.next().transpose()?, parts.next()) {
        (Some(Numbers::Packed(place)), None) if !place.is_empty() && place.len() % 4 == 0 => Ok(Some(place)),
        (Some(Numbers::Packed(place)), None) if !place.is_empty() => Err(damaged()),
        _ => Ok(None),
    }
}

fn several() -> Error {
    Error::format("a record has several values of a feature that has one in those that were counted")
        .hinting("remove the .idx files, so that all records are counted")
}
