//! Checks of the operations of pictures.

use crate::decode::augment::{Augment, Composition, Operation};
use crate::decode::field::{Op, PictureMode, ResizeTo, leaves};
use crate::decode::framing::Reframe;
use crate::decode::linear::LinearTransformation;
use crate::decode::resolve_ops::{padded, resize_to};
use crate::error::{Error, Result};
use forebay_picture::Interpolation;
use forebay_picture::geometry::{PIXELS_MAX, Size};
use serde_json::Value;

/// Mean and standard deviation per channel.
pub(in crate::decode) type MeanAndStd = (Vec<f32>, Vec<f32>);

/// Returns the operations of labels, which are never blended. Borders have the first number of their colour.
pub(in crate::decode) fn of_labels(ops: &[Op]) -> Vec<Op> {
    let mut ops = ops.to_vec();
    ops.iter_mut().for_each(become_labels);
    ops
}

fn become_labels(op: &mut Op) {
    match op {
        Op::RandomResizedCrop { interpolation, alternative, .. } => {
            (*interpolation, *alternative) = (Interpolation::Nearest, None);
        }
        Op::Resize { interpolation, .. } | Op::RandomResize { interpolation, .. } => {
            *interpolation = Interpolation::Nearest;
        }
        Op::Framing(framing) => framing.become_labels(),
        Op::Composed(composed) => composed.transforms_mut().iter_mut().for_each(become_labels),
        _ => {}
    }
    let fill = match op {
        Op::Pad { fill, .. } | Op::RandomCrop { fill, .. } => Some(fill),
        Op::Framing(framing) => framing.fill_mut(),
        _ => None,
    };
    if let Some(fill) = fill {
        *fill = [fill[0]; 3];
    }
}

/// Size that every picture has at least.
const SIZE_MIN: Size = Size { w: 1, h: 1 };

/// Results of operations with checked arguments.
pub(in crate::decode) struct CheckedOps {
    /// Size of the result, if it does not depend on the picture.
    pub(in crate::decode) size: Option<Size>,
    pub(in crate::decode) normalise: Option<MeanAndStd>,
    pub(in crate::decode) linear: Option<LinearTransformation>,
    /// True if `Grayscale` is among them, and nothing after it changes colours.
    pub(in crate::decode) is_grey: bool,
}

impl CheckedOps {
    pub(in crate::decode) fn new(ops: &[Op]) -> Result<Self> {
        let (mut size, mut normalise, mut linear, mut is_grey) = (None, None, None, false);
        let mut erases = false;
        for op in ops {
            match op {
                Op::RandomErasing(_) => erases = true,
                _ if erases && matches!(op, Op::LinearTransformation(_)) => {
                    return Err(Error::config("LinearTransformation must be before RandomErasing"));
                }
                _ if erases => return Err(Error::config("RandomErasing must be the last operation")),
                _ if linear.is_some() => {
                    return Err(Error::config(
                        "LinearTransformation must be the last operation, except for RandomErasing",
                    ));
                }
                Op::LinearTransformation(_) => {}
                _ if normalise.is_some() => {
                    return Err(Error::config(
                        "Normalize must be the last operation, except for LinearTransformation and RandomErasing",
                    ));
                }
                _ => {}
            }
            match op {
                Op::Grayscale => is_grey = true,
                Op::Normalize { mean, std } => normalise = Some((mean.clone(), std.clone())),
                Op::LinearTransformation(of) => {
                    of.check()?;
                    linear = Some(of.clone());
                }
                op => size = size_after(op, size)?,
            }
        }
        Ok(Self { size, normalise, linear, is_grey })
    }
}

/// Checks the arguments of an operation, and returns the size after it if it does not depend on the picture. `size` is
/// the one before it.
fn size_after(op: &Op, mut size: Option<Size>) -> Result<Option<Size>> {
    match op {
        Op::RandomResizedCrop { size: [h, w], scale, ratio, .. } => {
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
        Op::Resize { size: to, max_size, .. } => {
            check_resize(*to, *max_size)?;
            let least = resize_to(size.unwrap_or(SIZE_MIN), *to, *max_size);
            check_size(least)?;
            size = match (to, size) {
                (None | Some(ResizeTo::Short(_)), None) => None,
                _ => Some(least),
            };
        }
        Op::RandomResize { min_size, max_size, .. } => {
            if min_size >= max_size {
                let message = "RandomResize needs a `max_size` above `min_size`: the short side is below it";
                return Err(Error::config(message).with("min_size", min_size).with("max_size", max_size));
            }
            check_size(resize_to(size.unwrap_or(SIZE_MIN), Some(ResizeTo::Short(*min_size)), None))?;
            check_size(resize_to(size.unwrap_or(SIZE_MIN), Some(ResizeTo::Short(max_size - 1)), None))?;
            size = None;
        }
        Op::CenterCrop { size: [h, w] }
        | Op::RandomCrop { size: [h, w], .. }
        | Op::FiveCrop { size: [h, w], .. }
        | Op::TenCrop { size: [h, w], .. } => size = Some(Size { w: *w, h: *h }),
        Op::Pad { padding, .. } => {
            check_size(padded(size.unwrap_or(SIZE_MIN), *padding).size)?;
            size = size.map(|size| padded(size, *padding).size);
        }
        Op::RandomHorizontalFlip { p } => {
            if !(0.0..=1.0).contains(p) {
                return Err(Error::config("RandomHorizontalFlip needs a probability from 0 to 1").with("p", p));
            }
        }
        // The arguments of an erasing depend on the type of the row.
        Op::Grayscale | Op::Normalize { .. } | Op::LinearTransformation(_) | Op::RandomErasing(_) => {}
        Op::Framing(framing) => size = framing.check(size)?,
        Op::Augment(augment) => {
            augment.check()?;
            size = size.filter(|_| augment.keeps_size());
        }
        Op::Composed(composed) => size = size_after_composed(composed, size)?,
    }
    if let Some(size) = size {
        check_size(size)?;
    }
    Ok(size)
}

/// As [`size_after`], for a composition.
fn size_after_composed(composed: &Composition<Op>, size: Option<Size>) -> Result<Option<Size>> {
    composed.check()?;
    let transforms = composed.transforms();
    if let Some(op) = transforms.iter().find(|op| !may_be_composed(op)) {
        return Err(Error::config(
            "a composition cannot hold Normalize, LinearTransformation, RandomErasing, FiveCrop or TenCrop: \
             put them after the composition",
        )
        .with("operation", serde_json::to_value(op).unwrap_or_default()));
    }
    let after_all = || transforms.iter().try_fold(size, |size, op| size_after(op, size));
    let sizes = match composed {
        Composition::RandomApply(apply) if apply.p < 1.0 => vec![size, after_all()?],
        Composition::RandomApply(_) => vec![after_all()?],
        Composition::RandomChoice(_) => transforms.iter().map(|op| size_after(op, size)).collect::<Result<_>>()?,
        // Each may be the first, in the middle, or the last one.
        Composition::RandomOrder(_) => {
            let kept = transforms.iter().map(|op| size_after(op, size)).collect::<Result<Vec<_>>>()?;
            let all = transforms.iter().map(|op| size_after(op, None)).collect::<Result<Vec<_>>>()?;
            if kept.iter().all(|after| *after == size) { kept } else { all }
        }
    };
    Ok(sizes.first().copied().flatten().filter(|first| sizes.iter().all(|size| *size == Some(*first))))
}

fn may_be_composed(op: &Op) -> bool {
    let is_outside = matches!(op, Op::Normalize { .. } | Op::LinearTransformation(_) | Op::RandomErasing(_));
    !is_outside && !matches!(op, Op::FiveCrop { .. } | Op::TenCrop { .. })
}

fn check_resize(size: Option<ResizeTo>, max_size: Option<u32>) -> Result<()> {
    let message = match (size, max_size) {
        (None, None) => "Resize needs a `size`, or a `max_size` for the long side",
        (Some(ResizeTo::Exact(_)), Some(_)) => {
            "`max_size` of Resize is for a `size` that is one number: leave it out, since (height, width) sets both \
             sides"
        }
        (Some(ResizeTo::Short(short)), Some(max)) if max <= short => {
            "`max_size` of Resize must be above `size`, which is the short side"
        }
        _ => return Ok(()),
    };
    Err(Error::config(message).with("size", format!("{size:?}")).with("max_size", format!("{max_size:?}")))
}

fn check_size(size: Size) -> Result<()> {
    if !(1..=PIXELS_MAX).contains(&size.pixels()) {
        return Err(Error::config("a picture's size must be at least 1 x 1 and within the limit")
            .with("width", size.w)
            .with("height", size.h)
            .with("pixels_max", PIXELS_MAX));
    }
    Ok(())
}

/// Checks that the operations fit pictures of `mode`.
pub(super) fn check_mode(ops: &[Op], mode: PictureMode) -> Result<()> {
    if mode == PictureMode::Rgb {
        return Ok(());
    }
    // Their pixels are no levels of three channels.
    let has_levels = mode == PictureMode::Grey;
    for op in leaves(ops) {
        let follows = matches!(op, Op::Augment(Augment::RandomVerticalFlip(_)));
        let document = || serde_json::to_value(op).unwrap_or_default();
        if !has_levels && matches!(op, Op::Augment(_) | Op::Grayscale) && !follows {
            return Err(Error::config(
                "pictures of mode RGBA or I;16 can be cropped, resized, padded, mirrored, normalised and erased: the \
                 remaining operations are for modes RGB and L",
            )
            .with("operation", document()));
        }
        if mode == PictureMode::Opacity && has_fill(&document()) {
            return Err(Error::config("pictures of mode RGBA have transparent borders: leave `fill` at 0")
                .with("operation", document()));
        }
        if has_colour(&document()) {
            return Err(Error::config(
                "pictures of mode L, RGBA or I;16 have one number for all channels: pass one grey level, not (red, \
                 green, blue)",
            )
            .with("operation", document()));
        }
    }
    Ok(())
}

/// Returns true if an operation fills borders with something else than black.
fn has_fill(operation: &Value) -> bool {
    let levels = operation.get("fill").and_then(Value::as_array);
    levels.is_some_and(|levels| levels.iter().any(|level| level.as_f64() != Some(0.0)))
}

/// Returns true if an argument of an operation, or of one inside of it, is a colour that is not grey.
fn has_colour(value: &Value) -> bool {
    match value {
        Value::Object(arguments) => arguments.iter().any(|(name, value)| match (name.as_str(), value) {
            ("fill" | "value", Value::Array(levels)) => levels.iter().any(|level| *level != levels[0]),
            (_, value) => has_colour(value),
        }),
        Value::Array(values) => values.iter().any(has_colour),
        _ => false,
    }
}
