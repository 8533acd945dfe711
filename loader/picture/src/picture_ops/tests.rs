//! Comparison with the results that torchvision had on PIL images, see `tests/oracle/picture_ops_golden.py`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::*;
use crate::interpolation::Interpolation;

#[derive(Debug, Deserialize)]
struct Case {
    op: String,
    shape: [usize; 3],
    seed: u32,
    args: Vec<f64>,
    #[serde(default)]
    sampling: String,
    #[serde(default)]
    fill: Vec<u8>,
    /// Width and height of the result.
    to: Option<[usize; 2]>,
}

impl Case {
    fn shape(&self) -> Shape {
        let [width, height, channels] = self.shape;
        Shape::new(width, height, channels)
    }

    fn output(&self) -> Shape {
        let [width, height] = self.to.unwrap_or([self.shape[0], self.shape[1]]);
        Shape::new(width, height, self.shape[2])
    }

    /// Returns `N` arguments from number `start` on.
    fn args<const N: usize>(&self, start: usize) -> [f64; N] {
        *self.args[start..].first_chunk().expect("the arguments of the operation")
    }

    fn corners(&self, start: usize) -> [[f64; 2]; 4] {
        std::array::from_fn(|corner| self.args(start + 2 * corner))
    }
}

/// The picture that `picture` of the script makes.
fn picture(shape: Shape, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let noise: Vec<usize> = (0..shape.bytes())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as usize
        })
        .collect();
    let value = |i: usize| {
        let (pixel, c) = (i / shape.channels, i % shape.channels);
        let (x, y) = (pixel % shape.width, pixel / shape.width);
        match seed % 4 {
            0 => noise[i],
            1 => 90 + noise[i] % 8 * 3,
            2 => noise[0],
            _ => x * 7 + y * 5 + c * 60 + noise[i] % 4,
        }
    };
    (0..shape.bytes()).map(|i| value(i) as u8).collect()
}

fn points_of(case: &Case) -> Option<Vec<PointOp>> {
    let arg = |i: usize| case.args[i];
    Some(match &*case.op {
        "brightness" => vec![PointOp::Brightness(arg(0))],
        "contrast" => vec![PointOp::Contrast(arg(0))],
        "posterize" => vec![PointOp::Posterize(arg(0) as u8)],
        "solarize" => vec![PointOp::Solarize(arg(0))],
        "invert" => vec![PointOp::Invert],
        "equalize" => vec![PointOp::Equalize],
        "autocontrast" => vec![PointOp::AutoContrast],
        "run" => vec![
            PointOp::Solarize(arg(0)),
            PointOp::Equalize,
            PointOp::Brightness(arg(1)),
            PointOp::AutoContrast,
            PointOp::Contrast(arg(2)),
            PointOp::Invert,
            PointOp::Equalize,
            PointOp::Posterize(5),
        ],
        _ => return None,
    })
}

/// Runs an operation in the memory of its source; false if its result is a new picture.
fn run_within(case: &Case, pixels: &mut [u8], scratch: &mut Scratch) -> bool {
    let shape = case.shape();
    let arg = |i: usize| case.args[i];
    if let Some(ops) = points_of(case) {
        points(shape, pixels, &ops);
        return true;
    }
    match &*case.op {
        "saturation" => saturation(shape, pixels, arg(0)),
        "grayscale" => grayscale(shape, pixels),
        "hue" => hue(shape, pixels, arg(0)),
        "sharpness" => sharpness(shape, pixels, arg(0), scratch),
        "gaussian_blur" => {
            gaussian_blur(shape, pixels, case.args::<2>(0).map(|size| size as usize), case.args(2), scratch);
        }
        "flip_horizontal" => flip_horizontal(shape, pixels),
        "flip_vertical" => flip_vertical(shape, pixels),
        "hsv" => {
            let [saturation, value] = [1, 3].map(|i| LevelChange { factor: arg(i), addend: arg(i + 1) });
            hsv(shape, pixels, arg(0), saturation, value);
        }
        _ => return false,
    }
    true
}

fn run(case: &Case, scratch: &mut Scratch) -> Vec<u8> {
    let (shape, to_shape) = (case.shape(), case.output());
    let mut from = picture(shape, case.seed);
    if run_within(case, &mut from, scratch) {
        return from;
    }
    let mut to = vec![0xee; to_shape.bytes()];
    let fill = std::array::from_fn(|c| case.fill.get(c).copied().unwrap_or(0));
    let sampling = match &*case.sampling {
        "bilinear" => Interpolation::Bilinear,
        "bicubic" => Interpolation::Bicubic,
        _ => Interpolation::Nearest,
    };
    match &*case.op {
        "affine" => affine(&from, shape, &case.args(0), sampling, fill, &mut to, to_shape, scratch),
        "affine_matrix" => {
            let matrix = affine_matrix(case.args(0), case.args[2], case.args(3), case.args[5], case.args(6));
            affine(&from, shape, &matrix, sampling, fill, &mut to, to_shape, scratch);
        }
        "perspective" => perspective(&from, shape, &case.args(0), sampling, fill, &mut to, to_shape),
        "perspective_coefficients" => {
            let coefficients = perspective_coefficients(&case.corners(0), &case.corners(8)).expect("a transform");
            perspective(&from, shape, &coefficients, sampling, fill, &mut to, to_shape);
        }
        "elastic" => {
            let mut state = case.seed;
            let noise = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / 16_777_216.0
            };
            let [width, height, _] = case.shape;
            let displacement = Displacement::new([width, height], case.args(0), case.args(2), noise);
            elastic(&from, shape, &displacement, sampling, fill, &mut to);
        }
        "rotate" => {
            let center = (case.args.len() > 2).then(|| case.args(2));
            let rotation = Rotation::new(shape, case.args[0], case.args[1] != 0.0, center);
            assert_eq!(rotation.output(shape), to_shape, "{case:?}");
            rotate(&from, shape, &rotation, sampling, fill, &mut to, scratch);
        }
        name => panic!("unknown operation {name}"),
    }
    to
}

/// Values that may differ, and by how much: only where torchvision rounds sums of its own order, or solves equations by
/// a library.
fn tolerance(case: &Case) -> (usize, u8) {
    match (&*case.op, &*case.sampling) {
        // A last bit of the matrix.
        ("affine_matrix", "bilinear" | "bicubic") => (1, 1),
        // Sums of a kernel in a different order.
        ("elastic", "nearest") => (case.shape().bytes() / 50, 255),
        ("elastic", _) => (1 + case.shape().bytes() / 50, 1),
        ("gaussian_blur", _) => (1 + case.shape().bytes() / 1_000, 1),
        ("perspective_coefficients", "nearest") => (1 + case.shape().bytes() / 100, 255),
        ("perspective_coefficients", _) => (1 + case.shape().bytes() / 1_000, 1),
        _ => (0, 0),
    }
}

fn cases() -> Vec<(Case, Vec<u8>)> {
    let folder = match std::env::var_os("FOREBAY_PICTURE_OPS_GOLDEN") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/picture_ops"),
    };
    [("cases.jsonl", "want"), ("hsv.jsonl", "hsv_want")]
        .into_iter()
        .filter(|(cases, _)| folder.join(cases).exists())
        .flat_map(|(cases, want)| cases_of(&folder, cases, want))
        .collect()
}

fn cases_of(folder: &Path, cases: &str, want: &str) -> Vec<(Case, Vec<u8>)> {
    let lines = std::fs::read_to_string(folder.join(cases)).unwrap();
    let all = std::fs::read(folder.join(want)).unwrap();
    let mut rest = &all[..];
    let mut take = |case: &Case| {
        let want;
        (want, rest) = rest.split_at(case.output().bytes());
        want.to_vec()
    };
    let cases: Vec<Case> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    cases.into_iter().map(|case| (take(&case), case)).map(|(want, case)| (case, want)).collect()
}

#[test]
fn operations_equal_torchvision_s_on_pil_images() {
    let mut scratch = Scratch::default();
    let cases = cases();
    assert!(cases.len() > 200);
    for (case, want) in cases {
        let got = run(&case, &mut scratch);
        let different: Vec<u8> = got.iter().zip(&want).map(|(a, b)| a.abs_diff(*b)).filter(|by| *by > 0).collect();
        let (count, by) = tolerance(&case);
        assert!(
            different.len() <= count && different.iter().all(|d| *d <= by),
            "{case:?}: {} differ by up to {:?}",
            different.len(),
            different.iter().max()
        );
    }
}

#[test]
fn a_run_of_point_operations_equals_single_ones() {
    let shape = Shape::new(31, 17, 3);
    let ops = [
        PointOp::AutoContrast,
        PointOp::Contrast(0.7),
        PointOp::Brightness(1.3),
        PointOp::Equalize,
        PointOp::Solarize(99.5),
        PointOp::Contrast(1.6),
        PointOp::Posterize(4),
        PointOp::AutoContrast,
        PointOp::Invert,
    ];
    for seed in 0..8 {
        let (mut run, mut single) = (picture(shape, seed), picture(shape, seed));
        points(shape, &mut run, &ops);
        ops.iter().for_each(|op| points(shape, &mut single, &[*op]));
        assert_eq!(run, single, "{seed}");
    }
}

/// Numbers that a caller should not pass, besides common ones.
const ODD: [f64; 9] = [0.0, 1.0, -1.0, 0.3, 1e-300, 1e12, f64::MAX, f64::INFINITY, f64::NAN];

#[test]
fn pictures_of_any_size_take_any_number() {
    let mut scratch = Scratch::default();
    for (width, height) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (1, 40), (40, 1), (5, 3), (33, 7)] {
        for channels in [1, 3] {
            let shape = Shape::new(width, height, channels);
            let source = picture(shape, 4);
            let mut pixels = source.clone();
            let mut to = source.clone();
            for odd in ODD {
                let ops = [
                    PointOp::Brightness(odd),
                    PointOp::Contrast(odd),
                    PointOp::Solarize(odd),
                    PointOp::Posterize(odd as u8),
                ];
                ops.iter().for_each(|op| points(shape, &mut pixels, &[*op, PointOp::Equalize]));
                saturation(shape, &mut pixels, odd);
                hue(shape, &mut pixels, odd);
                sharpness(shape, &mut pixels, odd, &mut scratch);
                let change = LevelChange { factor: odd, addend: odd };
                hsv(shape, &mut pixels, odd, change, change);
                let displacement = Displacement::new([width, height], [odd; 2], [0.7; 2], || 0.3);
                elastic(&source, shape, &displacement, Interpolation::Bilinear, [1; 3], &mut to);
                gaussian_blur(shape, &mut pixels, [7, 41], [odd, odd], &mut scratch);
                let rotation = Rotation::new(shape, odd, false, None);
                for sampling in [Interpolation::Nearest, Interpolation::Bilinear, Interpolation::Bicubic] {
                    for matrix in [[odd; 6], [1.0, 0.0, odd, 0.0, 1.0, odd], [odd, 0.1, 0.0, 0.1, odd, 0.0]] {
                        affine(&source, shape, &matrix, sampling, [1; 3], &mut to, shape, &mut scratch);
                    }
                    perspective(&source, shape, &[odd; 8], sampling, [1; 3], &mut to, shape);
                    rotate(&source, shape, &rotation, sampling, [1; 3], &mut to, &mut scratch);
                }
                perspective_coefficients(&[[odd; 2]; 4], &[[odd; 2]; 4]);
            }
        }
    }
}
