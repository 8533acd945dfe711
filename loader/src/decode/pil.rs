//! Raw pictures of the MDS encoding `pil`, converted to RGB.

use crate::error::{Error, ErrorKind, Result};
use crate::format::encoding;
use forebay_picture::geometry::{Region, Size};
use forebay_picture::pixels::{Content, Pixels, deep_pixel};
use forebay_picture::rgb::{opacity_row, rgb_channel, rgb_row};

/// Parses the header, and rejects pictures without pixels.
fn parse(bytes: &[u8]) -> Result<(Size, encoding::Pixels<'_>)> {
    let raw = encoding::Pixels::read(bytes).map_err(|e| e.of_kind(ErrorKind::Decode))?;
    let size = Size { w: raw.width, h: raw.height };
    if size.w == 0 || size.h == 0 {
        return Err(Error::decode("the raw picture has no pixels").with("width", size.w).with("height", size.h));
    }
    Ok((size, raw))
}

/// Returns the picture's size. A number of bytes that does not fit it is an error.
pub(super) fn size(bytes: &[u8]) -> Result<Size> {
    Ok(parse(bytes)?.0)
}

/// Returns true for values of 16 bits.
pub(super) fn is_deep(bytes: &[u8]) -> bool {
    parse(bytes).is_ok_and(|(_, raw)| raw.mode.starts_with("I;16"))
}

/// Converts `region` to RGB as Pillow's `convert("RGB")` does; alpha is dropped. Labels and deep pictures are the
/// stored values, each as [`deep_pixel`] of it. Modes with pixels that are not bytes, or with a palette that the
/// encoding does not store, are errors. The opacity is written if it is wanted.
pub(super) fn decode(
    bytes: &[u8],
    region: Region,
    content: Content,
    pixels: &mut Pixels,
    opacity: Option<&mut Pixels>,
) -> Result<()> {
    let (size, raw) = parse(bytes)?;
    // For all of these modes, the parser has compared the size with the number of bytes.
    let channels: usize = match &*raw.mode {
        "L" => 1,
        "I;16" | "I;16L" | "I;16B" if matches!(content, Content::Labels | Content::Deep) => 2,
        "P" if content == Content::Labels => 1,
        "LA" => 2,
        "RGB" => 3,
        "RGBA" | "RGBX" | "CMYK" => 4,
        other => {
            let message = if other.starts_with("I;16") {
                "raw pictures of 16 bits are for Image with mode=\"I;16\", or for Mask"
            } else {
                "raw pictures of this mode are not supported: store them in mode L, RGB or RGBA"
            };
            return Err(Error::new(ErrorKind::Unsupported, message).with("mode", other.escape_default()));
        }
    };
    let is_deep = raw.mode.starts_with("I;16");
    if matches!(content, Content::Labels | Content::Deep) && channels != 1 && !is_deep {
        let message = "labels and pictures of mode I;16 need a picture of one channel";
        return Err(Error::new(ErrorKind::Unsupported, message).with("mode", &raw.mode));
    }
    let stride = size.w as usize * channels;
    if region.x + region.w > size.w || region.y + region.h > size.h {
        return Err(Error::internal("the region is outside of the picture"));
    }
    if let Some(opacity) = opacity {
        let with_opacity = if matches!(&*raw.mode, "LA" | "RGBA") { channels } else { 0 };
        let out = opacity.start(region, 3).chunks_exact_mut(region.w as usize * 3);
        for (out, row) in out.zip(raw.data.chunks_exact(stride).skip(region.y as usize)) {
            opacity_row(&row[region.x as usize * channels..][..region.w as usize * channels], with_opacity, out);
        }
    }
    let out = pixels.start(region, 3);
    let rows = out.chunks_exact_mut(region.w as usize * 3).zip(raw.data.chunks_exact(stride).skip(region.y as usize));
    for (out, row) in rows {
        let row = &row[region.x as usize * channels..][..region.w as usize * channels];
        if is_deep {
            let value = if &*raw.mode == "I;16B" { u16::from_be_bytes } else { u16::from_le_bytes };
            let values = out.as_chunks_mut::<3>().0.iter_mut().zip(row.as_chunks::<2>().0);
            values.for_each(|(out, bytes)| *out = deep_pixel(value(*bytes)));
        } else if raw.mode == "CMYK" {
            for (out, p) in out.chunks_exact_mut(3).zip(row.chunks_exact(4)) {
                out.copy_from_slice(&[0, 1, 2].map(|c| rgb_channel(p[c], p[3])));
            }
        } else {
            rgb_row(row, channels, out);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(w: u32, h: u32, mode: &str, pixels: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [w, h, mode.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend(mode.bytes());
        out.extend(pixels);
        out
    }

    #[test]
    fn modes_are_converted_to_rgb_and_regions_are_cropped() {
        let mut pixels = Pixels::default();
        let grey = picture(2, 2, "L", &[1, 2, 3, 4]);
        decode(&grey, Region { x: 1, y: 0, w: 1, h: 2 }, Content::Colours, &mut pixels, None).unwrap();
        assert_eq!(pixels.rgb(), [2, 2, 2, 4, 4, 4]);
        let rgba = picture(1, 2, "RGBA", &[1, 2, 3, 4, 5, 6, 7, 8]);
        decode(&rgba, Region { x: 0, y: 1, w: 1, h: 1 }, Content::Colours, &mut pixels, None).unwrap();
        assert_eq!(pixels.rgb(), [5, 6, 7]);
        assert_eq!(size(&rgba).unwrap(), Size { w: 1, h: 2 });
    }

    #[test]
    fn hostile_headers_are_errors() {
        let mut pixels = Pixels::default();
        let one = Region { x: 0, y: 0, w: 1, h: 1 };
        for bytes in [
            vec![],
            vec![1; 11],
            picture(0, 1, "L", &[]),
            picture(2, 2, "L", &[1, 2, 3]),
            picture(u32::MAX, u32::MAX, "RGBA", &[1]),
            picture(1, 1, "I;16", &[1, 2]),
            vec![1, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255],
        ] {
            assert!(decode(&bytes, one, Content::Colours, &mut pixels, None).is_err(), "{bytes:?}");
        }
    }
}
