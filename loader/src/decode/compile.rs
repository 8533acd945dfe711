//! Compilation of the user's fields to a [`FieldPlan`]. Everything is checked here, before any thread starts: the operations
//! of pictures in `ops`, the values of JSON documents in `json`, fields that belong together in `joint`. `drawn` describes what a field does to one sample.

mod boxes;
mod drawn;
mod joint;
mod json;
mod ops;
mod views;

use std::sync::Arc;

use super::augment::{Augment, Grayscale, Operation};
use super::default::{default_row, type_of};
use super::draw::FieldDraws;
use super::field::{BatchOp, FieldSpec, Op, PictureMode};
use super::image::{ImageField, ReadOptions};
use super::json_value::JsonForm;
use super::mix::{Member, Mix};
use super::normalise::PictureWriter;
use super::numeric;
use super::plan::{ArraySource, FieldPlan, NumberSource, Output, RowShape, Step, Work};
use super::ragged::elements;
use crate::error::{ColumnNames, Context, Error, Result};
use crate::format::encoding::{DType, Encoding};
use crate::format::{Column, FIELDS};
pub use drawn::drawn;
use forebay_picture::pixels::Content;
use json::json_value;
use ops::{CheckedOps, MeanAndStd, check_mode, of_labels};

impl FieldPlan {
    /// Compiles `fields` for a data set with `columns`. Without fields every column becomes an output with its own name:
    /// numbers as scalars, arrays as arrays, strings as text, everything else as bytes.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`]: a column that does not exist or whose encoding does not fit the field, arguments
    /// outside of their range, two outputs of one name; each names the field.
    pub fn compile(fields: Option<&[(String, FieldSpec)]>, columns: &[Column], augment_seed: u64) -> Result<Arc<Self>> {
        let mut plan = Self { columns: columns.to_vec(), outputs: Vec::new(), steps: Vec::new(), mixes: Vec::new() };
        let fields = match fields {
            None => &Self::fields_of(columns),
            Some([]) => return Err(Error::config("`fields` is empty: name at least one field, or leave it out")),
            Some(fields) => fields,
        };
        for (name, spec) in fields {
            let draws = FieldDraws::new(augment_seed, name);
            if let FieldSpec::Joint { fields } = spec {
                joint::check(fields).context("joint", || name)?;
                plan.add_joint(fields, draws).context("joint", || name)?;
            } else if let FieldSpec::Mix { fields, by, p } = spec {
                plan.add_mix(fields, by, *p, augment_seed, draws).context("mix", || name)?;
            } else {
                plan.add_output(name, spec, draws)?;
            }
        }
        plan.find_groups();
        Ok(Arc::new(plan))
    }

    /// Adds the outputs of a `Mix`, each with the draws of its own name, so that its crops are those without the `Mix`.
    fn add_mix(
        &mut self,
        fields: &[(String, FieldSpec)],
        by: &[BatchOp],
        p: f64,
        augment_seed: u64,
        draws: FieldDraws,
    ) -> Result<()> {
        let mut members = Vec::new();
        for (name, spec) in fields {
            if !matches!(spec, FieldSpec::Image { .. } | FieldSpec::OneHot { .. }) {
                return Err(Error::config("a Mix holds Image and OneHot fields").with("field", name));
            }
            views::check_none(name, spec)?;
            self.add_output(name, spec, FieldDraws::new(augment_seed, name))?;
            let (output, work) = (self.outputs.len() - 1, &self.steps[self.steps.len() - 1].work);
            let picture = match work {
                Work::Image(field) => Some(field.size.zip(field.writer.layout()).ok_or_else(|| {
                    let message = "the pictures of a Mix need one size: end the operations at a fixed size";
                    Error::config(message).with("field", name)
                })?),
                _ => None,
            };
            let channels = |work: &Work| if let Work::Image(field) = work { field.writer.channels() } else { 0 };
            let picture = picture.map(|(size, layout)| (size, layout, channels(work)));
            members.push(Member { output, dtype: self.outputs[output].dtype, picture });
        }
        self.mixes.push(Mix::new(by, p, draws, members)?);
        Ok(())
    }

    /// Returns the fields of a loader without fields: one for each of `columns`, under its own name.
    pub fn fields_of(columns: &[Column]) -> Vec<(String, FieldSpec)> {
        columns.iter().map(|column| (column.name.clone(), default_field(column))).collect()
    }

    fn add_output(&mut self, name: &str, spec: &FieldSpec, draws: FieldDraws) -> Result<()> {
        self.check_name(name)?;
        let (column, work, dtype, shape) = match self.absent(spec) {
            Some((work, dtype, shape)) => (None, work, dtype, shape),
            None => {
                let (column, work, dtype, shape) = self.compile_field(spec, draws).context("field", || name)?;
                (Some(column), work, dtype, shape)
            }
        };
        let output = Output { name: name.to_owned(), dtype, shape };
        let form = match (&work, spec) {
            (Work::Json(value), _) => Some(value.form()),
            (_, FieldSpec::Json { .. }) => Some(&JsonForm::Json),
            _ => None,
        };
        let default = spec.default().map(|default| default_row(default, &output, form)).transpose();
        let default = default.context("field", || name)?;
        self.outputs.push(output);
        self.steps.push(Step { column, work, default, group: None });
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<()> {
        if self.outputs.iter().any(|o| o.name == name) {
            return Err(Error::config("two outputs have the same name").with("field", name));
        }
        Ok(())
    }

    /// Returns the field `spec` of a layout without its column, if its default has a type: all samples then have it.
    fn absent(&self, spec: &FieldSpec) -> Option<(Work, DType, RowShape)> {
        let default = spec.default()?;
        if spec.columns().iter().any(|(column, _)| self.columns.iter().any(|known| known.name == *column)) {
            return None;
        }
        Some(match spec {
            FieldSpec::Scalar { dtype, .. } => {
                let dtype = dtype.unwrap_or_else(|| type_of(default));
                (Work::Bytes, dtype, RowShape::Fixed(Vec::new()))
            }
            FieldSpec::Array { dtype: Some(dtype), shape, .. } => {
                (Work::Bytes, *dtype, shape.clone().map_or(RowShape::RaggedArray, RowShape::Fixed))
            }
            FieldSpec::Text { .. } => (Work::Text, DType::UInt8, RowShape::Text),
            FieldSpec::Bytes { .. } => (Work::Bytes, DType::UInt8, RowShape::Bytes),
            FieldSpec::Json { path, dtype, shape, .. } => json_value(path.as_ref(), *dtype, shape.as_deref()).ok()?,
            _ => return None,
        })
    }

    fn compile_field(&self, spec: &FieldSpec, draws: FieldDraws) -> Result<(usize, Work, DType, RowShape)> {
        Ok(match spec {
            FieldSpec::Image {
                column,
                ops,
                dtype,
                layout,
                tolerant,
                apply_exif_orientation,
                scaled_decode,
                views: _,
                mode,
            } => {
                let reading = ReadOptions {
                    tolerant: *tolerant,
                    apply_exif_orientation: *apply_exif_orientation,
                    scaled_decode: *scaled_decode,
                };
                let (content, channels) = match mode {
                    PictureMode::Rgb => (Content::Colours, 3),
                    PictureMode::Grey => (Content::Grey, 1),
                    PictureMode::Opacity => (Content::Opacity, 4),
                    PictureMode::Deep => (Content::Deep, 1),
                };
                check_mode(ops, *mode)?;
                let writer = |normalise: Option<MeanAndStd>| {
                    let normalise = normalise.as_ref().map(|(mean, std)| (&mean[..], &std[..]));
                    if content == Content::Deep {
                        return PictureWriter::deep(*dtype, *layout, normalise);
                    }
                    PictureWriter::with_channels(*dtype, *layout, channels, normalise)
                };
                let mut picture = self.compile_picture(column, ops, draws, content, reading, writer)?;
                views::add(spec, &mut picture)?;
                picture
            }
            FieldSpec::Mask { column, ops, dtype } => {
                let writer = |normalise: Option<MeanAndStd>| match normalise {
                    None => PictureWriter::labels(*dtype),
                    Some(_) => Err(Error::config("a Mask holds labels: Normalize would change them")),
                };
                self.compile_picture(column, ops, draws, Content::Labels, ReadOptions::default(), writer)?
            }
            FieldSpec::Scalar { column, dtype, .. } => {
                let (index, column) = self.find_column(column)?;
                let source = number_source(column)
                    .ok_or_else(|| unsuitable_column(column, "a Scalar field needs a column of numbers"))?;
                let (NumberSource::Binary(own) | NumberSource::Text(own)) = source;
                let dtype = dtype.unwrap_or(own);
                (index, Work::Scalar { source, dtype }, dtype, RowShape::Fixed(Vec::new()))
            }
            FieldSpec::Tokens { column, length, dtype, pad, stored, truncate } => {
                let (index, column) = self.find_column(column)?;
                let source = match &column.encoding {
                    Encoding::Array(kind) => ArraySource::Array(kind.clone()),
                    Encoding::Npy => ArraySource::Npy,
                    Encoding::Bytes => ArraySource::Bytes(stored.ok_or_else(|| {
                        unsuitable_column(column, "a bytes column has no element type: pass e.g. stored=\"uint16\"")
                    })?),
                    _ => return Err(unsuitable_column(column, "a Tokens field needs an ndarray or bytes column")),
                };
                if let Some(length) = length
                    && (*length == 0 || length.checked_mul(8).is_none_or(|b| b > isize::MAX as usize))
                {
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
                let work = Work::Tokens { source, length: *length, dtype: *dtype, pad: *pad, truncate: *truncate };
                (index, work, *dtype, length.map_or(RowShape::RaggedArray, |length| RowShape::Fixed(vec![length])))
            }
            FieldSpec::Length { column, stored } => {
                let (index, column) = self.find_column(column)?;
                let source = match &column.encoding {
                    Encoding::Array(kind) => ArraySource::Array(kind.clone()),
                    Encoding::Npy => ArraySource::Npy,
                    Encoding::Bytes => ArraySource::Bytes(stored.unwrap_or(DType::UInt8)),
                    _ => return Err(unsuitable_column(column, "a Length field needs an ndarray or bytes column")),
                };
                (index, Work::Length { source }, DType::Int64, RowShape::Fixed(Vec::new()))
            }
            FieldSpec::Array { column, dtype, shape, default } => {
                let (index, column) = self.find_column(column)?;
                let message = "an Array field needs a column of arrays: ndarray, or files of numpy";
                let source = array_source(column).ok_or_else(|| unsuitable_column(column, message))?;
                let (own_dtype, own_shape) = match &column.encoding {
                    Encoding::Array(kind) => (kind.dtype(), kind.shape()),
                    _ => (None, None),
                };
                let known = dtype.or(own_dtype);
                if let (Some(own), Some(shape)) = (own_shape, shape.as_deref())
                    && own != shape
                {
                    return Err(unsuitable_column(column, "`shape` of an Array is not that of the column"));
                }
                if known.is_none() && (shape.is_some() || default.is_some()) {
                    return Err(Error::config("the arrays may have any type: name the `dtype` of the Array"));
                }
                let fixed = shape.as_deref().or(own_shape);
                if let Some(shape) = fixed
                    && elements(shape).and_then(|n| n.checked_mul(8)).is_none_or(|bytes| bytes > isize::MAX as usize)
                {
                    return Err(Error::config("`shape` of an Array is too large").with("shape", format!("{shape:?}")));
                }
                let row = fixed.map_or(RowShape::RaggedArray, |shape| RowShape::Fixed(shape.to_vec()));
                let work = Work::Array { source, dtype: *dtype, shape: shape.clone() };
                (index, work, known.unwrap_or(DType::UInt8), row)
            }
            FieldSpec::Text { column, .. } => {
                let (index, column) = self.find_column(column)?;
                if !is_text(column) && column.encoding != Encoding::Bytes {
                    let message = "a Text field needs a column of strings, or of bytes that are UTF-8; Bytes takes any";
                    return Err(unsuitable_column(column, message));
                }
                (index, Work::Text, DType::UInt8, RowShape::Text)
            }
            FieldSpec::Json { column, path, dtype, shape, .. } => {
                let (index, column) = self.find_column(column)?;
                if !is_text(column) && column.encoding != Encoding::Bytes {
                    return Err(unsuitable_column(
                        column,
                        "a Json field needs a column of JSON documents, text or bytes",
                    ));
                }
                let (work, dtype, shape) = json_value(path.as_ref(), *dtype, shape.as_deref())?;
                (index, work, dtype, shape)
            }
            FieldSpec::Bytes { column, .. } => {
                (self.find_column(column)?.0, Work::Bytes, DType::UInt8, RowShape::Bytes)
            }
            FieldSpec::OneHot { column, classes, dtype } => {
                let (index, column) = self.find_column(column)?;
                let source = number_source(column)
                    .ok_or_else(|| unsuitable_column(column, "a OneHot field needs a column of numbers"))?;
                if !(1..=CLASSES_MAX).contains(classes) || !dtype.is_float() || dtype.size() > 4 {
                    return Err(Error::config(
                        "a OneHot field needs at least one class, and a type that pictures can have",
                    )
                    .with("classes", classes)
                    .with("dtype", dtype));
                }
                let work = Work::OneHot { source, classes: *classes, dtype: *dtype };
                (index, work, *dtype, RowShape::Fixed(vec![*classes]))
            }
            FieldSpec::Boxes { .. } | FieldSpec::BoxLabels { .. } => {
                return Err(Error::config("boxes and their labels are fields of a Joint with their picture"));
            }
            FieldSpec::Joint { .. } | FieldSpec::Mix { .. } => {
                return Err(Error::config("a Joint or a Mix cannot hold another one"));
            }
        })
    }

    /// Compiles a field of pictures. `writer` returns the writer of its rows, for a normalisation that the operations may
    /// have.
    fn compile_picture(
        &self,
        column: &str,
        ops: &[Op],
        draws: FieldDraws,
        content: Content,
        reading: ReadOptions,
        writer: impl FnOnce(Option<MeanAndStd>) -> Result<PictureWriter>,
    ) -> Result<(usize, Work, DType, RowShape)> {
        let CheckedOps { size, normalise, is_grey } = CheckedOps::new(ops)?;
        let writer = writer(normalise)?;
        if content == Content::Labels {
            check_labels(ops)?;
        }
        for op in ops {
            if let Op::RandomErasing(erasing) = op {
                erasing.check(writer.level_max())?;
            }
        }
        let (index, column) = self.find_column(column)?;
        use Encoding::{Bytes, Custom, Jpeg, JpegArray, JpegList, Pil, PilList, Png, PngList};
        let size = match column.encoding {
            Jpeg | Png | Pil | Bytes | Custom(_) => size,
            JpegArray(_) | JpegList | PngList | PilList => None,
            _ => {
                return Err(unsuitable_column(
                    column,
                    "Image and Mask need a column of pictures: jpeg, png, pil, lists of these, or bytes that are JPEG, PNG or \
                     WebP files",
                ));
            }
        };
        let is_jpeg = matches!(column.encoding, Jpeg | JpegArray(_) | JpegList);
        if content == Content::Deep && is_jpeg {
            return Err(unsuitable_column(
                column,
                "a JPEG has 8 bits: mode I;16 needs PNG files, or `pil` of mode I;16",
            ));
        }
        if content == Content::Labels && is_jpeg {
            return Err(unsuitable_column(
                column,
                "a JPEG cannot hold labels, because its compression changes them: read the column as Image, or write the \
                 masks as PNG of one channel (encoding png, pil or bytes)",
            ));
        }
        let shape = size.map_or(RowShape::RaggedArray, |size| RowShape::Fixed(writer.shape(size)));
        let (dtype, encoding) = (writer.dtype(), column.encoding.clone());
        let (ops, is_grey) = grey_last(ops, is_grey);
        let ops = if content == Content::Labels { of_labels(&ops) } else { ops };
        Ok((
            index,
            Work::Image(ImageField {
                encoding,
                content,
                ops,
                size,
                views: None,
                crops: Vec::new(),
                draws,
                writer,
                is_grey,
                reading,
            }),
            dtype,
            shape,
        ))
    }

    fn find_column(&self, name: &str) -> Result<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, c)| c.name == name).ok_or_else(|| {
            let names = || self.columns.iter().map(|c| c.name.as_str()).filter(|name| *name != FIELDS);
            let known: ColumnNames = names().collect();
            let plain = |name: &str| name.replace(' ', "").to_lowercase();
            match name.split(';').find_map(|name| names().find(|known| plain(known) == plain(name))) {
                Some(meant) => {
                    let message =
                        format!("the data set has no such column, but `{meant}`: write it like that, without spaces");
                    known.error_without_hint(name, message)
                }
                None => known.error_about(name, "the data set has no such column"),
            }
        })
    }
}

/// Upper bound of the classes of a OneHot field: more are a mistake, and would take the memory of the batches.
const CLASSES_MAX: usize = 1 << 24;

/// Rejects operations that labels cannot follow. Those that only change colours leave labels as they are.
fn check_labels(ops: &[Op]) -> Result<()> {
    ops.iter().try_for_each(|op| match op {
        Op::Grayscale => Err(Error::config("a Mask holds labels: Grayscale would change them")),
        Op::RandomErasing(_) => Err(Error::config("a Mask holds labels: RandomErasing would change them")),
        Op::FiveCrop { .. } | Op::TenCrop { .. } => {
            Err(Error::config("a Mask belongs to one picture: FiveCrop and TenCrop make several"))
        }
        Op::Augment(augment) => augment.check_labels(),
        _ => Ok(()),
    })
}

/// Returns the operations, and true if the luma is computed while the row is written. Otherwise `Grayscale` is an augmentation
/// in its place.
fn grey_last(ops: &[Op], is_grey: bool) -> (Vec<Op>, bool) {
    let grayscale = ops.iter().position(|op| *op == Op::Grayscale);
    let has_augment = ops.iter().any(|op| matches!(op, Op::Augment(_)));
    let may_be_last = grayscale.is_none_or(|place| !has_augment && ops[place..].iter().all(keeps_grey));
    if !is_grey || may_be_last {
        return (ops.to_vec(), is_grey);
    }
    let augmented = |op: &Op| match op {
        Op::Grayscale => Op::Augment(Augment::Grayscale(Grayscale {})),
        op => op.clone(),
    };
    (ops.iter().map(augmented).collect(), false)
}

/// Returns true if the luma after `op` is what `op` makes of the luma: it only moves whole pixels, and adds grey ones.
fn keeps_grey(op: &Op) -> bool {
    match op {
        Op::Pad { fill: [red, green, blue], .. } | Op::RandomCrop { fill: [red, green, blue], .. } => {
            red == green && green == blue
        }
        Op::RandomResizedCrop { .. } | Op::Resize { .. } | Op::RandomResize { .. } | Op::Augment(_) => false,
        Op::CenterCrop { .. }
        | Op::FiveCrop { .. }
        | Op::TenCrop { .. }
        | Op::RandomHorizontalFlip { .. }
        | Op::Grayscale
        | Op::Normalize { .. }
        | Op::RandomErasing(_) => true,
    }
}

fn unsuitable_column(column: &Column, message: &str) -> Error {
    let error = |message| Error::config(message).with("column", &column.name).with("encoding", &column.encoding);
    match &column.encoding {
        Encoding::Custom(name) if Encoding::parse(name).is_ok() => {
            let size = column.size.map_or_else(|| "variable".to_owned(), |size| size.to_string());
            error(format!(
                "{message}: its size in the index, {size}, is not that of the built-in `{name}`, so its values are bytes \
                 of an encoding that was registered under that name"
            ))
        }
        _ => error(message.to_owned()),
    }
}

/// Stored form of the column's arrays, if it has arrays.
fn array_source(column: &Column) -> Option<ArraySource> {
    match &column.encoding {
        Encoding::Array(kind) => Some(ArraySource::Array(kind.clone())),
        Encoding::Npy | Encoding::Bytes => Some(ArraySource::Npy),
        _ => None,
    }
}

/// Stored form of the column's numbers, if it has numbers.
fn number_source(column: &Column) -> Option<NumberSource> {
    match column.encoding {
        Encoding::Int => Some(NumberSource::Binary(DType::Int64)),
        Encoding::Scalar(dtype) => Some(NumberSource::Binary(dtype)),
        Encoding::StrInt => Some(NumberSource::Text(DType::Int64)),
        Encoding::StrFloat | Encoding::StrDecimal => Some(NumberSource::Text(DType::Float64)),
        _ => None,
    }
}

fn is_text(column: &Column) -> bool {
    use Encoding::{Json, Str, StrDecimal, StrFloat, StrInt};
    matches!(column.encoding, Str | Json | StrInt | StrFloat | StrDecimal)
}

/// Returns the field of a column for a loader without `fields`.
fn default_field(column: &Column) -> FieldSpec {
    let name = column.name.clone();
    match column.encoding {
        Encoding::Int | Encoding::Scalar(_) | Encoding::StrInt | Encoding::StrFloat => {
            FieldSpec::Scalar { column: name, dtype: None, default: None }
        }
        Encoding::Array(_) | Encoding::Npy => {
            FieldSpec::Array { column: name, dtype: None, shape: None, default: None }
        }
        Encoding::Str | Encoding::Json | Encoding::StrDecimal => FieldSpec::Text { column: name, default: None },
        _ => FieldSpec::Bytes { column: name, default: None },
    }
}

#[cfg(test)]
mod tests;
