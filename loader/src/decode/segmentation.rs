//! Objects as COCO describes them: polygons, or run lengths with the size of their picture, in JSON.

use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::json;
use forebay_picture::geometry::{Region, Size};
use forebay_picture::masks::{ObjectMask, unpack};
use forebay_picture::pixels::Pixels;

/// Memory that drawing needs, kept from object to object.
#[derive(Default)]
pub(super) struct ObjectScratch {
    mask: ObjectMask,
    /// Picture that the objects are painted into.
    pub painted: Pixels,
    numbers: Vec<f64>,
}

impl ObjectScratch {
    /// Starts a picture of `size` with the three bytes of `pixel` everywhere.
    pub(super) fn start(&mut self, size: Size, pixel: [u8; 3]) {
        self.painted.start(Region::all(size), 3).as_chunks_mut::<3>().0.fill(pixel);
    }

    /// Draws an object into the started picture: calls `paint` with each of its pixels.
    ///
    /// # Errors
    /// A segmentation that pycocotools refuses, or that describes a picture of a different size.
    pub(super) fn draw(&mut self, object: &[u8], paint: impl Fn(&mut [u8; 3])) -> Result<()> {
        let Self { mask, painted, numbers } = self;
        let size = painted.region().size();
        mask.start(size);
        match object.first() {
            Some(b'[') => add_polygons(object, mask, numbers)?,
            Some(b'{') => add_runs(object, mask)?,
            _ => return Err(Error::decode("the object has no segmentation: polygons, or run lengths with their size")),
        }
        let pixels = painted.rgb_mut().as_chunks_mut::<3>().0;
        mask.for_each_pixel(|column, row| paint(&mut pixels[row * size.w as usize + column]));
        Ok(())
    }

    /// Ends a sample: the memory of a far larger picture is not kept.
    pub(super) fn release(&mut self) {
        self.mask.release();
    }
}

fn add_polygons(object: &[u8], mask: &mut ObjectMask, numbers: &mut Vec<f64>) -> Result<()> {
    let mut count = 0;
    let polygon = |range: std::ops::Range<usize>| {
        read_numbers(&object[range], numbers).context("polygon", || count)?;
        // pycocotools refuses the object only by its first polygon.
        if count == 0 && numbers.len() <= 4 {
            return Err(Error::decode("the first polygon of the object has fewer than three corners"));
        }
        mask.add_polygon(numbers).context("polygon", || count)?;
        count += 1;
        Ok(())
    };
    json::scan_list(object, polygon).map_err(of_sample)?;
    match count {
        0 => Err(Error::decode("the object has an empty list of polygons")),
        _ => Ok(()),
    }
}

/// Reads a list of numbers. They are parsed exactly: a corner in the middle between two points moves with the last bit.
fn read_numbers(list: &[u8], numbers: &mut Vec<f64>) -> Result<()> {
    numbers.clear();
    if list.first() != Some(&b'[') {
        let message = "a polygon is a list of numbers, column and row of each corner in turn; an object has a list of \
                       polygons";
        return Err(Error::decode(message));
    }
    json::scan_list(list, |range| {
        let text = std::str::from_utf8(&list[range]).unwrap_or_default();
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let number = if is_number { text.parse().ok() } else { None };
        numbers.push(number.ok_or_else(|| {
            let shown: String = text.chars().take(20).collect();
            Error::decode("a corner of a polygon is not a finite number").with("value", shown)
        })?);
        Ok(())
    })
    .map_err(of_sample)
}

fn add_runs(object: &[u8], mask: &mut ObjectMask) -> Result<()> {
    let (mut counts, mut size) = (None, None);
    json::scan_object(object, |key, value| {
        match &object[key] {
            b"\"counts\"" => counts = Some(&object[value]),
            b"\"size\"" => size = Some(&object[value]),
            _ => {}
        }
        Ok(())
    })
    .map_err(of_sample)?;
    let (Some(counts), Some(size)) = (counts, size) else {
        return Err(Error::decode(
            "an object of run lengths has `counts`, and the `size` [height, width] of its picture",
        ));
    };
    let [height, width] = mask.shape();
    check_size(size, Size { w: width as u32, h: height as u32 })?;
    if counts.first() == Some(&b'"') {
        let text = json::unescape(counts).map_err(of_sample)?;
        return mask.add_runs(unpack(text.as_bytes())?);
    }
    let lengths: Vec<u32> = serde_json::from_slice(counts).map_err(|e| {
        Error::decode("`counts` of an object is a list of run lengths, none below zero, or their text").caused_by(e)
    })?;
    mask.add_runs(lengths)
}

/// Checks the size of an annotated picture, as the JSON [height, width], against the size of the picture.
///
/// # Errors
/// A different size.
pub(super) fn check_size(annotated: &[u8], picture: Size) -> Result<()> {
    let size: [u32; 2] = serde_json::from_slice(annotated)
        .map_err(|e| Error::decode("the size of an annotated picture is [height, width]").caused_by(e))?;
    if size == [picture.h, picture.w] {
        return Ok(());
    }
    let message = "the picture does not have the size of its annotations: the file is a resized one, or EXIF data \
                   rotates it (`apply_exif_orientation`)";
    let [h, w] = size;
    Err(Error::decode(message).with("picture", picture).with("annotated", Size { w, h }))
}

/// Returns the error of a value of a sample.
fn of_sample(e: Error) -> Error {
    if e.kind() == ErrorKind::Format { e.of_kind(ErrorKind::Decode) } else { e }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(object: &str) -> Result<Vec<u8>> {
        let mut scratch = ObjectScratch::default();
        scratch.start(Size { w: 6, h: 4 }, [0; 3]);
        scratch.draw(object.as_bytes(), |pixel| pixel[1] += 1)?;
        Ok(scratch.painted.rgb().as_chunks::<3>().0.iter().map(|pixel| pixel[1]).collect())
    }

    #[test]
    fn an_object_is_polygons_or_run_lengths_or_their_text() {
        let expected = [[0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 0, 0], [0; 6], [0; 6]].concat();
        for object in [
            "[[1, 0, 4, 0, 4, 2, 1, 2]]",
            "[[1.0, 0, 4e0, 0, 4, 2, 1, 2], [2, 1, 3, 1, 3, 2, 2, 2]]",
            "[[1, 0, 4, 0, 4, 2, 1, 2, 9], [], [1], [0, 0, 6, 4]]",
            r#"{"counts": [4, 2, 2, 2, 2, 2, 10], "size": [4, 6]}"#,
            r#"{"counts": "4220008", "size": [4, 6]}"#,
        ] {
            assert_eq!(drawn(object).unwrap(), expected, "{object}");
        }
        assert_eq!(drawn(r#"{"counts": [24], "size": [4, 6]}"#).unwrap(), [0; 24]);
        // A hole is not cut by a second polygon: the polygons of an object are united.
        let sum = |object: &str| drawn(object).unwrap().iter().map(|inside| u32::from(*inside)).sum::<u32>();
        assert_eq!(sum("[[0, 0, 6, 0, 6, 4, 0, 4], [1, 1, 3, 1, 3, 3, 1, 3]]"), 24);
        assert_eq!(sum("[[0, 0, 6, 0, 6, 4, 0, 4, 0, 0, 1, 1, 3, 1, 3, 3, 1, 3, 1, 1]]"), 20);
    }

    #[test]
    fn a_segmentation_that_pycocotools_refuses_is_an_error_with_the_reason() {
        for (object, problem) in [
            ("null", "no segmentation"),
            ("3", "no segmentation"),
            ("[]", "an empty list of polygons"),
            ("[[]]", "fewer than three corners"),
            ("[[1, 2, 3, 4]]", "fewer than three corners"),
            ("[1, 2, 3, 4, 5, 6]", "a polygon is a list of numbers"),
            ("[[[1, 2], [3, 4], [5, 6]]]", "not a finite number (value [1, 2]"),
            (r#"[["1", 2, 3, 4, 5, 6]]"#, "not a finite number"),
            ("[[1, 2, NaN, 4, 5, 6]]", "not a finite number (value NaN"),
            ("[[1, 2, -Infinity, 4, 5, 6]]", "not finite, or too far"),
            ("[[1, 2, 1e400, 4, 5, 6]]", "not finite, or too far"),
            ("[[1, 2, 1e10, 4, 5, 6]]", "not finite, or too far"),
            ("[[1, 2, 3, 4, 5, 6], [1, 2, true]]", "not a finite number (value true, polygon 1"),
            (r#"{"counts": [4]}"#, "has `counts`, and the `size`"),
            (r#"{"size": [4, 6]}"#, "has `counts`, and the `size`"),
            (r#"{"counts": [24], "size": [6, 4]}"#, "(picture 6x4, annotated 4x6"),
            (r#"{"counts": [24], "size": "4x6"}"#, "is [height, width]"),
            (r#"{"counts": [-1, 25], "size": [4, 6]}"#, "none below zero"),
            (r#"{"counts": 24, "size": [4, 6]}"#, "a list of run lengths"),
            (r#"{"counts": [4, 21], "size": [4, 6]}"#, "more pixels than its size"),
            (r#"{"counts": [4, 19], "size": [4, 6]}"#, "fewer pixels than its size"),
            (r#"{"counts": "", "size": [4, 6]}"#, "fewer pixels than its size"),
            (r#"{"counts": "~", "size": [4, 6]}"#, "cannot be part of one"),
        ] {
            let e = drawn(object).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Decode, "{object}");
            assert!(e.to_string().contains(problem), "{object}: {e}");
        }
    }
}
