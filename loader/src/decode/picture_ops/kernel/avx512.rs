//! Kernels for AVX-512. A table of 256 bytes is four of its registers, so 64 bytes are looked up at a time.

use std::arch::x86_64::*;

use super::portable::{self, BoxFilter};
use super::samples::Map;
use crate::decode::kernel::{loads, portable_with, stores, table};
use crate::decode::picture_ops::Shape;

portable_with! { "avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni":
    fn blend(degenerate: &[u8], pixels: &mut [u8], factor: f32);
    fn box_row(source: &[u8], filter: &BoxFilter, channels: usize, out: &mut [u8]);
    fn box_rows(rows: [&[u8]; 3], filter: &BoxFilter, sums: &mut [u32], out: &mut [u8]);
    fn convolve_row(source: &[u8], weights: &[f32], channels: usize, out: &mut [f32]);
    fn convolve_rows(values: &[f32], starts: &[usize], weights: &[f32], out: &mut [u8]);
    fn grayscale(pixels: &mut [u8]);
    fn luma_sum(pixels: &[u8]) -> u64;
    fn saturate(pixels: &mut [u8], factor: f32);
    fn smooth(rows: [&[u8]; 3], channels: usize, out: &mut [u8]);
    fn turn_hue(pixels: &mut [u8], shift: u8);
    fn bicubic_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]);
    fn bilinear_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]);
    fn fixed_row(source: &[u8], shape: Shape, start: [i32; 2], step: [i32; 2], fill: [u8; 3], out: &mut [u8]);
    fn nearest_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]);
}

/// Bytes of a vector.
const BYTES: usize = 64;

/// Bytes of each channel in each third of 64 pixels.
const CHANNELS: [[u64; 3]; 3] = table!(3, |third| table!(3, |c| bytes_of(c, third)));

const fn bytes_of(channel: usize, third: usize) -> u64 {
    let (mut mask, mut byte) = (0, 0);
    while byte < BYTES {
        mask |= (((third * BYTES + byte) % 3 == channel) as u64) << byte;
        byte += 1;
    }
    mask
}

loads! { "avx512f,avx512bw":
    load([u8; 64]) -> __m512i = _mm512_loadu_si512;
}

stores! { "avx512f,avx512bw":
    store([u8; 64], __m512i) = _mm512_storeu_si512;
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn look_up(table: &[u8; 256], pixels: &mut [u8]) {
    let quarters = quarters(table);
    let (vectors, rest) = pixels.as_chunks_mut::<BYTES>();
    for bytes in vectors {
        store(bytes, values(load(bytes), &quarters));
    }
    portable::look_up(table, rest);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn look_up_3(tables: &[[u8; 256]; 3], pixels: &mut [u8]) {
    let [r, g, b] = [quarters(&tables[0]), quarters(&tables[1]), quarters(&tables[2])];
    let (blocks, rest) = pixels.as_chunks_mut::<{ 3 * BYTES }>();
    for block in blocks {
        for (bytes, [_, is_green, is_blue]) in block.as_chunks_mut::<BYTES>().0.iter_mut().zip(CHANNELS) {
            let old = load(bytes);
            let new = _mm512_mask_blend_epi8(is_green, values(old, &r), values(old, &g));
            store(bytes, _mm512_mask_blend_epi8(is_blue, new, values(old, &b)));
        }
    }
    portable::look_up_3(tables, rest);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn quarters(table: &[u8; 256]) -> [__m512i; 4] {
    let [a, b, c, d] = table.as_chunks().0 else { unreachable!("four quarters") };
    [load(a), load(b), load(c), load(d)]
}

/// Values of a table at 64 places.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn values(places: __m512i, [a, b, c, d]: &[__m512i; 4]) -> __m512i {
    // A permutation of two vectors takes the low seven bits of a place.
    let low = _mm512_permutex2var_epi8(*a, places, *b);
    let high = _mm512_permutex2var_epi8(*c, places, *d);
    _mm512_mask_blend_epi8(_mm512_movepi8_mask(places), low, high)
}
