//! What decoding a picture needs whatever its kind: memory and tables that one thread keeps from picture to picture.

#![forbid(unsafe_code)]

use super::huffman::{DcTable, TableCache};
use super::kernel::Kernels;
use super::pixel_writer::Scratch;
use super::plane::Plane;
use super::stages::DecodeStage;
use super::unstuff::Segments;
use crate::decode::aligned::AlignedVec;

/// Its contents mean nothing between pictures, but for the tables.
pub(super) struct Workspace {
    pub kernels: Kernels,
    /// What comes behind is left out.
    pub last_stage: DecodeStage,
    pub dc: TableCache<DcTable>,
    /// The current scan.
    pub segments: Segments,
    /// What is transformed next, block behind block: a row of MCUs, or of one component's blocks.
    pub coefficients: AlignedVec<i16>,
    /// By the frame's components.
    pub planes: [Plane; 3],
    /// Where the blocks of a row lie in `coefficients`, by the frame's components.
    pub offsets: [Vec<u32>; 3],
    pub scratch: Scratch,
}

impl Workspace {
    pub(super) fn new(kernels: Kernels, last_stage: DecodeStage) -> Self {
        Self {
            kernels,
            last_stage,
            dc: TableCache::default(),
            segments: Segments::default(),
            coefficients: AlignedVec::default(),
            planes: Default::default(),
            offsets: Default::default(),
            scratch: Default::default(),
        }
    }
}
