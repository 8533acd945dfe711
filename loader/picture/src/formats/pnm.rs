//! Portable bitmaps, grey maps and pixel maps (PBM, PGM, PPM): plain and binary. The largest value of a file becomes
//! 255, or 65535 in files of 16 bits, as in Pillow; crates for the format leave values as they are.
//!
//! Pixels are as large in the file as its header announces, so a small file takes little memory.

use std::borrow::Cow;

use super::values::{need_colours, too_large};
use crate::format::PictureFormat;
use crate::geometry::{PIXELS_MAX, Region, Size};
use crate::pixels::{Content, Pixels, deep_pixel, write};
use forebay_core::error::{Error, Result};

/// Portable any map.
pub(super) struct Pnm;

/// Largest number of characters of a number, as in Pillow.
const NUMBER_MAX: usize = 10;

struct Header {
    size: Size,
    /// Digit after the `P`.
    kind: u8,
    /// Value that becomes the largest level; 1 for bits.
    largest: u32,
    /// Start of the pixels.
    data: usize,
}

fn damaged(defect: &'static str) -> Error {
    Error::decode("the PBM, PGM or PPM is damaged").with("defect", defect)
}

/// Reads the number at `at`, and moves behind the white space after it. Comments end with their line.
fn read_number(bytes: &[u8], at: &mut usize) -> Result<u32> {
    let mut number = None;
    for length in 0.. {
        let byte = *bytes.get(*at).ok_or_else(|| damaged("it ends early"))?;
        *at += 1;
        match byte {
            b'#' => {
                let end = bytes[*at..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                *at += end.ok_or_else(|| damaged("it ends early"))? + 1;
            }
            _ if byte.is_ascii_whitespace() || byte == 0x0b => match number {
                Some(number) => return Ok(number),
                None => continue,
            },
            b'0'..=b'9' if length < NUMBER_MAX * 100 => {
                let digit = u32::from(byte - b'0');
                let next = number.unwrap_or(0_u32).checked_mul(10).and_then(|n| n.checked_add(digit));
                number = Some(next.ok_or_else(|| damaged("a number is too large"))?);
            }
            _ => return Err(damaged("a character in its header")),
        }
    }
    Err(damaged("no number"))
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self> {
        let kind = *bytes.get(1).ok_or_else(|| damaged("it ends early"))?;
        let mut data = 3;
        let (w, h) = (read_number(bytes, &mut data)?, read_number(bytes, &mut data)?);
        let size = Size { w, h };
        if w == 0 || h == 0 || size.pixels() > PIXELS_MAX {
            return Err(too_large("PBM, PGM or PPM", size));
        }
        let largest = if matches!(kind, b'1' | b'4') { 1 } else { read_number(bytes, &mut data)? };
        if !(1..1 << 16).contains(&largest) {
            return Err(damaged("its largest value is not between 1 and 65535"));
        }
        Ok(Self { size, kind, largest, data })
    }

    fn channels(&self) -> usize {
        if matches!(self.kind, b'3' | b'6') { 3 } else { 1 }
    }

    /// Returns the values of a plain file as the values of a binary one.
    fn values<'a>(&self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let (width, h) = (self.size.w as usize * self.channels(), self.size.h as usize);
        let row = if self.kind == b'4' { width.div_ceil(8) } else { width * self.value_bytes() };
        let length = row * h;
        let data = &bytes[self.data..];
        if self.kind >= b'4' {
            return data.get(..length).map(Cow::Borrowed).ok_or_else(|| damaged("it ends early"));
        }
        // A value has at least a digit, so a small file does not make much memory needed.
        if data.len() < width * h {
            return Err(damaged("it ends early"));
        }
        let mut out = Vec::with_capacity(length);
        let mut rest = data.split(|byte| matches!(byte, b'\n' | b'\r')).flat_map(|line| {
            let comment = line.iter().position(|byte| *byte == b'#').unwrap_or(line.len());
            line[..comment].split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b)
        });
        while out.len() < length {
            let token = rest.next().ok_or_else(|| damaged("it ends early"))?;
            if self.kind == b'1' {
                // Bits need no space between them.
                let bits = token.iter().take(length - out.len());
                for bit in bits {
                    out.push(match bit {
                        b'0' => 0,
                        b'1' => 1,
                        _ => return Err(damaged("a bit is neither 0 nor 1")),
                    });
                }
            } else if !token.is_empty() {
                let text = std::str::from_utf8(token).ok().filter(|text| text.len() <= NUMBER_MAX);
                let value = text.and_then(|text| text.parse::<u32>().ok()).filter(|value| *value <= self.largest);
                let value = value.ok_or_else(|| damaged("a value that is not a number up to the largest one"))?;
                out.extend(&(value as u16).to_be_bytes()[2 - self.value_bytes()..]);
            }
        }
        Ok(Cow::Owned(out))
    }

    /// Bytes of a value, unless there are 8 in a byte.
    fn value_bytes(&self) -> usize {
        if self.largest > 255 { 2 } else { 1 }
    }

    /// Returns a stored value.
    fn value(&self, values: &[u8], x: usize, y: usize, channel: usize) -> u32 {
        let w = self.size.w as usize;
        if self.kind == b'4' {
            return u32::from(values[y * w.div_ceil(8) + x / 8] >> (7 - x % 8)) & 1;
        }
        let at = ((y * w + x) * self.channels() + channel) * self.value_bytes();
        match self.value_bytes() {
            1 => values[at].into(),
            _ => u16::from_be_bytes([values[at], values[at + 1]]).into(),
        }
    }

    /// Scales a value so that the largest one becomes `to`, rounded with ties to even.
    fn scaled(&self, value: u32, to: u32) -> u32 {
        (f64::from(value) / f64::from(self.largest) * f64::from(to)).round_ties_even().min(f64::from(to)) as u32
    }

    fn level(&self, value: u32) -> u8 {
        match self.kind {
            b'1' | b'4' => 255 * (1 - value as u8),
            // As all files of 16 bits: the upper 8 bits.
            b'2' | b'5' if self.largest > 255 => (self.scaled(value, 65_535) >> 8) as u8,
            _ => self.scaled(value, 255) as u8,
        }
    }
}

impl PictureFormat for Pnm {
    fn name(&self) -> &'static str {
        "PBM, PGM, PPM"
    }

    fn is_start(&self, bytes: &[u8]) -> bool {
        matches!(bytes, [b'P', b'1'..=b'6', space, ..] if space.is_ascii_whitespace())
    }

    fn size(&self, bytes: &[u8]) -> Result<Size> {
        Ok(Header::read(bytes)?.size)
    }

    fn is_deep(&self, bytes: &[u8]) -> bool {
        Header::read(bytes).is_ok_and(|header| header.channels() == 1 && header.largest > 255)
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
        let values = header.values(bytes)?;
        let value = |x, y, channel| header.value(&values, x, y, channel);
        match content {
            Content::Labels if header.channels() == 1 => {
                write(region, header.size, pixels, opacity, |x, y| (deep_pixel(value(x, y, 0) as u16), 255))
            }
            Content::Deep if header.channels() == 1 && header.largest > 1 => {
                let to = if header.largest > 255 { 65_535 } else { 255 };
                let deep = |x, y| (deep_pixel(header.scaled(value(x, y, 0), to) as u16), 255);
                write(region, header.size, pixels, opacity, deep)
            }
            _ => {
                need_colours("PPM", content)?;
                let last = header.channels() - 1;
                let colour = |x, y| ([0, 1, 2].map(|c: usize| header.level(value(x, y, c.min(last)))), 255);
                write(region, header.size, pixels, opacity, colour)
            }
        }
    }
}
