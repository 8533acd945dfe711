//! Compilation of the views of a picture.

use crate::decode::field::{FieldSpec, Op};
use crate::decode::plan::{RowShape, Work};
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Upper bound of the views of a field: more are a mistake, and would take the memory of the batches.
const VIEWS_MAX: u32 = 1024;

/// Returns the views of a field; `None` if its rows have no dimension for them.
///
/// # Errors
/// A number of views out of range, or together with operations that make several crops.
pub(super) fn count(spec: &FieldSpec) -> Result<Option<u32>> {
    let FieldSpec::Image { ops, views, .. } = spec else {
        return Ok(None);
    };
    match (*views, crops(ops)?) {
        (Some(views), Some(crops)) => {
            let message = "FiveCrop and TenCrop make the views of an Image: leave out `views`";
            Err(Error::config(message).with("views", views).with("crops", crops))
        }
        (Some(views), None) if !(1..=VIEWS_MAX).contains(&views) => {
            Err(Error::config(format!("an Image has 1 to {VIEWS_MAX} views")).with("views", views))
        }
        (views, crops) => Ok(views.or(crops)),
    }
}

/// Adds a dimension for its views, if it has some, to the rows of the compiled picture of `spec`.
pub(super) fn add(spec: &FieldSpec, picture: &mut (usize, Work, DType, RowShape)) -> Result<()> {
    let Some(views) = count(spec)? else {
        return Ok(());
    };
    let (_, Work::Image(field), _, RowShape::Fixed(shape)) = picture else {
        return Err(Error::config(
            "the views of an Image need one size: end its operations at a fixed size, and read a column with one picture per \
             sample",
        )
        .with("views", views));
    };
    shape.insert(0, views as usize);
    field.views = Some(views);
    if crops(&field.ops)?.is_some() {
        field.crops = (0..views).map(|view| of_crop(&field.ops, view)).collect();
    }
    Ok(())
}

/// Returns the number of crops that `ops` make of a picture; `None` if none of them makes several.
pub(super) fn crops(ops: &[Op]) -> Result<Option<u32>> {
    let mut found = ops.iter().filter_map(|op| match op {
        Op::FiveCrop { .. } => Some(5),
        Op::TenCrop { .. } => Some(10),
        _ => None,
    });
    match (found.next(), found.next()) {
        (crops, None) => Ok(crops),
        _ => Err(Error::config("an Image has at most one FiveCrop or TenCrop")),
    }
}

/// Returns the operations of crop number `crop`.
pub(super) fn of_crop(ops: &[Op], crop: u32) -> Vec<Op> {
    let mut ops = ops.to_vec();
    for op in &mut ops {
        if let Op::FiveCrop { view, .. } | Op::TenCrop { view, .. } = op {
            *view = crop;
        }
    }
    ops
}

/// Returns an error for a field with views, in a Joint or a Mix.
pub(super) fn check_none(name: &str, spec: &FieldSpec) -> Result<()> {
    match count(spec)? {
        Some(views) => Err(Error::config(
            "an Image in a Joint or a Mix has no `views`, nor FiveCrop or TenCrop: a mask or a label belongs to one picture",
        )
        .with("field", name)
        .with("views", views)),
        None => Ok(()),
    }
}
