//! For AVX2 and the bit instructions that come with it: Haswell, Zen, and what came after.

use std::arch::x86_64::__m256i as Vector;
use std::arch::x86_64::{
    _mm256_add_epi16 as add_16, _mm256_add_epi32 as add_32, _mm256_madd_epi16 as multiply_pairs,
    _mm256_mulhi_epi16 as multiply_high_16, _mm256_or_si256 as or, _mm256_packs_epi32 as pack_32,
    _mm256_set1_epi16 as set_16, _mm256_set1_epi32 as set_32, _mm256_slli_epi16 as shift_left_16,
    _mm256_srai_epi16 as shift_right_16, _mm256_srli_epi16 as shift_right_unsigned_16, _mm256_sub_epi16 as subtract_16,
    _mm256_sub_epi32 as subtract_32, _mm256_unpackhi_epi16 as unpack_high_16, _mm256_unpackhi_epi32 as unpack_high_32,
    _mm256_unpackhi_epi64 as unpack_high_64, _mm256_unpacklo_epi16 as unpack_low_16,
    _mm256_unpacklo_epi32 as unpack_low_32, _mm256_unpacklo_epi64 as unpack_low_64, *,
};

use super::super::Declined;
use super::super::band::BandRun;
use super::super::entropy::BLOCK;
use super::super::mcu::{McuBlocks, Position};
use super::colour::{smooth, ycbcr};
use super::islow::{FIRST_ROW_MAX, inverse};
use super::portable;

/// The other widths' intrinsic takes the shift as an unsigned number.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_right_32<const SHIFT: u32>(vector: Vector) -> Vector {
    match SHIFT {
        3 => _mm256_srai_epi32::<3>(vector),
        11 => _mm256_srai_epi32::<11>(vector),
        16 => _mm256_srai_epi32::<16>(vector),
        _ => _mm256_srai_epi32::<18>(vector),
    }
}

inverse!("avx2");
smooth!("avx2", 16);
ycbcr!("avx2", 16);

#[inline]
#[target_feature(enable = "avx2")]
fn load_row(values: &[i16; 8]) -> __m128i {
    // SAFETY: the reference covers the 16 bytes that are read, and the load needs no alignment.
    unsafe { _mm_loadu_si128(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; 32], vector: Vector) {
    // SAFETY: the reference covers the 32 bytes that are written, and the store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_half(bytes: &mut [u8; 16], vector: __m128i) {
    // SAFETY: the reference covers the 16 bytes that are written, and the store needs no alignment.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), vector) }
}

/// The 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
fn load_half(bytes: &[u8], at: usize) -> __m128i {
    let bytes: &[u8; 16] = bytes[at..].first_chunk().expect("a margin behind the row");
    // SAFETY: the reference covers the 16 bytes that are read, and the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// The same as 16-bit values.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(bytes: &[u8], at: usize) -> Vector {
    _mm256_cvtepu8_epi16(load_half(bytes, at))
}

/// See [`Kernels::decode`](super::Kernels::decode).
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
pub(super) fn decode(
    blocks: &McuBlocks<'_>,
    at: &mut Position<'_>,
    count: usize,
    coefficients: &mut [i16],
) -> Result<(), Declined> {
    blocks.decode::<true>(at, count, coefficients)
}

/// See [`Kernels::skip`](super::Kernels::skip).
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
pub(super) fn skip(blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize) -> Result<(), Declined> {
    blocks.skip(at, count)
}

/// See [`Kernels::band`](super::Kernels::band).
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn band(run: BandRun<'_, '_>) -> Result<(), Declined> {
    run.read(|number, mask| _pdep_u64(number, mask))
}

/// See [`Kernels::order`](super::Kernels::order).
#[target_feature(enable = "avx2")]
pub(super) fn order(backwards: &[[i16; BLOCK]], out: &mut [[i16; BLOCK]]) {
    portable::order(backwards, out);
}

/// See [`Kernels::unstuff`](super::Kernels::unstuff).
#[target_feature(enable = "avx2")]
pub(super) fn unstuff(from: &[u8], out: &mut [u8]) -> (usize, usize) {
    portable::unstuff(from, out)
}

/// See [`Kernels::idct`](super::Kernels::idct); two blocks at a time.
#[target_feature(enable = "avx2")]
pub(super) fn idct(coefficients: &[i16], offsets: &[u32], quantisation: &[i16; BLOCK], out: &mut [u8], stride: usize) {
    let steps = quantisation.as_chunks::<8>().0;
    let steps: [Vector; 8] = std::array::from_fn(|row| _mm256_broadcastsi128_si256(load_row(&steps[row])));
    for (pair, offsets) in offsets.as_chunks::<2>().0.iter().enumerate() {
        let block = |i: usize| -> &[i16; BLOCK] {
            coefficients[offsets[i] as usize..].first_chunk().expect("offsets are of whole blocks")
        };
        let (first, second) = (block(0).as_chunks::<8>().0, block(1).as_chunks::<8>().0);
        let rows: [Vector; 8] = std::array::from_fn(|row| {
            let both = _mm256_set_m128i(load_row(&second[row]), load_row(&first[row]));
            _mm256_mullo_epi16(both, steps[row])
        });
        let out = &mut out[pair * 16..];
        let size = _mm256_abs_epi16(rows[0]);
        // As unsigned numbers, so that the smallest number counts as large.
        let is_small = _mm256_cmpeq_epi16(_mm256_min_epu16(size, _mm256_set1_epi16(FIRST_ROW_MAX)), size);
        if _mm256_movemask_epi8(is_small) != -1 {
            portable::idct(coefficients, offsets, quantisation, out, stride);
            continue;
        }
        let rows = inverse(rows);
        for (y, pair) in rows.as_chunks::<2>().0.iter().enumerate() {
            let bytes = _mm256_packs_epi16(pair[0], pair[1]);
            let bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
            let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(bytes);
            let (even, odd) = (_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
            store_half(out[2 * y * stride..].first_chunk_mut().expect("room for the pair"), even);
            store_half(out[(2 * y + 1) * stride..].first_chunk_mut().expect("room for the pair"), odd);
        }
    }
}

/// See [`Kernels::smooth_down`](super::Kernels::smooth_down).
#[target_feature(enable = "avx2")]
pub(super) fn smooth_down(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]) {
    portable::smooth_down(near, far, bias, out);
}

/// Sixteen 16-bit values as bytes, saturated.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(values: Vector) -> __m128i {
    _mm_packus_epi16(_mm256_castsi256_si128(values), _mm256_extracti128_si256::<1>(values))
}

/// Where the bytes of 16 pixels come from: for each sixteen of them, the places of red, green and blue; 128 is none.
const PIXELS: [[[u8; 16]; 3]; 3] = {
    let mut places = [[[128; 16]; 3]; 3];
    let mut i = 0;
    while i < 48 {
        places[i / 16][i % 3][i % 16] = (i / 3) as u8;
        i += 1;
    }
    places
};

/// Hands out 16 pixels at a time: `values` says their red, green and blue.
#[inline]
#[target_feature(enable = "avx2")]
fn write_pixels(out: &mut [u8], values: impl Fn(usize) -> [__m128i; 3]) {
    let pixels = |i: usize, out: &mut [u8; 48]| {
        let colours = values(i);
        for (out, places) in out.as_chunks_mut::<16>().0.iter_mut().zip(&PIXELS) {
            let part = |c: usize| _mm_shuffle_epi8(colours[c], load_half(&places[c], 0));
            store_half(out, _mm_or_si128(_mm_or_si128(part(0), part(1)), part(2)));
        }
    };
    let (whole, rest) = out.as_chunks_mut::<48>();
    let count = whole.len();
    for (i, out) in whole.iter_mut().enumerate() {
        pixels(i, out);
    }
    if !rest.is_empty() {
        let mut last = [0; 48];
        pixels(count, &mut last);
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// See [`Kernels::interleave`](super::Kernels::interleave).
#[target_feature(enable = "avx2")]
pub(super) fn interleave(planes: [&[u8]; 3], out: &mut [u8]) {
    write_pixels(out, |i| planes.map(|plane| load_half(plane, 16 * i)));
}
