//! Boxes of objects in pictures.
//!
//! The form of the boxes is not stored, so all usual ones are tried. A box is wrong only in the form of its column: the
//! form with the fewest wrong boxes.

use super::check::{Check, CheckRun, PerColumn};
use crate::doctor::finding::{Examples, Findings, Problem, Severity};
use crate::doctor::values::{Picture, Sample, Value};
use crate::preview::BoxForm;

/// Forms of boxes with their names.
const FORMS: [(&str, BoxForm); 3] = [
    ("left, top, right, bottom", BoxForm::Xyxy),
    ("left, top, width, height", BoxForm::Xywh),
    ("centre, width, height", BoxForm::Cxcywh),
];

/// Pixels by which a rounded box may be outside, and the same as a part of a side.
const OUTSIDE_PIXELS: f64 = 1.0;
const OUTSIDE_PART: f64 = 0.005;

/// Boxes of a column.
#[derive(Default)]
struct ColumnBoxes {
    boxes: u64,
    /// Wrong boxes by their form, in pixels and as parts of the sides.
    wrong: [[Examples; 2]; 3],
    /// Documents with a different size of the picture.
    sizes: Examples,
}

/// The check.
#[derive(Default)]
pub(super) struct Boxes(PerColumn<ColumnBoxes>);

impl Check for Boxes {
    fn sample(&mut self, sample: &Sample, _: &CheckRun<'_>, _: &mut Findings) {
        let values = sample.values.iter().flat_map(|values| &values.columns);
        let pictures: Vec<&Picture> = values
            .filter_map(|(_, value)| match value {
                Value::Picture(picture) => Some(&**picture),
                _ => None,
            })
            .collect();
        // Masks may be smaller than their picture. Boxes of several pictures fit all of them if these have one size.
        let has_picture = pictures.iter().any(|picture| !picture.is_mask);
        let mut pictures = pictures.iter().filter(|picture| !picture.is_mask || !has_picture);
        let Some(first) = pictures.next().filter(|first| pictures.all(|picture| picture.size == first.size)) else {
            return;
        };
        let (width, height) = (f64::from(first.size.w), f64::from(first.size.h));
        self.0.each(sample, |found, id, value| {
            let rows = match (value, value.document()) {
                (Value::Array(array), _) => &array.boxes,
                (_, Some(document)) => {
                    if let Some(size) = document.size.filter(|size| *size != first.size) {
                        found.sizes.add(id, || format!("{size}, and the picture has {}", first.size));
                    }
                    &document.boxes
                }
                _ => return,
            };
            for row in rows {
                found.boxes += 1;
                for ((_, form), wrong) in FORMS.iter().zip(&mut found.wrong) {
                    let limits = [(width, height, OUTSIDE_PIXELS), (1.0, 1.0, OUTSIDE_PART)];
                    for ((width, height, outside), wrong) in limits.into_iter().zip(wrong) {
                        if !is_inside(form.corners(*row), width, height, outside) {
                            wrong.add(id, || format!("box {row:?} of a picture of {}", first.size));
                        }
                    }
                }
            }
        });
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        for (id, found) in self.0.iter().filter(|(_, found)| found.sizes.count > 0) {
            let message = format!("{} has a different size of the picture", run.column(id));
            let advice = "the boxes may belong to a picture before a resize or a rotation: compare them";
            findings.add_all(Problem::new(Severity::Warning, "boxes", message, advice), &found.sizes);
        }
        for (id, found) in self.0.iter().filter(|(_, found)| found.boxes > 0) {
            let forms =
                FORMS.iter().zip(&found.wrong).flat_map(|((form, _), wrong)| wrong.iter().map(move |w| (form, w)));
            let Some((form, wrong)) = forms.min_by_key(|(_, wrong)| wrong.count) else { continue };
            let column = run.column(id);
            if wrong.count * 4 > found.boxes {
                let message = format!("the boxes of {column} fit the pictures in no usual form");
                let problem = Problem::new(Severity::Note, "boxes", message, "check the order of their numbers");
                findings.add_all(problem, wrong);
            } else if wrong.count > 0 {
                let message = format!("boxes of {column} are empty or outside of their pictures, read as {form}");
                let advice = "clip or remove them: a loss of boxes may become NaN";
                findings.add_all(Problem::new(Severity::Warning, "boxes", message, advice), wrong);
            }
        }
    }
}

/// True for a box that has an area, and is not outside of the picture by more than `outside`.
fn is_inside([left, top, right, bottom]: [f64; 4], width: f64, height: f64, outside: f64) -> bool {
    let has_area = right > left && bottom > top;
    has_area && left >= -outside && top >= -outside && right <= width + outside && bottom <= height + outside
}
