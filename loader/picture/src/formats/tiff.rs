//! TIFF through the `tiff` crate: the first picture of a file, grey, with a palette, RGB or CMYK, of 1 to 16 bits. As
//! in Pillow, it is always turned as its orientation directs.
//!
//! The crate rejects palettes. Their files are read as grey ones, and this module has the colours. The crate ignores
//! the order of bits in bytes, so the bytes are turned before it reads them. It adds up horizontal differences wrongly
//! where it leaves a channel out; so the fourth one of a picture with colours is read as opacity, and more channels are
//! an error.

use std::borrow::Cow;
use std::io::Cursor;
use std::ops::Range;

use tiff::ColorType;
use tiff::decoder::{BufferLayoutPreference, Decoder, DecodingSampleType, Limits};
use tiff::tags::{SampleFormat, Tag};

use super::values::{need_colours, too_large};
use crate::format::PictureFormat;
use crate::geometry::{PIXELS_MAX, Region, Size};
use crate::orientation::Orientation;
use crate::pixels::{Content, Pixels, deep_pixel, write};
use crate::rgb::rgb_channel;
use crate::tiff_entry::TiffEntry;
use forebay_core::error::{Error, ErrorKind, Result};

/// TIFF.
pub(super) struct Tiff;

/// Limit on the pixels of a whole picture in memory, and on a strip or tile of it.
const DECODED_BYTES: usize = 1 << 30;

/// Numbers of the tag and its values.
const PHOTOMETRIC: u32 = 262;
const GREY: u16 = 1;
const PALETTE: u32 = 3;

/// Value of `FillOrder`: the first pixel of a byte is in its lowest bit.
const LOWEST_FIRST: u32 = 2;

/// Number of the tag `ExtraSamples`, and value of `Predictor` for horizontal differences.
const EXTRA_SAMPLES: u32 = 338;
const DIFFERENCES: u32 = 2;

/// Values of `ExtraSamples`: opacity by which the colours are multiplied, and one by which they are not.
const ASSOCIATED: u16 = 1;
const UNSPECIFIED: u16 = 0;
const OPACITY: u16 = 2;

fn damaged(e: tiff::TiffError) -> Error {
    let error = Error::decode("the TIFF cannot be decoded");
    match e {
        tiff::TiffError::UnsupportedError(_) => error.of_kind(ErrorKind::Unsupported).caused_by(e),
        e => error.caused_by(e),
    }
}

fn unsupported(field: &'static str, value: impl std::fmt::Debug) -> Error {
    let message = "this kind of TIFF file is not supported: convert it to PNG";
    Error::new(ErrorKind::Unsupported, message).with(field, format!("{value:?}"))
}

fn decoder_of(file: Cow<'_, [u8]>) -> Result<Decoder<Cursor<Cow<'_, [u8]>>>> {
    let mut limits = Limits::default();
    limits.decoding_buffer_size = DECODED_BYTES;
    limits.intermediate_buffer_size = DECODED_BYTES;
    Ok(Decoder::new(Cursor::new(file)).map_err(damaged)?.with_limits(limits))
}

/// Returns the file `bytes` in the form that the crate reads rightly, and true if that differs from it.
fn changed<'a>(
    decoder: &mut Decoder<Cursor<Cow<'_, [u8]>>>,
    extra: &[u16],
    bytes: &'a [u8],
) -> Result<(bool, Cow<'a, [u8]>)> {
    let mut file = Cow::Borrowed(bytes);
    let mut is_changed = false;
    if decoder.find_tag_unsigned(Tag::FillOrder).map_err(damaged)? == Some(LOWEST_FIRST) {
        let file = file.to_mut();
        for range in chunks(decoder)? {
            file.get_mut(range).into_iter().flatten().for_each(|byte| *byte = byte.reverse_bits());
        }
        is_changed = true;
    }
    let samples: Option<u16> = decoder.find_tag_unsigned(Tag::SamplesPerPixel).map_err(damaged)?;
    let is_apart = decoder.find_tag_unsigned(Tag::PlanarConfiguration).map_err(damaged)? == Some(2_u32);
    let colour = decoder.colortype().map_err(damaged)?;
    if decoder.find_tag_unsigned(Tag::Predictor).map_err(damaged)? == Some(DIFFERENCES)
        && !is_apart
        && samples.is_some_and(|samples| samples != colour.num_samples())
    {
        let entry = TiffEntry::find(bytes, EXTRA_SAMPLES).filter(|_| samples == Some(4) && extra == [UNSPECIFIED]);
        let entry = entry.ok_or_else(|| unsupported("channels", samples))?;
        entry.replace(file.to_mut(), OPACITY);
        is_changed = true;
    }
    Ok((is_changed, file))
}

/// Returns the places of all strips or tiles in the file.
fn chunks(decoder: &mut Decoder<Cursor<Cow<'_, [u8]>>>) -> Result<Vec<Range<usize>>> {
    let mut numbers = |tags: [Tag; 2]| -> Result<Vec<u64>> {
        for tag in tags {
            if let Some(numbers) = decoder.find_tag_unsigned_vec(tag).map_err(damaged)? {
                return Ok(numbers);
            }
        }
        Ok(Vec::new())
    };
    let starts = numbers([Tag::StripOffsets, Tag::TileOffsets])?;
    let lengths = numbers([Tag::StripByteCounts, Tag::TileByteCounts])?;
    let range = |(start, length): (&u64, &u64)| {
        let start = usize::try_from(*start).unwrap_or(usize::MAX);
        start..start.saturating_add(usize::try_from(*length).unwrap_or(usize::MAX))
    };
    Ok(starts.iter().zip(&lengths).map(range).collect())
}

/// Headers of a file.
struct Picture<'a> {
    decoder: Decoder<Cursor<Cow<'a, [u8]>>>,
    size: Size,
    colour: ColorType,
    layout: BufferLayoutPreference,
    /// Colours of a palette: all reds, greens and blues.
    palette: Option<Vec<u16>>,
    /// Meaning of the samples after the colours.
    extra: Vec<u16>,
    /// Grey levels of 16 bits that the library inverts, and Pillow does not.
    is_inverted: bool,
}

impl<'a> Picture<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self> {
        let photometric = TiffEntry::find(bytes, PHOTOMETRIC).and_then(|entry| Some((entry, entry.number(bytes)?)));
        let mut file = Cow::Borrowed(bytes);
        let has_palette = matches!(photometric, Some((_, PALETTE)));
        if let (Some((entry, _)), true) = (photometric, has_palette) {
            entry.replace(file.to_mut(), GREY);
        }
        let mut decoder = decoder_of(file)?;
        let extra = decoder.find_tag_unsigned_vec(Tag::ExtraSamples).map_err(damaged)?.unwrap_or_default();
        let (is_changed, mut file) = changed(&mut decoder, &extra, bytes)?;
        if is_changed {
            if let (Some((entry, _)), true) = (photometric, has_palette) {
                entry.replace(file.to_mut(), GREY);
            }
            decoder = decoder_of(file)?;
        }
        let (w, h) = decoder.dimensions().map_err(damaged)?;
        let size = Size { w, h };
        if w == 0 || h == 0 || size.pixels() > PIXELS_MAX {
            return Err(too_large("TIFF", size));
        }
        let colour = decoder.colortype().map_err(damaged)?;
        let layout = decoder.image_buffer_layout().map_err(damaged)?;
        let mut palette = None;
        if has_palette {
            palette = Some(decoder.get_tag_u16_vec(Tag::ColorMap).map_err(damaged)?);
        }
        let is_inverted = matches!((photometric, colour), (Some((_, 0)), ColorType::Gray(16)));
        Ok(Self { decoder, size, colour, layout, palette, extra, is_inverted })
    }

    /// Decodes all samples.
    fn samples(mut self) -> Result<Samples> {
        let (channels, bits) = match (self.colour, self.layout.sample_format) {
            (ColorType::Gray(bits @ (1 | 2 | 4 | 8 | 16)), SampleFormat::Uint) => (1, bits),
            (ColorType::Multiband { bit_depth: 8, num_samples: 2 }, SampleFormat::Uint) => (2, 8),
            (ColorType::RGB(bits @ (8 | 16)), SampleFormat::Uint) => (3, bits),
            (ColorType::RGBA(bits @ (8 | 16)) | ColorType::CMYK(bits @ (8 | 16)), SampleFormat::Uint) => (4, bits),
            colours => return Err(unsupported("colours", colours)),
        };
        let is_known = matches!(self.layout.sample_type, Some(DecodingSampleType::U8 | DecodingSampleType::U16));
        if !is_known || !matches!(self.layout.planes, 1) && self.layout.planes != channels {
            return Err(unsupported("planes", self.layout.planes));
        }
        if self.layout.complete_len > DECODED_BYTES {
            return Err(Error::decode("the TIFF has more bytes than the limit allows").with("bytes_max", DECODED_BYTES));
        }
        let mut bytes = vec![0; self.layout.complete_len];
        self.decoder.read_image_bytes(&mut bytes).map_err(damaged)?;
        let is_apart = self.layout.planes > 1;
        let row = self.layout.row_stride.map_or(0, std::num::NonZero::get);
        let plane = self.layout.plane_stride.map_or(0, std::num::NonZero::get);
        let per_pixel = if is_apart { 1 } else { channels };
        let width = (self.size.w as usize * per_pixel * usize::from(bits)).div_ceil(8);
        let needed = row * (self.size.h as usize - 1) + width + if is_apart { plane * (channels - 1) } else { 0 };
        if row < width || needed > bytes.len() {
            return Err(Error::decode("the TIFF has fewer samples than its size needs"));
        }
        let Self { colour, palette, extra, is_inverted, .. } = self;
        Ok(Samples { bytes, row, plane, is_apart, channels, bits, colour, palette, extra, is_inverted })
    }
}

/// Decoded samples of a picture.
struct Samples {
    bytes: Vec<u8>,
    /// Bytes of a row, and of a plane.
    row: usize,
    plane: usize,
    /// Each channel is a plane.
    is_apart: bool,
    channels: usize,
    bits: u8,
    colour: ColorType,
    palette: Option<Vec<u16>>,
    extra: Vec<u16>,
    is_inverted: bool,
}

impl Samples {
    /// Returns a sample as it is stored.
    fn value(&self, x: usize, y: usize, channel: usize) -> u16 {
        let (start, position) = if self.is_apart {
            (self.plane * channel + y * self.row, x)
        } else {
            (y * self.row, x * self.channels + channel)
        };
        let value: u16 = match usize::from(self.bits) {
            8 => self.bytes[start + position].into(),
            16 => {
                let at = start + 2 * position;
                let value = u16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]);
                if self.is_inverted { !value } else { value }
            }
            bits => {
                let byte = self.bytes[start + position * bits / 8];
                (byte >> (8 - bits - position * bits % 8)).into()
            }
        };
        value & self.largest()
    }

    /// Returns the largest value of a sample.
    fn largest(&self) -> u16 {
        u16::MAX >> (16 - self.bits)
    }

    /// Returns a sample as a level of 8 bits.
    fn level(&self, x: usize, y: usize, channel: usize) -> u8 {
        let value = self.value(x, y, channel);
        if self.bits == 16 { (value >> 8) as u8 } else { (value * (255 / self.largest())) as u8 }
    }

    /// Returns the colour and the opacity of a pixel.
    fn pixel(&self, x: usize, y: usize) -> ([u8; 3], u8) {
        let level = |channel| self.level(x, y, channel);
        if let Some(palette) = &self.palette {
            let (value, colours) = (usize::from(self.value(x, y, 0)), palette.len() / 3);
            let of = |channel| palette.get(channel * colours + value).map_or(value as u8, |level| (level >> 8) as u8);
            return ([0, 1, 2].map(of), 255);
        }
        match self.colour {
            ColorType::CMYK(_) => ([0, 1, 2].map(|ink| rgb_channel(level(ink), level(3))), 255),
            ColorType::RGBA(_) => self.blended([0, 1, 2].map(level), level(3)),
            ColorType::RGB(_) => ([0, 1, 2].map(level), 255),
            _ if self.channels == 2 => self.blended([level(0); 3], level(1)),
            _ => ([level(0); 3], 255),
        }
    }

    /// Divides colours by the opacity if they were multiplied by it.
    fn blended(&self, colour: [u8; 3], alpha: u8) -> ([u8; 3], u8) {
        match self.extra.first() {
            Some(&UNSPECIFIED) => (colour, 255),
            Some(&ASSOCIATED) if alpha == 0 => ([0; 3], 0),
            Some(&ASSOCIATED) => {
                (colour.map(|level| (255 * u32::from(level) / u32::from(alpha)).min(255) as u8), alpha)
            }
            _ => (colour, alpha),
        }
    }
}

impl PictureFormat for Tiff {
    fn name(&self) -> &'static str {
        "TIFF"
    }

    fn is_start(&self, bytes: &[u8]) -> bool {
        matches!(bytes, [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..])
    }

    fn size(&self, bytes: &[u8]) -> Result<Size> {
        Ok(Picture::open(bytes)?.size)
    }

    fn orientation(&self, bytes: &[u8]) -> Orientation {
        Orientation::of_metadata(Some(bytes), None)
    }

    fn is_always_turned(&self) -> bool {
        true
    }

    fn is_deep(&self, bytes: &[u8]) -> bool {
        Picture::open(bytes).is_ok_and(|picture| picture.colour == ColorType::Gray(16))
    }

    fn decode(
        &self,
        bytes: &[u8],
        region: Region,
        content: Content,
        pixels: &mut Pixels,
        opacity: Option<&mut Pixels>,
    ) -> Result<()> {
        let picture = Picture::open(bytes)?;
        let size = picture.size;
        let samples = picture.samples()?;
        let is_grey = samples.channels == 1;
        let may_be_deep = is_grey && samples.palette.is_none() && samples.bits >= 8;
        if content == Content::Labels && is_grey || content == Content::Deep && may_be_deep {
            return write(region, size, pixels, opacity, |x, y| (deep_pixel(samples.value(x, y, 0)), 255));
        }
        need_colours("TIFF", content)?;
        write(region, size, pixels, opacity, |x, y| samples.pixel(x, y))
    }
}
