//! Compilation of the views of a picture.

use crate::decode::field::FieldSpec;
use crate::decode::plan::{RowShape, Work};
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Upper bound of the views of a field: more are a mistake, and would take the memory of the batches.
const VIEWS_MAX: u32 = 1024;

/// Adds a dimension of `views` to the rows of a compiled picture.
pub(super) fn add(views: u32, picture: &mut (usize, Work, DType, RowShape)) -> Result<()> {
    let (_, Work::Image(field), _, RowShape::Fixed(shape)) = picture else {
        return Err(Error::config(
            "the views of an Image need one size: end its operations at a fixed size, and read a column with one picture per \
             sample",
        )
        .with("views", views));
    };
    if !(1..=VIEWS_MAX).contains(&views) {
        return Err(Error::config(format!("an Image has 1 to {VIEWS_MAX} views")).with("views", views));
    }
    shape.insert(0, views as usize);
    field.views = Some(views);
    Ok(())
}

/// Returns an error for a field with views, in a Joint or a Mix.
pub(super) fn check_none(name: &str, spec: &FieldSpec) -> Result<()> {
    match spec {
        FieldSpec::Image { views: Some(views), .. } => {
            Err(Error::config("an Image in a Joint or a Mix has no `views`: a mask or a label belongs to one picture")
                .with("field", name)
                .with("views", views))
        }
        _ => Ok(()),
    }
}
