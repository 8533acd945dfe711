//! Pictures against Pillow and torchvision: files recorded by `tests/oracle/decode_golden.py`. Also damaged files
//! ([`formats`]), and JPEGs that are decoded at a reduced size ([`scaled`]).

#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

#[path = "decode/formats.rs"]
mod formats;
#[path = "decode/scaled.rs"]
mod scaled;
#[path = "decode/target.rs"]
mod target;

use std::path::PathBuf;

use forebay_loader::decode::fields::{Image, Mask};
use forebay_loader::decode::{DType, DrawKey, FieldPlan, FieldSpec, Op, PictureMode, PixelLayout, Row, RowShape};
use forebay_loader::format::{Column, Encoding};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    file: String,
    want: String,
    encoding: String,
    shape: Vec<usize>,
    seed: u64,
    epoch: u64,
    stream: u32,
    draw: u64,
    ops: Vec<Op>,
    dtype: DType,
    /// `NCHW`, `NHWC`, or `mask` for a picture of labels.
    layout: String,
    #[serde(default)]
    apply_exif_orientation: bool,
}

/// The recorded files, or the files of a live comparison.
fn folder() -> PathBuf {
    match std::env::var_os("FOREBAY_DECODE_GOLDEN") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/decode"),
    }
}

fn cases() -> Vec<(Case, Vec<u8>, Vec<u8>)> {
    let folder = folder();
    let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(folder.join("cases.json")).unwrap()).unwrap();
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    cases.into_iter().map(|c| (read(&c.file), read(&c.want), c)).map(|(f, w, c)| (c, f, w)).collect()
}

fn decode(case: &Case, file: &[u8]) -> Vec<u8> {
    let column = Column::new("image", Encoding::parse(&case.encoding).unwrap());
    let (column_name, ops, dtype) = ("image".to_owned(), case.ops.clone(), case.dtype);
    let spec = match case.layout.as_str() {
        "mask" => FieldSpec::Mask(Mask { column: column_name, ops, dtype }),
        layout => FieldSpec::Image(Image {
            column: column_name,
            ops,
            dtype,
            layout: if layout == "NCHW" { PixelLayout::Nchw } else { PixelLayout::Nhwc },
            tolerant: false,
            apply_exif_orientation: case.apply_exif_orientation,
            scaled_decode: false,
            views: None,
            mode: PictureMode::default(),
        }),
    };
    let plan = FieldPlan::compile(Some(&[("x".to_owned(), spec)]), &[column], case.seed).unwrap();
    let key = DrawKey { epoch: case.epoch, stream: case.stream, draw: case.draw };
    let mut out = Vec::new();
    let output = &plan.outputs()[0];
    if let Some(bytes) = output.row_bytes() {
        assert_eq!(output.shape, RowShape::Fixed(case.shape.clone()), "{}", case.file);
        out.resize(bytes, 0xee);
        plan.decoder().decode(|_| Some(file), |_| &[], key, [Row::Fixed(&mut out)]).unwrap();
        return out;
    }
    plan.decoder().decode(|_| Some(file), |_| &[], key, [Row::Var(&mut out)]).unwrap();
    let (dtype, shape, values) = forebay_loader::decode::ragged::read_ragged(&out).unwrap();
    assert_eq!((dtype, &shape), (case.dtype, &case.shape), "{}", case.file);
    values.to_vec()
}

/// Number of resizes among the operations. Each may add its own rounding. Labels are never rounded.
fn resizes(case: &Case) -> u8 {
    if case.layout == "mask" {
        return 0;
    }
    case.ops.iter().filter(|op| matches!(op, Op::Resize { .. } | Op::RandomResizedCrop { .. })).count() as u8
}

#[test]
fn pictures_have_the_pixels_of_torchvision() {
    let (mut values, mut off, mut off_by_more, mut seen) = (0_u64, 0_u64, 0_u64, 0);
    for (case, file, want) in cases().iter().filter(|c| c.0.dtype == DType::UInt8) {
        let got = decode(case, file);
        assert_eq!(got.len(), want.len(), "{}", case.file);
        let worst = got.iter().zip(want).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        // Without a resize nothing is rounded; the documented bound for one resize is two levels.
        assert!(worst <= 2 * resizes(case), "{}: {worst} levels off, {:?}", case.file, case.ops);
        if resizes(case) <= 1 {
            values += got.len() as u64;
            off += got.iter().zip(want).filter(|(a, b)| a != b).count() as u64;
            off_by_more += got.iter().zip(want).filter(|(a, b)| a.abs_diff(**b) > 1).count() as u64;
        }
        seen += 1;
    }
    println!("{seen} pictures, {values} values, {off} off by a level, {off_by_more} by two");
    assert!(seen >= 90, "{seen}");
    assert!(off_by_more * 1000 <= values, "{off_by_more} of {values} values differ by more than a level");
}

#[test]
fn normalised_pictures_equal_torchvision_s() {
    let mut seen = 0;
    for (case, file, want) in cases().iter().filter(|c| c.0.dtype == DType::Float32) {
        let got = decode(case, file);
        assert_eq!(got.len(), want.len(), "{}", case.file);
        // A grey level is 1 / 255 / std, which is 0.0176 at most with the recorded std.
        let tolerance = if resizes(case) > 0 { 2.0 * 0.0176 } else { 1e-6 };
        for (i, (a, b)) in got.as_chunks().0.iter().zip(want.as_chunks().0).enumerate() {
            let (a, b) = (f32::from_ne_bytes(*a), f32::from_le_bytes(*b));
            assert!((a - b).abs() <= tolerance, "{}: {a} for {b} at {i}", case.file);
        }
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
}
