//! Choice of the pixels that a pixel of a result is computed from.

/// Filter of a resize, or of an operation that moves pixels. Where a resize shrinks, the smooth ones are as many times
/// wider, as Pillow's are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Interpolation {
    /// The pixel that is nearest.
    #[default]
    Nearest,
    /// A blend of two by two pixels.
    Bilinear,
    /// A blend of four by four pixels.
    Bicubic,
}

impl Interpolation {
    /// Returns the default of operations that do not have [`Interpolation::Nearest`].
    pub fn bilinear() -> Self {
        Self::Bilinear
    }
}
