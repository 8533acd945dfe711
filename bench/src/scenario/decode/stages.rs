//! Time of each stage of forebay's decoder.
//!
//! Nothing is timed inside the decoder. It runs to the end of each stage ([`JpegStage`]), and the time of a stage is
//! the difference to the run before. Only the resize is timed directly, picture by picture, on pixels that were decoded
//! just before. The whole is the engine's path from file to row. The difference between the whole and the sum of the
//! stages has its own row, so that the table can be checked: it contains reading the header, drawing the box, and the
//! effects of the stages on the caches. It may be below 0: in the whole, rows of pixels go from the decoder to the
//! resize by channels, in the first-level cache, and the stages write and read pixels of three bytes.
//!
//! All runs take turns over the same boxes for several rounds, and the best round of each counts.

use super::groups;
use super::work::{Choices, DecodeArgs, FIELD, Picture, SEED, Way, key, row, thread_cpu_seconds};
use crate::report::{Better, Column, Report, Row, Skipped};
use forebay_loader::decode::draw::FieldDraws;
use forebay_loader::decode::geometry::{Region, Stage};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder};
use forebay_loader::decode::jpeg::{JpegStage, PartialDecoder};
use forebay_loader::decode::normalise::PictureWriter;
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::decode::resize::Resizer;
use forebay_loader::decode::steps::{Steps, resolve};
use forebay_loader::decode::{DType, Op, PixelLayout};
use forebay_loader::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Stages of the decoder in their order.
const STAGES: [(&str, JpegStage); 4] = [
    ("headers, Huffman tables, unstuffing", JpegStage::Bytes),
    ("entropy decoding", JpegStage::Coefficients),
    ("dequantisation and IDCT", JpegStage::Samples),
    ("upsampling and colours", JpegStage::Pixels),
];
const RESIZE: &str = "resize, flip, to the row";
const REMAINDER: &str = "in none of these";
const WHOLE: &str = "forebay, file to row";

/// Picture and the plan for decoding it.
struct Work<'a> {
    picture: &'a Picture,
    /// Number of the draw.
    draw: u64,
    stage: Stage,
    /// Region that the stage reads.
    region: Region,
}

/// Measures all stages, for random crops with and without row index and for whole pictures.
pub(super) fn run(args: &DecodeArgs, pictures: &[Picture]) -> Result<Report> {
    let side = args.crop;
    let crop = json!([{"op": "random_resized_crop", "size": [side, side]}, {"op": "random_horizontal_flip"}]);
    let whole = json!([{"op": "resize", "size": [side, side]}]);
    let kinds =
        [("random crops", &crop, false), ("random crops, row index", &crop, true), ("whole pictures", &whole, false)];
    let columns = vec![
        Column::new("us_per_image", "us per image", 1, Better::Lower).plotted(),
        Column::new("percent", "% of the whole", 1, Better::Neither),
    ];
    let title = format!(
        "our decoder's stages, one thread, to rows of {side} x {side} x 3 bytes, best of {} rounds",
        args.rounds
    );
    let mut report = Report::new("decode", title, columns);
    report.notes.push(format!(
        "a stage is the time by which decoding to its end is longer than to the end before it; {REMAINDER:?} \
             is the time that a sample takes besides, such as drawing its crop, less what parts measured apart \
             take longer"
    ));
    report.is_listed = true;

    let mut groups = BTreeMap::<String, Vec<(u64, &Picture)>>::new();
    let mut declined = 0;
    let mut all = PartialDecoder::new(JpegStage::Pixels)?;
    for (draw, picture) in (0..).zip(pictures) {
        let region = Region::all(Decoder::default().size(&picture.file)?);
        match all.decode(&picture.file, &[], region, &mut Pixels::default()) {
            Ok(()) => groups.entry(groups::group(&picture.file, args.by)).or_default().push((draw, picture)),
            Err(_) => declined += 1,
        }
    }
    for (group, members) in groups {
        for (kind, ops, use_index) in kinds {
            let work = members.iter().filter(|(_, picture)| !use_index || !picture.row_index.is_empty());
            let work = work.map(|(draw, picture)| plan(picture, *draw, ops)).collect::<Result<Vec<_>>>()?;
            if work.is_empty() {
                continue;
            }
            let group = if group.is_empty() { String::new() } else { format!("{group}, ") };
            let group = format!("{group}{kind} ({} pictures)", work.len());
            report.rows.extend(measure(
                &group,
                &work,
                row(ops, "uint8", Choices { row_index: use_index, ..Choices::default() })?,
                use_index,
                args.rounds,
            )?);
        }
    }
    if declined > 0 {
        let reason = "not decoded by forebay's decoder".to_owned();
        report.skipped.push(Skipped { name: format!("{declined} pictures"), reason });
    }
    Ok(report)
}

/// Plans the engine's work for a picture.
fn plan<'a>(picture: &'a Picture, draw: u64, ops: &Value) -> Result<Work<'a>> {
    let ops: Vec<Op> =
        serde_json::from_value(ops.clone()).map_err(|e| Error::internal("operations are the engine's").caused_by(e))?;
    let size = Decoder::default().size(&picture.file)?;
    let mut steps = Steps::default();
    resolve(&ops, size, FieldDraws::new(SEED, FIELD), key(draw), &mut steps)?;
    let [stage] = steps.stages[..] else { return Err(Error::internal("operations that are one stage")) };
    let region = Resizer::default().plan(&stage);
    Ok(Work { picture, draw, stage, region })
}

/// Returns the rows for one kind of work.
fn measure(group: &str, work: &[Work<'_>], mut whole: Way, use_index: bool, rounds: u32) -> Result<Vec<Row>> {
    let mut decoders = STAGES.iter().map(|(_, until)| PartialDecoder::new(*until)).collect::<Result<Vec<_>>>()?;
    let mut pixels = Pixels::default();
    let mut resize = Resize::new(work[0].stage)?;
    let mut best = [f64::INFINITY; STAGES.len()];
    let (mut best_resize, mut best_whole) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds.max(1) {
        for (decoder, best) in decoders.iter_mut().zip(&mut best) {
            let start = thread_cpu_seconds();
            for Work { picture, region, .. } in work {
                let index = if use_index { &picture.row_index[..] } else { &[] };
                decoder.decode(&picture.file, index, *region, &mut pixels)?;
            }
            *best = best.min(thread_cpu_seconds() - start);
        }
        let mut seconds = 0.0;
        for Work { picture, region, stage, .. } in work {
            decoders[STAGES.len() - 1].decode(&picture.file, &[], *region, &mut pixels)?;
            let start = thread_cpu_seconds();
            resize.run(stage, &pixels);
            seconds += thread_cpu_seconds() - start;
        }
        best_resize = best_resize.min(seconds);
        let start = thread_cpu_seconds();
        for Work { picture, draw, .. } in work {
            whole(picture, *draw)?;
        }
        best_whole = best_whole.min(thread_cpu_seconds() - start);
    }
    let mut before = 0.0;
    let mut parts: Vec<(&str, f64)> = Vec::new();
    for ((name, _), until) in STAGES.iter().zip(best) {
        parts.push((name, until - before));
        before = until;
    }
    parts.push((RESIZE, best_resize));
    parts.push((REMAINDER, best_whole - before - best_resize));
    parts.push((WHOLE, best_whole));
    let row = |(name, seconds): (&str, f64)| {
        let values = BTreeMap::from([
            ("us_per_image", seconds / work.len() as f64 * 1e6),
            ("percent", 100.0 * seconds / best_whole),
        ]);
        Row { group: group.to_owned(), name: name.to_owned(), values, ..Row::default() }
    };
    Ok(parts.into_iter().map(row).collect())
}

/// Resize stage of the engine.
struct Resize {
    resizer: Resizer,
    writer: PictureWriter,
    row: Vec<u8>,
}

impl Resize {
    fn new(stage: Stage) -> Result<Self> {
        let writer = PictureWriter::new(DType::UInt8, PixelLayout::Nchw, None)?;
        let row = vec![0; writer.bytes(stage.output())];
        Ok(Self { resizer: Resizer::default(), writer, row })
    }

    /// Computes the weights and fills the row.
    fn run(&mut self, stage: &Stage, pixels: &Pixels) {
        let Self { resizer, writer, row } = self;
        resizer.plan(stage);
        resizer.run(pixels, |y, line| writer.write(row, stage.output(), y, line));
        std::hint::black_box(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::decode::groups::By;
    use forebay_loader::decode::geometry::Size;
    use forebay_loader::decode::jpeg::{RowIndexer, Subsampling, encode};
    use forebay_tests::data::picture;
    use std::path::PathBuf;

    #[test]
    fn stages_and_remainder_add_up_to_the_whole_for_every_kind_of_work() {
        let size = Size { w: 200, h: 150 };
        let mut indexer = RowIndexer::default();
        let mut made = |progressive, seed| {
            let file = encode(&picture(size, seed), size, 90, Subsampling::S420, progressive).expect("encoded");
            Picture::new(file, &mut indexer)
        };
        let mut pictures = vec![made(false, 1), made(true, 2), made(false, 3)];
        // forebay's decoder does not take this one any more.
        let cut = pictures[2].file.len() / 2;
        pictures[2].file.truncate(cut);
        let args = DecodeArgs { data: PathBuf::new(), pictures: 3, crop: 32, rounds: 1, by: By::Process, stages: true };
        let report = match run(&args, &pictures) {
            Err(e) if e.kind() == forebay_loader::ErrorKind::Unsupported => {
                println!("skipped: {e}");
                return;
            }
            report => report.expect("measured"),
        };
        assert_eq!(report.skipped[0].name, "1 pictures");
        let mut kinds: Vec<_> = report.rows.iter().map(|row| row.group.as_str()).collect();
        kinds.dedup();
        let expected = [
            "progressive, random crops (1 pictures)",
            "progressive, whole pictures (1 pictures)",
            "sequential, random crops (1 pictures)",
            "sequential, random crops, row index (1 pictures)",
            "sequential, whole pictures (1 pictures)",
        ];
        assert_eq!(kinds, expected);
        for rows in report.rows.chunks(STAGES.len() + 3) {
            let us = |row: &Row| row.values["us_per_image"];
            let [parts @ .., whole] = rows else { panic!("rows") };
            assert_eq!((parts.len(), whole.name.as_str()), (6, WHOLE));
            let sum: f64 = parts.iter().map(us).sum();
            assert!((sum - us(whole)).abs() < 1e-6 * us(whole), "{sum} of {}", us(whole));
            assert!((whole.values["percent"] - 100.0).abs() < 1e-6);
        }
    }
}
