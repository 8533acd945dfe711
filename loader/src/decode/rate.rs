//! How fast pictures are decoded here: the parts of the way from file to row, on one thread.
//!
//! The caller brings files and a clock; `forebay-bench decode` prints what comes back.

use std::time::Duration;

use super::draw::{DrawKey, FieldDraws};
use super::dtype::DType;
use super::field::{Layout, Op};
use super::geometry::{Filter, Region, Size, Stage, resolve};
use super::image::{Content, ImageDecoder, ImageEncoding, ImageField, Limits};
use super::jpeg::{JpegDecoder, Turbo};
use super::normalise::Writer;
use super::pixels::Pixels;
use super::resize::Resizer;
use super::sample::Row;
use crate::error::{Context, Result};

/// One measured way of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What was done to every picture.
    pub name: &'static str,
    /// Pictures per round.
    pub pictures: u64,
    /// The fastest round.
    pub fastest: Duration,
}

impl Part {
    /// Pictures per second in the fastest round.
    pub fn per_second(&self) -> f64 {
        self.pictures as f64 / self.fastest.as_secs_f64()
    }
}

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// The field that every part stands for: random-resized crop to 224, flip.
pub fn training_field(dtype: DType, layout: Layout) -> Result<ImageField> {
    let normalise = dtype.is_float().then_some((MEAN, STD));
    Ok(ImageField {
        encoding: ImageEncoding::File,
        content: Content::Colours,
        ops: vec![
            Op::RandomResizedCrop { size: [224, 224], scale: [0.08, 1.0], ratio: [3.0 / 4.0, 4.0 / 3.0] },
            Op::RandomHorizontalFlip { p: 0.5 },
        ],
        draws: FieldDraws::new(0, "x"),
        writer: Writer::new(dtype, layout, normalise)?,
        limits: Limits::default(),
    })
}

/// Measures every part over `jpegs`, `rounds` times in turn so that a disturbance hits all parts, and keeps each
/// part's fastest round. `now` is a monotonic clock.
///
/// # Errors
/// The first JPEG that cannot be decoded, by its number.
pub fn measure(jpegs: &[Vec<u8>], rounds: u32, now: &mut dyn FnMut() -> Duration) -> Result<Vec<Part>> {
    let mut turbo = Turbo::new()?;
    let (mut pixels, mut resizer, mut stages) = (Pixels::new(), Resizer::new(), Vec::new());
    let mut images = ImageDecoder::new();
    let planar = training_field(DType::UInt8, Layout::Nchw)?;
    let floats = training_field(DType::Float32, Layout::Nchw)?;
    let halves = training_field(DType::BFloat16, Layout::Nchw)?;
    let mut row = vec![0; floats.writer.bytes(Size { w: 224, h: 224 })];
    let mut stage_of = |turbo: &mut Turbo, bytes: &[u8], draw: u64| -> Result<(Size, Stage)> {
        let size = turbo.size(bytes)?;
        let key = DrawKey { draw, ..DrawKey::default() };
        resolve(&planar.ops, size, planar.draws, key, planar.limits.pixels_max, &mut stages)?;
        Ok((size, stages[0]))
    };
    type Run<'a> = dyn FnMut(&[u8], u64) -> Result<()> + 'a;
    let mut parts: Vec<Part> = Vec::new();
    let mut run = |part: usize, name: &'static str, work: &mut Run<'_>| -> Result<()> {
        let start = now();
        for (draw, bytes) in jpegs.iter().enumerate() {
            work(bytes, draw as u64).context("picture", || draw)?;
        }
        let took = now().saturating_sub(start);
        match parts.get_mut(part) {
            Some(seen) => seen.fastest = seen.fastest.min(took),
            None => parts.push(Part { name, pictures: jpegs.len() as u64, fastest: took }),
        }
        Ok(())
    };
    for _ in 0..rounds.max(1) {
        run(0, "full decode", &mut |bytes, _| {
            let size = turbo.size(bytes)?;
            turbo.decode(bytes, Region::all(size), &mut pixels)
        })?;
        run(1, "full decode, crop, resize", &mut |bytes, draw| {
            let (size, stage) = stage_of(&mut turbo, bytes, draw)?;
            turbo.decode(bytes, Region::all(size), &mut pixels)?;
            resizer.plan(&stage, Filter::Bilinear);
            resizer.run(&pixels, |y, pixels| planar.writer.write(&mut row, stage.output(), y, pixels));
            Ok(())
        })?;
        run(2, "region decode", &mut |bytes, draw| {
            let (_, stage) = stage_of(&mut turbo, bytes, draw)?;
            let needed = resizer.plan(&stage, Filter::Bilinear);
            turbo.decode(bytes, needed, &mut pixels)
        })?;
        for (part, name, field) in [
            (3, "region decode, resize, flip to uint8", &planar),
            (4, "region decode, resize, flip, normalise to float32", &floats),
            (5, "region decode, resize, flip, normalise to bfloat16", &halves),
        ] {
            let bytes_out = field.writer.bytes(Size { w: 224, h: 224 });
            run(part, name, &mut |bytes, draw| {
                let key = DrawKey { draw, ..DrawKey::default() };
                images.decode(bytes, field, key, &mut Row::Fixed(&mut row[..bytes_out]))
            })?;
        }
        // The resize alone, over the last picture in memory.
        let all = pixels.region();
        let stage = Stage {
            resized: Size { w: 224, h: 224 },
            window: super::geometry::Window { x: 0, y: 0, size: Size { w: 224, h: 224 } },
            ..Stage::identity(all.size())
        };
        let mut whole = Pixels::new();
        whole.start(Region::all(all.size()), 3).copy_from_slice(pixels.rgb());
        run(6, "resize alone, the last region to 224 x 224", &mut |_, _| {
            resizer.plan(&stage, Filter::Bilinear);
            resizer.run(&whole, |y, pixels| planar.writer.write(&mut row, stage.output(), y, pixels));
            Ok(())
        })?;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::jpeg::{Subsampling, encode};

    #[test]
    fn every_part_reports_its_fastest_round() {
        let size = Size { w: 80, h: 60 };
        let rgb: Vec<u8> = (0..80 * 60 * 3).map(|i| (i * 31 % 251) as u8).collect();
        let jpeg = encode(&rgb, size, 90, Subsampling::S420, false).unwrap();
        // The second round's clock runs twice as fast.
        let (mut calls, mut at) = (0_u64, 0_u64);
        let mut clock = || {
            calls += 1;
            at += if calls <= 14 { 1000 } else { 500 };
            Duration::from_micros(at)
        };
        let parts = measure(&[jpeg.clone(), jpeg], 2, &mut clock).unwrap();
        assert_eq!(parts.len(), 7);
        assert!(parts.iter().all(|p| p.pictures == 2 && p.fastest == Duration::from_micros(500)), "{parts:?}");
        assert_eq!(parts[0].per_second(), 4000.0);
    }

    #[test]
    fn a_bad_picture_is_named() {
        let e = measure(&[vec![0xff, 0xd8]], 1, &mut || Duration::ZERO).unwrap_err();
        assert!(e.to_string().contains("picture 0"), "{e}");
    }
}
