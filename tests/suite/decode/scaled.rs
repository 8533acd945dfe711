//! Pictures that are decoded at a reduced size before they are resized (`scaled_decode`): close to the exact result, in
//! every orientation, and at the same position.

use forebay_loader::decode::geometry::Size;
use forebay_loader::decode::jpeg::{Subsampling, encode};
use forebay_loader::decode::{DrawKey, FieldPlan, FieldSpec, Row};
use forebay_loader::format::{Column, Encoding};
use serde_json::{Value, json};

/// Waves in both directions, long compared with the pixels of a reduced picture, different in each channel.
fn waves(size: Size) -> Vec<u8> {
    let mut rgb = Vec::new();
    for y in 0..size.h {
        for x in 0..size.w {
            for (across, down) in [(31.0, 57.0), (83.0, 29.0), (47.0, 201.0)] {
                let wave = (f64::from(x) / across).sin() + (f64::from(y) / down).cos();
                rgb.push((127.5 + 60.0 * wave) as u8);
            }
        }
    }
    rgb
}

/// Adds an EXIF segment with this orientation to a file.
fn with_orientation(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let mut exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
    let mut out = jpeg[..2].to_vec();
    out.extend([0xff, 0xe1]);
    out.extend((exif.len() as u16 + 2).to_be_bytes());
    out.extend(exif);
    out.extend(&jpeg[2..]);
    out
}

fn decode(file: &[u8], ops: &Value, draw: u64, is_scaled: bool) -> Vec<u8> {
    let spec = json!({"kind": "image", "column": "image", "ops": ops, "layout": "NHWC",
                      "apply_exif_orientation": true, "scaled_decode": is_scaled});
    let spec: FieldSpec = serde_json::from_value(spec).unwrap();
    let column = Column::new("image", Encoding::Jpeg);
    let plan = FieldPlan::compile(Some(&[("x".to_owned(), spec)]), &[column], 5).unwrap();
    let mut out = vec![0; plan.outputs()[0].row_bytes().unwrap()];
    let key = DrawKey { epoch: 0, stream: 0, draw };
    plan.decoder().decode(|_| Some(file), |_| &[], key, [Row::Fixed(&mut out)]).unwrap();
    out
}

/// Returns the mean and the largest difference of two pictures, in grey levels.
fn difference(a: &[u8], b: &[u8]) -> (f64, u8) {
    let differences = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
    let sum: u64 = differences.clone().map(u64::from).sum();
    (sum as f64 / a.len() as f64, differences.max().unwrap())
}

#[test]
fn a_reduced_decode_is_close_to_the_exact_result_and_at_the_same_position() {
    let lists = [
        json!([{"op": "random_resized_crop", "size": [60, 50], "scale": [0.3, 1.0]}, {"op": "random_horizontal_flip"}]),
        json!([{"op": "resize", "size": 70}, {"op": "center_crop", "size": [64, 64]}]),
        json!([{"op": "resize", "size": [100, 90]}, {"op": "random_resized_crop", "size": [32, 32]}]),
    ];
    let mut changed = 0;
    // No side is a whole number of reduced pixels.
    for (w, h, progressive) in [(501, 383, false), (389, 517, false), (611, 405, true)] {
        let size = Size { w, h };
        let jpeg = encode(&waves(size), size, 97, Subsampling::S420, progressive).unwrap();
        for orientation in 1..=8 {
            let file = with_orientation(&jpeg, orientation);
            for ops in &lists {
                for draw in 0..3 {
                    let (exact, scaled) = (decode(&file, ops, draw, false), decode(&file, ops, draw, true));
                    let (mean, most) = difference(&exact, &scaled);
                    // A shift by half a pixel of the stored picture would be larger.
                    assert!(mean < 0.6 && most <= 5, "{w}x{h} {orientation} {ops} {draw}: {mean} {most}");
                    changed += u32::from(exact != scaled);
                }
            }
        }
    }
    assert!(changed > 150, "{changed}");
}

#[test]
fn a_joint_of_pictures_with_different_ratios_is_rejected() {
    let joint = json!({"kind": "joint", "fields": [
        ["x", {"kind": "image", "column": "a", "ops": [{"op": "resize", "size": [8, 8]}],
            "apply_exif_orientation": true}],
        ["y", {"kind": "image", "column": "b", "ops": [{"op": "resize", "size": [8, 8]}]}]]});
    let spec: FieldSpec = serde_json::from_value(joint).unwrap();
    let columns = ["a", "b"].map(|name| Column::new(name, Encoding::Jpeg));
    let plan = FieldPlan::compile(Some(&[("xy".to_owned(), spec)]), &columns, 5).unwrap();
    let file = |w, h| encode(&waves(Size { w, h }), Size { w, h }, 90, Subsampling::S420, false).unwrap();
    let mut decoder = plan.decoder();
    let mut pair = |first: &[u8], second: &[u8]| {
        let (mut x, mut y) = (vec![0; 192], vec![0; 192]);
        let key = DrawKey { epoch: 0, stream: 0, draw: 0 };
        let column = |column| Some(if column == 0 { first } else { second });
        decoder.decode(column, |_| &[], key, [Row::Fixed(&mut x), Row::Fixed(&mut y)])
    };
    let (picture, half, other) = (file(101, 61), file(51, 30), file(61, 101));
    pair(&picture, &half).unwrap();
    // Pictures of a different sample.
    pair(&other, &other).unwrap();
    pair(&with_orientation(&picture, 6), &other).unwrap();
    for (first, second) in [(&picture, &other), (&with_orientation(&picture, 6), &picture), (&picture, &file(101, 80))]
    {
        let error = pair(first, second).unwrap_err().to_string();
        assert!(error.contains("do not show the same scene") && error.contains("EXIF"), "{error}");
    }
}

#[test]
fn without_a_reduction_to_half_or_less_the_pixels_are_exact() {
    let size = Size { w: 200, h: 140 };
    let file = encode(&waves(size), size, 90, Subsampling::S420, false).unwrap();
    for ops in [
        json!([{"op": "resize", "size": [71, 101]}]),
        json!([{"op": "center_crop", "size": [50, 50]}]),
        json!([{"op": "resize", "size": [140, 20]}]),
        json!([{"op": "center_crop", "size": [120, 120]}, {"op": "resize", "size": [240, 240]}]),
    ] {
        assert_eq!(decode(&file, &ops, 0, true), decode(&file, &ops, 0, false), "{ops}");
    }
    let halved = json!([{"op": "resize", "size": [70, 100]}]);
    assert_ne!(decode(&file, &halved, 0, true), decode(&file, &halved, 0, false));
}
