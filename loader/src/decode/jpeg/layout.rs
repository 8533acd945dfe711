//! Layout of a scan: its components, their blocks in an MCU, and the MCUs that a region needs.

use std::ops::Range;

use super::fallback::Fallback;
use super::frame::Frame;
use super::markers::{Headers, Scan};
use super::order::BLOCK;
use crate::decode::geometry::{Region, Size};

/// Component's part of a scan.
#[derive(Clone)]
pub(super) struct ComponentPart {
    /// Index among the frame's components.
    pub index: usize,
    /// Blocks per MCU across and down: one in a scan of a single component.
    pub h: u32,
    pub v: u32,
    /// Number of the MCU's blocks before this component's.
    pub first: u32,
    /// The blocks that the region needs.
    pub columns: Range<u32>,
    pub rows: Range<u32>,
    /// By pairs.
    pub quantisation: [i16; BLOCK],
}

/// Size of a scan, and the part of it that is decoded, in MCUs.
pub(super) struct Extent {
    /// MCUs in a row, and rows of MCUs.
    pub width: u32,
    pub height: u32,
    /// MCUs that the region needs.
    pub columns: Range<u32>,
    pub rows: Range<u32>,
}

/// Returns the components of a scan, and the MCUs that they need.
pub(super) fn parts(
    headers: &Headers<'_>,
    frame: &Frame,
    scan: &Scan,
    region: Region,
) -> Result<([Option<ComponentPart>; 3], Extent), Fallback> {
    let is_single = scan.components().len() == 1;
    let mut parts = [None, None, None];
    let mut first = 0;
    let (mut columns, mut rows): (Range<u32>, Range<u32>) = (0..0, 0..0);
    for (part, entry) in parts.iter_mut().zip(scan.components()) {
        let component = &frame.components()[entry.component];
        let (h, v) = if is_single { (1, 1) } else { (component.h, component.v) };
        let needed = component.needed(region);
        let join = |all: &mut Range<u32>, blocks: &Range<u32>, per_mcu: u32| {
            let mcus = blocks.start / per_mcu..blocks.end.div_ceil(per_mcu);
            *all = if all.start == all.end { mcus } else { all.start.min(mcus.start)..all.end.max(mcus.end) };
        };
        join(&mut columns, &needed.0, h);
        join(&mut rows, &needed.1, v);
        let quantisation = headers.quantisation_by_pairs(component.quantisation)?;
        let (columns, rows) = needed;
        *part = Some(ComponentPart { index: entry.component, h, v, first, columns, rows, quantisation });
        first += h * v;
    }
    let Size { w: width, h: height } = scan.mcus(frame);
    Ok((parts, Extent { width, height, columns, rows }))
}
