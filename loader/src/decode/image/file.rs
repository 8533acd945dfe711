//! Files of pictures: their formats, and the cost of decoding a part.

use crate::decode::pil;
use crate::decode::shared_source::{Cost, Order};
use crate::error::Result;
use crate::format::encoding::Encoding;
use forebay_picture::geometry::{Scale, Size};
use forebay_picture::orientation::Orientation;
use forebay_picture::pixels::Content;
use forebay_picture::{PictureFormat, formats};

/// Form of a stored picture.
#[derive(Clone, Copy)]
pub(super) enum Format {
    Jpeg,
    /// A file of a different format.
    Other(&'static dyn PictureFormat),
    /// Raw pixels of the encoding `pil`.
    Raw,
}

pub(super) struct File<'a> {
    pub(super) bytes: &'a [u8],
    /// Row index of a JPEG; may be empty.
    pub(super) index: &'a [u8],
    pub(super) format: Format,
    pub(super) stored_size: Size,
    pub(super) orientation: Orientation,
    /// Content that resizes have to move: deep for labels of 16 bits.
    pub(super) moved: Content,
}

impl File<'_> {
    /// Returns the cost of decoding a part of it at `scale`.
    pub(super) fn cost(&self, scale: Scale) -> Cost {
        // Of photographs, skipping a coefficient takes two thirds of the time of reading it. A pixel of a smaller scale
        // has more coefficients, but is one pixel to write.
        let read = f64::from(scale.divisor()).powi(2);
        match self.format {
            Format::Jpeg if self.index.is_empty() => {
                Cost { passed: 2.0 * read, decoded: 3.0 * read + 2.0, order: Order::FromTop }
            }
            Format::Jpeg => Cost { passed: 2.0 * read, decoded: 3.0 * read + 2.0, order: Order::FromLeft },
            Format::Other(format) => {
                let order = if format.is_decoded_whole() { Order::Whole } else { Order::FromTop };
                Cost { passed: 10.0, decoded: 11.0, order }
            }
            Format::Raw => Cost { passed: 0.0, decoded: 1.0, order: Order::FromTop },
        }
    }
}

/// Returns the form of a stored picture. The first bytes of a file decide, not the encoding of its column.
pub(super) fn sniff(bytes: &[u8], encoding: &Encoding) -> Result<Format> {
    if matches!(encoding, Encoding::Pil | Encoding::PilList) {
        Ok(Format::Raw)
    } else if bytes.starts_with(&[0xff, 0xd8]) {
        Ok(Format::Jpeg)
    } else {
        formats::find(bytes).map(Format::Other)
    }
}

/// Returns the content of a picture that resizes have to move. Pillow moves values of 16 bits in its own way.
pub(super) fn moved(bytes: &[u8], format: Format, content: Content) -> Content {
    let is_deep = match format {
        Format::Jpeg => false,
        Format::Other(format) => format.is_deep(bytes),
        Format::Raw => pil::is_deep(bytes),
    };
    if content == Content::Labels && is_deep { Content::Deep } else { content }
}
