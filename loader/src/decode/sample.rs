//! Decoding of one sample: from the columns' bytes to the rows of a batch.

use std::sync::Arc;

use super::draw::DrawKey;
use super::image::{ImageDecoder, PictureCounts};
use super::numeric;
use super::plan::{FieldPlan, NumberSource, TokenSource, Work};
use super::ragged::start_ragged;
use super::row::Row;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::encoding::{ArrayType, DType};

/// Decoder of one thread for a [`FieldPlan`]. It keeps its memory from sample to sample: after the largest sample,
/// JPEGs, numbers, text and bytes allocate nothing here.
pub struct SampleDecoder {
    plan: Arc<FieldPlan>,
    images: ImageDecoder,
    /// Shape of the current array.
    shape: Vec<usize>,
}

impl FieldPlan {
    /// Makes a decoder for one thread.
    pub fn decoder(self: &Arc<Self>) -> SampleDecoder {
        SampleDecoder { plan: Arc::clone(self), images: ImageDecoder::default(), shape: Vec::new() }
    }
}

impl SampleDecoder {
    /// Decodes one sample. `column` returns a column's stored bytes by its number in the index, and is called for the
    /// plan's columns; `rows` are in the order of [`FieldPlan::outputs`]. After a failure the rows' contents are
    /// unspecified.
    ///
    /// `index` returns the entry of a column in the shard's value index; it may be empty. For a JPEG it is the row
    /// index, which saves decoding above and to the right of the region. The result is the same.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Decode`] or [`crate::ErrorKind::Unsupported`] for a bad sample, with field and column;
    /// [`crate::ErrorKind::Internal`] for rows and columns that are not the plan's.
    pub fn decode<'c, 'i, 'r>(
        &mut self,
        column: impl Fn(usize) -> Option<&'c [u8]>,
        index: impl Fn(usize) -> &'i [u8],
        key: DrawKey,
        rows: impl IntoIterator<Item = Row<'r>>,
    ) -> Result<()> {
        let Self { plan, images, shape } = self;
        let mismatch = || Error::internal("the sample does not have the plan's columns and rows");
        let mut rows = rows.into_iter();
        images.start_sample();
        for (step, output) in plan.steps.iter().zip(plan.outputs()) {
            let bytes = column(step.column).ok_or_else(mismatch)?;
            let mut row = rows.next().ok_or_else(mismatch)?;
            decode_step(&step.work, bytes, index(step.column), key, &mut row, images, shape)
                .context("column", || &plan.columns()[step.column].name)
                .context("field", || &output.name)?;
        }
        if rows.next().is_some() { Err(mismatch()) } else { Ok(()) }
    }

    /// Decodes the picture `file` for output number `output` alone, as [`decode`](Self::decode) does, into `row`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_picture(&mut self, output: usize, file: &[u8], key: DrawKey, row: &mut [u8]) -> Result<()> {
        let Self { plan, images, .. } = self;
        let (Some(step), Some(named)) = (plan.steps.get(output), plan.outputs().get(output)) else {
            return Err(Error::internal("there is no such output").with("output", output));
        };
        let Work::Image(field) = &step.work else {
            return Err(Error::internal("the output is not a picture").with("output", output));
        };
        images.start_sample();
        images
            .decode(file, &[], field, key, &mut Row::Fixed(row))
            .context("column", || &plan.columns()[step.column].name)
            .context("field", || &named.name)
    }

    /// Returns the counts of pictures since the last call.
    pub fn take_picture_counts(&mut self) -> PictureCounts {
        self.images.take_counts()
    }
}

/// Decodes a stored value, with its entry in the shard's value index, into `row`.
fn decode_step(
    work: &Work,
    bytes: &[u8],
    index: &[u8],
    key: DrawKey,
    row: &mut Row<'_>,
    images: &mut ImageDecoder,
    shape: &mut Vec<usize>,
) -> Result<()> {
    if let Row::Filled = row {
        return Ok(());
    }
    match work {
        Work::Image(field) => images.decode(bytes, index, field, key, row),
        Work::Scalar { source, dtype } => {
            let out = row.fixed(dtype.size())?;
            match *source {
                NumberSource::Binary(from) => numeric::convert(bytes, from, out, *dtype),
                NumberSource::Text(of) => numeric::parse(bytes, of, out, *dtype),
            }
        }
        Work::Tokens { source, length, dtype, pad, truncate } => {
            let (from, mut values) = match source {
                TokenSource::Array(kind) => read_array(kind, bytes, shape)?,
                TokenSource::Bytes(stored) => (*stored, bytes),
            };
            if *truncate {
                values = &values[..values.len().min(length * from.size())];
            }
            write_tokens(values, from, row.fixed(length * dtype.size())?, *dtype, *pad)
        }
        Work::Length { source } => {
            let length = match source {
                TokenSource::Array(kind) => {
                    kind.read(bytes, shape).map_err(|e| e.of_kind(ErrorKind::Decode))?;
                    *shape.first().ok_or_else(|| Error::decode("the array has no dimensions, so it has no length"))?
                }
                TokenSource::Bytes(stored) => bytes.len() / stored.size(),
            };
            numeric::fill(length as i64, row.fixed(size_of::<i64>())?, DType::Int64)
        }
        Work::Array { kind, dtype } => {
            let (from, values) = read_array(kind, bytes, shape)?;
            let to = dtype.unwrap_or(from);
            let out = match row {
                Row::Fixed(out) => &mut **out,
                Row::Var(out) => start_ragged(out, to, shape)?,
                _ => return Err(Error::internal("an array cannot be decoded into memory of this kind")),
            };
            numeric::convert(values, from, out, to)
        }
        Work::Text => {
            if let Err(e) = std::str::from_utf8(bytes) {
                return Err(Error::decode("the text is not UTF-8").with("byte", e.valid_up_to()));
            }
            row.copy_from(bytes)
        }
        Work::Bytes => row.copy_from(bytes),
    }
}

/// Reads a stored array of at least one dimension and one element; flat arrays, such as documents of tokens, may be empty.
fn read_array<'a>(kind: &ArrayType, bytes: &'a [u8], shape: &mut Vec<usize>) -> Result<(DType, &'a [u8])> {
    let (dtype, values) = kind.read(bytes, shape).map_err(|e| e.of_kind(ErrorKind::Decode))?;
    if shape.is_empty() || (values.is_empty() && !kind.is_flat()) {
        return Err(Error::decode("the array has no elements or no dimensions").with("shape", format!("{shape:?}")));
    }
    Ok((dtype, values))
}

fn write_tokens(values: &[u8], from: DType, out: &mut [u8], dtype: DType, pad: Option<i64>) -> Result<()> {
    let (have, want) = (values.len() / from.size(), out.len() / dtype.size());
    let wrong = |message: &str| Error::decode(message).with("tokens", have).with("length", want);
    if have > want {
        return Err(wrong("the sample has more tokens than a row: raise `length` of Tokens, or set `truncate`"));
    }
    let (head, tail) = out.split_at_mut(have * dtype.size());
    if !tail.is_empty() {
        let pad =
            pad.ok_or_else(|| wrong("the sample has fewer tokens than a row: lower `length` of Tokens, or set `pad`"))?;
        numeric::fill(pad, tail, dtype)?;
    }
    numeric::convert(values, from, head, dtype)
}
