//! Kernels for AVX-512. A table of 256 bytes is four of its registers, so 64 bytes are looked up at a time.

use std::arch::x86_64::*;

use super::portable;
use super::samples::Map;
use crate::kernel::{loads, stores, table};
use crate::picture_ops::Shape;

portable_kernels!("avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni");

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

/// Values of a table at 64 positions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn values(positions: __m512i, [a, b, c, d]: &[__m512i; 4]) -> __m512i {
    // A permutation of two vectors takes the low seven bits of a position.
    let low = _mm512_permutex2var_epi8(*a, positions, *b);
    let high = _mm512_permutex2var_epi8(*c, positions, *d);
    _mm512_mask_blend_epi8(_mm512_movepi8_mask(positions), low, high)
}
