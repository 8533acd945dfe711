//! Views of a picture.

use crate::decode::field::Op;
use crate::decode::image::ImageField;
use crate::decode::plan::RowShape;
use crate::error::{Error, Result};

/// Upper bound of the views of a field: more are a mistake, and would take the memory of the batches.
const VIEWS_MAX: u32 = 1024;

/// Returns the views of a field with the argument `views`; `None` if its rows have no dimension for them.
///
/// # Errors
/// A number of views out of range, or together with operations that make several crops.
pub(super) fn count(views: Option<u32>, ops: &[Op]) -> Result<Option<u32>> {
    match (views, crops(ops)?) {
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

/// Adds a dimension for `views` to the rows of a compiled picture.
pub(super) fn add(views: u32, field: &mut ImageField, shape: &mut RowShape) -> Result<()> {
    let RowShape::Fixed(shape) = shape else {
        return Err(Error::config(
            "the views of an Image need one size: end its operations at a fixed size, and read a column with one \
             picture per sample",
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
pub(in crate::decode) fn crops(ops: &[Op]) -> Result<Option<u32>> {
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
pub(in crate::decode) fn of_crop(ops: &[Op], crop: u32) -> Vec<Op> {
    let mut ops = ops.to_vec();
    for op in &mut ops {
        if let Op::FiveCrop { view, .. } | Op::TenCrop { view, .. } = op {
            *view = crop;
        }
    }
    ops
}
