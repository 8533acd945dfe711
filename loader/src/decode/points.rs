//! Points of objects, which follow the operations of a picture. They have the positions of the corners of boxes.

use super::augment::Action;
use super::boxes::Moves;
use super::positions::positions_after;
use forebay_picture::geometry::{Size, Stage};

/// Point that follows a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Column and row.
    pub place: [f64; 2],
    /// True if it is in the part of the picture that all operations have kept.
    pub is_seen: bool,
}

impl Point {
    /// Updates [`is_seen`](Self::is_seen) for a picture of `size`.
    fn look(&mut self, size: Size) {
        let [x, y] = self.place;
        // False for numbers that are none.
        self.is_seen &= (0.0..=f64::from(size.w)).contains(&x) && (0.0..=f64::from(size.h)).contains(&y);
    }
}

impl Moves<'_> {
    /// Applies the steps of a picture of `size` to points. `mirror` exchanges the left and right points of each object,
    /// each time that the picture is mirrored.
    pub(super) fn follow_points(self, points: &mut [Point], size: Size, mut mirror: impl FnMut(&mut [Point])) {
        points.iter_mut().for_each(|point| point.look(size));
        for (number, stage) in self.stages.iter().enumerate() {
            follow_stage(points, stage);
            if stage.flip {
                mirror(points);
            }
            let mut size = stage.output();
            for action in (self.after)(number) {
                if *action == Action::HorizontalFlip {
                    mirror(points);
                }
                let Some(moved) = positions_after(action, size) else { continue };
                size = action.output(size);
                for point in points.iter_mut() {
                    point.place = moved(point.place);
                    point.look(size);
                }
            }
        }
    }
}

/// Applies a stage to points.
fn follow_stage(points: &mut [Point], stage: &Stage) {
    let Stage { crop, resized, window, flip, .. } = *stage;
    let (across, down) = (f64::from(resized.w) / f64::from(crop.w), f64::from(resized.h) / f64::from(crop.h));
    for point in points {
        let [x, y] = point.place;
        point.place = [x - f64::from(crop.x), y - f64::from(crop.y)];
        point.look(crop.size());
        let [x, y] = point.place;
        point.place = [x * across - window.x as f64, y * down - window.y as f64];
        point.look(window.size);
        if flip {
            point.place[0] = f64::from(window.size.w) - point.place[0];
        }
    }
}
