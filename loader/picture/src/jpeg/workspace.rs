//! Memory and tables that one thread reuses from picture to picture, whatever their kind.

use super::huffman::{AcTable, DcTable, TableCache};
use super::kernel::{GROUP, Kernels};
use super::order::BLOCK;
use super::plane::Plane;
use super::stages::JpegStage;
use super::unstuff::Segments;
use crate::aligned::AlignedVec;

/// Workspace of a decoder. Between pictures only the tables have a meaning.
#[derive(Default)]
pub(super) struct Workspace {
    pub kernels: Kernels,
    /// Later stages are skipped.
    pub last_stage: JpegStage,
    pub dc: TableCache<DcTable>,
    /// Blocks of sequential scans.
    pub ac: TableCache<AcTable>,
    /// The current scan.
    pub segments: Segments,
    /// The next coefficients to transform, block after block: a row of MCUs, or of one component's blocks.
    pub coefficients: AlignedVec<i16>,
    /// By the frame's components.
    pub planes: [Plane; 3],
    /// Offsets of a row's blocks in `coefficients`, by the frame's components.
    pub offsets: [Vec<u32>; 3],
    /// Rows of samples at the picture's resolution, by the frame's components.
    pub scratch: [Vec<u8>; 3],
}

/// Sets the offsets of a row's blocks to the offsets in `positions`, which count blocks, filled up to whole groups with
/// the last.
pub(super) fn set_offsets(offsets: &mut Vec<u32>, positions: impl Iterator<Item = u32>) {
    offsets.clear();
    offsets.extend(positions.map(|position| position * BLOCK as u32));
    let last = offsets.last().copied().unwrap_or(0);
    offsets.resize(offsets.len().next_multiple_of(GROUP), last);
}
