//! Blocks of an MCU: how they are decoded and skipped.

use super::entropy::{Bits, SLACK};
use super::fallback::Fallback;
use super::huffman::{AcTable, DcTable, TableCache};
use super::layout::ComponentPart;
use super::markers::{Headers, Scan};
use super::order::BLOCK;

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
        let mut place = 0;
        for _ in 0..count {
            for block in self.blocks[..self.count].iter().flatten() {
                let out = coefficients[place..].first_chunk_mut::<{ BLOCK + SLACK }>().expect("room for the block");
                bits.block::<BY_PAIRS>(block.dc, block.ac, &mut at.predictors[block.component], out)?;
                place += BLOCK;
            }
        }
        at.bits = bits;
        Ok(())
    }

    /// Skips MCUs of one segment.
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
