//! Kernels of conversions of pixels, compiled for AVX-512.

use super::{Factors, portable};

portable_kernels!("avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni");
