//! Windows bitmaps (BMP): palettes of 1, 4 and 8 bits, and colours of 16, 24 and 32 bits, without compression. The
//! pixels are Pillow's, also pixels that crates for the format round in a different way.
//!
//! Pixels are as large in the file as its header announces, so a small file takes little memory.

use super::values::{need_colours, too_large};
use crate::format::PictureFormat;
use crate::geometry::{PIXELS_MAX, Region, Size};
use crate::pixels::{Content, Pixels, write};
use forebay_core::error::{Error, ErrorKind, Result};

/// Windows bitmap.
pub(super) struct Bmp;

/// Bits of red, green, blue and opacity in a pixel.
type Masks = [u32; 4];

const MASKS_15: Masks = [0x7c00, 0x3e0, 0x1f, 0];
const MASKS_16: Masks = [0xf800, 0x7e0, 0x1f, 0];
const MASKS_24: Masks = [0xff_0000, 0xff00, 0xff, 0];
const MASKS_32: [Masks; 7] = [
    MASKS_24,
    [0xff00_0000, 0xff_0000, 0xff00, 0],
    [0xff00_0000, 0xff00, 0xff, 0],
    [0xff00_0000, 0xff_0000, 0xff00, 0xff],
    [0xff, 0xff00, 0xff_0000, 0xff00_0000],
    [0xff_0000, 0xff00, 0xff, 0xff00_0000],
    [0xff00_0000, 0xff00, 0xff, 0xff_0000],
];

/// Bytes of the file's own header, in front of the bitmap's header.
const FILE_HEADER: usize = 14;

/// Position of the masks of colours, after the shortest header that has them, or in a longer one.
const MASKS_AT: usize = 54;

/// Header of a file.
struct Header<'a> {
    size: Size,
    bits: usize,
    /// The first row of the file is the picture's.
    is_from_top: bool,
    /// Blue, green and red of each colour, in `colour_bytes` bytes.
    palette: &'a [u8],
    colour_bytes: usize,
    masks: Masks,
    pixels: &'a [u8],
}

fn ends_early() -> Error {
    Error::decode("the BMP ends early")
}

fn unsupported(field: &'static str, value: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, "this kind of BMP file is not supported: convert it to PNG").with(field, value)
}

/// Reads a number of `count` bytes, at most 4.
fn number(bytes: &[u8], at: usize, count: usize) -> Result<u32> {
    let bytes = bytes.get(at..at + count).ok_or_else(ends_early)?;
    Ok(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

impl<'a> Header<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self> {
        let header_bytes = number(bytes, FILE_HEADER, 4)? as usize;
        let is_old = match header_bytes {
            12 => true,
            40 | 52 | 56 | 64 | 108 | 124 => false,
            bytes => return Err(unsupported("header_bytes", bytes)),
        };
        let (w, h, bits) = if is_old {
            (number(bytes, 18, 2)?, number(bytes, 20, 2)?, number(bytes, 24, 2)?)
        } else {
            (number(bytes, 18, 4)?, number(bytes, 22, 4)?, number(bytes, 28, 2)?)
        };
        // A negative number.
        let is_from_top = !is_old && h >> 24 == 0xff;
        let size = Size { w, h: if is_from_top { h.wrapping_neg() } else { h } };
        if size.w == 0 || size.h == 0 || size.pixels() > PIXELS_MAX {
            return Err(too_large("BMP", size));
        }
        let compression = if is_old { 0 } else { number(bytes, 30, 4)? };
        let (colour_bytes, colours) = if is_old { (3, 0) } else { (4, number(bytes, 46, 4)?) };
        let colours = if bits > 8 { 0 } else { (if colours == 0 { 1 << bits } else { colours }) as usize };
        if colours > 1 << 16 {
            return Err(unsupported("colours", colours));
        }
        let palette_at = FILE_HEADER + header_bytes;
        let palette = bytes.get(palette_at..palette_at + colours * colour_bytes).ok_or_else(ends_early)?;
        let mut pixels_at = number(bytes, 10, 4)? as usize;
        if pixels_at == palette_at || pixels_at == 0 {
            pixels_at = palette_at + palette.len();
        }
        let masks = match (bits, compression) {
            (1 | 4 | 8, 0) => [0; 4],
            (16, 0) => MASKS_15,
            (24 | 32, 0) => MASKS_24,
            (16 | 24 | 32, 3) => Self::masks(bytes, bits, header_bytes)?,
            (1 | 4 | 8, 1 | 2) => return Err(unsupported("compression", "RLE")),
            (1 | 4 | 8 | 16 | 24 | 32, compression) => return Err(unsupported("compression", compression)),
            _ => return Err(unsupported("bits", bits)),
        };
        let pixels = bytes.get(pixels_at..).unwrap_or_default();
        let header = Self { size, bits: bits as usize, is_from_top, palette, colour_bytes, masks, pixels };
        let last = (header.size.w as usize * header.bits).div_ceil(8);
        if header.pixels.len() < header.stride() * (header.size.h as usize - 1) + last {
            return Err(ends_early());
        }
        Ok(header)
    }

    /// Reads the masks of a file that has them. Only the usual ones are known, as in Pillow.
    fn masks(bytes: &[u8], bits: u32, header_bytes: usize) -> Result<Masks> {
        let mut masks = [0; 4];
        let count = if header_bytes >= 56 { 4 } else { 3 };
        for (number_of, mask) in masks.iter_mut().enumerate().take(count) {
            *mask = number(bytes, MASKS_AT + 4 * number_of, 4)?;
        }
        let is_known = match bits {
            32 if masks == [0; 4] => return Ok(MASKS_32[5]),
            32 => MASKS_32.contains(&masks),
            24 => masks[..3] == MASKS_24[..3],
            _ => masks[..3] == MASKS_16[..3] || masks[..3] == MASKS_15[..3],
        };
        if bits < 32 {
            masks[3] = 0;
        }
        if is_known { Ok(masks) } else { Err(unsupported("masks", format!("{masks:x?}"))) }
    }

    /// Bytes of a row: whole words of 4.
    fn stride(&self) -> usize {
        (self.size.w as usize * self.bits).div_ceil(32) * 4
    }

    fn row(&self, y: usize) -> &'a [u8] {
        let y = if self.is_from_top { y } else { self.size.h as usize - 1 - y };
        &self.pixels[y * self.stride()..]
    }

    /// Returns the stored value of a pixel.
    fn value(&self, x: usize, y: usize) -> u32 {
        let row = self.row(y);
        match self.bits {
            8 => row[x].into(),
            bits @ (1 | 4) => u32::from(row[x * bits / 8] >> (8 - bits - x * bits % 8)) & ((1 << bits) - 1),
            bits => row[x * bits / 8..][..bits / 8].iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)),
        }
    }

    /// Returns the colour and the opacity of a stored value.
    fn colour(&self, value: u32) -> ([u8; 3], u8) {
        if self.bits <= 8 {
            let colour = self.palette.get(value as usize * self.colour_bytes..).and_then(|rest| rest.first_chunk());
            // As in Pillow, colours after the end of a palette are black.
            return (colour.map_or([0; 3], |[blue, green, red]| [*red, *green, *blue]), 255);
        }
        let level = |mask: u32| {
            let largest = mask >> mask.trailing_zeros();
            ((value & mask) >> mask.trailing_zeros()) as u64 * 255 / u64::from(largest)
        };
        let [red, green, blue, alpha] = self.masks;
        ([red, green, blue].map(|mask| level(mask) as u8), if alpha == 0 { 255 } else { level(alpha) as u8 })
    }
}

impl PictureFormat for Bmp {
    fn name(&self) -> &'static str {
        "BMP"
    }

    fn is_start(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(b"BM")
    }

    fn size(&self, bytes: &[u8]) -> Result<Size> {
        Ok(Header::read(bytes)?.size)
    }

    fn is_decoded_whole(&self) -> bool {
        false
    }

    fn decode(
        &self,
        bytes: &[u8],
        region: Region,
        content: Content,
        pixels: &mut Pixels,
        opacity: Option<&mut Pixels>,
    ) -> Result<()> {
        let header = Header::read(bytes)?;
        if content == Content::Labels && header.bits <= 8 {
            write(region, header.size, pixels, opacity, |x, y| ([header.value(x, y) as u8; 3], 255))
        } else {
            need_colours("BMP", content)?;
            write(region, header.size, pixels, opacity, |x, y| header.colour(header.value(x, y)))
        }
    }
}
