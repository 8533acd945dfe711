//! What decoding a picture needs whatever its kind: memory and tables that one thread keeps from picture to picture.

#![forbid(unsafe_code)]

use super::emit::Scratch;
use super::huffman::{DcTable, Tables};
use super::kernel::Kernels;
use super::measure::Until;
use super::plane::Plane;
use super::unstuff::Segments;
use crate::decode::lines::Lines;

/// Its contents mean nothing between pictures, but for the tables.
pub(super) struct Workspace {
    pub kernels: Kernels,
    /// What comes behind is left out.
    pub until: Until,
    pub dc: Tables<DcTable>,
    /// The current scan.
    pub segments: Segments,
    /// What is transformed next, block behind block: a row of MCUs, or of one component's blocks.
    pub coefficients: Lines<i16>,
    /// By the frame's components.
    pub planes: [Plane; 3],
    /// Where the blocks of a row lie in `coefficients`, by the frame's components.
    pub offsets: [Vec<u32>; 3],
    pub scratch: Scratch,
}

impl Workspace {
    pub(super) fn new(kernels: Kernels, until: Until) -> Self {
        Self {
            kernels,
            until,
            dc: Tables::default(),
            segments: Segments::default(),
            coefficients: Lines::default(),
            planes: Default::default(),
            offsets: Default::default(),
            scratch: Default::default(),
        }
    }
}
