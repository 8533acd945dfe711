//! Common parts of the fields of pictures: checks of the operations and of the column, and the compiled picture.

use super::column::{Columns, unsuitable};
use super::kind::{JointParts, ScenePart};
use super::ops::{CheckedOps, MeanAndStd, of_labels};
use crate::decode::augment::{Augment, Grayscale, Operation};
use crate::decode::draw::FieldDraws;
use crate::decode::field::{Op, leaves};
use crate::decode::framing::Reframe;
use crate::decode::image::{ImageField, ReadOptions};
use crate::decode::linear::LinearTransformation;
use crate::decode::normalise::PictureWriter;
use crate::decode::plan::RowShape;
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Encoding};
use forebay_picture::geometry::Size;
use forebay_picture::pixels::Content;

/// Arguments of a field of pictures.
pub(super) struct PictureArgs<'a> {
    pub column: &'a str,
    pub ops: &'a [Op],
    pub content: Content,
    pub reading: ReadOptions,
    /// The fields of its Joint, if it is in one.
    pub joint: Option<&'a JointParts<'a>>,
}

impl PictureArgs<'_> {
    /// Returns the number of the column, the field and the kind of its rows. `writer` returns the writer of its rows,
    /// for a normalisation that the operations may have.
    pub(super) fn compile(
        self,
        columns: Columns<'_>,
        draws: FieldDraws,
        writer: impl FnOnce(Option<MeanAndStd>) -> Result<PictureWriter>,
    ) -> Result<(usize, ImageField, RowShape)> {
        let Self { column, ops, content, reading, joint } = self;
        let CheckedOps { size, normalise, linear, is_grey } = CheckedOps::new(ops)?;
        let writer = writer(normalise)?;
        if content == Content::Labels {
            check_labels(ops)?;
        }
        if let Some(linear) = &linear {
            check_linear(linear, size, &writer)?;
        }
        for op in ops {
            if let Op::RandomErasing(erasing) = op {
                erasing.check(writer.level_max())?;
            }
        }
        let objects = objects_of(ops, joint)?;
        let (index, column) = columns.find(column)?;
        use Encoding::{Bytes, BytesList, Custom, Jpeg, JpegArray, JpegList, Pil, PilList, Png, PngList};
        let size = match column.encoding {
            Jpeg | Png | Pil | Bytes | Custom(_) => size,
            JpegArray(_) | JpegList | PngList | PilList | BytesList => None,
            _ => {
                return Err(unsuitable(
                    column,
                    "Image and Mask need a column of pictures: jpeg, png, pil, lists of these, or bytes that are files \
                     of pictures",
                ));
            }
        };
        let is_jpeg = matches!(column.encoding, Jpeg | JpegArray(_) | JpegList);
        if content == Content::Deep && is_jpeg {
            return Err(unsuitable(column, "a JPEG has 8 bits: mode I;16 needs PNG files, or `pil` of mode I;16"));
        }
        if content == Content::Labels && is_jpeg {
            return Err(unsuitable(
                column,
                "a JPEG cannot hold labels, because its compression changes them: read the column as Image, or write \
                 the masks as PNG of one channel (encoding png, pil or bytes)",
            ));
        }
        let shape = size.map_or(RowShape::RaggedArray, |size| RowShape::Fixed(writer.shape(size)));
        let encoding = column.encoding.clone();
        let (ops, is_grey) = grey_last(ops, is_grey);
        let ops = if content == Content::Labels { of_labels(&ops) } else { ops };
        let (views, crops) = (None, Vec::new());
        let field =
            ImageField { encoding, content, ops, size, views, crops, draws, writer, linear, is_grey, reading, objects };
        Ok((index, field, shape))
    }
}

/// Checks that a matrix fits the pictures.
fn check_linear(linear: &LinearTransformation, size: Option<Size>, writer: &PictureWriter) -> Result<()> {
    if writer.dtype() != DType::Float32 {
        let message = "LinearTransformation is for pictures of float32: pass dtype=\"float32\", or add Normalize";
        return Err(Error::config(message).with("dtype", writer.dtype()));
    }
    let numbers = size.map(|size| size.pixels() as usize * writer.channels());
    if numbers != Some(linear.numbers()) {
        let message = "the matrix of LinearTransformation needs a row for each number of a picture, channels x height \
                       x width, and pictures of one size: end the operations before it at that size";
        return Err(Error::config(message)
            .with("rows", linear.numbers())
            .with("numbers", numbers.map_or_else(|| "variable".to_owned(), |numbers| numbers.to_string())));
    }
    Ok(())
}

/// Returns the number of the step of the boxes that operations draw by; `None` if none of them does.
fn objects_of(ops: &[Op], joint: Option<&JointParts<'_>>) -> Result<Option<usize>> {
    if !leaves(ops).iter().any(|op| matches!(op, Op::Framing(framing) if framing.needs_boxes())) {
        return Ok(None);
    }
    let find = |joint: &JointParts<'_>| joint.find_step(None, "Boxes", |part| matches!(part, ScenePart::Boxes(_)));
    let found = joint.map(find).and_then(Result::ok);
    let message = "RandomIoUCrop draws by the boxes of the picture: put the Image into a Joint with its Boxes";
    found.ok_or_else(|| Error::config(message)).map(Some)
}

/// Rejects operations that labels cannot follow. Those that only change colours leave labels as they are.
pub(in crate::decode) fn check_labels(ops: &[Op]) -> Result<()> {
    leaves(ops).into_iter().try_for_each(|op| match op {
        Op::Grayscale => Err(Error::config("a Mask holds labels: Grayscale would change them")),
        Op::LinearTransformation(_) => {
            Err(Error::config("a Mask holds labels: LinearTransformation would change them"))
        }
        Op::RandomErasing(_) => Err(Error::config("a Mask holds labels: RandomErasing would change them")),
        Op::FiveCrop { .. } | Op::TenCrop { .. } => {
            Err(Error::config("a Mask belongs to one picture: FiveCrop and TenCrop make several"))
        }
        Op::Augment(augment) => augment.check_labels(),
        _ => Ok(()),
    })
}

/// Returns the operations, and true if the luma is computed while the row is written. Otherwise `Grayscale` is an
/// augmentation instead.
pub(in crate::decode) fn grey_last(ops: &[Op], is_grey: bool) -> (Vec<Op>, bool) {
    let grayscale = ops.iter().position(|op| *op == Op::Grayscale);
    let has_augment = leaves(ops).iter().any(|op| matches!(op, Op::Augment(_)));
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

/// Returns true if the luma after `op` is the result of `op` for the luma: it only moves whole pixels, and adds grey
/// ones.
fn keeps_grey(op: &Op) -> bool {
    match op {
        Op::Pad { fill: [red, green, blue], .. } | Op::RandomCrop { fill: [red, green, blue], .. } => {
            red == green && green == blue
        }
        Op::RandomResizedCrop { .. }
        | Op::Resize { .. }
        | Op::RandomResize { .. }
        | Op::Framing(_)
        | Op::Augment(_)
        | Op::Composed(_) => false,
        Op::CenterCrop { .. }
        | Op::FiveCrop { .. }
        | Op::TenCrop { .. }
        | Op::RandomHorizontalFlip { .. }
        | Op::Grayscale
        | Op::Normalize { .. }
        | Op::LinearTransformation(_)
        | Op::RandomErasing(_) => true,
    }
}
