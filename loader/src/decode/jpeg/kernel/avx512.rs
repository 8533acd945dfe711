//! For AVX-512 with byte permutations (VBMI, VBMI2): Zen 4 and Ice Lake, and what came after.
//!
//! Coefficients stay in zigzag order until they are loaded here: two permutations a block put them into rows.

use std::arch::x86_64::__m512i as Vector;
use std::arch::x86_64::{
    _mm512_add_epi16 as add_16, _mm512_add_epi32 as add_32, _mm512_madd_epi16 as multiply_pairs,
    _mm512_mulhi_epi16 as multiply_high_16, _mm512_or_si512 as or, _mm512_packs_epi32 as pack_32,
    _mm512_set1_epi16 as set_16, _mm512_set1_epi32 as set_32, _mm512_slli_epi16 as shift_left_16,
    _mm512_srai_epi16 as shift_right_16, _mm512_srai_epi32 as shift_right_32,
    _mm512_srli_epi16 as shift_right_unsigned_16, _mm512_sub_epi16 as subtract_16, _mm512_sub_epi32 as subtract_32,
    _mm512_unpackhi_epi16 as unpack_high_16, _mm512_unpackhi_epi32 as unpack_high_32,
    _mm512_unpackhi_epi64 as unpack_high_64, _mm512_unpacklo_epi16 as unpack_low_16,
    _mm512_unpacklo_epi32 as unpack_low_32, _mm512_unpacklo_epi64 as unpack_low_64, *,
};

use super::super::Declined;
use super::super::band::BandRun;
use super::super::entropy::{BLOCK, ROWS};
use super::super::mcu::{McuBlocks, Position};
use super::colour::{smooth, ycbcr};
use super::islow::{FIRST_ROW_MAX, inverse};
use super::{GROUP, portable};

inverse!("avx512f,avx512bw");
smooth!("avx512f,avx512bw", 32);
ycbcr!("avx512f,avx512bw,avx512vbmi", 32);

/// Where each place of a block in rows lies in zigzag order.
const ZIGZAG: [[i16; 32]; 2] = {
    let mut places = [[0; 32]; 2];
    let mut i = 0;
    while i < BLOCK {
        let row = ROWS[i] as usize;
        places[row / 32][row % 32] = i as i16;
        i += 1;
    }
    places
};

/// The places of half a block from the last to the first.
const BACKWARDS: [i16; 32] = {
    let mut places = [0; 32];
    let mut i = 0;
    while i < 32 {
        places[i] = 31 - i as i16;
        i += 1;
    }
    places
};

/// Where each of the 96 bytes of 32 pixels comes from: 32 bytes of red, then of green; those of blue from 64 on.
const PIXELS: [[u8; 64]; 2] = {
    let mut places = [[0; 64]; 2];
    let mut i = 0;
    while i < 96 {
        places[i / 64][i % 64] = (i % 3 * 32 + i / 3) as u8;
        i += 1;
    }
    places
};

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_16(values: &[i16; 32]) -> Vector {
    // SAFETY: the reference covers the 64 bytes that are read, and the load needs no alignment.
    unsafe { _mm512_loadu_epi16(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_16(values: &mut [i16; 32], vector: Vector) {
    // SAFETY: the reference covers the 64 bytes that are written, and the store needs no alignment.
    unsafe { _mm512_storeu_epi16(values.as_mut_ptr(), vector) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_8(bytes: &[u8; 64]) -> Vector {
    // SAFETY: the reference covers the 64 bytes that are read, and the load needs no alignment.
    unsafe { _mm512_loadu_epi8(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store(bytes: &mut [u8; 64], vector: Vector) {
    // SAFETY: the reference covers the 64 bytes that are written, and the store needs no alignment.
    unsafe { _mm512_storeu_epi8(bytes.as_mut_ptr().cast(), vector) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_half(bytes: &mut [u8; 32], vector: __m256i) {
    // SAFETY: the reference covers the 32 bytes that are written, and the store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

/// The 32 bytes from `at` on as 16-bit values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn widen(bytes: &[u8], at: usize) -> Vector {
    let bytes: &[u8; 32] = bytes[at..].first_chunk().expect("a margin behind the row");
    // SAFETY: the reference covers the 32 bytes that are read, and the load needs no alignment.
    let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    _mm512_cvtepu8_epi16(bytes)
}

/// See [`Kernels::unstuff`](super::Kernels::unstuff).
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
pub(super) fn unstuff(from: &[u8], out: &mut [u8]) -> (usize, usize) {
    let (mut read, mut written) = (0, 0);
    while let Some(chunk) = from[read..].first_chunk::<64>() {
        let bytes = load_8(chunk);
        let ones = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(-1));
        // An FF at the end is looked at together with what follows it.
        let used = 64 - (ones >> 63) as u32;
        let behind = ones << 1;
        let zeros = _mm512_cmpeq_epi8_mask(bytes, _mm512_setzero_si512());
        if behind & !zeros != 0 {
            break;
        }
        let kept = !behind & u64::MAX >> (64 - used);
        let packed = _mm512_maskz_compress_epi8(kept, bytes);
        store(out[written..].first_chunk_mut().expect("a margin behind the output"), packed);
        (read, written) = (read + used as usize, written + kept.count_ones() as usize);
    }
    let (more_read, more_written) = portable::unstuff(&from[read..], &mut out[written..]);
    (read + more_read, written + more_written)
}

/// See [`Kernels::decode`](super::Kernels::decode).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,lzcnt")]
pub(super) fn decode(
    blocks: &McuBlocks<'_>,
    at: &mut Position<'_>,
    count: usize,
    coefficients: &mut [i16],
) -> Result<(), Declined> {
    blocks.decode::<false>(at, count, coefficients)
}

/// See [`Kernels::skip`](super::Kernels::skip).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,lzcnt")]
pub(super) fn skip(blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize) -> Result<(), Declined> {
    blocks.skip(at, count)
}

/// See [`Kernels::band`](super::Kernels::band).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn band(run: BandRun<'_, '_>) -> Result<(), Declined> {
    run.read(|number, mask| _pdep_u64(number, mask))
}

/// See [`Kernels::order`](super::Kernels::order): zigzag order.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn order(backwards: &[[i16; BLOCK]], out: &mut [[i16; BLOCK]]) {
    let turned = load_16(&BACKWARDS);
    for (from, out) in backwards.iter().zip(out) {
        let (from, out) = (from.as_chunks::<32>().0, out.as_chunks_mut::<32>().0);
        store_16(&mut out[0], _mm512_permutexvar_epi16(turned, load_16(&from[1])));
        store_16(&mut out[1], _mm512_permutexvar_epi16(turned, load_16(&from[0])));
    }
}

/// See [`Kernels::idct`](super::Kernels::idct).
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn idct(coefficients: &[i16], offsets: &[u32], quantisation: &[i16; BLOCK], out: &mut [u8], stride: usize) {
    let zigzag = [load_16(&ZIGZAG[0]), load_16(&ZIGZAG[1])];
    let steps = quantisation.as_chunks::<8>().0;
    let steps: [Vector; 8] = std::array::from_fn(|row| {
        // SAFETY: the reference covers the 16 bytes that are read, and the load needs no alignment.
        let row = unsafe { _mm_loadu_si128(steps[row].as_ptr().cast()) };
        _mm512_broadcast_i32x4(row)
    });
    let limit = _mm512_set1_epi16(FIRST_ROW_MAX);
    // Each lane's two halves after packing: the even row's bytes, then the odd row's.
    let halves = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    for (group, offsets) in offsets.as_chunks::<GROUP>().0.iter().enumerate() {
        let block = |i: usize| -> &[i16; BLOCK] {
            coefficients[offsets[i] as usize..].first_chunk().expect("offsets are of whole blocks")
        };
        let loaded = [block(0), block(1), block(2), block(3)].map(|block| {
            let halves = block.as_chunks::<32>().0;
            (load_16(&halves[0]), load_16(&halves[1]))
        });
        let four_rows = |places: Vector| {
            let [a, b, c, d] = loaded.map(|(low, high)| _mm512_permutex2var_epi16(low, places, high));
            let (ab, cd) = (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0x44>(c, d));
            let (ab_end, cd_end) = (_mm512_shuffle_i64x2::<0xee>(a, b), _mm512_shuffle_i64x2::<0xee>(c, d));
            [
                _mm512_shuffle_i64x2::<0x88>(ab, cd),
                _mm512_shuffle_i64x2::<0xdd>(ab, cd),
                _mm512_shuffle_i64x2::<0x88>(ab_end, cd_end),
                _mm512_shuffle_i64x2::<0xdd>(ab_end, cd_end),
            ]
        };
        let ([a, b, c, d], [e, f, g, h]) = (four_rows(zigzag[0]), four_rows(zigzag[1]));
        let mut rows = [a, b, c, d, e, f, g, h];
        for (row, steps) in rows.iter_mut().zip(steps) {
            *row = _mm512_mullo_epi16(*row, steps);
        }
        let out = &mut out[group * GROUP * 8..];
        if _mm512_cmpgt_epu16_mask(_mm512_abs_epi16(rows[0]), limit) != 0 {
            for i in 0..GROUP {
                portable::idct_zigzag(block(i), quantisation, &mut out[8 * i..], stride);
            }
            continue;
        }
        let rows = inverse(rows);
        for (y, pair) in rows.as_chunks::<2>().0.iter().enumerate() {
            let bytes = _mm512_packs_epi16(pair[0], pair[1]);
            let bytes = _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
            let bytes = _mm512_permutexvar_epi64(halves, bytes);
            let (even, odd) = (_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64::<1>(bytes));
            store_half(out[2 * y * stride..].first_chunk_mut().expect("room for the group"), even);
            store_half(out[(2 * y + 1) * stride..].first_chunk_mut().expect("room for the group"), odd);
        }
    }
}

/// See [`Kernels::smooth_down`](super::Kernels::smooth_down).
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn smooth_down(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]) {
    let bias = _mm512_set1_epi16(bias as i16);
    write(out, |i| {
        let [low, high] = [0, 32].map(|k| {
            let sum = three_to_one(widen(near, 64 * i + k), widen(far, 64 * i + k));
            _mm512_cvtepi16_epi8(_mm512_srli_epi16::<2>(add_16(sum, bias)))
        });
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    });
}

/// Hands out 32 pixels at a time: `values` says their red, green and blue.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn write_pixels(out: &mut [u8], values: impl Fn(usize) -> [__m256i; 3]) {
    let places = [load_8(&PIXELS[0]), load_8(&PIXELS[1])];
    let pixels = |i: usize| {
        let [r, g, b] = values(i);
        let rg = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(r), g);
        let b = _mm512_castsi256_si512(b);
        let [start, end] = places.map(|places| _mm512_permutex2var_epi8(rg, places, b));
        (start, _mm512_castsi512_si256(end))
    };
    let (whole, rest) = out.as_chunks_mut::<96>();
    let count = whole.len();
    let put = |out: &mut [u8; 96], (start, end): (Vector, __m256i)| {
        store(out.first_chunk_mut().expect("64 of 96"), start);
        store_half(out.last_chunk_mut().expect("32 of 96"), end);
    };
    for (i, out) in whole.iter_mut().enumerate() {
        put(out, pixels(i));
    }
    if !rest.is_empty() {
        let mut last = [0; 96];
        put(&mut last, pixels(count));
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// 16-bit values as bytes, saturated.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn narrow(values: Vector) -> __m256i {
    _mm512_cvtusepi16_epi8(_mm512_max_epi16(values, set_16(0)))
}

/// See [`Kernels::interleave`](super::Kernels::interleave).
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn interleave(planes: [&[u8]; 3], out: &mut [u8]) {
    write_pixels(out, |i| planes.map(|plane| _mm512_cvtepi16_epi8(widen(plane, 32 * i))));
}
