//! Boxes of a picture, from an array or a JSON document.

use crate::samples::{Content, floats};
use clap::ValueEnum;
use forebay_loader::decode::geometry::Size;
use serde_json::Value;

/// Meaning of the four numbers of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BoxForm {
    /// Left, top, right, bottom
    Xyxy,
    /// Left, top, width, height
    Xywh,
    /// Middle column, middle row, width, height
    Cxcywh,
}

impl BoxForm {
    /// Left, top, right and bottom of a box.
    pub(crate) fn corners(self, [a, b, c, d]: [f64; 4]) -> [f64; 4] {
        match self {
            Self::Xyxy => [a, b, c, d],
            Self::Xywh => [a, b, a + c, b + d],
            Self::Cxcywh => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
        }
    }
}

/// Most boxes of a picture that are drawn.
const BOXES_MAX: usize = 1000;

/// Returns the boxes in `content` as shares of a picture of `size`; `None` if it has none in a known form.
pub(super) fn boxes(content: &Content<'_>, form: Option<BoxForm>, size: Size) -> Option<Vec<[f64; 4]>> {
    let (numbers, own_form) = match content {
        Content::Array { dtype, shape, data } if shape.last() == Some(&4) && shape.len() <= 2 => {
            let numbers: Vec<f64> = floats(*dtype, data).take(4 * BOXES_MAX).collect();
            (numbers.as_chunks::<4>().0.to_vec(), BoxForm::Xyxy)
        }
        Content::Text(text) => of_json(&serde_json::from_str(text).ok()?, BoxForm::Xyxy)?,
        _ => return None,
    };
    let form = form.unwrap_or(own_form);
    let (w, h) = (f64::from(size.w), f64::from(size.h));
    let shares = |numbers: [f64; 4]| {
        let [left, top, right, bottom] = form.corners(numbers);
        [left / w, top / h, right / w, bottom / h]
    };
    let is_box = |shares: &[f64; 4]| shares.iter().all(|share| share.is_finite());
    Some(numbers.into_iter().take(BOXES_MAX).map(shares).filter(is_box).collect())
}

/// Names of the boxes of objects in the documents of COCO, of its loader here, and of data sets on the hub.
const NAMES: [&str; 4] = ["boxes", "bbox", "objects", "annotations"];

fn of_json(value: &Value, form: BoxForm) -> Option<(Vec<[f64; 4]>, BoxForm)> {
    match value {
        Value::Object(members) => {
            let inner = NAMES.iter().find_map(|name| members.get(*name))?;
            of_json(inner, BoxForm::Xywh)
        }
        Value::Array(items) => match one(items) {
            Some(numbers) => Some((vec![numbers], form)),
            None => {
                let found: Option<Vec<_>> = items.iter().map(|item| of_json(item, form)).collect();
                let found = found?;
                let form = found.first().map_or(form, |(_, form)| *form);
                Some((found.into_iter().flat_map(|(numbers, _)| numbers).collect(), form))
            }
        },
        _ => None,
    }
}

fn one(items: &[Value]) -> Option<[f64; 4]> {
    let numbers: Option<Vec<f64>> = items.iter().map(Value::as_f64).collect();
    numbers?.try_into().ok()
}

/// Returns true if `content` is meant as boxes, without an option about it: an array in a column of that name, or a
/// document of COCO.
pub(super) fn is_meant(name: &str, content: &Content<'_>) -> bool {
    match content {
        Content::Array { .. } => name.to_lowercase().contains("box"),
        Content::Text(text) => text.contains("\"bbox\"") || text.contains("\"boxes\""),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_found_in_documents_of_every_form() {
        let found = |text: &str, form| boxes(&Content::Text(text.into()), form, Size { w: 10, h: 20 });
        let expected = Some(vec![[0.1, 0.1, 0.4, 0.3]]);
        for text in [
            "[[1, 2, 4, 6]]",
            "[1, 2, 4, 6]",
            r#"{"boxes": [[1, 2, 3, 4]], "labels": [0]}"#,
            r#"[{"bbox": [1, 2, 3, 4], "category_id": 7}]"#,
            r#"{"objects": {"bbox": [[1, 2, 3, 4]]}}"#,
        ] {
            assert_eq!(found(text, None), expected, "{text}");
        }
        assert_eq!(found("[[2.5, 4, 3, 4]]", Some(BoxForm::Cxcywh)), expected);
        assert_eq!(found("[]", None), Some(vec![]));
        for text in ["7", "{}", "[[1, 2]]", "no document"] {
            assert_eq!(found(text, None), None, "{text}");
        }
    }
}
