//! Measured programs: every decoder as a function from a picture to pixels or to a row of a batch.

use super::groups::By;
use clap::Args;
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use forebay_loader::decode::draw::FieldDraws;
use forebay_loader::decode::geometry::{Region, Scale, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, RowIndexer, Turbo};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::decode::steps::{Steps, resolve};
use forebay_loader::decode::{self, DrawKey, FieldPlan, FieldSpec, Interpolation, Op};
use forebay_loader::{Error, Result, format};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `decode`.
#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// Data set with files, or any folder of JPEG files
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Number of pictures, in the order of their names
    #[arg(long, default_value_t = 600)]
    pub(super) pictures: usize,
    /// Side of the square crop, pixels
    #[arg(long, default_value_t = 224)]
    pub(super) crop: u32,
    /// Rounds; the best one counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,
    /// Property by which pictures are measured in groups
    #[arg(long, value_enum, default_value_t)]
    pub(super) by: By,
    /// Show the time of each stage of forebay's decoder instead
    #[arg(long)]
    pub(super) stages: bool,
}

/// JPEG file and its row index, which is empty for a file that cannot have one.
pub(in crate::scenario) struct Picture {
    pub(super) file: Vec<u8>,
    pub(super) row_index: Vec<u8>,
}

impl Picture {
    pub(in crate::scenario) fn new(file: Vec<u8>, indexer: &mut RowIndexer) -> Self {
        let mut row_index = Vec::new();
        // Progressive and damaged files have no row index.
        let _ = indexer.append(&file, &mut row_index);
        Self { file, row_index }
    }
}

/// Function that decodes a picture; `draw` selects its crop.
pub(in crate::scenario) type Way = Box<dyn FnMut(&Picture, u64) -> Result<()>>;

pub(in crate::scenario) fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

pub(super) fn ways(crop: u32) -> Result<Vec<(&'static str, Way)>> {
    let crop_and_flip = json!([{"op": "random_resized_crop", "size": [crop, crop]}, {"op": "random_horizontal_flip"}]);
    let mut normalised = crop_and_flip.clone();
    let imagenet = json!({"op": "normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]});
    normalised.as_array_mut().expect("a list of operations").push(imagenet);
    let centre = json!([{"op": "resize", "size": crop + crop / 7}, {"op": "center_crop", "size": [crop, crop]}]);
    let scaled = Choices { scaled_decode: true, ..Choices::default() };
    Ok(vec![
        ("libjpeg-turbo, whole picture", pixels(Turbo::new()?, whole)),
        ("libjpeg-turbo, box of a random crop", pixels(Turbo::new()?, random_box)),
        ("libjpeg-turbo, whole, then crop, flip and resize", resized(Turbo::new()?, whole, crop)),
        ("libjpeg-turbo, box, then flip and resize", resized(Turbo::new()?, random_box, crop)),
        ("zune-jpeg, whole picture", zune()),
        ("our decoder, whole picture", pixels(Decoder::default(), whole)),
        ("our decoder, box of a random crop", pixels(Decoder::default(), random_box)),
        ("our decoder, box of a random crop, row index", indexed(random_box)),
        ("forebay, random crop + flip, uint8", row(&crop_and_flip, "uint8", Choices::default())?),
        (
            "forebay, random crop + flip, uint8, row index",
            row(&crop_and_flip, "uint8", Choices { row_index: true, ..Choices::default() })?,
        ),
        ("forebay, random crop + flip, uint8, scaled decode", row(&crop_and_flip, "uint8", scaled)?),
        (
            "forebay, random crop + flip, uint8, row index and scaled decode",
            row(&crop_and_flip, "uint8", Choices { row_index: true, ..scaled })?,
        ),
        ("forebay, random crop + flip, float32 normalised", row(&normalised, "float32", Choices::default())?),
        ("forebay, resize + centre crop, uint8", row(&centre, "uint8", Choices::default())?),
        ("forebay, resize + centre crop, uint8, scaled decode", row(&centre, "uint8", scaled)?),
    ])
}

/// Decodes a region of a picture to pixels.
fn pixels(mut decoder: impl JpegDecoder + 'static, part: fn(Size, u64) -> Result<Region>) -> Way {
    let mut pixels = Pixels::default();
    Box::new(move |picture, draw| {
        let size = decoder.size(&picture.file)?;
        decoder.decode(&picture.file, part(size, draw)?, &mut pixels)
    })
}

/// Random crop by libjpeg-turbo: decodes the picture or the box, resizes it with `fast_image_resize` (its bilinear
/// filter is antialiased as forebay's is), and mirrors every second picture. Channels last.
fn resized(mut decoder: impl JpegDecoder + 'static, part: fn(Size, u64) -> Result<Region>, crop: u32) -> Way {
    let (mut pixels, mut resizer) = (Pixels::default(), Resizer::default());
    let mut row = Image::new(crop, crop, PixelType::U8x3);
    Box::new(move |picture, draw| {
        let size = decoder.size(&picture.file)?;
        decoder.decode(&picture.file, part(size, draw)?, &mut pixels)?;
        let failed = |e: &dyn std::fmt::Display| Error::internal("a peer cannot resize").with("reason", e);
        let (there, wanted) = (pixels.region(), random_box(size, draw)?);
        let source = ImageRef::new(there.w, there.h, pixels.rgb(), PixelType::U8x3).map_err(|e| failed(&e))?;
        let (x, y) = (f64::from(wanted.x - there.x), f64::from(wanted.y - there.y));
        let options = ResizeOptions::new()
            .crop(x, y, f64::from(wanted.w), f64::from(wanted.h))
            .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        resizer.resize(&source, &mut row, &options).map_err(|e| failed(&e))?;
        if draw % 2 == 1 {
            for line in row.buffer_mut().chunks_exact_mut(3 * crop as usize) {
                line.as_chunks_mut::<3>().0.reverse();
            }
        }
        Ok(())
    })
}

/// Decodes a region with forebay's decoder and the row index.
fn indexed(part: fn(Size, u64) -> Result<Region>) -> Way {
    let (mut decoder, mut pixels) = (Decoder::default(), Pixels::default());
    Box::new(move |picture, draw| {
        let size = decoder.size(&picture.file)?;
        decoder.decode_scaled(&picture.file, &picture.row_index, Scale::Full, part(size, draw)?, &mut pixels)
    })
}

/// Decodes a whole picture with zune-jpeg, which does not decode regions.
fn zune() -> Way {
    let mut pixels = Vec::new();
    Box::new(move |picture, _| {
        let failed = |e| Error::decode("zune-jpeg cannot decode a picture").with("reason", format!("{e:?}"));
        let mut decoder =
            zune_jpeg::JpegDecoder::new(zune_jpeg::zune_core::bytestream::ZCursor::new(&picture.file[..]));
        decoder.decode_headers().map_err(failed)?;
        let bytes = decoder.output_buffer_size().ok_or_else(|| Error::decode("zune-jpeg found no size"))?;
        pixels.resize(bytes.max(pixels.len()), 0);
        decoder.decode_into(&mut pixels[..bytes]).map_err(failed)
    })
}

fn whole(size: Size, _: u64) -> Result<Region> {
    Ok(Region::all(size))
}

/// Returns a box as torchvision's RandomResizedCrop draws it.
fn random_box(size: Size, draw: u64) -> Result<Region> {
    let interpolation = Interpolation::Bilinear;
    let (scale, ratio) = ([0.08, 1.0], [0.75, 4.0 / 3.0]);
    let crop = Op::RandomResizedCrop { size: [224, 224], scale, ratio, interpolation, alternative: None };
    let mut steps = Steps::default();
    resolve(&[crop], size, FieldDraws::new(SEED, FIELD), key(draw), &mut steps)?;
    Ok(steps.stages[0].crop)
}

/// Seed of the random operations.
pub(super) const SEED: u64 = 7;
/// Name of the decoded field, which is part of the key of its draws.
pub(super) const FIELD: &str = "x";

pub(super) fn key(draw: u64) -> DrawKey {
    DrawKey { epoch: 0, stream: 0, draw }
}

/// Optional features of the engine.
#[derive(Clone, Copy, Default)]
pub(in crate::scenario) struct Choices {
    pub(in crate::scenario) row_index: bool,
    /// Decoding at a reduced size where crops are large.
    pub(in crate::scenario) scaled_decode: bool,
}

/// Decodes a picture into a row of a batch, channels first.
pub(in crate::scenario) fn row(ops: &Value, dtype: &str, choices: Choices) -> Result<Way> {
    let spec = json!({"kind": "image", "column": "image", "ops": ops, "dtype": dtype, "layout": "NCHW",
                      "scaled_decode": choices.scaled_decode});
    let spec: FieldSpec =
        serde_json::from_value(spec).map_err(|e| Error::internal("the field is not the engine's").caused_by(e))?;
    let columns = [format::Column::new("image", format::Encoding::Jpeg)];
    let plan = FieldPlan::compile(Some(&[(FIELD.to_owned(), spec)]), &columns, SEED)?;
    let bytes = plan.outputs()[0].row_bytes().expect("a crop has a fixed size");
    let mut decoder = plan.decoder();
    let mut row = vec![0; bytes];
    Ok(Box::new(move |picture, draw| {
        let index = |_| if choices.row_index { &picture.row_index[..] } else { &[] };
        decoder.decode(|_| Some(&picture.file[..]), index, key(draw), [decode::Row::Fixed(&mut row)])
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_decoding_takes_a_picture() {
        let mut indexer = RowIndexer::default();
        let file = forebay_tests::data::jpeg(Size { w: 120, h: 80 }, 7).expect("encoded");
        let cut = Picture::new(file[..100].to_vec(), &mut indexer);
        let picture = Picture::new(file, &mut indexer);
        assert!(!picture.row_index.is_empty() && cut.row_index.is_empty());
        for (name, mut way) in ways(32).expect("made") {
            way(&picture, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(way(&cut, 1).is_err(), "{name} takes bytes that are no picture");
        }
    }
}
