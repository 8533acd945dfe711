//! Annotations of COCO, such as `instances_train2017.json`: pictures with boxes, classes and segmentations of objects.
//!
//! The samples are the images in the order of their ids, as in torchvision's `CocoDetection`, also those without an
//! object. The objects of an image are one document, so that fields for boxes and labels follow the operations of the
//! picture together:
//!
//! ```text
//!   {"boxes": [[x, y, width, height], ..], "labels": [class, ..], "category_ids": [..], "ids": [..], "areas": [..],
//!    "iscrowd": [..], "segmentations": [[[x, y, ..], ..] or {"counts": .., "size": [height, width]}, ..],
//!    "size": [height, width]}
//! ```
//!
//! Segmentations have the digits of the file: parsed and printed, a corner might differ in the last bit, and its
//! polygon in a pixel.
//!
//! A label is the index of its category among all categories by their ids. COCO's ids have gaps.

use super::values::{Cells, ValueColumn};
use crate::error::{Error, Result};
use crate::format::json::{self, PathPart};
use crate::format::recipe::Texts;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Images of a file, with the values of each in the order of their ids.
pub(super) struct Annotations {
    pub(super) ids: Vec<u64>,
    pub(super) paths: Texts,
    pub(super) columns: Vec<ValueColumn>,
    pub(super) classes: Texts,
}

#[derive(Deserialize)]
struct Document {
    images: Vec<Image>,
    annotations: Vec<Annotation>,
    categories: Vec<Category>,
}

#[derive(Deserialize)]
struct Image {
    id: u64,
    file_name: String,
    width: u64,
    height: u64,
}

#[derive(Deserialize)]
struct Category {
    id: u64,
    name: String,
}

#[derive(Deserialize)]
struct Annotation {
    id: u64,
    image_id: u64,
    category_id: u64,
    bbox: [f64; 4],
    #[serde(default)]
    area: Option<f64>,
    #[serde(default)]
    iscrowd: u8,
}

/// Objects of an image: lists with an element for each.
#[derive(Default, Serialize)]
struct Objects<'a> {
    boxes: Vec<[f64; 4]>,
    labels: Vec<usize>,
    category_ids: Vec<u64>,
    ids: Vec<u64>,
    areas: Vec<Option<f64>>,
    iscrowd: Vec<u8>,
    /// Texts of the file, `null` for an object without one.
    #[serde(skip)]
    segmentations: Vec<&'a [u8]>,
}

impl Objects<'_> {
    /// Returns the document of the objects of `image`.
    fn document(&self, image: &Image) -> Result<String> {
        let mut document =
            serde_json::to_string(self).map_err(|e| Error::internal("objects have no document").caused_by(e))?;
        document.pop();
        document.push_str(",\"segmentations\":[");
        for (number, text) in self.segmentations.iter().enumerate() {
            document.push_str(if number == 0 { "" } else { "," });
            let text = std::str::from_utf8(text)
                .map_err(|e| Error::format("a segmentation is not in UTF-8").with("image", image.id).caused_by(e))?;
            push_without_spaces(text, &mut document);
        }
        document.push_str(&format!("],\"size\":[{},{}]}}", image.height, image.width));
        Ok(document)
    }
}

/// Appends JSON without the spaces and line breaks between its values: a file with a line for each number has several
/// times the length.
fn push_without_spaces(json: &str, out: &mut String) {
    let (mut is_text, mut is_escaped) = (false, false);
    for character in json.chars() {
        let is_quote = character == '"' && !is_escaped;
        is_escaped = is_text && character == '\\' && !is_escaped;
        is_text ^= is_quote;
        if is_text || !character.is_ascii_whitespace() {
            out.push(character);
        }
    }
}

/// Returns the text of each object's segmentation.
fn segmentations(bytes: &[u8]) -> Result<Vec<&[u8]>> {
    let annotations = json::find(bytes, &[PathPart::Key("annotations".into())])?;
    let list = annotations.map_or(&b"[]"[..], |range| &bytes[range]);
    let mut texts = Vec::new();
    json::scan_list(list, |range| {
        let (annotation, mut text) = (&list[range], &b"null"[..]);
        json::scan_object(annotation, |key, value| {
            if &annotation[key] == b"\"segmentation\"" {
                text = &annotation[value];
            }
            Ok(())
        })?;
        texts.push(text);
        Ok(())
    })?;
    Ok(texts)
}

/// Reads a file of annotations.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for anything else, for an id that is used twice, and for an object of an unknown
/// category.
pub(super) fn annotations(bytes: &[u8]) -> Result<Annotations> {
    let Document { mut images, annotations, mut categories } = serde_json::from_slice(bytes).map_err(|e| {
        let message = "the file is not in the form of COCO, which is an object with `images`, `annotations` with \
                       boxes, and `categories`: name a manifest of a different form .csv, .tsv or .jsonl";
        Error::format(message).caused_by(e)
    })?;
    images.sort_by_key(|image| image.id);
    categories.sort_by_key(|category| category.id);
    let twice = |noun: &'static str, id: u64| Err(Error::format("an id is used twice").with(noun, id));
    if let Some(pair) = images.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return twice("image", pair[0].id);
    }
    if let Some(pair) = categories.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return twice("category", pair[0].id);
    }
    let labels: HashMap<u64, usize> = categories.iter().map(|category| category.id).zip(0..).collect();
    let places: HashMap<u64, usize> = images.iter().map(|image| image.id).zip(0..).collect();
    let mut objects: Vec<Objects<'_>> = Vec::new();
    objects.resize_with(images.len(), Objects::default);
    let mut without_image = 0;
    let texts = segmentations(bytes)?;
    for (Annotation { id, image_id, category_id, bbox, area, iscrowd }, text) in annotations.iter().zip(texts) {
        let Some(place) = places.get(image_id) else {
            without_image += 1;
            continue;
        };
        let unknown = || {
            let error = Error::format("the category of an object is not in the file");
            error.with("category", category_id).with("annotation", id)
        };
        let found = &mut objects[*place];
        found.labels.push(*labels.get(category_id).ok_or_else(unknown)?);
        found.boxes.push(*bbox);
        found.category_ids.push(*category_id);
        found.ids.push(*id);
        found.areas.push(*area);
        found.iscrowd.push(*iscrowd);
        found.segmentations.push(text);
    }
    if without_image > 0 {
        log::warn!("{without_image} annotations name images that the file does not have, and are left out");
    }
    let documents =
        objects.iter().zip(&images).map(|(objects, image)| objects.document(image)).collect::<Result<_>>()?;
    let numbers = |name: &str, of: fn(&Image) -> u64| {
        let texts = images.iter().map(|image| of(image).to_string()).collect();
        ValueColumn::new(name.to_owned(), Cells { texts, is_text: false })
    };
    let columns = vec![
        numbers("image_id", |image| image.id),
        numbers("width", |image| image.width),
        numbers("height", |image| image.height),
        ValueColumn::new("objects".to_owned(), Cells { texts: documents, is_text: true }),
    ];
    Ok(Annotations {
        ids: images.iter().map(|image| image.id).collect(),
        paths: images.iter().map(|image| image.file_name.as_str()).collect(),
        columns,
        classes: categories.iter().map(|category| category.name.as_str()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::recipe::Values;

    const FILE: &str = r#"{"info": {"year": 2017}, "licenses": [],
        "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}, {"id": 3, "name": "car"}],
        "images": [{"id": 9, "file_name": "9.jpg", "width": 4, "height": 3, "license": 1},
                   {"id": 2, "file_name": "2.jpg", "width": 5, "height": 6},
                   {"id": 5, "file_name": "5.jpg", "width": 7, "height": 8}],
        "annotations": [
            {"id": 1, "image_id": 9, "category_id": 18, "bbox": [1, 2, 3.5, 4], "area": 6.5, "iscrowd": 0,
             "segmentation": [[1, 2, 3.50, 2, 1, 6]]},
            {"id": 2, "image_id": 2, "category_id": 3, "bbox": [0, 0, 1, 1], "area": 1, "iscrowd": 1,
             "segmentation": {"counts": [1, 2, 27], "size": [6, 5]}},
            {"id": 3, "image_id": 9, "category_id": 3, "bbox": [0, 1, 1, 1], "iscrowd": 1,
             "segmentation": {"counts": "1\\\\\"2 P", "size": [3, 4]}},
            {"id": 4, "image_id": 77, "category_id": 3, "bbox": [0, 1, 1, 1]}]}"#;

    #[test]
    fn images_are_in_the_order_of_their_ids_with_their_objects_and_labels_without_gaps() {
        let Annotations { ids, paths, columns, classes } = annotations(FILE.as_bytes()).unwrap();
        assert_eq!((ids, paths.iter().collect::<Vec<_>>()), (vec![2, 5, 9], vec!["2.jpg", "5.jpg", "9.jpg"]));
        assert_eq!(classes.iter().collect::<Vec<_>>(), ["car", "dog"]);
        assert_eq!(columns[1].select(&[0, 1]), Values::Numbers(vec![5_i64.to_le_bytes(), 7_i64.to_le_bytes()]));
        let objects = [
            r#"{"boxes":[[0.0,0.0,1.0,1.0]],"labels":[0],"category_ids":[3],"ids":[2],"areas":[1.0],"iscrowd":[1],"#,
            r#""segmentations":[{"counts":[1,2,27],"size":[6,5]}],"size":[6,5]}"#,
        ];
        let empty = [
            r#"{"boxes":[],"labels":[],"category_ids":[],"ids":[],"areas":[],"iscrowd":[],"segmentations":[],"#,
            r#""size":[8,7]}"#,
        ];
        let two = [
            r#"{"boxes":[[1.0,2.0,3.5,4.0],[0.0,1.0,1.0,1.0]],"labels":[1,0],"category_ids":[18,3],"ids":[1,3],"#,
            r#""areas":[6.5,null],"iscrowd":[0,1],"#,
            r#""segmentations":[[[1,2,3.50,2,1,6]],{"counts":"1\\\\\"2 P","size":[3,4]}],"size":[3,4]}"#,
        ];
        let expected = [objects.concat(), empty.concat(), two.concat()].into_iter().collect();
        assert_eq!(columns[3].select(&[0, 1, 2]), Values::Texts(expected));
    }

    #[test]
    fn a_file_without_instances_is_an_error_with_the_reason() {
        for (from, to, message) in [
            ("\"id\": 5", "\"id\": 9", "an id is used twice (image 9"),
            ("\"id\": 18, \"name\"", "\"id\": 3, \"name\"", "an id is used twice (category 3"),
            ("\"category_id\": 18", "\"category_id\": 19", "(category 19, annotation 1"),
            ("\"bbox\": [1, 2, 3.5, 4]", "\"caption\": \"a\"", "not in the form of COCO"),
            ("[1, 2, 3.5, 4]", "[1, 2]", "not in the form of COCO"),
            ("\"images\"", "\"pictures\"", "not in the form of COCO"),
        ] {
            let e = annotations(FILE.replacen(from, to, 1).as_bytes()).err().unwrap();
            assert!(e.to_string().contains(message), "{to}: {e}");
        }
    }
}
