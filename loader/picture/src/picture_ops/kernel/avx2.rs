//! Kernels of the operations on pictures, compiled for AVX2.

use super::portable;
use super::samples::Map;
use crate::kernel::portable_with;
use crate::picture_ops::Shape;

portable_kernels!("avx2");

portable_with! { "avx2":
    fn look_up(table: &[u8; 256], pixels: &mut [u8]);
    fn look_up_3(tables: &[[u8; 256]; 3], pixels: &mut [u8]);
}
