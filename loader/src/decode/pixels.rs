//! A picture's pixels in memory that is kept from one picture to the next.

use super::geometry::{Filter, Region, Size};

/// Readable bytes behind the last pixel, so that kernels may load whole vectors at the end of the last row.
pub(super) const PAD: usize = 192;

/// Above this, memory goes back after the picture: one huge picture must not stay with every thread for good.
const KEPT_BYTES: usize = 64 << 20;

/// Makes `buffer` at least `len` values long, contents unspecified (`value` where there was
/// nothing), and gives back what a far larger picture left.
pub(super) fn fit<T: Copy>(buffer: &mut Vec<T>, len: usize, value: T) {
    let kept = KEPT_BYTES / size_of::<T>();
    if buffer.len() < len {
        buffer.resize(len, value);
    } else if buffer.len() > kept && len <= kept {
        buffer.truncate(len);
        buffer.shrink_to_fit();
    }
}

/// Gives back what is left of a far larger picture. Where the next one is as large, its memory comes anew.
pub(super) fn release<T>(buffer: &mut Vec<T>) {
    if buffer.capacity() > KEPT_BYTES / size_of::<T>() {
        *buffer = Vec::new();
    }
}

/// The pixels of a row that comes by channels.
pub(super) fn interleaved([r, g, b]: [&[u8]; 3]) -> impl Iterator<Item = [u8; 3]> {
    r.iter().zip(g).zip(b).map(|((r, g), b)| [*r, *g, *b])
}

/// What a picture's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Colours: converted to RGB and blended.
    Colours,
    /// Labels: kept as they are stored.
    Labels,
}

impl Content {
    pub(super) fn filter(self) -> Filter {
        match self {
            Self::Colours => Filter::Bilinear,
            Self::Labels => Filter::Nearest,
        }
    }
}

/// RGB pixels, three bytes each, rows without gaps.
#[derive(Debug, Default)]
pub struct Pixels {
    bytes: Vec<u8>,
    /// Which part of the whole picture the pixels are.
    region: Option<Region>,
}

impl Pixels {
    /// Empty; memory comes with the first picture.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for `region` of a picture and gives out `channels` bytes per pixel, contents unspecified. Three
    /// channels stay; a decoder that needs four packs them down before it returns.
    pub fn start(&mut self, region: Region, channels: usize) -> &mut [u8] {
        let used = region.w as usize * region.h as usize * channels;
        fit(&mut self.bytes, used + PAD, 0);
        self.region = Some(region);
        &mut self.bytes[..used]
    }

    /// Which part of the whole picture is here.
    pub fn region(&self) -> Region {
        self.region.unwrap_or(Region::all(Size { w: 0, h: 0 }))
    }

    /// The pixels, row by row.
    pub fn rgb(&self) -> &[u8] {
        let region = self.region();
        &self.bytes[..region.w as usize * region.h as usize * 3]
    }

    /// The bytes from pixel (`x`, `y`) of the whole picture to the end of the memory, at least [`PAD`] more than the
    /// pixels.
    pub(super) fn from(&self, x: u32, y: u32) -> &[u8] {
        let region = self.region();
        debug_assert!(x >= region.x && y >= region.y, "pixel outside of what was decoded");
        &self.bytes[((y - region.y) as usize * region.w as usize + (x - region.x) as usize) * 3..]
    }
}
