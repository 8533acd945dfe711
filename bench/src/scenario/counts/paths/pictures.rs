//! Pictures: files to rows of a batch, and the steps between.

use super::work::{SEED, Work};
use crate::scenario::decode::{Choices, Picture, row};
use forebay_loader::decode::Interpolation;
use forebay_loader::decode::geometry::{Region, Size, Stage};
use forebay_loader::decode::jpeg::{RowIndexer, Subsampling, encode};
use forebay_loader::decode::picture_ops::{
    LevelChange, Scratch, Shape, Tables, affine, affine_matrix, gaussian_blur, hsv, saturation,
};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::decode::resize::Resizer;
use forebay_loader::{Error, Result};
use forebay_tests::data::picture;
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::OnceLock;

/// Usual size of a photograph in ImageNet.
const SIZE: Size = Size { w: 500, h: 375 };
const SIDE: u32 = 224;

/// Photograph-like pixels, made once.
fn photograph() -> &'static [u8] {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    MADE.get_or_init(|| picture(SIZE, SEED))
}

pub(super) fn jpeg_crop() -> Result<Work> {
    decoded(vec![jpeg(false)?], &crop_and_flip(), Choices::default(), 8)
}

pub(super) fn jpeg_crop_indexed() -> Result<Work> {
    decoded(vec![jpeg(false)?], &crop_and_flip(), Choices { row_index: true, ..Choices::default() }, 8)
}

pub(super) fn jpeg_whole() -> Result<Work> {
    decoded(vec![jpeg(false)?], &resize_and_centre(), Choices::default(), 2)
}

pub(super) fn jpeg_progressive() -> Result<Work> {
    decoded(vec![jpeg(true)?], &crop_and_flip(), Choices::default(), 2)
}

pub(super) fn png() -> Result<Work> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, SIZE.w, SIZE.h);
    encoder.set_color(png::ColorType::Rgb);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(photograph()));
    written.map_err(|e| Error::internal("a PNG file cannot be made").caused_by(e))?;
    decoded(vec![file], &resize_and_centre(), Choices::default(), 2)
}

/// Lossy and lossless files of the tests: no crate here writes lossy ones.
pub(super) fn webp() -> Result<Work> {
    let lossy = include_bytes!("../../../../../tests/data/pictures/seeds/lossy_large.webp").to_vec();
    let lossless = include_bytes!("../../../../../tests/data/pictures/seeds/lossless_large.webp").to_vec();
    decoded(vec![lossy, lossless], &json!([{"op": "resize", "size": [64, 64]}]), Choices::default(), 4)
}

/// Random crops in rows and columns, of the sizes that training has.
pub(super) fn resize() -> Result<Work> {
    let mut source = Pixels::default();
    source.start(Region::all(SIZE), 3).copy_from_slice(photograph());
    let (mut resizer, mut resized) = (Resizer::default(), Pixels::default());
    let output = Size { w: SIDE, h: SIDE };
    Ok(Box::new(move |_| {
        for (x, y, w, h) in [(0, 0, 500, 375), (100, 40, 300, 280), (37, 91, 151, 113), (7, 3, 450, 340)] {
            let crop = Region { x, y, w, h };
            for interpolation in [Interpolation::Bilinear, Interpolation::Bicubic] {
                let stage = Stage { crop, resized: output, interpolation, flip: x > 50, ..Stage::identity(output) };
                resizer.plan(&stage);
                resizer.run_into(&source, &mut resized);
                black_box(resized.rgb());
            }
        }
        Ok(())
    }))
}

/// An operation of each kind: tables, colours, a blur, a transform.
pub(super) fn operations() -> Result<Work> {
    let side = SIDE as usize;
    let shape = Shape::new(side, side, 3);
    let (mut scratch, mut moved) = (Scratch::default(), vec![0; shape.bytes()]);
    Ok(Box::new(move |_| {
        let mut pixels = photograph()[..shape.bytes()].to_vec();
        Tables::brightness(1.2).then(&Tables::posterize(5)).apply(shape, &mut pixels);
        saturation(shape, &mut pixels, 1.5);
        let kept = LevelChange { factor: 1.0, addend: 0.0 };
        hsv(shape, &mut pixels, 0.1, kept, kept);
        gaussian_blur(shape, &mut pixels, [23, 23], [1.3, 1.3], &mut scratch);
        let middle = [side as f64 / 2.0; 2];
        let matrix = affine_matrix(middle, 17.0, [3.0, -5.0], 1.1, [4.0, 0.0]);
        for sampling in [Interpolation::Nearest, Interpolation::Bilinear] {
            affine(&pixels, shape, &matrix, sampling, [0; 3], &mut moved, shape, &mut scratch);
        }
        black_box(&moved);
        Ok(())
    }))
}

fn jpeg(progressive: bool) -> Result<Vec<u8>> {
    encode(photograph(), SIZE, 90, Subsampling::S420, progressive)
}

fn crop_and_flip() -> Value {
    json!([{"op": "random_resized_crop", "size": [SIDE, SIDE]}, {"op": "random_horizontal_flip"}])
}

fn resize_and_centre() -> Value {
    json!([{"op": "resize", "size": SIDE + SIDE / 7}, {"op": "center_crop", "size": [SIDE, SIDE]}])
}

/// Decodes each file `times` times into a row of a batch, with the same draws in each pass.
fn decoded(files: Vec<Vec<u8>>, ops: &Value, choices: Choices, times: u64) -> Result<Work> {
    let mut indexer = RowIndexer::default();
    let pictures: Vec<Picture> = files.into_iter().map(|file| Picture::new(file, &mut indexer)).collect();
    let mut way = row(ops, "uint8", choices)?;
    Ok(Box::new(move |_| {
        let mut draws = (0..times).flat_map(|draw| pictures.iter().map(move |picture| (draw, picture)));
        draws.try_for_each(|(draw, picture)| way(picture, draw))
    }))
}
