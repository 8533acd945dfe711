//! Masks, against those that `tests/oracle/coco_masks_golden.py` has recorded.

use super::*;
use forebay_core::ErrorKind;

const POLYGONS: &[u8] = include_bytes!("../../../../tests/data/coco/polygons");
const RUNS: &str = include_str!("../../../../tests/data/coco/runs.jsonl");

/// As `Numbers` of the script.
struct Numbers(u32);

impl Numbers {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % bound
    }

    fn coordinate(&mut self, kind: u32) -> f64 {
        match kind {
            0 => f64::from(self.below(100)),
            2 => f64::from(self.below(40_000) as i32 - 20_000) / 100.0,
            3 => f64::from(self.below(4) * 20),
            4 => f64::from(self.below(1000)) / 10.0,
            5 => f64::from(self.below(1200) as i32 - 100) / 10.0,
            6 => f64::from(self.below(2_000_000) as i32 - 1_000_000) / 10.0,
            _ => f64::from(self.below(10_000)) / 100.0,
        }
    }
}

/// As `polygons_of` of the script.
fn polygons_of(number: u32) -> (Size, Vec<Vec<f64>>) {
    let (mut numbers, kind) = (Numbers(number.wrapping_mul(2_654_435_761)), number % 8);
    let h = 1 + numbers.below(90);
    let w = 1 + numbers.below(if kind == 7 { 3 } else { 90 });
    let mut polygons = Vec::new();
    for _ in 0..if kind == 4 { 1 + numbers.below(4) } else { 1 } {
        let mut count = 2 * (3 + numbers.below(10));
        count += if kind == 3 { numbers.below(2) } else { 0 };
        polygons.push((0..count).map(|_| numbers.coordinate(kind)).collect());
    }
    (Size { w, h }, polygons)
}

fn drawn(size: Size, polygons: &[&[f64]]) -> Vec<u8> {
    let mut mask = ObjectMask::default();
    mask.start(size);
    polygons.iter().for_each(|polygon| mask.add_polygon(polygon).unwrap());
    mask.columns().to_vec()
}

#[test]
fn polygons_have_the_pixels_of_pycocotools() {
    // One mask, so that nothing of an object is left for the next one.
    let mut mask = ObjectMask::default();
    for (number, want) in (0..).zip(POLYGONS.as_chunks::<8>().0) {
        let (size, polygons) = polygons_of(number);
        mask.start(size);
        polygons.iter().for_each(|polygon| mask.add_polygon(polygon).unwrap());
        let pixels = mask.columns();
        let sum: u32 = pixels.iter().copied().map(u32::from).sum();
        let got = [crc32fast::hash(pixels).to_le_bytes(), sum.to_le_bytes()].concat();
        assert_eq!(got, want, "case {number}: {size}, {polygons:?}");
        let mut listed = vec![0; pixels.len()];
        mask.for_each_pixel(|column, row| listed[column * size.h as usize + row] = 1);
        assert_eq!(listed, pixels, "case {number}");
    }
    assert!(POLYGONS.len() >= 8 * 4000);
}

#[test]
fn run_lengths_and_their_texts_have_the_pixels_of_pycocotools() {
    let mut mask = ObjectMask::default();
    for line in RUNS.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let numbers = |name: &str| -> Vec<u32> { serde_json::from_value(case[name].clone()).unwrap() };
        let (size, runs, unpacked) =
            (numbers("size"), numbers("runs"), unpack(case["counts"].as_str().unwrap().as_bytes()).unwrap());
        // pycocotools leaves out a last run without pixels.
        assert_eq!(unpacked.iter().sum::<u32>(), runs.iter().sum::<u32>(), "{line}");
        for lengths in [runs, unpacked] {
            mask.start(Size { w: size[1], h: size[0] });
            mask.add_runs(lengths).unwrap();
            assert_eq!(u64::from(crc32fast::hash(mask.columns())), case["crc"], "{line}");
        }
    }
}

#[test]
fn an_edge_of_any_length_needs_the_time_and_memory_of_the_picture() {
    let size = Size { w: 40, h: 30 };
    let far = 2e8;
    let all = drawn(size, &[&[-far, -far, far, -far, far, far, -far, far]]);
    assert_eq!(all, vec![1; 1200]);
    // The half above a diagonal through the corner at the top, from far away.
    let half = drawn(size, &[&[-far, -far, far, -far, far, far]]);
    let expected: Vec<u8> = (0..1200).map(|place| u8::from(place % 30 < place / 30)).collect();
    let differ = half.iter().zip(&expected).filter(|(a, b)| a != b).count();
    assert!(differ <= 30, "{differ}");
}

#[test]
fn a_polygon_without_an_area_has_no_pixels() {
    let size = Size { w: 8, h: 6 };
    for polygon in [&[][..], &[3.0], &[3.0, 2.0], &[1.0, 1.0, 6.0, 4.0], &[2.0; 8], &[-5.0, 1.0, -3.0, 1.0, -4.0, 5.0]]
    {
        assert_eq!(drawn(size, &[polygon]), vec![0; 48], "{polygon:?}");
    }
}

#[test]
fn corners_without_a_result_in_pycocotools_are_errors() {
    let mut mask = ObjectMask::default();
    mask.start(Size { w: 8, h: 6 });
    for number in [f64::NAN, f64::INFINITY, -f64::INFINITY, 2.2e8, -1e300] {
        let e = mask.add_polygon(&[1.0, 1.0, number, 4.0, 2.0, 5.0]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Decode);
        assert!(e.to_string().contains("corner of a polygon"), "{e}");
    }
    // The corners of a refused polygon are not a part of the next one.
    mask.add_polygon(&[1.0, 1.0, 4.0, 1.0, 4.0, 4.0, 1.0, 4.0]).unwrap();
    assert_eq!(mask.columns().iter().map(|inside| u32::from(*inside)).sum::<u32>(), 9);
}

#[test]
fn runs_of_more_or_fewer_pixels_than_the_picture_are_an_error() {
    let mut mask = ObjectMask::default();
    let mut runs = |lengths: &[u32]| {
        mask.start(Size { w: 3, h: 2 });
        mask.add_runs(lengths.iter().copied()).map(|()| mask.columns().to_vec())
    };
    assert_eq!(runs(&[6]).unwrap(), [0; 6]);
    assert_eq!(runs(&[1, 2, 3]).unwrap(), [0, 1, 1, 0, 0, 0]);
    assert_eq!(runs(&[0, 1, 0, 1, 3, 1, 0, 0]).unwrap(), [1, 1, 0, 0, 0, 1]);
    for (lengths, problem) in [
        (&[7][..], "more pixels than its size (pixels 6, size [2, 3]"),
        (&[5, 2], "more pixels"),
        (&[u32::MAX, u32::MAX, 2], "more pixels"),
        (&[], "fewer pixels"),
        (&[1, 2], "fewer pixels"),
        (&[5, 0], "fewer pixels"),
    ] {
        let e = runs(lengths).unwrap_err();
        assert!(e.to_string().contains(problem), "{e}");
    }
}

#[test]
fn a_text_that_pycocotools_cannot_have_written_is_an_error() {
    for (text, problem) in [
        ("1~", "cannot be part of one (character 1"),
        ("é", "cannot be part of one (character 0"),
        ("a", "ends inside a number"),
        ("@", "below zero"),
        ("111I", "below zero"),
        ("ooooooo0", "larger than every picture"),
    ] {
        let e = unpack(text.as_bytes()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Decode);
        assert!(e.to_string().contains(problem), "{text}: {e}");
    }
    assert!(unpack(b"").unwrap().is_empty());
}
