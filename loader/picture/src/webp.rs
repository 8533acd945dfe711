//! WebP through the `image-webp` crate: lossy and lossless, as 8-bit RGB; alpha is dropped. An animation becomes its
//! first frame on a black canvas, as in Pillow.
//!
//! The crate gets one frame as a separate file, without the remaining chunks ([`container`]): alpha planes, profiles
//! and later frames cost nothing, and sizes are compared before memory is allocated. In addition to the pixels, at most
//! 12 bytes each, the crate allocates Huffman tables: a hostile file can make them some hundred times its own size.

mod container;

use std::borrow::Cow;
use std::io::Cursor;

use image_webp::{DecodingError, WebPDecoder};

use super::format::PictureFormat;
use super::geometry::{Region, Size};
use super::orientation::Orientation;
use super::pixels::{Content, Pixels};
use super::rgb::{opacity_row, rgb_row};
use container::Frame;
use forebay_core::error::{Error, ErrorKind, Result};

pub use container::is_webp;

/// WebP.
pub struct WebP;

impl PictureFormat for WebP {
    fn name(&self) -> &'static str {
        "WebP"
    }

    fn is_start(&self, bytes: &[u8]) -> bool {
        is_webp(bytes)
    }

    fn size(&self, bytes: &[u8]) -> Result<Size> {
        size(bytes)
    }

    fn orientation(&self, bytes: &[u8]) -> Orientation {
        let (exif, xmp) = container::metadata(bytes);
        Orientation::of_metadata(exif, xmp)
    }

    fn decode(
        &self,
        bytes: &[u8],
        region: Region,
        content: Content,
        pixels: &mut Pixels,
        opacity: Option<&mut Pixels>,
    ) -> Result<()> {
        if content == Content::Deep {
            let message = "a WebP has 8 bits: mode I;16 needs grey files of 16 or 8 bits, such as PNG";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        decode_with_opacity(bytes, region, content, pixels, opacity)
    }
}

fn damaged(e: DecodingError) -> Error {
    Error::decode("the WebP cannot be decoded").caused_by(e)
}

/// Reads the picture's size from the headers of file and frame.
///
/// # Errors
/// Bytes that are not WebP, a truncated file, contradictory headers.
pub fn size(bytes: &[u8]) -> Result<Size> {
    Ok(Frame::first(bytes)?.canvas.size())
}

/// Decodes the picture, and keeps `region` of it. The format has no way to decode less.
///
/// # Errors
/// Damaged or truncated data. Labels: it is unknown which of the three channels would hold them, and lossy compression
/// changes them.
pub fn decode(bytes: &[u8], region: Region, content: Content, pixels: &mut Pixels) -> Result<()> {
    decode_with_opacity(bytes, region, content, pixels, None)
}

/// Decodes as [`decode`] does, and the opacity of the pixels, if it is wanted: 0 around the frame of an animation.
pub fn decode_with_opacity(
    bytes: &[u8],
    region: Region,
    content: Content,
    pixels: &mut Pixels,
    opacity: Option<&mut Pixels>,
) -> Result<()> {
    if content == Content::Labels {
        return Err(Error::new(ErrorKind::Unsupported, "a WebP cannot hold labels: it always has three channels"));
    }
    let frame = Frame::first(bytes)?;
    if region.x + region.w > frame.canvas.w || region.y + region.h > frame.canvas.h {
        return Err(Error::internal("the region is outside of the picture"));
    }
    let file = match bytes.get(12..12 + frame.chunk.len()) {
        Some(chunk) if std::ptr::eq(chunk, frame.chunk) => Cow::Borrowed(bytes),
        _ if opacity.is_some() && frame.alpha.is_some() => Cow::Owned(container::file_with_alpha(&frame)),
        _ => Cow::Owned(container::file(frame.chunk)),
    };
    let mut decoder = WebPDecoder::new(Cursor::new(&file[..])).map_err(damaged)?;
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let position = frame.position;
    let stride = position.w as usize * channels;
    let mut whole = vec![0; stride * position.h as usize];
    decoder.read_image(&mut whole).map_err(damaged)?;

    let out = pixels.start(region, 3);
    let mut opacity = opacity.map(|opacity| opacity.start(region, 3));
    if position != frame.canvas {
        out.fill(0);
        if let Some(opacity) = &mut opacity {
            opacity.fill(0);
        }
    }
    let (left, right) = (region.x.max(position.x), (region.x + region.w).min(position.x + position.w));
    let (top, bottom) = (region.y.max(position.y), (region.y + region.h).min(position.y + position.h));
    if left >= right {
        return Ok(());
    }
    let width = (right - left) as usize;
    for y in top..bottom {
        let row =
            &whole[(y - position.y) as usize * stride..][(left - position.x) as usize * channels..][..width * channels];
        let at = ((y - region.y) as usize * region.w as usize + (left - region.x) as usize) * 3;
        rgb_row(row, channels, &mut out[at..at + width * 3]);
        if let Some(opacity) = &mut opacity {
            opacity_row(row, channels, &mut opacity[at..at + width * 3]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::container::tests::{animation, extended, riff};
    use super::*;
    use image_webp::{ColorType, WebPEncoder};

    /// A lossless file.
    fn file(colour: ColorType, w: u32, h: u32, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        WebPEncoder::new(&mut out).encode(data, w, h, colour).unwrap();
        out
    }

    /// Its only chunk.
    fn chunk(file: &[u8]) -> &[u8] {
        &file[12..]
    }

    fn decoded(bytes: &[u8], region: Region) -> Result<Vec<u8>> {
        let mut pixels = Pixels::default();
        decode(bytes, region, Content::Colours, &mut pixels)?;
        assert_eq!(pixels.region(), region);
        Ok(pixels.rgb().to_vec())
    }

    #[test]
    fn every_colour_type_becomes_rgb() {
        let one = Region { x: 1, y: 0, w: 1, h: 1 };
        for (colour, data, want) in [
            (ColorType::L8, &[1_u8, 2][..], [2, 2, 2]),
            (ColorType::La8, &[1, 2, 3, 4], [3, 3, 3]),
            (ColorType::Rgb8, &[1, 2, 3, 4, 5, 6], [4, 5, 6]),
            // Transparent pixels keep their colour.
            (ColorType::Rgba8, &[1, 2, 3, 4, 5, 6, 7, 0], [5, 6, 7]),
        ] {
            let bytes = file(colour, 2, 1, data);
            assert_eq!(size(&bytes).unwrap(), Size { w: 2, h: 1 });
            assert_eq!(decoded(&bytes, one).unwrap(), want, "{colour:?}");
        }
    }

    #[test]
    fn an_extended_file_has_the_pixels_of_its_frame() {
        let plain = file(ColorType::Rgb8, 2, 1, &[1, 2, 3, 4, 5, 6]);
        let all = Region { x: 0, y: 0, w: 2, h: 1 };
        for before in [&[][..], &[(*b"ICCP", &b"odd"[..]), (*b"ALPH", b"not looked at")]] {
            let bytes = extended(Size { w: 2, h: 1 }, 0x30, before, chunk(&plain));
            assert_eq!(size(&bytes).unwrap(), Size { w: 2, h: 1 });
            assert_eq!(decoded(&bytes, all).unwrap(), [1, 2, 3, 4, 5, 6]);
        }
    }

    #[test]
    fn an_animation_is_its_first_frame_on_black() {
        let data: Vec<u8> = (1..=18).collect();
        let plain = file(ColorType::Rgb8, 3, 2, &data);
        let other = file(ColorType::Rgb8, 5, 4, &[99; 60]);
        let (small, large) = (Region { x: 2, y: 2, w: 3, h: 2 }, Region { x: 0, y: 0, w: 5, h: 4 });
        let bytes = animation(Size { w: 5, h: 4 }, &[(small, chunk(&plain)), (large, chunk(&other))]);
        assert_eq!(size(&bytes).unwrap(), Size { w: 5, h: 4 });
        let whole = decoded(&bytes, large).unwrap();
        assert!(whole[..2 * 15].iter().all(|v| *v == 0));
        assert_eq!(whole[30..45], [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        for y in 0..4 {
            for x in 0..5 {
                for (w, h) in [(1, 1), (5 - x, 4 - y)] {
                    let region = Region { x, y, w, h };
                    let rows = (y..y + h).flat_map(|y| &whole[(y * 5 + x) as usize * 3..][..w as usize * 3]);
                    assert_eq!(decoded(&bytes, region).unwrap(), rows.copied().collect::<Vec<_>>(), "{region:?}");
                }
            }
        }
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        let data: Vec<u8> = (0..32 * 32).map(|i| (i * 7 % 251) as u8).collect();
        let all = Region { x: 0, y: 0, w: 32, h: 32 };
        let plain = file(ColorType::L8, 32, 32, &data);
        let animated = animation(Size { w: 32, h: 32 }, &[(all, chunk(&plain))]);
        for bytes in [&plain, &animated] {
            assert!(decoded(bytes, all).is_ok());
            for cut in 0..bytes.len() {
                assert!(size(&bytes[..cut]).is_err(), "{cut}");
            }
        }
        // The container is complete, the picture is not.
        let body = &plain[20..];
        for cut in 0..body.len() - 4 {
            assert!(decoded(&riff(&[(*b"VP8L", &body[..cut])]), all).is_err(), "{cut}");
        }
    }

    #[test]
    fn labels_are_rejected() {
        let bytes = file(ColorType::L8, 2, 1, &[1, 2]);
        let one = Region { x: 1, y: 0, w: 1, h: 1 };
        let e = decode(&bytes, one, Content::Labels, &mut Pixels::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
    }
}
