//! Positions in a picture, as operations that move pixels move them.

use super::augment::Action;
use forebay_picture::geometry::Size;
use forebay_picture::picture_ops::affine_matrix;

/// Map from positions in a picture to those in the result of an action.
pub(super) type Positions = Box<dyn Fn([f64; 2]) -> [f64; 2]>;

/// Returns the map of the positions that an action moves in a picture of `size`; `None` if they stay.
pub(super) fn positions_after(action: &Action, size: Size) -> Option<Positions> {
    let (w, h) = (f64::from(size.w), f64::from(size.h));
    let middle = [w * 0.5, h * 0.5];
    Some(match action {
        Action::HorizontalFlip => Box::new(move |[x, y]| [w - x, y]),
        Action::VerticalFlip => Box::new(move |[x, y]| [x, h - y]),
        Action::Rotate { angle, expand, center, .. } => {
            let matrix = affine_matrix(center.unwrap_or(middle), -angle, [0.0; 2], 1.0, [0.0; 2]);
            let forward = inverse(matrix);
            // The grown picture starts at the smallest column and row that a corner has.
            let corners = [[0.0, 0.0], [w, 0.0], [w, h], [0.0, h]].map(&forward);
            let least = |axis: usize| corners.iter().map(|corner| corner[axis]).fold(f64::INFINITY, f64::min);
            let [x, y] = if *expand { [least(0), least(1)] } else { [0.0; 2] };
            Box::new(move |place| {
                let [column, row] = forward(place);
                [column - x, row - y]
            })
        }
        Action::Affine { angle, translate, scale, shear, center, .. } => {
            Box::new(inverse(affine_matrix(center.unwrap_or(middle), *angle, *translate, *scale, *shear)))
        }
        Action::Transform { matrix, .. } => Box::new(inverse(*matrix)),
        Action::Elastic { .. } => {
            let displacement = action.displacement(size)?;
            Box::new(move |place| displacement.forward(place))
        }
        Action::Perspective { coefficients, .. } => Box::new(inverse_perspective(*coefficients)),
        _ => return None,
    })
}

/// Returns the inverse of a matrix from positions in the result to positions in the picture.
fn inverse([a, b, x, c, d, y]: [f64; 6]) -> impl Fn([f64; 2]) -> [f64; 2] {
    let scale = a * d - b * c;
    move |[column, row]| {
        let (column, row) = (column - x, row - y);
        [(d * column - b * row) / scale, (a * row - c * column) / scale]
    }
}

/// Returns the inverse of a perspective from positions in the result to positions in the picture.
fn inverse_perspective([a, b, c, d, e, f, g, h]: [f64; 8]) -> impl Fn([f64; 2]) -> [f64; 2] {
    // The adjugate of the matrix with the rows (a, b, c), (d, e, f) and (g, h, 1).
    let rows = [
        [e - f * h, c * h - b, b * f - c * e],
        [f * g - d, a - c * g, c * d - a * f],
        [d * h - e * g, b * g - a * h, a * e - b * d],
    ];
    move |[column, row]| {
        let [x, y, scale] = rows.map(|[p, q, r]| p * column + q * row + r);
        [x / scale, y / scale]
    }
}
