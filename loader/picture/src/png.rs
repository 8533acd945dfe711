//! PNG through the `png` crate: every colour type and depth, as 8-bit RGB; alpha is dropped. Of 16 bits the upper 8 are
//! kept, except for labels and deep pictures. (Pillow clips 16-bit grey values at 255, so the picture becomes white.)

use std::borrow::Cow;
use std::io::Cursor;

use super::format::PictureFormat;
use super::geometry::{Region, Size};
use super::orientation::Orientation;
use super::pixels::{Content, Pixels, deep_pixel};
use super::rgb::{opacity_row, rgb_row};
use forebay_core::error::{Error, ErrorKind, Result};

/// First bytes of every file.
pub const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Limit on the crate's memory in addition to the pixels: row buffers and chunks such as palettes.
const LIMIT_BYTES: usize = 64 << 20;

/// PNG.
pub struct Png;

impl PictureFormat for Png {
    fn name(&self) -> &'static str {
        "PNG"
    }

    fn is_start(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(&SIGNATURE)
    }

    fn size(&self, bytes: &[u8]) -> Result<Size> {
        size(bytes)
    }

    fn orientation(&self, bytes: &[u8]) -> Orientation {
        orientation(bytes)
    }

    fn is_deep(&self, bytes: &[u8]) -> bool {
        bytes.get(24) == Some(&16)
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
        decode(bytes, region, content, pixels, opacity)
    }
}

/// Returns the names and data of chunks, up to the first one that is cut.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut rest = bytes.get(SIGNATURE.len()..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (name, after) = after.split_first_chunk::<4>()?;
        let (data, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        // After the checksum.
        rest = after.get(4..).unwrap_or_default();
        Some((*name, data))
    })
}

/// Reads the camera's orientation from EXIF data, from those that ImageMagick writes as a text, or from XMP data.
fn orientation(bytes: &[u8]) -> Orientation {
    let (mut exif, mut xmp, mut is_text) = (None, None, false);
    for (name, data) in chunks(bytes) {
        match &name {
            b"eXIf" => exif = Some(Cow::Borrowed(data)),
            b"iTXt" => xmp = data.strip_prefix(b"XML:com.adobe.xmp\0\0").or(xmp),
            b"tEXt" | b"zTXt" => is_text |= data.starts_with(EXIF_TEXT.as_bytes()),
            _ => {}
        }
    }
    if exif.is_none() && is_text {
        exif = exif_text(bytes).map(Cow::Owned);
    }
    Orientation::of_metadata(exif.as_deref(), xmp)
}

/// Keyword of EXIF data as a text.
const EXIF_TEXT: &str = "Raw profile type exif";

/// Reads EXIF data from a text in front of the pixels: a name, a length, and hexadecimal digits.
fn exif_text(bytes: &[u8]) -> Option<Vec<u8>> {
    let decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: LIMIT_BYTES });
    let reader = decoder.read_info().ok()?;
    let info = reader.info();
    let plain = info.uncompressed_latin1_text.iter().find(|text| text.keyword == EXIF_TEXT).map(|t| t.text.clone());
    let text = plain.or_else(|| {
        let mut packed = info.compressed_latin1_text.iter().find(|text| text.keyword == EXIF_TEXT)?.clone();
        packed.decompress_text_with_limit(EXIF_TEXT_MAX).ok()?;
        packed.get_text().ok()
    })?;
    let digits: Vec<u8> = text.split('\n').skip(3).flat_map(str::bytes).filter(u8::is_ascii_hexdigit).collect();
    let value = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
    Some(digits.as_chunks::<2>().0.iter().map(|[high, low]| value(*high) << 4 | value(*low)).collect())
}

/// Limit on the text of EXIF data, which is far above the size that cameras write.
const EXIF_TEXT_MAX: usize = 4 << 20;

fn damaged(e: png::DecodingError) -> Error {
    Error::decode("the PNG cannot be decoded").caused_by(e)
}

/// Reads the picture's size from its header.
pub fn size(bytes: &[u8]) -> Result<Size> {
    let side = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    match (bytes.get(12..16), side(16), side(20)) {
        (Some(b"IHDR"), Some(w), Some(h)) if bytes.starts_with(&SIGNATURE) && w > 0 && h > 0 => Ok(Size { w, h }),
        _ => Err(Error::decode("the PNG has no header")),
    }
}

/// Decodes `region` of the picture. Rows below it are not decoded, unless the file is interlaced. Labels and deep
/// pictures are the stored values of one channel, each as [`deep_pixel`] of it. The opacity is written if it is wanted.
pub fn decode(
    bytes: &[u8],
    region: Region,
    content: Content,
    pixels: &mut Pixels,
    opacity: Option<&mut Pixels>,
) -> Result<()> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: LIMIT_BYTES });
    decoder.set_transformations(match content {
        Content::Colours | Content::Grey | Content::Opacity => png::Transformations::normalize_to_color8(),
        Content::Labels | Content::Deep => png::Transformations::IDENTITY,
    });
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (w, h) = reader.info().size();
    if region.x + region.w > w || region.y + region.h > h {
        return Err(Error::internal("the region is outside of the picture"));
    }
    let (colour, depth) = reader.output_color_type();
    check_values(content, colour, depth)?;
    let (channels, bits) = (colour.samples(), depth as usize);
    let out = pixels.start(region, 3);
    let mut out_rows = out.chunks_exact_mut(region.w as usize * 3);
    let mut opacity_rows = opacity.map(|opacity| opacity.start(region, 3).chunks_exact_mut(region.w as usize * 3));
    let mut take = |row: &[u8]| {
        let Some(out) = out_rows.next() else { return };
        let part = || &row[region.x as usize * channels..][..region.w as usize * channels];
        if let Some(opacity) = opacity_rows.as_mut().and_then(Iterator::next) {
            // Stored values of one channel have none.
            match bits {
                8 => opacity_row(part(), channels, opacity),
                _ => opacity.fill(255),
            }
        }
        if bits == 16 {
            let values = row.as_chunks::<2>().0.iter().skip(region.x as usize);
            out.as_chunks_mut::<3>()
                .0
                .iter_mut()
                .zip(values)
                .for_each(|(out, value)| *out = deep_pixel(u16::from_be_bytes(*value)));
        } else if bits < 8 {
            for (x, out) in (region.x as usize..).zip(out.as_chunks_mut::<3>().0) {
                // The first pixel is in the highest bits.
                let (byte, position) = (row[x * bits / 8], 8 - bits - x * bits % 8);
                *out = [byte >> position & ((1 << bits) - 1); 3];
            }
        } else {
            rgb_row(part(), channels, out);
        }
    };
    if reader.info().interlaced {
        let bytes = reader.output_buffer_size().ok_or_else(|| Error::decode("the PNG is too large"))?;
        let mut whole = vec![0; bytes];
        reader.next_frame(&mut whole).map_err(damaged)?;
        whole.chunks_exact((w as usize * channels * bits).div_ceil(8)).skip(region.y as usize).for_each(&mut take);
        return Ok(());
    }
    for y in 0..region.y + region.h {
        let row = reader.next_row().map_err(damaged)?.ok_or_else(|| Error::decode("the PNG ends early"))?;
        if y >= region.y {
            take(row.data());
        }
    }
    Ok(())
}

/// Checks that a file has one channel, for contents that are its values.
fn check_values(content: Content, colour: png::ColorType, depth: png::BitDepth) -> Result<()> {
    use png::ColorType::{Grayscale, Indexed};
    let (fits, message) = match content {
        Content::Colours | Content::Grey | Content::Opacity => return Ok(()),
        Content::Labels => (matches!(colour, Grayscale | Indexed), "labels need a PNG of one channel"),
        Content::Deep => (
            colour == Grayscale && matches!(depth, png::BitDepth::Eight | png::BitDepth::Sixteen),
            "mode I;16 needs a grey PNG of 8 or 16 bits: read colours in mode RGB or L",
        ),
    };
    if fits {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, message).with("colours", format!("{colour:?}")).with("bits", depth as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(colour: png::ColorType, depth: png::BitDepth, w: u32, h: u32, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, w, h);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        if colour == png::ColorType::Indexed {
            encoder.set_palette(vec![9, 8, 7, 6, 5, 4]);
        }
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        out
    }

    #[test]
    fn every_colour_type_becomes_rgb() {
        use png::{BitDepth as D, ColorType as C};
        let mut pixels = Pixels::default();
        let one = Region { x: 1, y: 0, w: 1, h: 1 };
        for (colour, depth, data, want) in [
            (C::Grayscale, D::Eight, &[1_u8, 2][..], [2, 2, 2]),
            (C::Grayscale, D::One, &[0b0100_0000], [255, 255, 255]),
            (C::Grayscale, D::Sixteen, &[1, 2, 3, 4], [3, 3, 3]),
            (C::GrayscaleAlpha, D::Eight, &[1, 2, 3, 4], [3, 3, 3]),
            (C::Rgb, D::Eight, &[1, 2, 3, 4, 5, 6], [4, 5, 6]),
            (C::Rgba, D::Eight, &[1, 2, 3, 4, 5, 6, 7, 8], [5, 6, 7]),
            (C::Indexed, D::Eight, &[0, 1], [6, 5, 4]),
        ] {
            let bytes = file(colour, depth, 2, 1, data);
            assert_eq!(size(&bytes).unwrap(), Size { w: 2, h: 1 });
            decode(&bytes, one, Content::Colours, &mut pixels, None).unwrap();
            assert_eq!(pixels.rgb(), want, "{colour:?} {depth:?}");
        }
    }

    #[test]
    fn a_truncated_or_changed_file_is_an_error() {
        let data: Vec<u8> = (0..32 * 32).map(|i| (i * 7 % 251) as u8).collect();
        let bytes = file(png::ColorType::Grayscale, png::BitDepth::Eight, 32, 32, &data);
        let all = Region { x: 0, y: 0, w: 32, h: 32 };
        let mut pixels = Pixels::default();
        decode(&bytes, all, Content::Colours, &mut pixels, None).unwrap();
        // The last row is complete before the checksums after it are.
        for cut in 0..bytes.len() - 24 {
            assert!(
                size(&bytes[..cut]).is_err()
                    || decode(&bytes[..cut], all, Content::Colours, &mut pixels, None).is_err(),
                "{cut}"
            );
        }
        let mut flipped = bytes.clone();
        flipped[60] ^= 4;
        assert!(decode(&flipped, all, Content::Colours, &mut pixels, None).is_err());
    }

    #[test]
    fn labels_are_the_stored_values() {
        use png::{BitDepth as D, ColorType as C};
        let mut pixels = Pixels::default();
        let last = Region { x: 2, y: 0, w: 1, h: 1 };
        for (colour, depth, data, want) in [
            (C::Grayscale, D::Eight, &[1_u8, 2, 200][..], 200),
            (C::Indexed, D::Eight, &[0, 1, 1], 1),
            (C::Indexed, D::One, &[0b0010_0000], 1),
            (C::Indexed, D::Two, &[0b0001_1000], 2),
            (C::Grayscale, D::Four, &[0x12, 0x70], 7),
        ] {
            decode(&file(colour, depth, 3, 1, data), last, Content::Labels, &mut pixels, None).unwrap();
            assert_eq!(pixels.rgb(), [want; 3], "{colour:?} {depth:?}");
        }
        let colours = file(C::Rgb, D::Eight, 3, 1, &[0; 9]);
        let e = decode(&colours, last, Content::Labels, &mut pixels, None).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        let deep = file(C::Grayscale, D::Sixteen, 3, 1, &[0, 1, 2, 3, 4, 5]);
        for content in [Content::Labels, Content::Deep] {
            decode(&deep, last, content, &mut pixels, None).unwrap();
            assert_eq!(pixels.rgb(), deep_pixel(0x0405));
        }
        let palette = file(C::Indexed, D::Eight, 3, 1, &[0; 3]);
        assert!(decode(&palette, last, Content::Deep, &mut pixels, None).is_err());
    }

    #[test]
    fn changed_bytes_never_do_worse_than_an_error() {
        let mut state = 1_u32;
        let mut below = |n: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % n
        };
        let data: Vec<u8> = (0..40 * 30 * 3).map(|i| (i * 7 % 251) as u8).collect();
        let clean = file(png::ColorType::Rgb, png::BitDepth::Eight, 40, 30, &data);
        let mut pixels = Pixels::default();
        let mut errors = 0;
        for round in 0..4000 {
            let mut bytes = clean.clone();
            for _ in 0..1 + below(4) {
                let at = below(bytes.len());
                bytes[at] = below(256) as u8;
            }
            let content = [Content::Colours, Content::Labels, Content::Deep][round % 3];
            let outcome = size(&bytes).and_then(|found| {
                let wanted = Region { x: found.w / 2, y: found.h / 2, w: 1, h: 1 };
                decode(&bytes, wanted, content, &mut pixels, None)
            });
            errors += u32::from(outcome.is_err());
        }
        assert!(errors > 1000, "{errors}");
    }
}
