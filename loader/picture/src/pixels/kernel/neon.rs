//! Kernels for NEON.

use super::{Factors, portable};

portable_kernels!("neon");
