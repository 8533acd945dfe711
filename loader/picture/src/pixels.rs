//! Pixels of a picture, in memory that is kept from one picture to the next.

mod kernel;

use super::geometry::{Region, Size};
use super::kept::fit;
use forebay_core::error::{Error, Result};
pub use kernel::{Factors, RowKernels, nearest_bfloat16};

/// Readable bytes after the last pixel, so that kernels may load whole vectors at the end of the last row.
pub const PAD: usize = 192;

/// Receiver of the rows of a region, top to bottom, by channels.
pub trait RowSink {
    /// Returns the memory of the next row's red, green and blue: at least [`PLANE_PAD`] bytes more than the region is
    /// wide, which may be overwritten.
    fn planes(&mut self) -> [&mut [u8]; 3];

    /// Takes the row that was written to [`planes`](Self::planes).
    fn take(&mut self);
}

/// Bytes after a row of a [`RowSink`].
pub const PLANE_PAD: usize = 128;

/// Returns the pixels of a row that is given by channels.
#[inline]
pub fn interleaved([r, g, b]: [&[u8]; 3]) -> impl Iterator<Item = [u8; 3]> {
    r.iter().zip(g).zip(b).map(|((r, g), b)| [*r, *g, *b])
}

/// Meaning of a picture's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Colours: converted to RGB and blended.
    Colours,
    /// Grey levels: the luma of Pillow's mode L, in all three channels, and blended.
    Grey,
    /// Colours, and how opaque they are: a second picture with three equal channels.
    Opacity,
    /// Labels: kept as stored, values of up to 16 bits as [`Content::Deep`] has them.
    Labels,
    /// Values of 16 bits, one channel, each as [`deep_pixel`] of it.
    Deep,
}

/// Returns the three bytes of a value of 16 bits: values of 8 bits are equal bytes, as constant borders are.
///
/// Operations that move whole pixels therefore work for these as for colours.
#[inline]
pub fn deep_pixel(value: u16) -> [u8; 3] {
    let [low, high] = value.to_le_bytes();
    match high {
        0 => [low; 3],
        // Not three equal bytes.
        high if high == low => [low, high, !low],
        high => [low, high, low],
    }
}

/// Returns the value of a [`deep_pixel`].
#[inline]
pub fn deep_value([low, high, third]: [u8; 3]) -> u16 {
    if low == high && low == third { low.into() } else { u16::from_le_bytes([low, high]) }
}

/// RGB pixels, three bytes each, rows without gaps.
#[derive(Debug, Default)]
pub struct Pixels {
    bytes: Vec<u8>,
    /// Part of the whole picture that is here.
    region: Region,
}

impl Pixels {
    /// Makes room for `region` of a picture, and returns `channels` bytes per pixel, contents unspecified. The pixels
    /// must end up with three channels: a decoder that needs four packs them before it returns.
    pub fn start(&mut self, region: Region, channels: usize) -> &mut [u8] {
        let used = region.w as usize * region.h as usize * channels;
        fit(&mut self.bytes, used + PAD, 0);
        self.region = region;
        &mut self.bytes[..used]
    }

    /// Part of the whole picture that is here.
    #[inline]
    pub fn region(&self) -> Region {
        self.region
    }

    /// The pixels, row by row.
    pub fn rgb(&self) -> &[u8] {
        let region = self.region();
        &self.bytes[..region.w as usize * region.h as usize * 3]
    }

    /// The pixels, to be changed.
    pub fn rgb_mut(&mut self) -> &mut [u8] {
        let region = self.region();
        &mut self.bytes[..region.w as usize * region.h as usize * 3]
    }

    /// Returns the bytes from pixel (`x`, `y`) of the whole picture to the end of the memory, at least [`PAD`] more
    /// than the pixels.
    #[inline]
    pub fn from(&self, x: u32, y: u32) -> &[u8] {
        let region = self.region();
        debug_assert!(x >= region.x && y >= region.y, "pixel outside of the decoded region");
        &self.bytes[((y - region.y) as usize * region.w as usize + (x - region.x) as usize) * 3..]
    }
}

/// Writes `region` of a picture of `size`. `pixel` returns the colour and the opacity of the pixel in a column and row;
/// the opacity is written if it is wanted.
///
/// # Errors
/// A region outside of the picture.
pub(crate) fn write(
    region: Region,
    size: Size,
    pixels: &mut Pixels,
    opacity: Option<&mut Pixels>,
    pixel: impl Fn(usize, usize) -> ([u8; 3], u8),
) -> Result<()> {
    let Region { x, y, w, h } = region;
    if x + w > size.w || y + h > size.h {
        return Err(Error::internal("the region is outside of the picture"));
    }
    let positions = || (y..y + h).flat_map(|row| (x..x + w).map(move |column| (column as usize, row as usize)));
    for (out, (x, y)) in pixels.start(region, 3).as_chunks_mut::<3>().0.iter_mut().zip(positions()) {
        *out = pixel(x, y).0;
    }
    if let Some(opacity) = opacity {
        for (out, (x, y)) in opacity.start(region, 3).as_chunks_mut::<3>().0.iter_mut().zip(positions()) {
            *out = [pixel(x, y).1; 3];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_16_bits_has_a_pixel() {
        for value in 0..=u16::MAX {
            assert_eq!(deep_value(deep_pixel(value)), value);
        }
        assert!((0..=255).all(|level| deep_value([level; 3]) == u16::from(level)));
    }
}
