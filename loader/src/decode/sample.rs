//! Decoding of one sample: from the columns' bytes to the rows of a batch.

use std::sync::Arc;

use super::box_format::Corners;
use super::boxes;
use super::default;
use super::draw::DrawKey;
use super::image::{ImageDecoder, PictureCounts, StoredPicture};
use super::json_value::JsonScratch;
use super::numeric;
use super::plan::{ArraySource, BoxesField, FieldPlan, ListSource, NumberSource, Step, Work};
use super::ragged::{read_ragged, start_ragged};
use super::row::Row;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::encoding::{DType, NpyArray};

/// Decoder of one thread for a [`FieldPlan`]. It keeps its memory from sample to sample: after the largest sample,
/// JPEGs, numbers, text and bytes allocate nothing here.
pub struct SampleDecoder {
    plan: Arc<FieldPlan>,
    images: ImageDecoder,
    scratch: ValueScratch,
}

/// Memory for the current array or value of JSON.
#[derive(Default)]
struct ValueScratch {
    shape: Vec<usize>,
    /// Elements that are stored in another order.
    values: Vec<u8>,
    json: JsonScratch,
}

impl FieldPlan {
    /// Makes a decoder for one thread.
    pub fn decoder(self: &Arc<Self>) -> SampleDecoder {
        SampleDecoder { plan: Arc::clone(self), images: ImageDecoder::default(), scratch: ValueScratch::default() }
    }
}

impl SampleDecoder {
    /// Decodes one sample. `column` returns a column's stored bytes by its number in the index, `None` if the sample lacks
    /// it, and is called for the plan's columns; `rows` are in the order of [`FieldPlan::outputs`]. After a failure the rows' contents are
    /// unspecified.
    ///
    /// `index` returns the entry of a column in the shard's value index; it may be empty. For a JPEG it is the row
    /// index, which saves decoding above and to the right of the region. The result is the same.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Decode`] or [`crate::ErrorKind::Unsupported`] for a bad sample, with field and column;
    /// [`crate::ErrorKind::Internal`] for rows that are not the plan's.
    pub fn decode<'c, 'i, 'r>(
        &mut self,
        column: impl Fn(usize) -> Option<&'c [u8]>,
        index: impl Fn(usize) -> &'i [u8],
        key: DrawKey,
        rows: impl IntoIterator<Item = Row<'r>>,
    ) -> Result<()> {
        let Self { plan, images, scratch } = self;
        let mismatch = || Error::internal("the sample does not have the plan's rows");
        let mut rows = rows.into_iter();
        images.start_sample();
        for (place, (step, output)) in plan.steps.iter().zip(plan.outputs()).enumerate() {
            let later = &plan.steps[place + 1..];
            let mut row = rows.next().ok_or_else(mismatch)?;
            let decoded = match step.column {
                None => default_of(step).and_then(|value| default::write(value, &mut row)),
                Some(number) => match (column(number), &row) {
                    (_, Row::Filled) => Ok(()),
                    (Some(bytes), _) => match &step.work {
                        Work::Image(field) => {
                            let file = StoredPicture { bytes, index: index(number), group: step.group };
                            let alike = |later: &&Step| step.group.is_some() && later.group == step.group;
                            let later = later.iter().filter(alike).filter_map(Step::picture);
                            images.decode(&file, field, later, key, &mut row)
                        }
                        Work::Boxes(_) | Work::BoxLabels { .. } => {
                            decode_boxes(plan, step, &column, key, &mut row, images, scratch)
                        }
                        _ => decode_step(step, bytes, &mut row, scratch),
                    },
                    (None, _) => default_of(step).and_then(|value| default::write(value, &mut row)),
                }
                .context("column", || &plan.columns()[number].name),
            };
            decoded.context("field", || &output.name)?;
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
        let file = StoredPicture { bytes: file, index: &[], group: None };
        images
            .decode(&file, field, std::iter::empty(), key, &mut Row::Fixed(row))
            .context("column", || step.column.map_or("", |column| &plan.columns()[column].name))
            .context("field", || &named.name)
    }

    /// Returns the counts of pictures since the last call.
    pub fn take_picture_counts(&mut self) -> PictureCounts {
        self.images.take_counts()
    }
}

/// Returns the row of a sample that lacks the value.
fn default_of(step: &Step) -> Result<&[u8]> {
    step.default.as_deref().ok_or_else(|| {
        Error::decode(
            "the sample does not have the value: give the field a `default`, or leave such samples out with on_error=\"skip\"",
        )
    })
}

/// Decodes a stored value, other than a picture, into `row`.
fn decode_step(step: &Step, bytes: &[u8], row: &mut Row<'_>, scratch: &mut ValueScratch) -> Result<()> {
    match &step.work {
        Work::Image(_) | Work::Boxes(_) | Work::BoxLabels { .. } => {
            Err(Error::internal("a picture and its boxes are not values"))
        }
        Work::Scalar { source, dtype } => {
            let out = row.fixed(dtype.size())?;
            match *source {
                NumberSource::Binary(from) => numeric::convert(bytes, from, out, *dtype),
                NumberSource::Text(of) => numeric::parse(bytes, of, out, *dtype),
            }
        }
        Work::OneHot { source, classes, dtype } => {
            let mut number = [0; 8];
            match *source {
                NumberSource::Binary(from) => numeric::convert(bytes, from, &mut number, DType::Int64)?,
                NumberSource::Text(of) => numeric::parse(bytes, of, &mut number, DType::Int64)?,
            }
            let class = i64::from_ne_bytes(number);
            let out = row.fixed(classes * dtype.size())?;
            let place = usize::try_from(class).ok().filter(|class| class < classes).ok_or_else(|| {
                Error::decode("the class is not among those of the OneHot field: raise its `classes`")
                    .with("class", class)
                    .with("classes", classes)
            })?;
            out.fill(0);
            numeric::fill(1, &mut out[place * dtype.size()..][..dtype.size()], *dtype)
        }
        Work::Tokens { source, length, dtype, pad, truncate } => {
            let ValueScratch { shape, values: side, .. } = scratch;
            let (from, mut values) = read_array(source, bytes, shape, side)?;
            let Some(length) = length else {
                let Row::Var(out) = row else {
                    return Err(Error::internal("tokens cannot be decoded into memory of this kind"));
                };
                return numeric::convert(
                    values,
                    from,
                    start_ragged(out, *dtype, &[values.len() / from.size()])?,
                    *dtype,
                );
            };
            if *truncate {
                values = &values[..values.len().min(length * from.size())];
            }
            write_tokens(values, from, row.fixed(length * dtype.size())?, *dtype, *pad)
        }
        Work::Length { source } => {
            let ValueScratch { shape, values: side, .. } = scratch;
            let length = match source {
                ArraySource::Bytes(stored) => bytes.len() / stored.size(),
                source => {
                    read_values(source, bytes, shape, side)?;
                    *shape.first().ok_or_else(|| Error::decode("the array has no dimensions, so it has no length"))?
                }
            };
            numeric::fill(length as i64, row.fixed(size_of::<i64>())?, DType::Int64)
        }
        Work::Array { source, dtype, shape: fixed } => {
            let ValueScratch { shape, values: side, .. } = scratch;
            let (from, values) = match source {
                ArraySource::Array(_) => read_array(source, bytes, shape, side)?,
                // numpy's files may have no dimensions or no elements.
                source => read_values(source, bytes, shape, side)?,
            };
            if let Some(fixed) = fixed
                && fixed != shape
            {
                return Err(Error::decode(
                    "the array has another shape than the field: leave `shape` out for a list of arrays",
                )
                .with("shape", format!("{shape:?}"))
                .with("expected", format!("{fixed:?}")));
            }
            let to = dtype.unwrap_or(from);
            let out = match row {
                Row::Fixed(out) => &mut **out,
                Row::Var(out) => start_ragged(out, to, shape)?,
                _ => return Err(Error::internal("an array cannot be decoded into memory of this kind")),
            };
            numeric::convert(values, from, out, to)
        }
        Work::Json(field) => match field.find(bytes)? {
            Some(value) => field.write(value, row, &mut scratch.json),
            None => default::write(default_of(step)?, row),
        },
        Work::Text => {
            if let Err(e) = std::str::from_utf8(bytes) {
                return Err(Error::decode("the text is not UTF-8").with("byte", e.valid_up_to()));
            }
            row.copy_from(bytes)
        }
        Work::Bytes => row.copy_from(bytes),
    }
}

/// Decodes the boxes of a picture, or their labels, into `row`.
fn decode_boxes<'c>(
    plan: &FieldPlan,
    step: &Step,
    column: impl Fn(usize) -> Option<&'c [u8]>,
    key: DrawKey,
    row: &mut Row<'_>,
    images: &mut ImageDecoder,
    scratch: &mut ValueScratch,
) -> Result<()> {
    let broken = || Error::internal("the boxes of a Joint do not have their picture");
    let lacking = || Error::decode("the sample lacks the picture, the boxes or the labels");
    let stored = |step: &Step| step.column.and_then(&column).ok_or_else(lacking);
    let boxes_step = if let Work::BoxLabels { boxes, .. } = &step.work { &plan.steps[*boxes] } else { step };
    let Work::Boxes(field) = &boxes_step.work else { return Err(broken()) };
    let picture_step = &plan.steps[field.picture];
    let picture = picture_step.picture().ok_or_else(broken)?;
    let first_step = &plan.steps[field.first];
    // A sample that lacks the first picture begins with the next one.
    let first = (field.first != field.picture).then(|| stored(first_step).ok().zip(first_step.picture())).flatten();
    let mut boxes = read_boxes(field, stored(boxes_step)?, scratch)?;
    let (steps, size) = images.steps((stored(picture_step)?, picture), first, key)?;
    boxes::follow(&mut boxes, steps, size);
    let is_kept = |corners: &Corners| field.min_size.is_none_or(|least| boxes::is_large(*corners, least));
    let Row::Var(out) = row else {
        return Err(Error::internal("boxes cannot be decoded into memory of this kind"));
    };
    let Work::BoxLabels { source, dtype, .. } = &step.work else {
        let kept = boxes.iter().filter(|corners| is_kept(corners));
        let out = start_ragged(out, DType::Float32, &[kept.clone().count(), 4])?.as_chunks_mut::<4>().0;
        for (out, number) in out.iter_mut().zip(kept.flat_map(|corners| field.format.numbers(*corners))) {
            *out = (number as f32).to_ne_bytes();
        }
        return Ok(());
    };
    let (from, values) = source.read(stored(step)?, scratch)?;
    let mut shape = scratch.shape.clone();
    if shape.first() != Some(&boxes.len()) {
        return Err(Error::decode("the labels of the sample are not as many as its boxes")
            .with("labels", format!("{shape:?}"))
            .with("boxes", boxes.len()));
    }
    let (to, each) = (dtype.unwrap_or(from), shape[1..].iter().product::<usize>());
    shape[0] = boxes.iter().filter(|corners| is_kept(corners)).count();
    let mut rest = start_ragged(out, to, &shape)?;
    for (place, _) in boxes.iter().enumerate().filter(|(_, corners)| is_kept(corners)) {
        let (out, after) = rest.split_at_mut(each * to.size());
        numeric::convert(&values[place * each * from.size()..][..each * from.size()], from, out, to)?;
        rest = after;
    }
    Ok(())
}

/// Reads stored boxes.
fn read_boxes(field: &BoxesField, bytes: &[u8], scratch: &mut ValueScratch) -> Result<Vec<Corners>> {
    let (from, values) = field.source.read(bytes, scratch)?;
    let mut numbers = vec![0; values.len() / from.size() * size_of::<f64>()];
    numeric::convert(&values, from, &mut numbers, DType::Float64)?;
    // Without boxes, the last dimension may be missing.
    if !numbers.is_empty() && !matches!(scratch.shape[..], [_, 4]) {
        return Err(Error::decode("boxes are four numbers each: an array of shape (k, 4)")
            .with("shape", format!("{:?}", scratch.shape)));
    }
    let numbers = numbers.as_chunks::<8>().0.iter().map(|number| f64::from_ne_bytes(*number));
    let numbers: Vec<f64> = numbers.collect();
    Ok(numbers.as_chunks::<4>().0.iter().map(|one| field.format.corners(*one)).collect())
}

impl ListSource {
    /// Reads a stored list: type and elements. Its shape is in the scratch memory.
    fn read(&self, bytes: &[u8], scratch: &mut ValueScratch) -> Result<(DType, Vec<u8>)> {
        match self {
            Self::Array(source) => {
                let ValueScratch { shape, values: side, .. } = scratch;
                let (dtype, values) = read_values(source, bytes, shape, side)?;
                Ok((dtype, values.to_vec()))
            }
            Self::Json(value) => {
                let found = value.find(bytes)?.ok_or_else(|| Error::decode("the document has no list at this path"))?;
                let mut row = Vec::new();
                value.write(found, &mut Row::Var(&mut row), &mut scratch.json)?;
                let (dtype, shape, values) = read_ragged(&row)?;
                scratch.shape = shape;
                Ok((dtype, values.to_vec()))
            }
        }
    }
}

/// Reads a stored array of at least one dimension. Those of numpy have an element at least.
fn read_array<'a>(
    source: &ArraySource,
    bytes: &'a [u8],
    shape: &mut Vec<usize>,
    side: &'a mut Vec<u8>,
) -> Result<(DType, &'a [u8])> {
    let (dtype, values) = read_values(source, bytes, shape, side)?;
    let may_be_empty = match source {
        ArraySource::Npy => false,
        // Lists of other formats.
        ArraySource::Array(_) | ArraySource::Bytes(_) => true,
    };
    if shape.is_empty() || (values.is_empty() && !may_be_empty) {
        return Err(Error::decode("the array has no elements or no dimensions").with("shape", format!("{shape:?}")));
    }
    Ok((dtype, values))
}

/// Reads a stored array; `side` is used for elements that are stored in another order.
fn read_values<'a>(
    source: &ArraySource,
    bytes: &'a [u8],
    shape: &mut Vec<usize>,
    side: &'a mut Vec<u8>,
) -> Result<(DType, &'a [u8])> {
    // A value of a kind that is not supported stays an error of that kind.
    let of_sample = |e: Error| if e.kind() == ErrorKind::Format { e.of_kind(ErrorKind::Decode) } else { e };
    match source {
        ArraySource::Array(kind) => kind.read(bytes, shape).map_err(of_sample),
        ArraySource::Npy => {
            let array = NpyArray::read(bytes, shape).map_err(of_sample)?;
            Ok((array.dtype, array.into_values(shape, side)))
        }
        ArraySource::Bytes(stored) => {
            shape.clear();
            shape.push(bytes.len() / stored.size());
            Ok((*stored, bytes))
        }
    }
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
