//! Boxes around objects, which follow the operations of a picture: the results of torchvision's functions on
//! `BoundingBoxes` for the same numbers, with a clamp to the picture after each crop and each move.

use super::augment::Action;
use super::box_format::Corners;
use super::framing::is_middle_inside;
use super::positions::{Positions, positions_after};
use forebay_picture::geometry::{Region, Size, Stage};

/// Crop of a picture that keeps the objects with their middle inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectCut {
    /// Number of the stage that it is a part of.
    pub stage: usize,
    /// The stage before the crop.
    pub before: Stage,
    /// The part that is kept, in pixels of the result of `before`.
    pub part: Region,
}

/// Steps that boxes follow.
#[derive(Clone, Copy)]
pub(super) struct Moves<'a> {
    /// The stages.
    pub stages: &'a [Stage],
    /// Returns the actions after a stage.
    pub after: &'a dyn Fn(usize) -> &'a [Action],
    /// Crops among the stages that leave objects out.
    pub cuts: &'a [ObjectCut],
}

impl Moves<'_> {
    /// Applies the steps of a picture of `size` to `boxes`, and returns the picture's size after them. The boxes are
    /// inside of it, some perhaps without an area.
    pub(super) fn follow(self, boxes: &mut [Corners], size: Size) -> Size {
        clamp(boxes, size);
        let (mut size, mut outside) = (size, Vec::new());
        for (number, stage) in self.stages.iter().enumerate() {
            let cuts = self.cuts.iter().filter(|cut| cut.stage == number);
            cuts.for_each(|cut| cut.find_outside(boxes, &mut outside));
            follow_stage(boxes, stage);
            size = stage.output();
            for action in (self.after)(number) {
                follow_action(boxes, action, size);
                size = action.output(size);
                clamp(boxes, size);
            }
        }
        outside.into_iter().for_each(|place: usize| boxes[place] = [0.0; 4]);
        size
    }
}

impl ObjectCut {
    /// Adds the numbers of the boxes that it leaves out. `boxes` are those before its stage.
    fn find_outside(&self, boxes: &[Corners], outside: &mut Vec<usize>) {
        let mut placed = boxes.to_vec();
        follow_stage(&mut placed, &self.before);
        let Region { x, y, w, h } = self.part;
        let part = [x, y, x + w, y + h].map(f64::from);
        outside.extend((0..placed.len()).filter(|place| !is_middle_inside(&placed[*place], &part)));
    }
}

/// Returns true if both sides have at least `min_size` pixels, and the box has at least `min_area`.
pub(super) fn is_large([left, top, right, bottom]: Corners, min_size: f64, min_area: f64) -> bool {
    let (w, h) = (right - left, bottom - top);
    w >= min_size && h >= min_size && w * h >= min_area
}

fn clamp(boxes: &mut [Corners], size: Size) {
    let (w, h) = (f64::from(size.w), f64::from(size.h));
    for [left, top, right, bottom] in boxes {
        [*left, *right] = [*left, *right].map(|x| x.clamp(0.0, w));
        [*top, *bottom] = [*top, *bottom].map(|y| y.clamp(0.0, h));
    }
}

fn map(boxes: &mut [Corners], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) {
    for [left, top, right, bottom] in boxes {
        [*left, *right] = [*left, *right].map(&x);
        [*top, *bottom] = [*top, *bottom].map(&y);
    }
}

/// Applies a stage to boxes.
pub(super) fn follow_stage(boxes: &mut [Corners], stage: &Stage) {
    let Stage { crop, resized, window, flip, .. } = *stage;
    let (x, y) = (f64::from(crop.x), f64::from(crop.y));
    map(boxes, |column| column - x, |row| row - y);
    clamp(boxes, crop.size());
    let (across, down) = (f64::from(resized.w) / f64::from(crop.w), f64::from(resized.h) / f64::from(crop.h));
    map(boxes, |column| column * across - window.x as f64, |row| row * down - window.y as f64);
    clamp(boxes, window.size);
    if flip {
        mirror(boxes, window.size);
    }
}

fn mirror(boxes: &mut [Corners], size: Size) {
    let w = f64::from(size.w);
    boxes.iter_mut().for_each(|[left, _, right, _]| (*left, *right) = (w - *right, w - *left));
}

/// Applies an action to boxes in a picture of `size`.
fn follow_action(boxes: &mut [Corners], action: &Action, size: Size) {
    match action {
        Action::HorizontalFlip => mirror(boxes, size),
        Action::VerticalFlip => {
            let h = f64::from(size.h);
            boxes.iter_mut().for_each(|[_, top, _, bottom]| (*top, *bottom) = (h - *bottom, h - *top));
        }
        action => {
            if let Some(moved) = positions_after(action, size) {
                boxes.iter_mut().for_each(|one| *one = around(*one, &moved));
            }
        }
    }
}

/// Returns the box around the positions to which the corners of a box are moved.
fn around([left, top, right, bottom]: Corners, moved: &Positions) -> Corners {
    let corners = [[left, top], [right, top], [right, bottom], [left, bottom]].map(moved);
    if corners.as_flattened().iter().any(|place| place.is_nan()) {
        // As in torchvision: it is a box that `min_size` leaves out.
        return [f64::NAN; 4];
    }
    let bound = |axis: usize, pick: fn(f64, f64) -> f64| corners.iter().map(|corner| corner[axis]).reduce(pick);
    [(0, f64::min as fn(f64, f64) -> f64), (1, f64::min), (0, f64::max), (1, f64::max)]
        .map(|(axis, pick)| bound(axis, pick).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::box_format::BoxFormat;
    use crate::decode::draw::{DrawKey, FieldDraws};
    use crate::decode::field::Op;
    use crate::decode::steps::{Steps, resolve};

    const SIZE: Size = Size { w: 40, h: 30 };

    fn followed(ops: &str, boxes: &[Corners]) -> (Vec<Corners>, Size) {
        let ops: Vec<Op> = serde_json::from_str(ops).unwrap();
        let mut steps = Steps::default();
        resolve(&ops, SIZE, FieldDraws::new(1, "x"), DrawKey::default(), &mut steps).unwrap();
        let mut boxes = boxes.to_vec();
        let size = steps.follow(&mut boxes, SIZE);
        (boxes, size)
    }

    #[test]
    fn a_corner_that_is_no_number_leaves_no_box() {
        let turn = r#"[{"op": "random_rotation", "degrees": [10, 10]}]"#;
        let (boxes, _) = followed(turn, &[[f64::NAN, 1.0, 5.0, 6.0], [2.0, 1.0, 5.0, 6.0]]);
        assert!(boxes[0].iter().all(|number| number.is_nan()) && !is_large(boxes[0], 0.0, 0.0), "{boxes:?}");
        assert!(is_large(boxes[1], 1.0, 1.0), "{boxes:?}");
    }

    #[test]
    fn formats_are_read_and_written() {
        let corners = [3.0, 4.0, 10.0, 7.0];
        for (format, numbers) in [
            (BoxFormat::Xyxy, corners),
            (BoxFormat::Xywh, [3.0, 4.0, 7.0, 3.0]),
            (BoxFormat::Cxcywh, [6.5, 5.5, 7.0, 3.0]),
        ] {
            assert_eq!((format.corners(numbers), format.numbers(corners)), (corners, numbers), "{format:?}");
        }
    }

    #[test]
    fn boxes_follow_crops_resizes_and_turns() {
        let whole = [0.0, 0.0, 40.0, 30.0];
        let one = [10.0, 6.0, 20.0, 12.0];
        for (ops, expected, size) in [
            (r#"[]"#, one, (40, 30)),
            (r#"[{"op": "resize", "size": [60, 20]}]"#, [5.0, 12.0, 10.0, 24.0], (20, 60)),
            (r#"[{"op": "center_crop", "size": [20, 20]}]"#, [0.0, 1.0, 10.0, 7.0], (20, 20)),
            (r#"[{"op": "pad", "padding": [1, 2, 3, 4]}]"#, [11.0, 8.0, 21.0, 14.0], (44, 36)),
            (r#"[{"op": "random_horizontal_flip", "p": 1}]"#, [20.0, 6.0, 30.0, 12.0], (40, 30)),
            (r#"[{"op": "random_vertical_flip", "p": 1}]"#, [10.0, 18.0, 20.0, 24.0], (40, 30)),
            (r#"[{"op": "random_rotation", "degrees": [90, 90], "expand": true}]"#, [6.0, 20.0, 12.0, 30.0], (30, 40)),
            (r#"[{"op": "random_rotation", "degrees": [180, 180]}]"#, [20.0, 18.0, 30.0, 24.0], (40, 30)),
        ] {
            let (boxes, after) = followed(ops, &[one, whole]);
            let all = [0.0, 0.0, f64::from(size.0), f64::from(size.1)];
            assert_eq!(after, Size { w: size.0, h: size.1 }, "{ops}");
            for (got, expected) in boxes[0].iter().zip(expected) {
                assert!((got - expected).abs() < 1e-9, "{ops}: {boxes:?}");
            }
            let within = boxes[1].iter().zip(all).all(|(got, all)| (got - all).abs() < 1e-9);
            assert!(within || ops.contains("pad"), "{ops}: {boxes:?}");
        }
    }

    #[test]
    fn a_box_outside_of_the_crop_has_no_area() {
        let (boxes, _) =
            followed(r#"[{"op": "center_crop", "size": [4, 4]}]"#, &[[0.0, 0.0, 5.0, 5.0], [-9.0, 14.0, 90.0, 16.0]]);
        assert_eq!(boxes, [[0.0; 4], [0.0, 1.0, 4.0, 3.0]]);
        let large: Vec<bool> = boxes.iter().map(|corners| is_large(*corners, 1.0, 1.0)).collect();
        assert_eq!(large, [false, true]);
    }
}
