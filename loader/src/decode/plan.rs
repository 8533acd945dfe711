//! From what the user asks for to what is done per sample: checked once, before any thread starts.

use std::sync::Arc;

use super::draw::FieldDraws;
use super::dtype::DType;
use super::field::{Column, FieldSpec, Layout, Op};
use super::geometry::{Size, resize_to};
use super::image::{Content, ImageEncoding, ImageField, Limits, Reading};
use super::ndarray::{ArrayEncoding, elements};
use super::normalise::{PictureForm, Writer};
use super::numeric;
use super::sample::SampleDecoder;
use crate::error::{Context, Error, Result};

/// One output of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its key in the batch.
    pub name: String,
    /// The element type; of ragged arrays without a fixed type, text and bytes: `uint8`.
    pub dtype: DType,
    /// What a row of it is.
    pub shape: RowShape,
}

/// What a row of an output is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowShape {
    /// A row of a tensor, with these dimensions behind the batch's; none for a scalar.
    Fixed(Vec<usize>),
    /// UTF-8 text of any length.
    Text,
    /// Bytes of any length.
    Bytes,
    /// An array with its own type and shape: see [`crate::decode::ndarray::read_ragged`].
    RaggedArray,
}

impl Output {
    /// Bytes of a fixed row, `None` for the others.
    pub fn row_bytes(&self) -> Option<usize> {
        match &self.shape {
            RowShape::Fixed(shape) => Some(elements(shape).unwrap_or(usize::MAX).saturating_mul(self.dtype.size())),
            _ => None,
        }
    }
}

/// An output whose rows are the bytes of a column as they are stored, so that they can be read straight into place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Its number among the outputs.
    pub output: usize,
    /// Its column's number in the index. No other output needs it.
    pub column: usize,
    /// Bytes of a sample before the column.
    pub before: usize,
    /// Bytes of a sample behind the column.
    pub after: usize,
}

/// Where a scalar comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum NumberSource {
    /// Stored elements.
    Binary(DType),
    /// Text of an int64 or a float64.
    Text(DType),
}

/// What is done for one output.
#[derive(Debug)]
pub(super) enum Work {
    Image(ImageField),
    Scalar {
        source: NumberSource,
        dtype: DType,
    },
    /// The source is an array, or bytes of a type.
    Tokens {
        source: Result<ArrayEncoding, DType>,
        length: usize,
        dtype: DType,
        pad: Option<i64>,
    },
    Array {
        encoding: ArrayEncoding,
        dtype: Option<DType>,
    },
    Text,
    Bytes,
}

impl Work {
    /// Whether a row, where it is as long as the stored value, is the stored value.
    fn is_copy(&self) -> bool {
        let as_stored =
            |stored: DType, out: DType| stored == out && (cfg!(target_endian = "little") || out.size() == 1);
        let fixed = |encoding: &ArrayEncoding, out: Option<DType>| {
            let stored = encoding.dtype.filter(|_| encoding.shape.is_some());
            stored.is_some_and(|stored| as_stored(stored, out.unwrap_or(stored)))
        };
        match self {
            Self::Bytes => true,
            Self::Array { encoding, dtype } => fixed(encoding, *dtype),
            Self::Tokens { source: Ok(encoding), dtype, .. } => fixed(encoding, Some(*dtype)),
            Self::Tokens { source: Err(stored), dtype, .. } => as_stored(*stored, *dtype),
            Self::Image(_) | Self::Scalar { .. } | Self::Text => false,
        }
    }
}

/// One output's column and work.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) column: usize,
    pub(super) work: Work,
}

/// The fields of a data set, compiled.
#[derive(Debug)]
pub struct FieldPlan {
    columns: Vec<Column>,
    outputs: Vec<Output>,
    steps: Vec<Step>,
    used: Vec<usize>,
}

impl FieldPlan {
    /// Compiles `fields` for a data set with `columns`, with the default [`Limits`]. Without fields every column comes
    /// out under its own name: numbers as scalars, arrays as arrays, strings as text, everything else as bytes.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`]: a column that does not exist or whose encoding does not fit the field, arguments
    /// outside of their range, two outputs of one name; each names the field.
    pub fn compile(fields: Option<&[(String, FieldSpec)]>, columns: &[Column], augment_seed: u64) -> Result<Arc<Self>> {
        Self::compile_within(fields, columns, augment_seed, Limits::default())
    }

    /// The same with other limits.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_within(
        fields: Option<&[(String, FieldSpec)]>,
        columns: &[Column],
        augment_seed: u64,
        limits: Limits,
    ) -> Result<Arc<Self>> {
        let mut plan = Self { columns: columns.to_vec(), outputs: Vec::new(), steps: Vec::new(), used: Vec::new() };
        match fields {
            None => {
                for column in columns {
                    let draws = FieldDraws::new(augment_seed, &column.name);
                    plan.add(&column.name, &undecoded(column)?, draws, limits)?;
                }
            }
            Some([]) => return Err(Error::config("`fields` is empty: name at least one field, or leave it out")),
            Some(fields) => {
                for (name, spec) in fields {
                    let draws = FieldDraws::new(augment_seed, name);
                    if let FieldSpec::Joint { fields } = spec {
                        check_joint(fields).context("joint", || name)?;
                        for (inner, spec) in fields {
                            plan.add(inner, spec, draws, limits).context("joint", || name)?;
                        }
                    } else {
                        plan.add(name, spec, draws, limits)?;
                    }
                }
            }
        }
        plan.used = plan.steps.iter().map(|s| s.column).collect();
        plan.used.sort_unstable();
        plan.used.dedup();
        Ok(Arc::new(plan))
    }

    fn add(&mut self, name: &str, spec: &FieldSpec, draws: FieldDraws, limits: Limits) -> Result<()> {
        if self.outputs.iter().any(|o| o.name == name) {
            return Err(Error::config("two outputs have the same name").with("field", name));
        }
        let (column, work, dtype, shape) = self.step(spec, draws, limits).context("field", || name)?;
        self.outputs.push(Output { name: name.to_owned(), dtype, shape });
        self.steps.push(Step { column, work });
        Ok(())
    }

    fn step(&self, spec: &FieldSpec, draws: FieldDraws, limits: Limits) -> Result<(usize, Work, DType, RowShape)> {
        Ok(match spec {
            FieldSpec::Image { column, ops, dtype, layout, tolerant, apply_exif_orientation, scaled_decode } => {
                let (size, normalise) = check_ops(ops, limits)?;
                let writer = Writer::new(*dtype, *layout, normalise)?;
                let reading = Reading {
                    tolerant: *tolerant,
                    apply_exif_orientation: *apply_exif_orientation,
                    scaled_decode: *scaled_decode,
                };
                self.pictures(column, ops, Content::Colours, size, writer, reading, draws, limits)?
            }
            FieldSpec::Mask { column, ops, dtype } => {
                let (size, normalise) = check_ops(ops, limits)?;
                if normalise.is_some() {
                    return Err(Error::config("a Mask holds labels: Normalize would change them"));
                }
                let reading = Reading::default();
                self.pictures(column, ops, Content::Labels, size, Writer::labels(*dtype)?, reading, draws, limits)?
            }
            FieldSpec::Scalar { column, dtype } => {
                let (index, column) = self.find(column)?;
                let source =
                    numbers(column)?.ok_or_else(|| unfit(column, "a Scalar field needs a column of numbers"))?;
                let (NumberSource::Binary(own) | NumberSource::Text(own)) = source;
                let dtype = dtype.unwrap_or(own);
                (index, Work::Scalar { source, dtype }, dtype, RowShape::Fixed(Vec::new()))
            }
            FieldSpec::Tokens { column, length, dtype, pad, stored } => {
                let (index, column) = self.find(column)?;
                let source = match ArrayEncoding::parse(&column.encoding)? {
                    _ if column.text => return Err(unfit(column, "a Tokens field needs an ndarray or bytes column")),
                    Some(encoding) => Ok(encoding),
                    None if column.encoding == "bytes" => Err(stored.ok_or_else(|| {
                        unfit(column, "a bytes column does not say what its tokens are: pass e.g. stored=\"uint16\"")
                    })?),
                    None => return Err(unfit(column, "a Tokens field needs an ndarray or bytes column")),
                };
                if *length == 0 || length.checked_mul(8).is_none_or(|b| b > isize::MAX as usize) {
                    return Err(Error::config("`length` of Tokens must be at least 1").with("length", length));
                }
                if dtype.is_float() {
                    return Err(Error::config("tokens are integers").with("dtype", dtype));
                }
                if let Some(pad) = pad {
                    numeric::fill(*pad, &mut [0; 8][..dtype.size()], *dtype).map_err(|_| {
                        Error::config("`pad` does not fit the dtype").with("pad", pad).with("dtype", dtype)
                    })?;
                }
                let work = Work::Tokens { source, length: *length, dtype: *dtype, pad: *pad };
                (index, work, *dtype, RowShape::Fixed(vec![*length]))
            }
            FieldSpec::Array { column, dtype } => {
                let (index, column) = self.find(column)?;
                let encoding = ArrayEncoding::parse(&column.encoding)?.filter(|_| !column.text);
                let encoding = encoding.ok_or_else(|| unfit(column, "an Array field needs an ndarray column"))?;
                let out = dtype.or(encoding.dtype).unwrap_or(DType::UInt8);
                let shape = match &encoding.shape {
                    Some(shape) => RowShape::Fixed(shape.clone()),
                    None => RowShape::RaggedArray,
                };
                (index, Work::Array { encoding, dtype: *dtype }, out, shape)
            }
            FieldSpec::Text { column } | FieldSpec::Json { column } => {
                let (index, column) = self.find(column)?;
                if !is_text(column) {
                    return Err(unfit(column, "a Text field needs a column of strings; Bytes takes any"));
                }
                (index, Work::Text, DType::UInt8, RowShape::Text)
            }
            FieldSpec::Bytes { column } => (self.find(column)?.0, Work::Bytes, DType::UInt8, RowShape::Bytes),
            FieldSpec::Joint { .. } => return Err(Error::config("a Joint field cannot hold another Joint")),
        })
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one field, each used once")]
    fn pictures(
        &self,
        column: &str,
        ops: &[Op],
        content: Content,
        size: Option<Size>,
        writer: Writer,
        reading: Reading,
        draws: FieldDraws,
        limits: Limits,
    ) -> Result<(usize, Work, DType, RowShape)> {
        let (index, column) = self.find(column)?;
        let is_several =
            matches!(column.encoding.as_str(), "jpeg_array" | "jpegarray" | "list[jpeg]" | "list[png]" | "list[pil]");
        let is_other =
            is_text(column) || numbers(column)?.is_some() || ArrayEncoding::parse(&column.encoding)?.is_some();
        if is_several || is_other || column.encoding == "pkl" {
            return Err(unfit(
                column,
                "Image and Mask need a column of one picture in each sample: jpeg, png, pil, or bytes that are JPEG, PNG or \
                 WebP files",
            ));
        }
        if content == Content::Labels && column.encoding == "jpeg" {
            return Err(unfit(
                column,
                "a JPEG cannot hold labels, because its compression changes them: read the column as Image, or write the \
                 masks as PNG of one channel (encoding png, pil or bytes)",
            ));
        }
        let encoding = if column.encoding == "pil" { ImageEncoding::Raw } else { ImageEncoding::File };
        let shape = match size {
            Some(size) => RowShape::Fixed(writer.shape(size).as_slice().to_vec()),
            None => RowShape::RaggedArray,
        };
        let dtype = writer.dtype();
        let field = ImageField { encoding, content, ops: ops.to_vec(), draws, writer, reading, limits };
        Ok((index, Work::Image(field), dtype, shape))
    }

    fn find(&self, name: &str) -> Result<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, c)| c.name == name).ok_or_else(|| {
            let known: Vec<_> = self.columns.iter().map(|c| c.name.as_str()).collect();
            Error::config("the data set has no such column").with("column", name).with("columns", known.join(", "))
        })
    }

    /// Whether pictures are decoded: everything else costs little more than copying it.
    pub fn has_pictures(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.work, Work::Image(_)))
    }

    /// For each output, the form of its pictures, where all are colours of one size.
    pub fn picture_forms(&self) -> impl Iterator<Item = Option<PictureForm>> + '_ {
        self.steps.iter().zip(&self.outputs).map(|(step, output)| match (&step.work, &output.shape) {
            (Work::Image(field), RowShape::Fixed(shape)) => {
                // Three dimensions: the channels stand first or last.
                let [a, b, c] = shape[..] else { return None };
                let form = |w, h| field.writer.form(Size { w: u32::try_from(w).ok()?, h: u32::try_from(h).ok()? });
                let planes = form(c, b)?;
                if planes.layout == Layout::Nchw { Some(planes) } else { form(b, a) }
            }
            _ => None,
        })
    }

    /// The output that can be read straight into place, the largest if there are several. `around` tells how many bytes
    /// of every sample stand before and behind a column, if that is the same for all.
    pub fn direct(&self, around: impl Fn(usize) -> Option<(usize, usize)>) -> Option<Direct> {
        let found = self.steps.iter().enumerate().filter_map(|(output, step)| {
            let alone = self.steps.iter().filter(|s| s.column == step.column).count() == 1;
            let (before, after) = around(step.column).filter(|_| alone && step.work.is_copy())?;
            Some(Direct { output, column: step.column, before, after })
        });
        found.max_by_key(|d| self.outputs[d.output].row_bytes().unwrap_or(usize::MAX))
    }

    /// The outputs whose rows are a column's stored bytes and of fixed size, each with its column's number in the index. No
    /// other output needs these columns.
    pub fn stored(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.steps.iter().enumerate().filter_map(|(output, step)| {
            let alone = self.steps.iter().filter(|s| s.column == step.column).count() == 1;
            let is_stored = alone && step.work.is_copy() && self.outputs[output].row_bytes().is_some();
            is_stored.then_some((output, step.column))
        })
    }

    /// The outputs, in the order of the fields.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The columns that any output needs, ascending, by their number in the index.
    pub fn columns_used(&self) -> &[usize] {
        &self.used
    }

    /// The data set's columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// A decoder for one thread.
    pub fn decoder(self: &Arc<Self>) -> SampleDecoder {
        SampleDecoder::new(Arc::clone(self))
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// Refuses fields that would draw differently although they are to share their draws: a mask beside its picture would show
/// another part of the scene.
fn check_joint(fields: &[(String, FieldSpec)]) -> Result<()> {
    let drawn = |spec: &FieldSpec| match spec {
        // The size that comes out, and what draws nothing, may differ.
        FieldSpec::Image { ops, .. } | FieldSpec::Mask { ops, .. } => ops
            .iter()
            .filter_map(|op| match *op {
                Op::RandomResizedCrop { scale, ratio, .. } => {
                    Some(Op::RandomResizedCrop { size: [0, 0], scale, ratio })
                }
                Op::RandomHorizontalFlip { .. } => Some(op.clone()),
                Op::Resize { .. } | Op::CenterCrop { .. } | Op::Normalize { .. } => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let Some(((_, first), others)) = fields.split_first() else { return Ok(()) };
    match others.iter().find(|(_, other)| drawn(other) != drawn(first)) {
        Some((name, _)) => Err(Error::config(
            "the fields of a Joint need the same random operations in the same order, or their crops and flips differ",
        )
        .with("field", name)),
        None => Ok(()),
    }
}

fn unfit(column: &Column, message: &str) -> Error {
    Error::config(message).with("column", &column.name).with("encoding", &column.encoding)
}

/// How the column stores numbers, if it does.
fn numbers(column: &Column) -> Result<Option<NumberSource>> {
    let is_text = column.text;
    Ok(match column.encoding.as_str() {
        "int" if is_text => Some(NumberSource::Text(DType::Int64)),
        "float" if is_text => Some(NumberSource::Text(DType::Float64)),
        _ if is_text => None,
        "int" => Some(NumberSource::Binary(DType::Int64)),
        "str_int" => Some(NumberSource::Text(DType::Int64)),
        "str_float" | "str_decimal" => Some(NumberSource::Text(DType::Float64)),
        // bfloat16 has no code, because no data set stores it.
        name => DType::from_name(name).filter(|d| d.code().is_some()).map(NumberSource::Binary),
    })
}

fn is_text(column: &Column) -> bool {
    column.text || matches!(column.encoding.as_str(), "str" | "json" | "str_int" | "str_float" | "str_decimal")
}

/// The field of a column that nobody described.
fn undecoded(column: &Column) -> Result<FieldSpec> {
    let name = column.name.clone();
    Ok(if column.encoding != "str_decimal" && numbers(column)?.is_some() {
        FieldSpec::Scalar { column: name, dtype: None }
    } else if !column.text && ArrayEncoding::parse(&column.encoding)?.is_some() {
        FieldSpec::Array { column: name, dtype: None }
    } else if is_text(column) {
        FieldSpec::Text { column: name }
    } else {
        FieldSpec::Bytes { column: name }
    })
}

/// Mean and standard deviation per channel.
type Normalise = ([f32; 3], [f32; 3]);

/// Checks the operations' arguments; gives the size that comes out, if it does not depend on the picture, and the
/// normalisation.
fn check_ops(ops: &[Op], limits: Limits) -> Result<(Option<Size>, Option<Normalise>)> {
    let mut size = None;
    let mut normalise = None;
    for op in ops {
        if normalise.is_some() {
            return Err(Error::config("Normalize must be the last operation"));
        }
        match op {
            Op::RandomResizedCrop { size: [h, w], scale, ratio } => {
                let is_range = |r: &[f64; 2]| r[0] > 0.0 && r[0] <= r[1] && r[1].is_finite();
                if !is_range(scale) || scale[1] > 1.0 || !is_range(ratio) {
                    return Err(Error::config(
                        "RandomResizedCrop needs 0 < scale[0] <= scale[1] <= 1 and 0 < ratio[0] <= ratio[1]",
                    )
                    .with("scale", format!("{scale:?}"))
                    .with("ratio", format!("{ratio:?}")));
                }
                size = Some(Size { w: *w, h: *h });
            }
            Op::Resize { size: to } => {
                let any = Size { w: 1, h: 1 };
                let least = resize_to(size.unwrap_or(any), *to);
                check_size(least, limits)?;
                size = match (to, size) {
                    (super::field::ResizeTo::Short(_), None) => None,
                    _ => Some(least),
                };
            }
            Op::CenterCrop { size: [h, w] } => size = Some(Size { w: *w, h: *h }),
            Op::RandomHorizontalFlip { p } => {
                if !(0.0..=1.0).contains(p) {
                    return Err(Error::config("RandomHorizontalFlip needs a probability from 0 to 1").with("p", p));
                }
            }
            Op::Normalize { mean, std } => normalise = Some((*mean, *std)),
        }
        if let Some(size) = size {
            check_size(size, limits)?;
        }
    }
    Ok((size, normalise))
}

fn check_size(size: Size, limits: Limits) -> Result<()> {
    let pixels = u64::from(size.w) * u64::from(size.h);
    if pixels == 0 || pixels > limits.pixels_max {
        return Err(Error::config("a picture's size must be at least 1 x 1 and within the limit")
            .with("width", size.w)
            .with("height", size.h)
            .with("pixels_max", limits.pixels_max));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
