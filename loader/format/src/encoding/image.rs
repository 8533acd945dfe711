//! Image encodings without a codec: raw pixels with a header, and lists of encoded images.

use super::value::Pixels;
use forebay_core::error::{Error, ErrorKind, Result};

/// Upper bound of a list's elements. An empty element takes four bytes in the file but far more in memory; real lists
/// are video frames.
const ELEMENTS_MAX: u32 = 1 << 20;

fn take_u32<'a>(bytes: &'a [u8], field: &str) -> Result<(u32, &'a [u8])> {
    let (head, rest) =
        bytes.split_first_chunk::<4>().ok_or_else(|| Error::format(format!("the value ends before its {field}")))?;
    Ok((u32::from_le_bytes(*head), rest))
}

fn length(len: usize, subject: &str) -> Result<[u8; 4]> {
    let len = u32::try_from(len).map_err(|_| Error::config(format!("{subject} is larger than 4 GiB")))?;
    Ok(len.to_le_bytes())
}

/// `u32 width | u32 height | u32 mode length | mode | rows`.
pub(super) fn encode_pixels(pixels: &Pixels<'_>, out: &mut Vec<u8>) -> Result<()> {
    pixels.check().map_err(|e| e.of_kind(ErrorKind::Config))?;
    out.extend(pixels.width.to_le_bytes());
    out.extend(pixels.height.to_le_bytes());
    out.extend(length(pixels.mode.len(), "an image mode")?);
    out.extend_from_slice(pixels.mode.as_bytes());
    out.extend_from_slice(&pixels.data);
    Ok(())
}

impl<'a> Pixels<'a> {
    /// Reads a value of the encoding `pil`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a broken header, and for pixels that do not fit size and mode.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let (width, rest) = take_u32(bytes, "width")?;
        let (height, rest) = take_u32(rest, "height")?;
        let (mode_len, rest) = take_u32(rest, "mode's length")?;
        let (mode, data) = rest
            .split_at_checked(mode_len as usize)
            .ok_or_else(|| Error::format(format!("the value ends before its mode of {mode_len} bytes")))?;
        let mode = std::str::from_utf8(mode).map_err(|e| Error::format("the image mode is not UTF-8").caused_by(e))?;
        let pixels = Self { width, height, mode: mode.into(), data: data.into() };
        pixels.check().map(|()| pixels)
    }

    fn check(&self) -> Result<()> {
        match row_bytes(&self.mode, self.width) {
            Some(row_bytes) if row_bytes * u128::from(self.height) != self.data.len() as u128 => {
                Err(Error::format("the raw picture's size and bytes do not fit")
                    .with("width", self.width)
                    .with("height", self.height)
                    .with("mode", &self.mode)
                    .with("bytes", self.data.len()))
            }
            _ => Ok(()),
        }
    }
}

/// Bytes of one row in Pillow's modes; `None` for unknown modes: their size is not checked.
fn row_bytes(mode: &str, width: u32) -> Option<u128> {
    // u128, because a false width times a false height times four can overflow 64 bits.
    let width = u128::from(width);
    Some(match mode {
        "1" => width.div_ceil(8),
        "L" | "P" => width,
        "LA" | "PA" | "La" | "I;16" | "I;16B" | "I;16L" | "I;16N" => 2 * width,
        "RGB" | "YCbCr" | "LAB" | "HSV" => 3 * width,
        "RGBA" | "RGBX" | "RGBa" | "CMYK" | "I" | "F" => 4 * width,
        _ => return None,
    })
}

/// Appends `u32 n | n * u32 size | elements`, the older list of JPEG files; `encode` appends an element.
pub(super) fn encode_list<T>(
    items: &[T],
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&T, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    out.extend(length(items.len(), "a list")?);
    let mut size_at = out.len();
    out.resize(size_at + 4 * items.len(), 0);
    for item in items {
        let start = out.len();
        encode(item, out)?;
        let size = length(out.len() - start, "an element")?;
        out[size_at..size_at + 4].copy_from_slice(&size);
        size_at += 4;
    }
    Ok(())
}

/// Calls `element` for each element of such a list, after the `reserved` bytes of newer lists, which are ignored
/// as in the reference. The table of sizes is checked against the number of bytes before anything is allocated.
pub(super) fn decode_list<'a, T>(
    bytes: &'a [u8],
    reserved: &[u8],
    mut element: impl FnMut(&'a [u8]) -> Result<T>,
) -> Result<Vec<T>> {
    let list = bytes.get(reserved.len()..).ok_or_else(|| Error::format("the value ends before its reserved word"))?;
    let (count, rest) = take_u32(list, "number of elements")?;
    if count > ELEMENTS_MAX {
        return Err(Error::format(format!("a list of {count} elements; at most {ELEMENTS_MAX} are read")));
    }
    let (sizes, mut blobs) = (count as usize)
        .checked_mul(4)
        .and_then(|len| rest.split_at_checked(len))
        .ok_or_else(|| Error::format(format!("the value ends before the sizes of its {count} elements")))?;
    let mut elements = Vec::with_capacity(count as usize);
    for (i, size) in sizes.chunks_exact(4).enumerate() {
        let (size, _) = take_u32(size, "size")?;
        let (blob, rest) = blobs
            .split_at_checked(size as usize)
            .ok_or_else(|| Error::format(format!("the value ends before element {i} of {size} bytes")))?;
        elements.push(element(blob)?);
        blobs = rest;
    }
    if !blobs.is_empty() {
        return Err(Error::format(format!("{} bytes follow the last element", blobs.len())));
    }
    Ok(elements)
}
