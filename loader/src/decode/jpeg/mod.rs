//! JPEG. One trait, one implementation per file; a decoder is given the region that is wanted and skips the rest.
//!
//! [`turbo`] is libjpeg-turbo: baseline, progressive, arithmetic and restart-marked files, 8 bits, grey, YCbCr, RGB,
//! CMYK and YCCK in every subsampling. Its pixels within a region equal those of a full decode.

pub mod turbo;

use super::geometry::{Region, Size};
use super::pixels::Pixels;
use crate::error::Result;

pub use turbo::{Subsampling, Turbo, encode};

/// Decodes regions of JPEG files. A decoder belongs to one thread and keeps its state from picture to picture.
pub trait JpegDecoder: Send {
    /// The picture's size, from the header alone.
    ///
    /// # Errors
    /// Bytes that are not a JPEG header.
    fn size(&mut self, bytes: &[u8]) -> Result<Size>;

    /// Decodes to RGB at least `region`, which lies inside the picture; `pixels` says what came out. Bytes behind the
    /// region are not looked at: damage there goes unnoticed.
    ///
    /// # Errors
    /// Damaged or truncated data within or before the region, and kinds of JPEG that are not supported. A picture
    /// that would only be decoded with wrong pixels is an error, too.
    fn decode(&mut self, bytes: &[u8], region: Region, pixels: &mut Pixels) -> Result<()>;
}

#[cfg(test)]
mod tests;
