//! Kernels for AVX2 and the bit instructions of the same CPUs: Haswell, Zen and later.

use std::arch::x86_64::__m256i as Vector;
use std::arch::x86_64::{
    _mm256_add_epi16 as add_16, _mm256_add_epi32 as add_32, _mm256_madd_epi16 as multiply_pairs,
    _mm256_mulhrs_epi16 as multiply_round_16, _mm256_or_si256 as or, _mm256_packs_epi32 as pack_32,
    _mm256_packus_epi16 as pack_16, _mm256_set1_epi16 as set_16, _mm256_set1_epi32 as set_32,
    _mm256_sub_epi16 as subtract_16, _mm256_sub_epi32 as subtract_32, _mm256_unpackhi_epi8 as unpack_high_8,
    _mm256_unpackhi_epi16 as unpack_high_16, _mm256_unpacklo_epi8 as unpack_low_8,
    _mm256_unpacklo_epi16 as unpack_low_16, *,
};

use super::super::band::BandRun;
use super::super::fallback::Fallback;
use super::super::mcu_blocks::{McuBlocks, Position};
use super::super::order::BLOCK;
use super::colour::ycbcr;
use super::islow::{FITTING_MAX, passes};
use super::layout::{BlockRow, groups, write_chunks};
use super::reduced::pass_to_four;
use super::{portable, reduced};
use crate::kernel::{loads, portable_with, stores, table};

/// Pairs of values, each in 32 bits.
type Pairs = Vector;

/// The intrinsic of the remaining widths takes the shift as an unsigned number.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_right_32<const SHIFT: u32>(vector: Vector) -> Vector {
    _mm256_sra_epi32(vector, _mm_cvtsi32_si128(SHIFT as i32))
}

#[inline]
#[target_feature(enable = "avx2")]
fn shift_left_32<const SHIFT: u32>(vector: Vector) -> Vector {
    const { assert!(SHIFT == 16) };
    _mm256_slli_epi32::<16>(vector)
}

/// Returns a weight for each value of a pair.
#[inline]
#[target_feature(enable = "avx2")]
fn weights(first: i32, second: i32) -> Pairs {
    set_32(second << 16 | first & 0xffff)
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_product(sum: Vector, a: Vector, b: Vector) -> Vector {
    add_32(sum, multiply_pairs(a, b))
}

/// Adds a weighted pair to a sum, and subtracts it.
#[inline]
#[target_feature(enable = "avx2")]
fn plus_minus(sum: Vector, pairs: Vector, first: i32, second: i32) -> [Vector; 2] {
    let product = multiply_pairs(pairs, weights(first, second));
    [add_32(sum, product), subtract_32(sum, product)]
}

passes!("avx2");
pass_to_four!("avx2");
ycbcr!("avx2", 16);

loads! { "avx2":
    load_row([i16; 8]) -> __m128i = _mm_loadu_si128;
    load_half([u8; 16]) -> __m128i = _mm_loadu_si128;
    load_8([u8; 32]) -> Vector = _mm256_loadu_si256;
}

stores! { "avx2":
    store_half([u8; 16], __m128i) = _mm_storeu_si128;
    store_8([u8; 32], Vector) = _mm256_storeu_si256;
}

portable_with! { "avx2,bmi1,bmi2,lzcnt":
    fn decode(blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize, out: &mut [i16]) -> Result<(), Fallback>;
    fn skip(blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize) -> Result<(), Fallback>;
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn band(run: BandRun<'_, '_>) -> Result<(), Fallback> {
    run.read(|number, mask| _pdep_u64(number, mask))
}

portable_with! { "avx2":
    fn unstuff(from: &[u8], out: &mut [u8]) -> (usize, usize);
    fn order(backwards: &[[i16; BLOCK]], out: &mut [[i16; BLOCK]]);
    fn smooth_across(samples: &[u8], out: &mut [u8]);
    fn smooth_down(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]);
    fn smooth_both(near: &[u8], far: &[u8], out: &mut [u8]);
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_half_at(bytes: &[u8], at: usize) -> __m128i {
    load_half(bytes[at..].first_chunk().expect("a margin after the row"))
}

/// Loads the 16 bytes from `at` on as 16-bit values.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(bytes: &[u8], at: usize) -> Vector {
    _mm256_cvtepu8_epi16(load_half_at(bytes, at))
}

/// See [`Kernels::idct`](super::Kernels::idct); to blocks of less than 8, blocks by pairs.
#[target_feature(enable = "avx2")]
pub(super) fn idct_reduced(side: u32, row: BlockRow<'_>, out: &mut [u8], stride: usize) -> bool {
    match side {
        4 => idct_to_four(row, |block| *block, out, stride),
        _ => portable::idct_reduced(side, row, out, stride),
    }
}

/// Transforms columns to rows, two in each vector.
#[inline]
#[target_feature(enable = "avx2")]
fn packed_columns(pairs: [Vector; 4]) -> [Vector; 4] {
    let [a, b, c, d, e, f, g, h] = columns(pairs);
    [pack_32(a, b), pack_32(c, d), pack_32(e, f), pack_32(g, h)]
}

/// Returns in each 128 bits two values of `a` and two of `b`, in their order.
#[inline]
#[target_feature(enable = "avx2")]
fn shuffle_32<const WHICH: i32>(a: Vector, b: Vector) -> Vector {
    _mm256_castps_si256(_mm256_shuffle_ps::<WHICH>(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)))
}

/// Positions of the bytes of pairs of columns after packing, by row and upper bit of the column.
const COLUMN_PAIRS: [u8; 16] = [0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15];

/// Returns pairs of columns of four rows, from two vectors of two rows each: the first and the last two
/// pairs.
#[inline]
#[target_feature(enable = "avx2")]
fn column_pairs(first: [Vector; 2], last: [Vector; 2]) -> [Vector; 4] {
    [
        shuffle_32::<0x88>(first[0], first[1]),
        shuffle_32::<0xdd>(first[0], first[1]),
        shuffle_32::<0x88>(last[0], last[1]),
        shuffle_32::<0xdd>(last[0], last[1]),
    ]
}

/// Returns four rows of samples less 128, two in each block's 128 bits, from two vectors of two rows each: the columns
/// of the first and of the last two pairs.
#[inline]
#[target_feature(enable = "avx2")]
fn four_rows(first: [Vector; 2], last: [Vector; 2]) -> [Vector; 2] {
    let [a, b, c, d, e, f, g, h] = rows(column_pairs(first, last));
    let positions = _mm256_broadcastsi128_si256(load_half(&COLUMN_PAIRS));
    let columns_0145 = _mm256_shuffle_epi8(_mm256_packs_epi16(pack_32(a, e), pack_32(b, f)), positions);
    let columns_2367 = _mm256_shuffle_epi8(_mm256_packs_epi16(pack_32(c, g), pack_32(d, h)), positions);
    [unpack_low_16(columns_0145, columns_2367), unpack_high_16(columns_0145, columns_2367)]
}

/// Returns the quantisation steps for two blocks.
#[inline]
#[target_feature(enable = "avx2")]
fn steps(quantisation: &[i16; BLOCK]) -> [Vector; 8] {
    let steps = quantisation.as_chunks::<8>().0;
    std::array::from_fn(|i| _mm256_broadcastsi128_si256(load_row(&steps[i])))
}

/// Dequantises two blocks by pairs to pairs of rows: the first and the last two pairs of columns.
#[inline]
#[target_feature(enable = "avx2")]
fn dequantised(blocks: [&[i16; BLOCK]; 2], steps: &[Vector; 8]) -> [[Vector; 4]; 2] {
    let [first, second] = blocks.map(|block| block.as_chunks::<8>().0);
    let values = |i: usize| {
        let both = _mm256_set_m128i(load_row(&second[i]), load_row(&first[i]));
        _mm256_mullo_epi16(both, steps[i])
    };
    [[values(0), values(2), values(4), values(6)], [values(1), values(3), values(5), values(7)]]
}

/// Returns true if any value of rows 0 and 4 is beyond [`FITTING_MAX`].
#[inline]
#[target_feature(enable = "avx2")]
fn are_large([first, last]: &[[Vector; 4]; 2]) -> bool {
    let (margin, too_large) = (set_16(FITTING_MAX + 1), set_16(!(2 * FITTING_MAX + 1)));
    let first_rows = or(add_16(first[0], margin), add_16(last[0], margin));
    _mm256_testz_si256(first_rows, too_large) == 0
}

/// Positions of the bytes of four columns of four rows, by rows.
const FOUR_BY_FOUR: [u8; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];

/// See [`Kernels::idct`](super::Kernels::idct); to blocks of four, two at a time. `by_pairs` reorders a block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn idct_to_four(
    row: BlockRow<'_>,
    by_pairs: impl Fn(&[i16; BLOCK]) -> [i16; BLOCK],
    out: &mut [u8],
    stride: usize,
) -> bool {
    let steps = steps(row.quantisation);
    let positions = _mm256_broadcastsi128_si256(load_half(&FOUR_BY_FOUR));
    let both_blocks = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let mut rows = out.chunks_mut(stride);
    let mut out: [&mut [[u8; 8]]; 4] = std::array::from_fn(|_| rows.next().expect("four rows").as_chunks_mut().0);
    for (group, offsets) in row.offsets.as_chunks::<2>().0.iter().enumerate() {
        let blocks = offsets.map(|offset| by_pairs(row.at(offset)));
        let values = dequantised(blocks.each_ref(), &steps);
        if are_large(&values) {
            let blocks: [[[u8; 4]; 4]; 2] =
                blocks.map(|block| reduced::block(reduced::TO_FOUR, &block, row.quantisation).0);
            for (y, out) in out.iter_mut().enumerate() {
                out[group].copy_from_slice([blocks[0][y], blocks[1][y]].as_flattened());
            }
            continue;
        }
        let [first, last] = values.map(|pairs| {
            let [a, b, c, d] = pass_to_four::<12>(pairs);
            [pack_32(a, b), pack_32(c, d)]
        });
        let [a, b, c, d] = pass_to_four::<19>(column_pairs(first, last));
        let samples = _mm256_packs_epi16(pack_32(a, b), pack_32(c, d));
        let samples = _mm256_shuffle_epi8(_mm256_xor_si256(samples, _mm256_set1_epi8(-128)), positions);
        let samples = _mm256_permutevar8x32_epi32(samples, both_blocks);
        let (upper, lower) = (_mm256_castsi256_si128(samples), _mm256_extracti128_si256::<1>(samples));
        out[0][group] = _mm_cvtsi128_si64(upper).to_le_bytes();
        out[1][group] = _mm_extract_epi64::<1>(upper).to_le_bytes();
        out[2][group] = _mm_cvtsi128_si64(lower).to_le_bytes();
        out[3][group] = _mm_extract_epi64::<1>(lower).to_le_bytes();
    }
    true
}

/// See [`Kernels::idct`](super::Kernels::idct); blocks by pairs, two at a time, each in 128 bits of all vectors.
#[target_feature(enable = "avx2")]
pub(super) fn idct(row: BlockRow<'_>, out: &mut [u8], stride: usize) -> bool {
    let steps = steps(row.quantisation);
    let mut out = groups(out, stride);
    for (group, offsets) in row.offsets.as_chunks::<2>().0.iter().enumerate() {
        let blocks = offsets.map(|offset| row.at(offset));
        let values = dequantised(blocks, &steps);
        if are_large(&values) {
            let out = out.each_mut().map(|out| &mut out[group]);
            portable::idct_large(blocks, portable::by_pairs, row.quantisation, out);
            continue;
        }
        let [first, last] = values.map(|pairs| packed_columns(pairs));
        let samples =
            [four_rows([first[0], first[1]], [last[0], last[1]]), four_rows([first[2], first[3]], [last[2], last[3]])];
        for (out, samples) in out.as_chunks_mut::<2>().0.iter_mut().zip(samples.as_flattened()) {
            let samples = _mm256_xor_si256(*samples, _mm256_set1_epi8(-128));
            let samples = _mm256_permute4x64_epi64::<0b11_01_10_00>(samples);
            store_half(&mut out[0][group], _mm256_castsi256_si128(samples));
            store_half(&mut out[1][group], _mm256_extracti128_si256::<1>(samples));
        }
    }
    true
}

/// Converts sixteen 16-bit values to bytes, saturated.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(values: Vector) -> __m128i {
    _mm_packus_epi16(_mm256_castsi256_si128(values), _mm256_extracti128_si256::<1>(values))
}

/// Positions of the bytes of 16 pixels: for each sixteen bytes, the bytes in red, green and blue; 128 is none.
const PIXELS: [[[u8; 16]; 3]; 3] = table!(3, |part| table!(3, |c| table!(16, |i| {
    if (16 * part + i) % 3 == c { ((16 * part + i) / 3) as u8 } else { 128 }
})));

/// Writes 16 pixels at a time; `values` returns their red, green and blue.
#[inline]
#[target_feature(enable = "avx2")]
fn write_pixels(out: &mut [u8], values: impl Fn(usize) -> [__m128i; 3]) {
    write_chunks(out, |i, out: &mut [u8; 48]| {
        let colours = values(i);
        for (out, positions) in out.as_chunks_mut::<16>().0.iter_mut().zip(&PIXELS) {
            let part = |c: usize| _mm_shuffle_epi8(colours[c], load_half(&positions[c]));
            store_half(out, _mm_or_si128(_mm_or_si128(part(0), part(1)), part(2)));
        }
    });
}

#[target_feature(enable = "avx2")]
pub(super) fn interleave(planes: [&[u8]; 3], out: &mut [u8]) {
    write_pixels(out, |i| planes.map(|plane| load_half_at(plane, 16 * i)));
}
