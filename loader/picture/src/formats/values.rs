//! Common checks of formats.

use crate::geometry::{PIXELS_MAX, Size};
use crate::pixels::Content;
use forebay_core::error::{Error, ErrorKind, Result};

/// Error for a size without pixels, or with too many.
pub(super) fn too_large(format: &str, size: Size) -> Error {
    Error::decode(format!("the {format} has no pixels, or more than the limit allows"))
        .with("width", size.w)
        .with("height", size.h)
        .with("pixels_max", PIXELS_MAX)
}

/// Rejects contents that are the values of one channel, for a file with colours.
pub(super) fn need_colours(format: &str, content: Content) -> Result<()> {
    let message = match content {
        Content::Colours | Content::Grey | Content::Opacity => return Ok(()),
        Content::Labels => "labels need a file of one channel",
        Content::Deep => "mode I;16 needs a grey file of 16 or 8 bits: read colours in mode RGB or L",
    };
    Err(Error::new(ErrorKind::Unsupported, message).with("format", format))
}
