//! Sizes of pictures, and boxes in them.

/// Upper bound of the pixels of a source picture and of a resized one, because a small file can claim a huge picture.
/// Pillow's own limit: 512 MiB of RGB. A thread that decodes a progressive JPEG needs up to 16 bytes per pixel.
pub const PIXELS_MAX: u64 = 178_956_970;

/// Width and height in pixels, both at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Columns.
    pub w: u32,
    /// Rows.
    pub h: u32,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.w, self.h)
    }
}

impl Size {
    /// Returns the number of pixels.
    #[inline]
    pub fn pixels(self) -> u64 {
        u64::from(self.w) * u64::from(self.h)
    }
}

/// An integer box inside a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    /// Left column.
    pub x: u32,
    /// Top row.
    pub y: u32,
    /// Columns, at least 1.
    pub w: u32,
    /// Rows, at least 1.
    pub h: u32,
}

impl Region {
    /// Returns the region that covers the whole picture.
    #[inline]
    pub fn all(size: Size) -> Self {
        Self { x: 0, y: 0, w: size.w, h: size.h }
    }

    /// Its size.
    #[inline]
    pub fn size(self) -> Size {
        Size { w: self.w, h: self.h }
    }
}

/// Box that may reach beyond the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelWindow {
    /// Left column, may be negative.
    pub x: i64,
    /// Top row, may be negative.
    pub y: i64,
    /// Size of the window.
    pub size: Size,
}

impl PixelWindow {
    /// Returns true if no part of it is outside a picture of `size`.
    #[inline]
    pub fn is_inside(self, size: Size) -> bool {
        let Self { x, y, size: Size { w, h } } = self;
        x >= 0 && y >= 0 && x + i64::from(w) <= i64::from(size.w) && y + i64::from(h) <= i64::from(size.h)
    }
}
