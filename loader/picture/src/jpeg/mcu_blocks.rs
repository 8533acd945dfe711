//! MCUs of a scan: those that a region needs, and how their blocks are decoded and skipped.

use std::ops::Range;

use super::entropy::{Bits, SLACK};
use super::fallback::Fallback;
use super::frame::Frame;
use super::huffman::{AcTable, DcTable, TableCache};
use super::markers::{Headers, Scan};
use super::order::BLOCK;
use crate::geometry::{Region, Size};

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

/// Blocks of an MCU that libjpeg accepts.
const BLOCKS_MAX: usize = 10;

/// Blocks of an MCU and their tables.
pub(super) struct McuBlocks<'a> {
    blocks: [Option<McuBlock<'a>>; BLOCKS_MAX],
    count: usize,
}

#[derive(Clone, Copy)]
struct McuBlock<'a> {
    /// The scan's component, which selects the predictor.
    component: usize,
    dc: &'a DcTable,
    ac: &'a AcTable,
}

/// Position of decoding within a segment.
pub(super) struct Position<'a> {
    pub bits: Bits<'a>,
    pub predictors: [i16; 3],
}

impl<'a> McuBlocks<'a> {
    /// Finds or builds the tables of the components of a scan, and returns the blocks of its MCUs.
    pub(super) fn new(
        headers: &Headers<'_>,
        scan: &Scan,
        parts: &[Option<ComponentPart>; 3],
        dc_tables: &'a mut TableCache<DcTable>,
        ac_tables: &'a mut TableCache<AcTable>,
    ) -> Result<Self, Fallback> {
        let mut numbers = [(0, 0); 3];
        for (numbers, component) in numbers.iter_mut().zip(scan.components()) {
            *numbers = (dc_tables.find(headers.dc_table(component)?)?, ac_tables.find(headers.ac_table(component)?)?);
        }
        let mut this = Self { blocks: [None; BLOCKS_MAX], count: 0 };
        for (component, (part, numbers)) in parts.iter().flatten().zip(numbers).enumerate() {
            let first = this.count;
            this.count += (part.h * part.v) as usize;
            let blocks = this.blocks.get_mut(first..this.count).ok_or(Fallback("an MCU of too many blocks"))?;
            blocks.fill(Some(McuBlock { component, dc: dc_tables.get(numbers.0), ac: ac_tables.get(numbers.1) }));
        }
        Ok(this)
    }

    /// Blocks per MCU.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Decodes `count` MCUs of one segment, block after block, into `coefficients`. It has room for `len * count`
    /// blocks and [`SLACK`] values that are overwritten.
    #[inline(always)]
    pub(super) fn decode<const BY_PAIRS: bool>(
        &self,
        at: &mut Position<'_>,
        count: usize,
        coefficients: &mut [i16],
    ) -> Result<(), Fallback> {
        // Local, so that the compiler keeps it in registers.
        let mut bits = at.bits;
        let mut position = 0;
        for _ in 0..count {
            for block in self.blocks[..self.count].iter().flatten() {
                let out = coefficients[position..].first_chunk_mut::<{ BLOCK + SLACK }>().expect("room for the block");
                bits.block::<BY_PAIRS>(block.dc, block.ac, &mut at.predictors[block.component], out)?;
                position += BLOCK;
            }
        }
        at.bits = bits;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn skip(&self, at: &mut Position<'_>, count: usize) -> Result<(), Fallback> {
        let mut bits = at.bits;
        for _ in 0..count {
            for block in self.blocks[..self.count].iter().flatten() {
                bits.skip(block.dc, block.ac, &mut at.predictors[block.component])?;
            }
        }
        at.bits = bits;
        Ok(())
    }
}
