//! Kernels for AVX-512 with byte permutations and dot products (VBMI, VBMI2, VNNI): Ice Lake, Zen 4 and later.
//!
//! Coefficients stay in zigzag order until they are loaded here. The inverse transform takes four blocks at a time. The
//! index of a 32-bit slot in a vector has four bits; the table has their meaning at each step:
//!
//! ```text
//!                               vector                 slot, highest bit first                      within
//! a block's coefficients        half of the pairs      row pair 0, column pair 0 1, which column    which row
//! before `columns`              row pair, col. pair 1  block 1, column pair 0, block 0, which c.    which row
//! before `rows`                 column pair, row 2     row 1, block 1, row 0, block 0               which column
//! ```
//!
//! A pair's number has two bits, 0 and 1, and so have a block's number in the group and a column's or row's.

use std::arch::x86_64::__m512i as Vector;
use std::arch::x86_64::{
    _mm512_add_epi16 as add_16, _mm512_add_epi32 as add_32, _mm512_dpwssds_epi32 as add_product,
    _mm512_madd_epi16 as multiply_pairs, _mm512_mulhrs_epi16 as multiply_round_16, _mm512_or_si512 as or,
    _mm512_packs_epi32 as pack_32, _mm512_packus_epi16 as pack_16, _mm512_set1_epi16 as set_16,
    _mm512_set1_epi32 as set_32, _mm512_slli_epi32 as shift_left_32, _mm512_srai_epi32 as shift_right_32,
    _mm512_sub_epi16 as subtract_16, _mm512_sub_epi32 as subtract_32, _mm512_unpackhi_epi8 as unpack_high_8,
    _mm512_unpackhi_epi16 as unpack_high_16, _mm512_unpacklo_epi8 as unpack_low_8,
    _mm512_unpacklo_epi16 as unpack_low_16, *,
};

use super::super::band::BandRun;
use super::super::fallback::Fallback;
use super::super::mcu_blocks::{McuBlocks, Position};
use super::super::order::{BLOCK, POSITIONS};
use super::colour::ycbcr;
use super::islow::{FITTING_MAX, passes};
use super::layout::{BlockRow, GROUP, groups, write_chunks};
use super::{avx2, portable, reduced};
use crate::kernel::{loads, portable_with, stores, table};

/// Pairs of values, each in 32 bits.
type Pairs = Vector;

passes!("avx512f,avx512bw,avx512vnni");
ycbcr!("avx512f,avx512bw,avx512vbmi,avx512vnni", 32);

loads! { "avx512f,avx512bw":
    load_8([u8; 64]) -> Vector = _mm512_loadu_epi8;
    load_16([i16; 32]) -> Vector = _mm512_loadu_epi16;
    load_32([i32; 16]) -> Vector = _mm512_loadu_epi32;
    load_half([u8; 32]) -> __m256i = _mm256_loadu_si256;
}

stores! { "avx512f,avx512bw":
    store_8([u8; 64], Vector) = _mm512_storeu_epi8;
    store_16([i16; 32], Vector) = _mm512_storeu_epi16;
    store_half([u8; 32], __m256i) = _mm256_storeu_si256;
}

portable_with! { "avx512f,avx512bw,avx512vl,bmi1,bmi2,lzcnt":
    fn skip(blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize) -> Result<(), Fallback>;
}

/// See [`Kernels::decode`](super::Kernels::decode): in zigzag order.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,lzcnt")]
pub(super) fn decode(
    blocks: &McuBlocks<'_>,
    at: &mut Position<'_>,
    count: usize,
    coefficients: &mut [i16],
) -> Result<(), Fallback> {
    blocks.decode::<false>(at, count, coefficients)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn band(run: BandRun<'_, '_>) -> Result<(), Fallback> {
    run.read(|number, mask| _pdep_u64(number, mask))
}

portable_with! { "avx512f,avx512bw":
    fn smooth_across(samples: &[u8], out: &mut [u8]);
    fn smooth_down(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]);
    fn smooth_both(near: &[u8], far: &[u8], out: &mut [u8]);
}

/// Positions in zigzag order of quantisation steps by pairs.
const STEPS: [[i16; 32]; 2] = table!(2, |half| table!(32, |i| POSITIONS[32 * half + i] as i16));

/// Position in zigzag order of each coefficient by pairs.
const ZIGZAG: [i16; BLOCK] = {
    let mut zigzag = [0; BLOCK];
    let mut i = 0;
    while i < BLOCK {
        zigzag[POSITIONS[i] as usize] = i as i16;
        i += 1;
    }
    zigzag
};

/// Positions in zigzag order of coefficients by pairs.
const BY_PAIRS: [[i16; 32]; 2] = table!(2, |half| table!(32, |i| ZIGZAG[32 * half + i]));

/// Positions in zigzag order of the loaded coefficients: of both halves of the pairs, for a block of even and of odd
/// number. In a block of odd number, the two pairs of columns with the same bit 0 in their numbers are exchanged.
const LOADED: [[[i16; 32]; 2]; 2] = table!(2, |half| table!(2, |odd| table!(32, |i| {
    let (row_pair, column_0, column_1) = (i >> 4, i >> 3 & 1, i >> 2 & 1 ^ odd);
    ZIGZAG[half << 5 | row_pair << 4 | column_1 << 3 | column_0 << 2 | i & 3]
})));

/// Positions of the slots before `rows` in two vectors with the rows of even and of odd number, for an even and an odd
/// number of the pair of columns: of the pairs with bit 1 set, in which the blocks of even and odd number are
/// exchanged.
const EXCHANGED: [[i32; 16]; 2] = table!(2, |pair| table!(16, |i| {
    let (row_1, block_1, row_0, block_0) = (i >> 3 & 1, i >> 2 & 1, i >> 1 & 1, i & 1);
    (row_1 << 4 | block_1 << 3 | pair << 2 | row_0 << 1 | block_0 ^ 1) as i32
}));

/// Positions of the bytes of two rows of four blocks: bits of the column, block and row, in the order after packing.
const TWO_ROWS: [u8; 64] = table!(64, |i| {
    let (row, block, [column_2, column_1, column_0]) = (i >> 5, i >> 3 & 3, [i >> 2 & 1, i >> 1 & 1, i & 1]);
    let (block_1, block_0) = (block >> 1, block & 1);
    (column_1 << 5 | block_1 << 4 | column_0 << 3 | column_2 << 2 | row << 1 | block_0) as u8
});

/// Positions of the 96 bytes of 32 pixels: in 32 bytes of red, then of green; the bytes of blue from 64 on.
const PIXELS: [[u8; 64]; 2] = table!(2, |half| table!(64, |i| ((64 * half + i) % 3 * 32 + (64 * half + i) / 3) as u8));

/// Loads the 32 bytes from `at` on as 16-bit values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn widen(bytes: &[u8], at: usize) -> Vector {
    _mm512_cvtepu8_epi16(load_half(bytes[at..].first_chunk().expect("a margin after the row")))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
pub(super) fn unstuff(from: &[u8], out: &mut [u8]) -> (usize, usize) {
    let (mut read, mut written) = (0, 0);
    while let Some(chunk) = from[read..].first_chunk::<64>() {
        let bytes = load_8(chunk);
        let ones = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(-1));
        // An FF at the end is read again together with the byte after it.
        let used = 64 - (ones >> 63) as u32;
        let after_ones = ones << 1;
        let zeros = _mm512_cmpeq_epi8_mask(bytes, _mm512_setzero_si512());
        if after_ones & !zeros != 0 {
            break;
        }
        let kept = !after_ones & u64::MAX >> (64 - used);
        let packed = _mm512_maskz_compress_epi8(kept, bytes);
        store_8(out[written..].first_chunk_mut().expect("a margin after the output"), packed);
        (read, written) = (read + used as usize, written + kept.count_ones() as usize);
    }
    let (more_read, more_written) = portable::unstuff(&from[read..], &mut out[written..]);
    (read + more_read, written + more_written)
}

/// See [`Kernels::order`](super::Kernels::order): zigzag order.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn order(backwards: &[[i16; BLOCK]], out: &mut [[i16; BLOCK]]) {
    for (from, out) in backwards.iter().zip(out) {
        *out = std::array::from_fn(|i| from[BLOCK - 1 - i]);
    }
}

/// Returns a weight for each value of a pair.
#[inline]
#[target_feature(enable = "avx512f")]
fn weights(first: i32, second: i32) -> Pairs {
    set_32(second << 16 | first & 0xffff)
}

/// Adds a weighted pair to a sum, and subtracts it.
///
/// `add_product` saturates. None of the sums here comes near 2^31; compilers turn the instruction that wraps into two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn plus_minus(sum: Vector, pairs: Vector, first: i32, second: i32) -> [Vector; 2] {
    [add_product(sum, pairs, weights(first, second)), add_product(sum, pairs, weights(-first, -second))]
}

/// Returns half of the pairs of rows of four blocks, by bit 1 of the pair of columns and by the pair of rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn gather([a, b, c, d]: [[Vector; 2]; 4], [even, odd]: [Vector; 2]) -> [[Vector; 2]; 2] {
    const ODD: u8 = 0b1010_1010;
    let a = _mm512_permutex2var_epi16(a[0], even, a[1]);
    let b = _mm512_permutex2var_epi16(b[0], odd, b[1]);
    let c = _mm512_permutex2var_epi16(c[0], even, c[1]);
    let d = _mm512_permutex2var_epi16(d[0], odd, d[1]);
    let join = |ab: Vector, cd: Vector| [_mm512_shuffle_i64x2::<0x44>(ab, cd), _mm512_shuffle_i64x2::<0xee>(ab, cd)];
    [
        join(_mm512_mask_blend_epi64(ODD, a, b), _mm512_mask_blend_epi64(ODD, c, d)),
        join(_mm512_mask_blend_epi64(ODD, b, a), _mm512_mask_blend_epi64(ODD, d, c)),
    ]
}

/// Transforms columns to rows, two in each vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn packed_columns(upper: [Vector; 2], lower: [Vector; 2]) -> [Vector; 4] {
    let [a, b, c, d, e, f, g, h] = columns([upper[0], upper[1], lower[0], lower[1]]);
    [pack_32(a, b), pack_32(c, d), pack_32(e, f), pack_32(g, h)]
}

/// Returns four rows of samples less 128, two in each vector in the order of [`TWO_ROWS`], from two vectors of two rows
/// each: the columns of the first and of the last two pairs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn four_rows(first: [Vector; 2], last: [Vector; 2], exchanged: [Vector; 2]) -> [Vector; 2] {
    let [a, b, c, d, e, f, g, h] = rows([
        _mm512_shuffle_i64x2::<0x88>(first[0], first[1]),
        _mm512_shuffle_i64x2::<0xdd>(first[0], first[1]),
        _mm512_permutex2var_epi32(last[0], exchanged[0], last[1]),
        _mm512_permutex2var_epi32(last[0], exchanged[1], last[1]),
    ]);
    let columns_0145 = _mm512_packs_epi16(pack_32(a, e), pack_32(b, f));
    let columns_2367 = _mm512_packs_epi16(pack_32(c, g), pack_32(d, h));
    [_mm512_shuffle_i64x2::<0x44>(columns_0145, columns_2367), _mm512_shuffle_i64x2::<0xee>(columns_0145, columns_2367)]
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) fn idct(row: BlockRow<'_>, out: &mut [u8], stride: usize) -> bool {
    let halves = |block: &[i16; BLOCK]| {
        let halves = block.as_chunks::<32>().0;
        [load_16(&halves[0]), load_16(&halves[1])]
    };
    let [low, high] = halves(row.quantisation);
    let steps = STEPS.each_ref().map(|positions| _mm512_permutex2var_epi16(low, load_16(positions), high));
    let positions = LOADED.each_ref().map(|positions| positions.each_ref().map(|positions| load_16(positions)));
    let exchanged = EXCHANGED.each_ref().map(|positions| load_32(positions));
    let two_rows = load_8(&TWO_ROWS);
    let (margin, too_large) = (set_16(FITTING_MAX + 1), set_16(!(2 * FITTING_MAX + 1)));
    let mut out = groups(out, stride);
    for (group, offsets) in row.offsets.as_chunks::<GROUP>().0.iter().enumerate() {
        let blocks = offsets.map(|offset| row.at(offset));
        let values = blocks.map(|block| {
            let [low, high] = halves(block);
            [_mm512_mullo_epi16(low, steps[0]), _mm512_mullo_epi16(high, steps[1])]
        });
        let upper = gather(values, positions[0]);
        let first_rows = or(add_16(upper[0][0], margin), add_16(upper[1][0], margin));
        if _mm512_test_epi16_mask(first_rows, too_large) != 0 {
            let out = out.each_mut().map(|out| &mut out[group]);
            portable::idct_large(blocks, |i| i, row.quantisation, out);
            continue;
        }
        let lower = gather(values, positions[1]);
        let (first, last) = (packed_columns(upper[0], lower[0]), packed_columns(upper[1], lower[1]));
        let samples = [
            four_rows([first[0], first[1]], [last[0], last[1]], exchanged),
            four_rows([first[2], first[3]], [last[2], last[3]], exchanged),
        ];
        for (out, samples) in out.as_chunks_mut::<2>().0.iter_mut().zip(samples.as_flattened()) {
            let samples = _mm512_xor_si512(*samples, _mm512_set1_epi8(-128));
            let samples = _mm512_permutexvar_epi8(two_rows, samples);
            store_half(&mut out[0][group], _mm512_castsi512_si256(samples));
            store_half(&mut out[1][group], _mm512_extracti64x4_epi64::<1>(samples));
        }
    }
    true
}

/// See [`Kernels::idct`](super::Kernels::idct); to blocks of less than 8, blocks in zigzag order.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn idct_reduced(side: u32, row: BlockRow<'_>, out: &mut [u8], stride: usize) -> bool {
    let positions = BY_PAIRS.each_ref().map(|positions| load_16(positions));
    let by_pairs = |block: &[i16; BLOCK]| {
        let [low, high] = block.as_chunks::<32>().0 else { unreachable!("64 by 32") };
        let (low, high) = (load_16(low), load_16(high));
        let mut out = [0; BLOCK];
        for (positions, out) in positions.iter().zip(out.as_chunks_mut::<32>().0) {
            store_16(out, _mm512_permutex2var_epi16(low, *positions, high));
        }
        out
    };
    match side {
        4 => avx2::idct_to_four(row, by_pairs, out, stride),
        _ => reduced::idct(side, row, by_pairs, out, stride),
    }
}

/// Writes 32 pixels at a time; `values` returns their red, green and blue.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn write_pixels(out: &mut [u8], values: impl Fn(usize) -> [__m256i; 3]) {
    let positions = [load_8(&PIXELS[0]), load_8(&PIXELS[1])];
    write_chunks(out, |i, out: &mut [u8; 96]| {
        let [r, g, b] = values(i);
        let rg = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(r), g);
        let b = _mm512_castsi256_si512(b);
        store_8(out.first_chunk_mut().expect("64 of 96"), _mm512_permutex2var_epi8(rg, positions[0], b));
        let end = _mm512_permutex2var_epi8(rg, positions[1], b);
        store_half(out.last_chunk_mut().expect("32 of 96"), _mm512_castsi512_si256(end));
    });
}

/// Converts 16-bit values to bytes, saturated.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn narrow(values: Vector) -> __m256i {
    _mm512_cvtusepi16_epi8(_mm512_max_epi16(values, set_16(0)))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn interleave(planes: [&[u8]; 3], out: &mut [u8]) {
    write_pixels(out, |i| planes.map(|plane| _mm512_cvtepi16_epi8(widen(plane, 32 * i))));
}
