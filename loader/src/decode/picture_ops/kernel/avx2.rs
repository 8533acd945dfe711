//! Kernels for AVX2.

use super::portable::{self, BoxFilter};
use super::samples::Map;
use crate::decode::kernel::portable_with;
use crate::decode::picture_ops::Shape;

portable_with! { "avx2":
    fn blend(degenerate: &[u8], pixels: &mut [u8], factor: f32);
    fn box_row(source: &[u8], filter: &BoxFilter, channels: usize, out: &mut [u8]);
    fn box_rows(rows: [&[u8]; 3], filter: &BoxFilter, sums: &mut [u32], out: &mut [u8]);
    fn convolve_row(source: &[u8], weights: &[f32], channels: usize, out: &mut [f32]);
    fn convolve_rows(values: &[f32], starts: &[usize], weights: &[f32], out: &mut [u8]);
    fn grayscale(pixels: &mut [u8]);
    fn look_up(table: &[u8; 256], pixels: &mut [u8]);
    fn look_up_3(tables: &[[u8; 256]; 3], pixels: &mut [u8]);
    fn luma_sum(pixels: &[u8]) -> u64;
    fn saturate(pixels: &mut [u8], factor: f32);
    fn smooth(rows: [&[u8]; 3], channels: usize, out: &mut [u8]);
    fn turn_hue(pixels: &mut [u8], shift: u8);
    fn bicubic_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]);
    fn bilinear_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]);
    fn fixed_row(source: &[u8], shape: Shape, start: [i32; 2], step: [i32; 2], fill: [u8; 3], out: &mut [u8]);
    fn nearest_row(source: &[u8], shape: Shape, map: &Map, y: usize, fill: [u8; 3], out: &mut [u8]);
}
