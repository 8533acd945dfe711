//! Numbers that describe a box.

use serde::{Deserialize, Serialize};

/// Numbers of a box, by the names of torchvision's `BoundingBoxFormat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoxFormat {
    /// Left, top, right and bottom.
    #[default]
    Xyxy,
    /// Left, top, width and height.
    Xywh,
    /// Column and row of the middle, width and height.
    Cxcywh,
}

/// Left, top, right and bottom of a box, in pixels.
pub(super) type Corners = [f64; 4];

impl BoxFormat {
    /// Returns the corners of a box.
    pub(super) fn corners(self, [a, b, c, d]: [f64; 4]) -> Corners {
        match self {
            Self::Xyxy => [a, b, c, d],
            Self::Xywh => [a, b, a + c, b + d],
            Self::Cxcywh => [a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d],
        }
    }

    /// Returns the numbers of a box with these corners.
    pub(super) fn numbers(self, [left, top, right, bottom]: Corners) -> [f64; 4] {
        match self {
            Self::Xyxy => [left, top, right, bottom],
            Self::Xywh => [left, top, right - left, bottom - top],
            Self::Cxcywh => [0.5 * (left + right), 0.5 * (top + bottom), right - left, bottom - top],
        }
    }
}
