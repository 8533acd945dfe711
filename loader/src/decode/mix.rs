//! Operations on a whole batch: rows that are mixed with those before them, and their labels with them.
//!
//! As in torchvision, a row's partner is the row before it, and the partner of the first row is the last one. If
//! samples are repeated, it is the row that many rows before it, since neighbours may be the same sample. In the
//! remaining modes, which are timm's, it is the row as far from the end of the batch. So the result depends on the rows
//! of the batch, and with them on the number of ranks. The numbers are drawn once per batch, or for each pair or row,
//! from the key of the batch's first sample.

use half::{bf16, f16};

use super::augment::{ALPHA_MIN, check_range, check_within};
use super::draw::{DrawKey, Draws, FieldDraws, OpDraws};
use super::field::{BatchOp, MixMode, PixelLayout};
use crate::error::{Error, Result};
use crate::format::encoding::DType;
use forebay_picture::geometry::{Region, Size};

/// Outputs that are mixed together.
#[derive(Clone, Debug)]
pub struct Mix {
    ops: Vec<BatchOp>,
    /// Probability that a batch, a pair or a row is mixed.
    p: f64,
    mode: MixMode,
    /// Weights of the operations; `None`: all are equally probable.
    weights: Option<Vec<f64>>,
    draws: FieldDraws,
    members: Vec<Member>,
}

/// Arguments of a mix.
#[derive(Clone, Copy, Debug)]
pub struct MixRule<'a> {
    /// Operations; one is drawn.
    pub by: &'a [BatchOp],
    /// Probability that a batch, a pair or a row is mixed.
    pub p: f64,
    /// Rows that are mixed together, and that have the same draws.
    pub mode: MixMode,
    /// Weight of each operation; `None`: all are equally probable.
    pub weights: Option<&'a [f64]>,
}

/// Output that is mixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Its number among the outputs.
    pub output: usize,
    /// Element type.
    pub dtype: DType,
    /// Size, layout and channels of pictures; `None` for labels, one probability per class.
    pub picture: Option<(Size, PixelLayout, usize)>,
}

/// Numbers of one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixture {
    /// Share of the row itself.
    pub share: f64,
    /// Box that the partner replaces; `None` for a blend of the whole.
    pub region: Option<Region>,
}

/// Memory of an output's rows: offset of the first one, and bytes of each.
#[derive(Clone, Copy, Debug)]
pub struct RowRange {
    /// Offset of the first row in the batch's memory.
    pub offset: usize,
    /// Bytes of a row.
    pub bytes: usize,
}

impl Mix {
    /// Mixes `members` by a rule.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`]: no operation, arguments outside of their range, pictures of different sizes, a
    /// blend of grey levels.
    pub fn new(rule: MixRule<'_>, draws: FieldDraws, members: Vec<Member>) -> Result<Self> {
        let MixRule { by: ops, p, mode, weights } = rule;
        if ops.is_empty() {
            return Err(Error::config("Mix needs MixUp, CutMix or a list of them, and the list is empty"));
        }
        for op in ops {
            match *op {
                BatchOp::MixUp { alpha } => check_within("MixUp", "alpha", alpha, ALPHA_MIN, 1e3)?,
                BatchOp::CutMix { alpha, minmax, .. } => {
                    check_within("CutMix", "alpha", alpha, ALPHA_MIN, 1e3)?;
                    minmax.map_or(Ok(()), |sides| check_range("CutMix", "minmax", sides, 0.0, 1.0))?;
                }
            }
        }
        if let Some(weights) = weights {
            let sum: f64 = weights.iter().sum();
            if weights.len() != ops.len() || weights.iter().any(|w| *w < 0.0) || !(sum > 0.0 && sum.is_finite()) {
                return Err(Error::config("Mix needs a weight of at least 0 for each of its operations")
                    .with("weights", format!("{weights:?}"))
                    .with("operations", ops.len()));
            }
        }
        check_within("Mix", "p", p, 0.0, 1.0)?;
        let mut sizes = members.iter().filter_map(|member| member.picture);
        let first = sizes.next().ok_or_else(|| Error::config("Mix needs an Image among its fields"))?;
        if sizes.any(|(size, ..)| size != first.0) {
            return Err(Error::config("the pictures of a Mix need the same size"));
        }
        let blends = ops.iter().any(|op| matches!(op, BatchOp::MixUp { .. }));
        if blends && members.iter().any(|member| !member.dtype.is_float()) {
            return Err(Error::config(
                "MixUp needs pictures of a float type: add Normalize, or pass dtype=\"float32\"",
            ));
        }
        Ok(Self { ops: ops.to_vec(), p, mode, weights: weights.map(<[_]>::to_vec), draws, members })
    }

    /// Draws the numbers of a batch, a pair or a row; `None` if it is not mixed.
    fn draw(&self, mut numbers: Draws) -> Option<Mixture> {
        if numbers.unit() >= self.p {
            return None;
        }
        let op = *self.ops.get(self.draw_number(&mut numbers))?;
        let beta = |numbers: &mut Draws, alpha: f64| {
            let (own, other) = (numbers.gamma(alpha), numbers.gamma(alpha));
            own / (own + other)
        };
        match op {
            BatchOp::MixUp { alpha } => Some(Mixture { share: beta(&mut numbers, alpha), region: None }),
            BatchOp::CutMix { alpha, minmax, keeps_share } => {
                let size = self.members.iter().find_map(|member| member.picture)?.0;
                if self.mode != MixMode::Previous || minmax.is_some() {
                    let share = beta(&mut numbers, alpha);
                    let cut = Mixture::cut(size, timm_box(&mut numbers, size, share, minmax));
                    // Bounds of the sides leave no drawn share.
                    return Some(if keeps_share && minmax.is_none() { Mixture { share, ..cut } } else { cut });
                }
                let drawn = beta(&mut numbers, alpha);
                let half = 0.5 * (1.0 - drawn).sqrt();
                let side = |middle: u32, side: u32| {
                    let half = (half * f64::from(side)) as u32;
                    (middle.saturating_sub(half), (middle + half).min(side))
                };
                let (left, right) = side(numbers.below(size.w), size.w);
                let (top, bottom) = side(numbers.below(size.h), size.h);
                let cut = Mixture::cut(size, Region { x: left, y: top, w: right - left, h: bottom - top });
                Some(if keeps_share { Mixture { share: drawn, ..cut } } else { cut })
            }
        }
    }

    /// Draws the number of an operation.
    fn draw_number(&self, numbers: &mut Draws) -> usize {
        let Some(weights) = &self.weights else { return numbers.below(self.ops.len() as u32) as usize };
        let mut rest = numbers.unit() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|weight| {
            rest -= weight;
            rest < 0.0
        });
        // Rounding may leave a rest: the last one that has a weight.
        chosen.or_else(|| weights.iter().rposition(|weight| *weight > 0.0)).unwrap_or(0)
    }

    /// Rows that are mixed together, and rows of the batch after it.
    pub fn mode(&self) -> MixMode {
        self.mode
    }

    /// Mixes the rows `kept` of a batch, ascending, in its memory, each with the one `repeats` rows before it: the
    /// repeats of a sample, or with the one that the mode sets. `key` is the key of the first sample, and `place`
    /// returns the rows of an output.
    pub fn run(
        &self,
        key: DrawKey,
        kept: &[usize],
        repeats: usize,
        memory: &mut [u8],
        place: impl Fn(usize) -> RowRange,
    ) {
        let draws = OpDraws::new(self.draws, key, NUMBER, 0);
        if self.mode != MixMode::Previous {
            return self.run_mirrored(draws, kept, memory, place);
        }
        let Some(mixture) = self.draw(draws.numbers()) else { return };
        // A batch of the repeats of one sample has no further partner.
        let distance = if repeats < kept.len() { repeats } else { 1.min(kept.len()) };
        let mut partners = Vec::new();
        for member in &self.members {
            let RowRange { offset, bytes } = place(member.output);
            let start = |row: usize| offset + row * bytes;
            partners.clear();
            kept[kept.len() - distance..]
                .iter()
                .for_each(|row| partners.extend_from_slice(&memory[start(*row)..][..bytes]));
            // From the last row up, each before its partner changes; the partners of the first rows have been kept.
            for (partner, row) in kept.iter().zip(&kept[distance..]).rev() {
                let (before, row) = memory.split_at_mut(start(*row));
                member.mix(mixture, &mut row[..bytes], &before[start(*partner)..][..bytes]);
            }
            for (row, partner) in kept.iter().zip(partners.chunks_exact(bytes.max(1))) {
                member.mix(mixture, &mut memory[start(*row)..][..bytes], partner);
            }
        }
    }
}

impl Mix {
    /// Mixes each row with the one as far from the end.
    fn run_mirrored(&self, draws: OpDraws, kept: &[usize], memory: &mut [u8], place: impl Fn(usize) -> RowRange) {
        let all = (self.mode == MixMode::Batch).then(|| self.draw(draws.numbers()));
        let drawn = |row: usize| all.unwrap_or_else(|| self.draw(draws.part(row as u32).numbers()));
        let mut own = Vec::new();
        for first in 0..kept.len() / 2 {
            let last = kept.len() - 1 - first;
            let of_first = drawn(first);
            let of_last = match self.mode {
                MixMode::Elem => drawn(last),
                // It is left out.
                MixMode::Half => None,
                _ => of_first,
            };
            for member in &self.members {
                let RowRange { offset, bytes } = place(member.output);
                let start = |row: usize| offset + kept[row] * bytes;
                let (before, after) = memory.split_at_mut(start(last));
                let (row, partner) = (&mut before[start(first)..][..bytes], &mut after[..bytes]);
                own.clear();
                own.extend_from_slice(row);
                if let Some(mixture) = of_first {
                    member.mix(mixture, row, partner);
                }
                if let Some(mixture) = of_last {
                    member.mix(mixture, partner, &own);
                }
            }
        }
    }
}

impl Mixture {
    /// Returns the numbers of a box in pictures of `size`.
    fn cut(size: Size, region: Region) -> Self {
        let share = 1.0 - region.size().pixels() as f64 / size.pixels() as f64;
        Self { share, region: Some(region) }
    }
}

/// Draws a box as timm does: of a share of the area about a point, cut off at the sides, or of sides between bounds.
fn timm_box(numbers: &mut Draws, size: Size, share: f64, minmax: Option<[f64; 2]>) -> Region {
    let ratio = (1.0 - share).sqrt();
    let mut side = |side: u32| {
        let Some([least, most]) = minmax else {
            let (cut, middle) = ((f64::from(side) * ratio) as u32, numbers.below(side));
            let start = middle.saturating_sub(cut / 2);
            return (start, (middle + cut.div_ceil(2)).min(side) - start);
        };
        let [least, most] = [least, most].map(|bound| (f64::from(side) * bound) as u32);
        let cut = least + numbers.below(most - least);
        (numbers.below(side - cut + 1), cut)
    };
    let ((y, h), (x, w)) = (side(size.h), side(size.w));
    Region { x, y, w, h }
}

/// Number of the operation in the key of its draws, different from the numbers of a picture's operations.
const NUMBER: u32 = 200;

impl Member {
    /// Mixes a row with its partner.
    fn mix(&self, mixture: Mixture, row: &mut [u8], partner: &[u8]) {
        match (self.picture, mixture.region) {
            (Some(picture), Some(region)) => self.cut(region, picture, row, partner),
            _ => self.blend(mixture.share, row, partner),
        }
    }

    /// Replaces a box by the partner's.
    fn cut(
        &self,
        region: Region,
        (size, layout, channels): (Size, PixelLayout, usize),
        row: &mut [u8],
        partner: &[u8],
    ) {
        // A picture is planes of lines of elements: one of one value per pixel for each channel, or one of all
        // channels.
        let (planes, values) = match layout {
            PixelLayout::Nchw => (channels, 1),
            PixelLayout::Nhwc => (1, channels),
        };
        let element = values * self.dtype.size();
        let line = size.w as usize * element;
        for plane in 0..planes {
            for y in region.y..region.y + region.h {
                let start = (plane * size.h as usize + y as usize) * line + region.x as usize * element;
                let span = start..start + region.w as usize * element;
                row[span.clone()].copy_from_slice(&partner[span]);
            }
        }
    }

    fn blend(&self, share: f64, row: &mut [u8], partner: &[u8]) {
        let (own, other) = (share as f32, (1.0 - share) as f32);
        // Two products and a sum, as torch computes them.
        let mixed = |a: f32, b: f32| b * other + a * own;
        match self.dtype {
            DType::Float16 => {
                blend_each(
                    row,
                    partner,
                    f16::from_ne_bytes,
                    |a, b| mixed(a.to_f32(), b.to_f32()),
                    |v| f16::from_f32(v).to_ne_bytes(),
                );
            }
            DType::BFloat16 => {
                blend_each(
                    row,
                    partner,
                    bf16::from_ne_bytes,
                    |a, b| mixed(a.to_f32(), b.to_f32()),
                    |v| bf16::from_f32(v).to_ne_bytes(),
                );
            }
            _ => blend_each(row, partner, f32::from_ne_bytes, mixed, f32::to_ne_bytes),
        }
    }
}

/// Blends elements of `BYTES` bytes.
fn blend_each<const BYTES: usize, T>(
    row: &mut [u8],
    partner: &[u8],
    read: impl Fn([u8; BYTES]) -> T,
    mixed: impl Fn(T, T) -> f32,
    write: impl Fn(f32) -> [u8; BYTES],
) {
    let (row, partner) = (row.as_chunks_mut::<BYTES>().0, partner.as_chunks::<BYTES>().0);
    row.iter_mut().zip(partner).for_each(|(a, b)| *a = write(mixed(read(*a), read(*b))));
}
