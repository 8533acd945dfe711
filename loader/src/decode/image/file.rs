//! Files of pictures: their formats, and the cost of decoding a part.

use crate::decode::shared_source::{Cost, Order};
use crate::error::{Error, ErrorKind, Result};
use crate::format::encoding::Encoding;
use forebay_picture::geometry::{Scale, Size};
use forebay_picture::orientation::Orientation;
use forebay_picture::{png, webp};

#[derive(Clone, Copy)]
pub(super) enum Format {
    Jpeg,
    Png,
    WebP,
    Raw,
}

pub(super) struct File<'a> {
    pub(super) bytes: &'a [u8],
    /// Row index of a JPEG; may be empty.
    pub(super) index: &'a [u8],
    pub(super) format: Format,
    pub(super) stored_size: Size,
    pub(super) orientation: Orientation,
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
            Format::Png => Cost { passed: 10.0, decoded: 11.0, order: Order::FromTop },
            Format::WebP => Cost { passed: 10.0, decoded: 11.0, order: Order::Whole },
            Format::Raw => Cost { passed: 0.0, decoded: 1.0, order: Order::FromTop },
        }
    }
}

/// Returns the format of a stored picture. The first bytes of a file decide, not the encoding of its column.
pub(super) fn sniff(bytes: &[u8], encoding: &Encoding) -> Result<Format> {
    if matches!(encoding, Encoding::Pil | Encoding::PilList) {
        Ok(Format::Raw)
    } else if bytes.starts_with(&[0xff, 0xd8]) {
        Ok(Format::Jpeg)
    } else if bytes.starts_with(&png::SIGNATURE) {
        Ok(Format::Png)
    } else if webp::is_webp(bytes) {
        Ok(Format::WebP)
    } else if bytes.is_empty() {
        Err(Error::decode("the picture is empty"))
    } else {
        Err(Error::new(ErrorKind::Unsupported, "the picture is neither JPEG nor PNG nor WebP")
            .with("starts", bytes[..bytes.len().min(12)].escape_ascii()))
    }
}
