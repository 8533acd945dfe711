//! Kernels for NEON, the vector instructions of 64-bit ARM.
//!
//! No instruction adds the products of pairs of 16 bits, but one adds a product to a sum. So the two values of pairs
//! are in separate vectors, as they are loaded from a block, and sums are in pairs of vectors: eight of 32 bits.

use std::arch::aarch64::*;

use super::super::band::BandRun;
use super::super::fallback::Fallback;
use super::super::mcu_blocks::{McuBlocks, Position};
use super::super::order::BLOCK;
use super::islow::{FITTING_MAX, passes};
use super::layout::{BlockRow, groups, map_inline, write_chunks};
use super::portable;
use super::reduced::pass_to_four;
use crate::kernel::{loads, portable_with, stores, table};

/// Eight pairs: the first values, the second values.
#[derive(Clone, Copy)]
struct Pairs(int16x8_t, int16x8_t);

/// Eight sums.
#[derive(Clone, Copy)]
struct Vector(int32x4_t, int32x4_t);

#[inline]
#[target_feature(enable = "neon")]
fn set_32(value: i32) -> Vector {
    Vector(vdupq_n_s32(value), vdupq_n_s32(value))
}

#[inline]
#[target_feature(enable = "neon")]
fn weights(first: i32, second: i32) -> Pairs {
    Pairs(vdupq_n_s16(first as i16), vdupq_n_s16(second as i16))
}

/// Defines sums and differences of both vectors of [`Pairs`] and [`Vector`].
macro_rules! sums {
    ($($name:ident -> $type:ident = $intrinsic:ident;)*) => {$(
        #[inline]
        #[target_feature(enable = "neon")]
        fn $name(a: $type, b: $type) -> $type {
            $type($intrinsic(a.0, b.0), $intrinsic(a.1, b.1))
        }
    )*};
}

sums! {
    add_16 -> Pairs = vaddq_s16;
    subtract_16 -> Pairs = vsubq_s16;
    add_32 -> Vector = vaddq_s32;
    subtract_32 -> Vector = vsubq_s32;
}

/// Moves the first value of each pair to the second's position.
#[inline]
#[target_feature(enable = "neon")]
fn shift_left_32<const SHIFT: u32>(pairs: Pairs) -> Pairs {
    const { assert!(SHIFT == 16) };
    Pairs(vdupq_n_s16(0), pairs.0)
}

#[inline]
#[target_feature(enable = "neon")]
fn shift_right_32<const SHIFT: u32>(sums: Vector) -> Vector {
    match SHIFT {
        11 => Vector(vshrq_n_s32::<11>(sums.0), vshrq_n_s32::<11>(sums.1)),
        12 => Vector(vshrq_n_s32::<12>(sums.0), vshrq_n_s32::<12>(sums.1)),
        19 => Vector(vshrq_n_s32::<19>(sums.0), vshrq_n_s32::<19>(sums.1)),
        _ => Vector(vshrq_n_s32::<18>(sums.0), vshrq_n_s32::<18>(sums.1)),
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn multiply_pairs(a: Pairs, b: Pairs) -> Vector {
    let first = Vector(vmull_s16(vget_low_s16(a.0), vget_low_s16(b.0)), vmull_high_s16(a.0, b.0));
    Vector(vmlal_s16(first.0, vget_low_s16(a.1), vget_low_s16(b.1)), vmlal_high_s16(first.1, a.1, b.1))
}

#[inline]
#[target_feature(enable = "neon")]
fn add_product(sum: Vector, a: Pairs, b: Pairs) -> Vector {
    let first = Vector(vmlal_s16(sum.0, vget_low_s16(a.0), vget_low_s16(b.0)), vmlal_high_s16(sum.1, a.0, b.0));
    Vector(vmlal_s16(first.0, vget_low_s16(a.1), vget_low_s16(b.1)), vmlal_high_s16(first.1, a.1, b.1))
}

/// Adds a weighted pair to a sum, and subtracts it.
#[inline]
#[target_feature(enable = "neon")]
fn plus_minus(sum: Vector, pairs: Pairs, first: i32, second: i32) -> [Vector; 2] {
    let product = multiply_pairs(pairs, weights(first, second));
    [add_32(sum, product), subtract_32(sum, product)]
}

passes!("neon");
pass_to_four!("neon");

loads! { "neon":
    load([u8; 16]) -> uint8x16_t = vld1q_u8;
    load_both([i16; 16]) -> int16x8x2_t = vld2q_s16;
}

stores! { "neon":
    store([u8; 16], uint8x16_t) = vst1q_u8;
    store_half([u8; 8], uint8x8_t) = vst1_u8;
    store_pixels([u8; 48], uint8x16x3_t) = vst3q_u8;
}

portable_with! { "neon":
    fn unstuff(from: &[u8], out: &mut [u8]) -> (usize, usize);
    fn decode(blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize, out: &mut [i16]) -> Result<(), Fallback>;
    fn skip(blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize) -> Result<(), Fallback>;
    fn band(run: BandRun<'_, '_>) -> Result<(), Fallback>;
    fn order(backwards: &[[i16; BLOCK]], out: &mut [[i16; BLOCK]]);
    fn smooth_across(samples: &[u8], out: &mut [u8]);
    fn smooth_down(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]);
    fn smooth_both(near: &[u8], far: &[u8], out: &mut [u8]);
}

/// Converts sums to 16 bits, saturated.
#[inline]
#[target_feature(enable = "neon")]
fn pack_32(sums: Vector) -> int16x8_t {
    vqmovn_high_s32(vqmovn_s32(sums.0), sums.1)
}

/// Loads the first and the second values of eight pairs.
#[inline]
#[target_feature(enable = "neon")]
fn load_pairs(values: &[i16; 16]) -> Pairs {
    let int16x8x2_t(first, second) = load_both(values);
    Pairs(first, second)
}

/// Dequantises a block by pairs to pairs of rows.
#[inline]
#[target_feature(enable = "neon")]
fn dequantised(block: &[i16; BLOCK], steps: &[Pairs; 4]) -> [Pairs; 4] {
    let pairs = block.as_chunks::<16>().0;
    map_inline([0, 1, 2, 3], |i| {
        let values = load_pairs(&pairs[i]);
        Pairs(vmulq_s16(values.0, steps[i].0), vmulq_s16(values.1, steps[i].1))
    })
}

/// Largest value so far, to check that all of them [fit](super::islow::fits).
struct RangeCheck(uint16x8_t);

impl RangeCheck {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new() -> Self {
        Self(vdupq_n_u16(0))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn add(&mut self, values: int16x8_t) {
        // Unsigned, values that fit are from zero on.
        let values = vaddq_s16(values, vdupq_n_s16(FITTING_MAX + 1));
        self.0 = vmaxq_u16(self.0, vreinterpretq_u16_s16(values));
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn add_pairs(&mut self, pairs: [Pairs; 4]) {
        for Pairs(first, second) in pairs {
            self.add(first);
            self.add(second);
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn all_fit(self) -> bool {
        vmaxvq_u16(self.0) <= 2 * FITTING_MAX as u16 + 1
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn transposed(rows: [int16x8_t; 8]) -> [int16x8_t; 8] {
    let [a, b, c, d] = map_inline([0, 2, 4, 6], |i| {
        let (x, y) = (rows[i], rows[i + 1]);
        [vreinterpretq_s32_s16(vtrn1q_s16(x, y)), vreinterpretq_s32_s16(vtrn2q_s16(x, y))]
    });
    // Two columns of four rows each, by the columns' bit 0 and then their bit 1.
    let four = |x: [int32x4_t; 2], y: [int32x4_t; 2]| {
        map_inline([0, 1], |i| {
            map_inline([vtrn1q_s32(x[i], y[i]), vtrn2q_s32(x[i], y[i])], |v| vreinterpretq_s64_s32(v))
        })
    };
    let (upper, lower) = (four(a, b), four(c, d));
    map_inline([0, 1, 2, 3, 4, 5, 6, 7], |column: usize| {
        let (upper, lower) = (upper[column & 1][column >> 1 & 1], lower[column & 1][column >> 1 & 1]);
        vreinterpretq_s16_s64(if column < 4 { vtrn1q_s64(upper, lower) } else { vtrn2q_s64(upper, lower) })
    })
}

/// Returns vectors as pairs of rows, or of columns.
#[inline]
#[target_feature(enable = "neon")]
fn pairs_of(vectors: [int16x8_t; 8]) -> [Pairs; 4] {
    map_inline([0, 1, 2, 3], |i| Pairs(vectors[2 * i], vectors[2 * i + 1]))
}

#[inline]
#[target_feature(enable = "neon")]
fn samples(sums: Vector) -> uint8x8_t {
    veor_u8(vreinterpret_u8_s8(vqmovn_s16(pack_32(sums))), vdup_n_u8(128))
}

/// See [`Kernels::idct`](super::Kernels::idct); blocks by pairs.
#[target_feature(enable = "neon")]
pub(super) fn idct(row: BlockRow<'_>, out: &mut [u8], stride: usize) -> bool {
    let mut range = RangeCheck::new();
    let steps: [Pairs; 4] = std::array::from_fn(|i| load_pairs(&row.quantisation.as_chunks::<16>().0[i]));
    let mut out = groups(out, stride);
    for (i, offset) in row.offsets.iter().enumerate() {
        let values = dequantised(row.at(*offset), &steps);
        range.add_pairs(values);
        let columns = pairs_of(transposed(map_inline(columns(values), |sums| pack_32(sums))));
        range.add_pairs(columns);
        let columns = map_inline(rows(columns), |sums| samples(sums));
        // Columns of four rows: 0 and 4, 2 and 6; 1 and 5, 3 and 7; then four of a row side by side.
        let [c04, c15, c26, c37] = map_inline([0, 1, 2, 3], |i| vcombine_u8(columns[i], columns[i + 4]));
        let (c02, c46) = (vzip1q_u8(c04, c26), vzip2q_u8(c04, c26));
        let (c13, c57) = (vzip1q_u8(c15, c37), vzip2q_u8(c15, c37));
        let quarters =
            |even, odd| map_inline([vzip1q_u8(even, odd), vzip2q_u8(even, odd)], |v| vreinterpretq_u32_u8(v));
        let (left, right) = (quarters(c02, c13), quarters(c46, c57));
        for (half, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let pairs = [vzip1q_u32(left[half], right[half]), vzip2q_u32(left[half], right[half])];
            for (rows, out) in pairs.into_iter().zip(out.as_chunks_mut::<2>().0) {
                let rows = vreinterpretq_u8_u32(rows);
                store_half(&mut out[0][i], vget_low_u8(rows));
                store_half(&mut out[1][i], vget_high_u8(rows));
            }
        }
    }
    range.all_fit()
}

/// Positions of the bytes of four columns of four rows of two blocks, by rows.
const FOUR_BY_FOUR: [[u8; 16]; 2] = table!(2, |half| table!(16, |i| {
    let (row, block, column) = (2 * half + i / 8, i / 4 % 2, i % 4);
    (column * 8 + block * 4 + row) as u8
}));

/// See [`Kernels::idct`](super::Kernels::idct); to blocks of less than 8, from blocks by pairs.
#[target_feature(enable = "neon")]
pub(super) fn idct_reduced(side: u32, row: BlockRow<'_>, out: &mut [u8], stride: usize) -> bool {
    match side {
        4 => idct_to_four(row, out, stride),
        _ => portable::idct_reduced(side, row, out, stride),
    }
}

/// Transforms two blocks at a time.
#[inline]
#[target_feature(enable = "neon")]
fn idct_to_four(row: BlockRow<'_>, out: &mut [u8], stride: usize) -> bool {
    let mut range = RangeCheck::new();
    let steps: [Pairs; 4] = std::array::from_fn(|i| load_pairs(&row.quantisation.as_chunks::<16>().0[i]));
    let positions = FOUR_BY_FOUR.each_ref().map(|positions| load(positions));
    let mut rows = out.chunks_mut(stride);
    let mut out: [&mut [[u8; 8]]; 4] = std::array::from_fn(|_| rows.next().expect("four rows").as_chunks_mut().0);
    for (group, offsets) in row.offsets.as_chunks::<2>().0.iter().enumerate() {
        let blocks = offsets.map(|offset| row.at(offset));
        let values = map_inline(blocks, |block| dequantised(block, &steps));
        range.add_pairs(values[0]);
        range.add_pairs(values[1]);
        let [first, second] = map_inline(values, |pairs| map_inline(pass_to_four::<12>(pairs), |sums| pack_32(sums)));
        let [a, b, c, d] = first;
        let [e, f, g, h] = second;
        let columns = pairs_of(transposed([a, b, c, d, e, f, g, h]));
        range.add_pairs(columns);
        let columns = map_inline(pass_to_four::<19>(columns), |sums| samples(sums));
        let columns = uint8x16x2_t(vcombine_u8(columns[0], columns[1]), vcombine_u8(columns[2], columns[3]));
        for (positions, out) in positions.into_iter().zip(out.as_chunks_mut::<2>().0) {
            let rows = vqtbl2q_u8(columns, positions);
            store_half(&mut out[0][group], vget_low_u8(rows));
            store_half(&mut out[1][group], vget_high_u8(rows));
        }
    }
    range.all_fit()
}

/// Writes 16 pixels at a time, from a vector of each plane.
#[inline]
#[target_feature(enable = "neon")]
fn write_pixels(planes: [&[u8]; 3], out: &mut [u8], pixels: impl Fn([uint8x16_t; 3]) -> uint8x16x3_t) {
    // The margin after the rows is large enough.
    let rows = map_inline(planes, |row| &row.as_chunks::<16>().0[..out.len().div_ceil(48)]);
    write_chunks(out, |i, out| store_pixels(out, pixels(map_inline(rows, |row| load(&row[i])))));
}

/// Converts eight pixels, from luma and colour differences from 128.
#[inline]
#[target_feature(enable = "neon")]
fn rgb(y: int16x8_t, cb: int16x8_t, cr: int16x8_t) -> [uint8x8_t; 3] {
    // value * factor / 2^16, rounded.
    let scale = |value: int16x8_t, factor: i16| vrshrq_n_s16::<1>(vqdmulhq_n_s16(value, factor));
    // 1.402 is 65536 + 26345, 1.772 is 131072 - 14942, -0.71414 is -65536 + 18734.
    let r = vaddq_s16(vaddq_s16(y, cr), scale(cr, 26_345));
    let b = vaddq_s16(vaddq_s16(y, vaddq_s16(cb, cb)), scale(cb, -14_942));
    let sum = vmlal_n_s16(vmull_n_s16(vget_low_s16(cb), -22_554), vget_low_s16(cr), 18_734);
    let sum_high = vmlal_high_n_s16(vmull_high_n_s16(cb, -22_554), cr, 18_734);
    let green = vrshrn_high_n_s32::<16>(vrshrn_n_s32::<16>(sum), sum_high);
    let g = vaddq_s16(vsubq_s16(y, cr), green);
    map_inline([r, g, b], |v| vqmovun_s16(v))
}

/// Converts sixteen pixels.
#[inline]
#[target_feature(enable = "neon")]
fn rgb_bytes([y, cb, cr]: [uint8x16_t; 3]) -> [uint8x16_t; 3] {
    let zero = vdupq_n_u8(128);
    let signed = |halves: [uint16x8_t; 2]| map_inline(halves, |v| vreinterpretq_s16_u16(v));
    let luma = signed([vmovl_u8(vget_low_u8(y)), vmovl_high_u8(y)]);
    let [cb, cr] =
        map_inline([cb, cr], |row| signed([vsubl_u8(vget_low_u8(row), vget_low_u8(zero)), vsubl_high_u8(row, zero)]));
    let (low, high) = (rgb(luma[0], cb[0], cr[0]), rgb(luma[1], cb[1], cr[1]));
    [vcombine_u8(low[0], high[0]), vcombine_u8(low[1], high[1]), vcombine_u8(low[2], high[2])]
}

#[target_feature(enable = "neon")]
pub(super) fn ycbcr(planes: [&[u8]; 3], out: &mut [u8]) {
    write_pixels(planes, out, |samples| {
        let [r, g, b] = rgb_bytes(samples);
        uint8x16x3_t(r, g, b)
    });
}

#[target_feature(enable = "neon")]
pub(super) fn ycbcr_planes(rows: [&[u8]; 3], [r, g, b]: [&mut [u8]; 3]) {
    let [y, cb, cr] = rows.map(|row| row.as_chunks::<16>().0);
    let [r, g, b] = [r, g, b].map(|plane| plane.as_chunks_mut::<16>().0);
    for (((y, cb), cr), ((r, g), b)) in y.iter().zip(cb).zip(cr).zip(r.iter_mut().zip(g).zip(b)) {
        let colours = rgb_bytes(map_inline([y, cb, cr], |bytes| load(bytes)));
        for (out, colour) in [r, g, b].into_iter().zip(colours) {
            store(out, colour);
        }
    }
}

#[target_feature(enable = "neon")]
pub(super) fn interleave(planes: [&[u8]; 3], out: &mut [u8]) {
    write_pixels(planes, out, |[a, b, c]| uint8x16x3_t(a, b, c));
}
