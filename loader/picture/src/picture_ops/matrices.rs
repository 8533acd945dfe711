//! Matrices of transforms, from their parameters as torchvision and Pillow compute them.

use super::Shape;

/// Returns the matrix of [`affine`](super::affine) for a rotation by `angle`, a translation, a scale and shears, around
/// `center`; angles in degrees. It is torchvision's `_get_inverse_affine_matrix`. The default center there is the half
/// of both sides.
pub fn affine_matrix(center: [f64; 2], angle: f64, translate: [f64; 2], scale: f64, shear: [f64; 2]) -> [f64; 6] {
    let (rotation, [shear_x, shear_y]) = (angle.to_radians(), shear.map(f64::to_radians));
    let [cx, cy] = center;
    let (moved_x, moved_y) = (cx + translate[0], cy + translate[1]);
    let turned = rotation - shear_y;
    let a = turned.cos() / shear_y.cos();
    let b = -(a * shear_x.tan() + rotation.sin());
    let c = turned.sin() / shear_y.cos();
    let d = rotation.cos() - c * shear_x.tan();
    let [a, b, c, d] = [d / scale, -b / scale, -c / scale, a / scale];
    [a, b, cx - a * moved_x - b * moved_y, c, d, cy - c * moved_x - d * moved_y]
}

/// Returns the coefficients of [`perspective`](super::perspective) that move the corners `start` to `end`, in single
/// precision, as torchvision's `_get_perspective_coeffs`. `None` if there is no such transform. A coefficient that is
/// exactly 0 may be 1e-16 there, which can move a position at the border of the source out of it.
pub fn perspective_coefficients(start: &[[f64; 2]; 4], end: &[[f64; 2]; 4]) -> Option<[f64; 8]> {
    let mut rows = [[0.0; 9]; 8];
    for ((rows, [x, y]), [x_out, y_out]) in rows.as_chunks_mut::<2>().0.iter_mut().zip(end).zip(start) {
        rows[0] = [*x, *y, 1.0, 0.0, 0.0, 0.0, -x_out * x, -x_out * y, *x_out];
        rows[1] = [0.0, 0.0, 0.0, *x, *y, 1.0, -y_out * x, -y_out * y, *y_out];
    }
    // Gaussian elimination with the largest pivot of each column.
    for column in 0..8 {
        let pivot = (column..8).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let first = rows[column];
        if first[column].abs() < 1e-9 {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(number, _)| *number != column) {
            let factor = row[column] / first[column];
            row.iter_mut().zip(first).for_each(|(value, first)| *value -= factor * first);
        }
    }
    let solution: [f64; 8] = std::array::from_fn(|i| f64::from((rows[i][8] / rows[i][i]) as f32));
    solution.iter().all(|value| value.is_finite()).then_some(solution)
}

/// Rotation as by Pillow's `Image.rotate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation {
    turn: Turn,
    width: usize,
    height: usize,
}

/// The way in which a rotation is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Turn {
    None,
    Quarter,
    Half,
    ThreeQuarters,
    Affine([f64; 6]),
}

impl Rotation {
    /// Rotation of a picture of `shape` by `angle` degrees against the clock, around `center` or the middle. With
    /// `expand`, the result is large enough for the whole picture if the center is the middle.
    pub fn new(shape: Shape, angle: f64, expand: bool, center: Option<[f64; 2]>) -> Self {
        let Shape { width, height, .. } = shape;
        let angle = angle.rem_euclid(360.0);
        let may_turn = expand || width == height;
        let turned = |turn| Some(Self { turn, width: height, height: width });
        let exact = match (center, angle) {
            (None, 0.0) => Some(Self { turn: Turn::None, width, height }),
            (None, 180.0) => Some(Self { turn: Turn::Half, width, height }),
            (None, 90.0) if may_turn => turned(Turn::Quarter),
            (None, 270.0) if may_turn => turned(Turn::ThreeQuarters),
            _ => None,
        };
        if let Some(exact) = exact {
            return exact;
        }
        let (w, h) = (width as f64, height as f64);
        let [cx, cy] = center.unwrap_or([w / 2.0, h / 2.0]);
        let angle = -angle.to_radians();
        let [a, b, c, d] = [angle.cos(), angle.sin(), -angle.sin(), angle.cos()].map(rounded_15);
        let at = |x: f64, y: f64, e: f64, f: f64| [a * x + b * y + e, c * x + d * y + f];
        let [e, f] = at(-cx, -cy, 0.0, 0.0);
        let (e, f) = (e + cx, f + cy);
        if !expand {
            return Self { turn: Turn::Affine([a, b, e, c, d, f]), width, height };
        }
        let corners = [[0.0, 0.0], [w, 0.0], [w, h], [0.0, h]].map(|[x, y]| at(x, y, e, f));
        let side = |axis: usize| {
            let positions = corners.map(|corner| corner[axis]);
            let end = positions.into_iter().fold(f64::NEG_INFINITY, f64::max);
            let start = positions.into_iter().fold(f64::INFINITY, f64::min);
            (end.ceil() - start.floor()).max(1.0)
        };
        let (new_w, new_h) = (side(0), side(1));
        let [e, f] = at(-(new_w - w) / 2.0, -(new_h - h) / 2.0, e, f);
        Self { turn: Turn::Affine([a, b, e, c, d, f]), width: new_w as usize, height: new_h as usize }
    }

    /// Returns the shape of the rotated picture.
    pub fn output(&self, shape: Shape) -> Shape {
        Shape { width: self.width, height: self.height, channels: shape.channels }
    }

    pub(super) fn turn(&self) -> Turn {
        self.turn
    }
}

/// Rounds to 15 decimals, as Python's `round`: by the decimal digits of the exact value.
fn rounded_15(value: f64) -> f64 {
    format!("{value:.15}").parse().unwrap_or(value)
}
