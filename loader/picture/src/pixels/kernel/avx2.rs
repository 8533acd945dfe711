//! Kernels of conversions of pixels, compiled for AVX2.

use super::{Factors, portable};

portable_kernels!("avx2");
