//! Kernels of conversions of pixels, compiled for NEON.

use super::{Factors, portable};

portable_kernels!("neon");
