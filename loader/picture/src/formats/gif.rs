//! GIF through the `gif` crate: the first frame on its canvas, as in Pillow. The canvas around it has the transparent
//! colour, or else the first one.

use std::io::Cursor;

use super::values::{need_colours, too_large};
use crate::format::PictureFormat;
use crate::geometry::{PIXELS_MAX, Region, Size};
use crate::pixels::{Content, Pixels, write};
use forebay_core::error::{Error, Result};

/// GIF.
pub(super) struct Gif;

fn damaged(e: gif::DecodingError) -> Error {
    Error::decode("the GIF cannot be decoded").caused_by(e)
}

/// Reads the headers up to the first frame.
fn open(bytes: &[u8]) -> Result<(gif::Decoder<Cursor<&[u8]>>, Size)> {
    let mut decoder = gif::DecodeOptions::new().read_info(Cursor::new(bytes)).map_err(damaged)?;
    let (w, h) = (u32::from(decoder.width()), u32::from(decoder.height()));
    let frame = decoder.next_frame_info().map_err(damaged)?.ok_or_else(|| Error::decode("the GIF has no frame"))?;
    let side = |start: u16, length: u16| u32::from(start) + u32::from(length);
    // A frame that is larger enlarges the canvas.
    let size = Size { w: w.max(side(frame.left, frame.width)), h: h.max(side(frame.top, frame.height)) };
    if size.w == 0 || size.h == 0 || size.pixels() > PIXELS_MAX {
        return Err(too_large("GIF", size));
    }
    Ok((decoder, size))
}

impl PictureFormat for Gif {
    fn name(&self) -> &'static str {
        "GIF"
    }

    fn is_start(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a")
    }

    fn size(&self, bytes: &[u8]) -> Result<Size> {
        Ok(open(bytes)?.1)
    }

    fn decode(
        &self,
        bytes: &[u8],
        region: Region,
        content: Content,
        pixels: &mut Pixels,
        opacity: Option<&mut Pixels>,
    ) -> Result<()> {
        let (mut decoder, size) = open(bytes)?;
        let frame = decoder.current_frame_info().ok_or_else(|| Error::decode("the GIF has no frame"))?;
        let [left, top, w, h] = [frame.left, frame.top, frame.width, frame.height].map(usize::from);
        let transparent = frame.transparent;
        let mut values = vec![0; w * h];
        if !values.is_empty() {
            decoder.read_into_buffer(&mut values).map_err(damaged)?;
        }
        let value = |x: usize, y: usize| match (x.checked_sub(left), y.checked_sub(top)) {
            (Some(x), Some(y)) if x < w && y < h => values[y * w + x],
            _ => transparent.unwrap_or(0),
        };
        if content == Content::Labels {
            return write(region, size, pixels, opacity, |x, y| ([value(x, y); 3], 255));
        }
        need_colours("GIF", content)?;
        let palette = decoder.palette().map_err(damaged)?.as_chunks::<3>().0;
        let shown = |value: u8| if transparent == Some(value) { 0 } else { 255 };
        // As in Pillow, colours after the end of a palette are black.
        let colour = |value: u8| palette.get(usize::from(value)).copied().unwrap_or_default();
        write(region, size, pixels, opacity, |x, y| (colour(value(x, y)), shown(value(x, y))))
    }
}
