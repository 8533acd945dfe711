//! The MDS encoding `pil`: a picture's raw pixels behind its size and Pillow's name for its mode.

use super::geometry::{Region, Size};
use super::image::Content;
use super::pixels::Pixels;
use crate::error::{Error, ErrorKind, Result};

struct Raw<'a> {
    size: Size,
    mode: &'a [u8],
    pixels: &'a [u8],
}

fn parse(bytes: &[u8]) -> Result<Raw<'_>> {
    let short = || Error::decode("the raw picture is shorter than its header says").with("bytes", bytes.len());
    let word = |i: usize| {
        let word = bytes.get(4 * i..4 * i + 4).ok_or_else(short)?;
        Ok::<u32, Error>(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
    };
    let (w, h, mode_len) = (word(0)?, word(1)?, word(2)? as usize);
    let rest = &bytes[12..];
    if mode_len > rest.len() {
        return Err(short());
    }
    let (mode, pixels) = rest.split_at(mode_len);
    if w == 0 || h == 0 {
        return Err(Error::decode("the raw picture has no pixels").with("width", w).with("height", h));
    }
    Ok(Raw { size: Size { w, h }, mode, pixels })
}

/// The picture's size.
///
/// # Errors
/// A header that is too short, or a side of 0.
pub fn size(bytes: &[u8]) -> Result<Size> {
    Ok(parse(bytes)?.size)
}

/// Converts `region` to RGB as Pillow's `convert("RGB")` does; alpha is dropped. Labels come out in all three channels.
///
/// # Errors
/// Too few bytes, or a mode whose pixels are not bytes (or whose palette the encoding has lost).
pub fn decode(bytes: &[u8], region: Region, content: Content, pixels: &mut Pixels) -> Result<()> {
    let raw = parse(bytes)?;
    let channels: usize = match raw.mode {
        b"L" => 1,
        b"P" if content == Content::Labels => 1,
        b"LA" => 2,
        b"RGB" => 3,
        b"RGBA" | b"RGBX" | b"CMYK" => 4,
        other => {
            return Err(Error::new(ErrorKind::Unsupported, "raw pictures of this mode are not supported")
                .with("mode", other.escape_ascii()));
        }
    };
    if content == Content::Labels && channels != 1 {
        return Err(Error::new(ErrorKind::Unsupported, "labels need a picture of one channel")
            .with("mode", raw.mode.escape_ascii()));
    }
    let stride = raw.size.w as usize * channels;
    if (stride as u128) * u128::from(raw.size.h) != raw.pixels.len() as u128 {
        return Err(Error::decode("the raw picture's size and bytes do not fit")
            .with("width", raw.size.w)
            .with("height", raw.size.h)
            .with("bytes", raw.pixels.len()));
    }
    if region.x + region.w > raw.size.w || region.y + region.h > raw.size.h {
        return Err(Error::internal("a region outside of the picture was asked for"));
    }
    let out = pixels.start(region, 3);
    let rows = out.chunks_exact_mut(region.w as usize * 3).zip(raw.pixels.chunks_exact(stride).skip(region.y as usize));
    for (out, row) in rows {
        let row = &row[region.x as usize * channels..][..region.w as usize * channels];
        match raw.mode {
            b"CMYK" => {
                for (out, p) in out.chunks_exact_mut(3).zip(row.chunks_exact(4)) {
                    out.copy_from_slice(&[0, 1, 2].map(|c| rgb_channel(p[c], p[3])));
                }
            }
            _ => rgb_row(row, channels, out),
        }
    }
    Ok(())
}

/// Copies a row of grey, grey + alpha, RGB or RGB + alpha pixels to RGB.
pub(super) fn rgb_row(row: &[u8], channels: usize, out: &mut [u8]) {
    match channels {
        3 => out.copy_from_slice(row),
        1 | 2 => out.chunks_exact_mut(3).zip(row.chunks_exact(channels)).for_each(|(out, p)| out.fill(p[0])),
        _ => out.chunks_exact_mut(3).zip(row.chunks_exact(channels)).for_each(|(out, p)| out.copy_from_slice(&p[..3])),
    }
}

/// One channel of Pillow's CMYK to RGB: white without black ink, times what the ink leaves.
pub(super) fn rgb_channel(ink: u8, black: u8) -> u8 {
    let white = 255 - u32::from(black);
    let product = u32::from(ink) * white + 128;
    (white - (((product >> 8) + product) >> 8)) as u8
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
    fn modes_become_rgb_and_regions_are_cut_out() {
        let mut pixels = Pixels::new();
        let grey = picture(2, 2, "L", &[1, 2, 3, 4]);
        decode(&grey, Region { x: 1, y: 0, w: 1, h: 2 }, Content::Colours, &mut pixels).unwrap();
        assert_eq!(pixels.rgb(), [2, 2, 2, 4, 4, 4]);
        let rgba = picture(1, 2, "RGBA", &[1, 2, 3, 4, 5, 6, 7, 8]);
        decode(&rgba, Region { x: 0, y: 1, w: 1, h: 1 }, Content::Colours, &mut pixels).unwrap();
        assert_eq!(pixels.rgb(), [5, 6, 7]);
        assert_eq!(size(&rgba).unwrap(), Size { w: 1, h: 2 });
    }

    #[test]
    fn hostile_headers_are_errors() {
        let mut pixels = Pixels::new();
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
            assert!(decode(&bytes, one, Content::Colours, &mut pixels).is_err(), "{bytes:?}");
        }
    }
}
