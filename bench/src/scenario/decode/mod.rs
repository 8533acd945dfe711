//! Decoding on one thread: libjpeg-turbo and zune-jpeg beside our decoder, of whole pictures and of random crops' boxes,
//! and what the engine makes of a random crop beside libjpeg-turbo with a fast library's resize; all pictures together, or in
//! groups of like ones. Or where the engine's time goes on the way ([`stages`]).
//!
//! The pictures lie in memory. The ways take turns, several rounds long, and the best round counts; time is the
//! thread's CPU time. Both keep a busy moment of the machine from falling on one of them alone.

mod groups;
mod stages;

use crate::report::{Better, Column, Report, Row};
use crate::synth::files_below;
use clap::Args;
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use forebay_loader::decode::draw::FieldDraws;
use forebay_loader::decode::geometry::{Region, Size, resolve};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, RowIndexer, Turbo};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::decode::{self, DrawKey, FieldPlan, FieldSpec, Limits, Op};
use forebay_loader::{Error, Result, format};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// What to decode.
#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// A data set with files, or any folder with JPEG files in it
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Pictures, in the order of their names
    #[arg(long, default_value_t = 600)]
    pictures: usize,
    /// Side of the square crop, pixels
    #[arg(long, default_value_t = 224)]
    crop: u32,
    /// Rounds; the best one counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// What pictures are measured in groups by
    #[arg(long, value_enum, default_value_t)]
    by: groups::By,
    /// Show what each stage of our decoder takes instead
    #[arg(long)]
    stages: bool,
}

/// A JPEG file, and its row index; nothing for one that can have none.
struct Picture {
    file: Vec<u8>,
    row_index: Vec<u8>,
}

impl Picture {
    fn new(file: Vec<u8>, indexer: &mut RowIndexer) -> Self {
        let mut row_index = Vec::new();
        // Progressive and damaged files get none.
        let _ = indexer.append(&file, &mut row_index);
        Self { file, row_index }
    }
}

/// One way of decoding a picture; `draw` picks its crop.
type Way = Box<dyn FnMut(&Picture, u64) -> Result<()>>;

/// Runs every way over all pictures.
pub(crate) fn run(args: &DecodeArgs) -> Result<Report> {
    let (mut pictures, mut indexer) = (Vec::new(), RowIndexer::default());
    for path in files_below(&args.data)? {
        if pictures.len() < args.pictures && path.extension().is_some_and(|e| e == "jpg" || e == "jpeg") {
            let file = fs::read(&path).map_err(|e| Error::from_io(e, "a picture").with("file", path.display()))?;
            pictures.push(Picture::new(file, &mut indexer));
        }
    }
    if pictures.is_empty() {
        return Err(Error::config("no JPEG files here").with("data", args.data.display()));
    }
    if args.stages {
        return stages::run(args, &pictures);
    }
    let bytes: usize = pictures.iter().map(|picture| picture.file.len()).sum();
    let (indexes, without) = pictures.iter().fold((0, 0), |(bytes, without), picture| {
        (bytes + picture.row_index.len(), without + usize::from(picture.row_index.is_empty()))
    });
    let kb = bytes as f64 / pictures.len() as f64 / 1e3;
    let mut groups = BTreeMap::<String, Vec<(u64, &Picture)>>::new();
    for (i, picture) in (0..).zip(&pictures) {
        groups.entry(groups::group(&picture.file, args.by)).or_default().push((i, picture));
    }
    let title = format!(
        "{} JPEGs of {kb:.0} kB in memory, one thread, best of {} rounds; row indexes take {:.2} % of the bytes, {without} \
         files have none",
        pictures.len(),
        args.rounds,
        100.0 * indexes as f64 / bytes as f64,
    );
    let columns = vec![
        Column::new("images_per_s", "images per CPU s", 0, Better::Higher).plotted(),
        Column::new("us_per_image", "us per image", 0, Better::Lower),
        Column::new("mb_per_s", "MB/s of JPEG", 0, Better::Higher),
        Column::new("pictures", "pictures", 0, Better::Neither),
    ];
    let mut report = Report::new("decode", title, columns);
    let mut ways = ways(args.crop)?;
    report.baseline = Some(ways[0].0.to_owned());
    for (group, members) in groups {
        let mut best = vec![f64::INFINITY; ways.len()];
        for round in 0..u64::from(args.rounds.max(1)) {
            for ((_, way), best) in ways.iter_mut().zip(&mut best) {
                let start = thread_cpu_seconds();
                for (i, picture) in &members {
                    way(picture, round * pictures.len() as u64 + i)?;
                }
                *best = best.min(thread_cpu_seconds() - start);
            }
        }
        let (count, bytes) = (members.len() as f64, members.iter().map(|(_, p)| p.file.len()).sum::<usize>() as f64);
        for ((name, _), seconds) in ways.iter().zip(best) {
            let values = BTreeMap::from([
                ("pictures", count),
                ("images_per_s", count / seconds),
                ("us_per_image", seconds / count * 1e6),
                ("mb_per_s", bytes / seconds / 1e6),
            ]);
            report.rows.push(Row { group: group.clone(), name: (*name).to_owned(), values, ..Row::default() });
        }
    }
    Ok(report)
}

fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn ways(crop: u32) -> Result<Vec<(&'static str, Way)>> {
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
        ("our decoder, whole picture", pixels(Decoder::new(), whole)),
        ("our decoder, box of a random crop", pixels(Decoder::new(), random_box)),
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

/// A part of a picture to pixels.
fn pixels(mut decoder: impl JpegDecoder + 'static, part: fn(Size, u64) -> Result<Region>) -> Way {
    let mut pixels = Pixels::new();
    Box::new(move |picture, draw| {
        let size = decoder.size(&picture.file)?;
        decoder.decode(&picture.file, part(size, draw)?, &mut pixels)
    })
}

/// What others make a random crop of: the picture or its box decoded, the box resized by `fast_image_resize`, whose bilinear
/// filter is antialiased as ours is, and its rows turned round for every other picture. Channels last, as they come.
fn resized(mut decoder: impl JpegDecoder + 'static, part: fn(Size, u64) -> Result<Region>, crop: u32) -> Way {
    let (mut pixels, mut resizer) = (Pixels::new(), Resizer::new());
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

/// The same by our decoder, with the row index.
fn indexed(part: fn(Size, u64) -> Result<Region>) -> Way {
    let (mut decoder, mut pixels) = (Decoder::new(), Pixels::new());
    Box::new(move |picture, draw| {
        let size = decoder.size(&picture.file)?;
        decoder.decode_indexed(&picture.file, &picture.row_index, part(size, draw)?, &mut pixels)
    })
}

/// What zune-jpeg makes of a picture; it decodes no parts.
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

/// The box that torchvision's RandomResizedCrop would draw.
fn random_box(size: Size, draw: u64) -> Result<Region> {
    let crop = Op::RandomResizedCrop { size: [224, 224], scale: [0.08, 1.0], ratio: [0.75, 4.0 / 3.0] };
    let mut stages = Vec::new();
    resolve(&[crop], size, FieldDraws::new(SEED, FIELD), key(draw), Limits::default().pixels_max, &mut stages)?;
    Ok(stages[0].crop)
}

/// What the random operations draw from.
const SEED: u64 = 7;
/// The field that is decoded: its name is part of what is drawn.
const FIELD: &str = "x";

fn key(draw: u64) -> DrawKey {
    DrawKey { epoch: 0, stream: 0, draw }
}

/// What the engine makes use of.
#[derive(Clone, Copy, Default)]
struct Choices {
    row_index: bool,
    /// Smaller pictures where crops are large.
    scaled_decode: bool,
}

/// A picture to a row of a batch, channels first.
fn row(ops: &Value, dtype: &str, choices: Choices) -> Result<Way> {
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
        decoder.decode_indexed(|_| Some(&picture.file[..]), index, key(draw), [decode::Row::Fixed(&mut row)])
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
            assert!(way(&cut, 1).is_err(), "{name} takes what is no picture");
        }
    }
}
