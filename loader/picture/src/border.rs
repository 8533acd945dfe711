//! Values of pixels outside of a picture, by the kind of its border.

/// Kinds of borders, as torchvision's `pad` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum PaddingMode {
    /// A colour.
    #[default]
    Constant,
    /// The nearest pixel of the picture.
    Edge,
    /// The picture mirrored at its outermost pixels, which are not repeated.
    Reflect,
    /// The picture mirrored at its border.
    Symmetric,
}

/// Pixels around a picture, in all directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Border {
    /// Their kind.
    pub mode: PaddingMode,
    /// Red, green and blue of [`PaddingMode::Constant`]; a mask has the first.
    pub fill: [u8; 3],
}

impl Border {
    /// Black.
    pub const BLACK: Self = Self { mode: PaddingMode::Constant, fill: [0; 3] };

    /// Returns the pixel of a side of `len` pixels that position `x` shows; `None` if it has the colour.
    #[inline]
    pub fn position(self, x: i64, len: u32) -> Option<u32> {
        let side = i64::from(len);
        let position = match self.mode {
            PaddingMode::Constant => return u32::try_from(x).ok().filter(|x| *x < len),
            PaddingMode::Edge => x.clamp(0, side - 1),
            PaddingMode::Reflect => reflected(x, side),
            PaddingMode::Symmetric => {
                let x = x.rem_euclid(2 * side);
                x.min(2 * side - 1 - x)
            }
        };
        // Within the side, so within its type.
        Some(position as u32)
    }
}

/// Position of the pixel `x` of a side of `len` pixels that is reflected at its ends, which are not repeated.
pub(super) fn reflected(x: i64, len: i64) -> i64 {
    let period = (2 * (len - 1)).max(1);
    let x = x.rem_euclid(period);
    x.min(period - x).min(len - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_repeat_the_picture_as_numpy_does() {
        let positions = |mode, len| {
            let border = Border { mode, fill: [0; 3] };
            (-5..8).map(|x| border.position(x, len)).collect::<Vec<_>>()
        };
        let all = |positions: [u32; 13]| positions.map(Some).to_vec();
        assert_eq!(positions(PaddingMode::Edge, 3), all([0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]));
        assert_eq!(positions(PaddingMode::Reflect, 3), all([1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]));
        assert_eq!(positions(PaddingMode::Symmetric, 3), all([1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1]));
        let inside = positions(PaddingMode::Constant, 3).into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(inside, [0, 1, 2]);
        for mode in [PaddingMode::Edge, PaddingMode::Reflect, PaddingMode::Symmetric] {
            assert_eq!(positions(mode, 1), all([0; 13]));
        }
    }
}
