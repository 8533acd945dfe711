//! Pictures: decoded as a whole, and described by a few numbers.

use forebay_loader::decode::formats;
use forebay_loader::decode::geometry::{PIXELS_MAX, Region, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder as _};
use forebay_loader::decode::orientation::Orientation;
use forebay_loader::decode::pixels::{Content, Pixels};
use forebay_loader::format::encoding::Pixels as RawPixels;
use forebay_loader::{Error, Result};

/// Cells of a grid. The 64 differences of neighbours in a row are the bits of a fingerprint.
const CELLS: (usize, usize) = (9, 8);

/// Least difference of two cells that counts as structure, in levels times pixels of a cell.
const STRUCTURE: i64 = 2;

/// Cells with structure that a fingerprint needs: fewer are noise of a flat picture.
const STRUCTURED_MIN: u32 = 12;

/// Different levels up to which a picture is a drawing or a mask.
const LEVELS_OF_MASK: u32 = 32;

/// Unusual property of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::doctor) enum Oddity {
    Cmyk,
    Deep,
    Alpha,
    Palette,
    Rotated,
    Progressive,
    Grey,
}

impl Oddity {
    /// Words for a message.
    pub(in crate::doctor) fn words(self) -> &'static str {
        match self {
            Self::Cmyk => "CMYK pictures",
            Self::Deep => "pictures of 16 bits a channel",
            Self::Alpha => "pictures with an alpha channel",
            Self::Palette => "pictures with a palette",
            Self::Rotated => "pictures that EXIF data turn",
            Self::Progressive => "progressive JPEGs",
            Self::Grey => "grey pictures among pictures with colours",
        }
    }
}

/// A picture that can be decoded.
#[derive(Debug)]
pub(in crate::doctor) struct Picture {
    pub(in crate::doctor) format: &'static str,
    pub(in crate::doctor) size: Size,
    pub(in crate::doctor) oddities: Vec<Oddity>,
    /// The colour of all its pixels, if it has only one.
    pub(in crate::doctor) only_colour: Option<[u8; 3]>,
    /// It has few levels, as masks and drawings have.
    pub(in crate::doctor) is_mask: bool,
    /// Largest level of a mask, besides 255, which often marks pixels without a class.
    pub(in crate::doctor) level_max: u8,
    /// Channels of a PNG, by its header.
    pub(in crate::doctor) channels: &'static str,
    /// `None` for pictures without structure.
    pub(in crate::doctor) fingerprint: Option<Fingerprint>,
}

/// Fingerprint that survives a resize and a different compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::doctor) struct Fingerprint {
    /// A bit for each pair of neighbours of 9 x 8 cells: the right one is lighter.
    pub(in crate::doctor) gradients: u64,
    /// Mean red, green and blue of the picture.
    pub(in crate::doctor) mean: [u8; 3],
}

/// Decoders with their memory.
#[derive(Default)]
pub(super) struct PictureProber {
    jpeg: Decoder,
    pixels: Pixels,
}

/// Returns true if `bytes` start as a JPEG, or as a file of a format that is decoded.
pub(super) fn is_picture(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xd8, 0xff]) || formats::find(bytes).is_ok()
}

impl PictureProber {
    /// Decodes the file of a picture.
    pub(super) fn file(&mut self, bytes: &[u8]) -> Result<Picture> {
        if bytes.starts_with(&[0xff, 0xd8]) {
            let size = self.jpeg.size(bytes)?;
            check(size)?;
            self.jpeg.decode(bytes, Region::all(size), &mut self.pixels)?;
            return Ok(self.described("JPEG", size, of_jpeg(bytes), ""));
        }
        let format = formats::find(bytes)?;
        let size = format.size(bytes)?;
        check(size)?;
        let content = if format.is_deep(bytes) && format.name() != "PNG" { Content::Deep } else { Content::Colours };
        format.decode(bytes, Region::all(size), content, &mut self.pixels, None)?;
        let mut oddities = of_format(format.name(), bytes);
        oddities.extend(format.is_deep(bytes).then_some(Oddity::Deep));
        oddities.extend((!format.orientation(bytes).is_stored()).then_some(Oddity::Rotated));
        Ok(self.described(format.name(), size, oddities, channels(format.name(), bytes)))
    }

    /// Describes raw pixels of the encoding `pil`.
    pub(super) fn raw(&mut self, raw: &RawPixels<'_>) -> Picture {
        let size = Size { w: raw.width, h: raw.height };
        let channels = match &*raw.mode {
            "L" | "P" => 1,
            "RGB" => 3,
            "RGBA" | "RGBX" => 4,
            _ => 0,
        };
        let oddities = match &*raw.mode {
            "CMYK" => vec![Oddity::Cmyk],
            "P" => vec![Oddity::Palette],
            "RGBA" | "LA" | "PA" => vec![Oddity::Alpha],
            mode if mode.starts_with('I') => vec![Oddity::Deep],
            _ => Vec::new(),
        };
        if channels == 0 || size.pixels() == 0 {
            return Picture {
                format: "raw",
                size,
                oddities,
                only_colour: None,
                is_mask: false,
                level_max: 0,
                channels: "",
                fingerprint: None,
            };
        }
        let out = self.pixels.start(Region::all(size), 3).as_chunks_mut::<3>().0;
        for (out, pixel) in out.iter_mut().zip(raw.data.chunks_exact(channels)) {
            *out = [pixel[0], pixel[channels.min(3) / 2], pixel[channels.min(3) - 1]];
        }
        self.described("raw", size, oddities, "")
    }

    fn described(
        &self,
        format: &'static str,
        size: Size,
        mut oddities: Vec<Oddity>,
        channels: &'static str,
    ) -> Picture {
        let pixels = self.pixels.rgb().as_chunks::<3>().0;
        let first = pixels.first().copied().unwrap_or_default();
        let only_colour = pixels.iter().all(|pixel| *pixel == first).then_some(first);
        let mut levels = [0_u64; 4];
        let mut is_grey = true;
        for [r, g, b] in pixels {
            levels[usize::from(g >> 6)] |= 1 << (g & 63);
            is_grey &= r == g && g == b;
        }
        if is_grey {
            oddities.push(Oddity::Grey);
        }
        let is_mask = levels.iter().map(|bits| bits.count_ones()).sum::<u32>() <= LEVELS_OF_MASK;
        let has_level = |level: &u8| levels[usize::from(level >> 6)] >> (level & 63) & 1 == 1;
        let level_max = (0..255).rev().find(has_level).unwrap_or(0);
        let fingerprint = if is_mask { None } else { fingerprint(pixels, size) };
        Picture { format, size, oddities, only_colour, is_mask, level_max, channels, fingerprint }
    }
}

/// Bounds the memory that a header can claim.
fn check(size: Size) -> Result<()> {
    if size.pixels() > PIXELS_MAX {
        return Err(Error::decode("the picture has more pixels than are decoded").with("size", size));
    }
    Ok(())
}

/// Returns the fingerprint of a picture of `size`; `None` without structure.
fn fingerprint(pixels: &[[u8; 3]], size: Size) -> Option<Fingerprint> {
    let (width, height) = (size.w as usize, size.h as usize);
    if width < 2 * CELLS.0 || height < 2 * CELLS.1 {
        return None;
    }
    let mut cells = [[(0_i64, 0_i64); CELLS.0]; CELLS.1];
    let mut sums = [0_u64; 3];
    for (y, row) in pixels.chunks_exact(width).enumerate() {
        let cells = &mut cells[y * CELLS.1 / height];
        for (x, pixel) in row.iter().enumerate() {
            let (sum, count) = &mut cells[x * CELLS.0 / width];
            // Luma in thousandths.
            let [r, g, b] = pixel.map(i64::from);
            *sum += 299 * r + 587 * g + 114 * b;
            *count += 1;
            sums.iter_mut().zip(pixel).for_each(|(sum, level)| *sum += u64::from(*level));
        }
    }
    let (mut gradients, mut structured) = (0, 0);
    for row in cells {
        for pair in row.windows(2) {
            let [left, right] = [pair[0], pair[1]].map(|(sum, count)| sum / count.max(1));
            gradients = gradients << 1 | u64::from(right > left);
            structured += u32::from((right - left).abs() > STRUCTURE * 1000);
        }
    }
    // A plain gradient has all bits equal, and so has any other.
    let is_plain = gradients.count_ones() < 6 || gradients.count_ones() > 58;
    let mean = sums.map(|sum| (sum / pixels.len().max(1) as u64) as u8);
    (structured >= STRUCTURED_MIN && !is_plain).then_some(Fingerprint { gradients, mean })
}

/// Returns the channels of a PNG by the type in its header.
fn channels(format: &str, bytes: &[u8]) -> &'static str {
    match (format, bytes.get(25)) {
        ("PNG", Some(0)) => "grey",
        ("PNG", Some(2)) => "RGB",
        ("PNG", Some(3)) => "palette",
        ("PNG", Some(4)) => "grey and alpha",
        ("PNG", Some(6)) => "RGBA",
        _ => "",
    }
}

/// Reads the unusual properties of a JPEG from its frame header.
fn of_jpeg(bytes: &[u8]) -> Vec<Oddity> {
    let mut oddities = Vec::new();
    if !Orientation::of_jpeg(bytes).is_stored() {
        oddities.push(Oddity::Rotated);
    }
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let [0xff, code, high, low, after @ ..] = rest {
        if *code == 0xff {
            rest = &rest[1..];
            continue;
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        // Frames, without the tables that have numbers among theirs.
        if matches!(code, 0xc0..=0xcf) && !matches!(code, 0xc4 | 0xc8 | 0xcc) {
            oddities.extend((after.first() > Some(&8)).then_some(Oddity::Deep));
            oddities.extend((after.get(5) == Some(&4)).then_some(Oddity::Cmyk));
            oddities.extend((code & 3 == 2).then_some(Oddity::Progressive));
            break;
        }
        rest = after.get(length.saturating_sub(2)..).unwrap_or_default();
    }
    oddities
}

/// Reads the unusual properties of a file of a different format from its header.
fn of_format(name: &str, bytes: &[u8]) -> Vec<Oddity> {
    match (name, bytes.get(25), bytes.get(12..16), bytes.get(20)) {
        ("PNG", Some(3), ..) => vec![Oddity::Palette],
        ("PNG", Some(4 | 6), ..) => vec![Oddity::Alpha],
        ("WebP", _, Some(b"VP8X"), Some(flags)) if flags & 0x10 != 0 => vec![Oddity::Alpha],
        ("GIF", ..) => vec![Oddity::Palette],
        _ => Vec::new(),
    }
}
