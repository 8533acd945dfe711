//! Baseline and extended sequential pictures: which MCUs a region needs, and their way to pixels.
//!
//! With one scan, MCU rows are decoded, transformed and turned into pixels one after the other, so that all of it
//! happens in the first cache levels. With several, the planes of all components are filled first. Rows above the
//! region and columns beside it are read over, rows below are not touched. With a row index ([`source`]), of each row only
//! the columns left of the region are read over, and nothing else is decoded.

#![forbid(unsafe_code)]

use std::ops::Range;

use super::Declined;
use super::emit::Emit;
use super::entropy::{BLOCK, SLACK};
use super::frame::{Frame, Upsampling};
use super::huffman::{AcTable, DcTable, Tables};
use super::kernel::GROUP;
use super::markers::{Headers, Scan};
use super::mcu::{McuBlocks, Mcus};
use super::measure::Until;
use super::unstuff::Part;
use super::workspace::Workspace;
use crate::decode::geometry::{Region, Size};
use source::{Indexed, RowSource, Through};

mod index;
mod source;

/// By the scan's components: the numbers of the DC and the AC table.
type TableNumbers = [(usize, usize); 3];

/// What one thread keeps for sequential pictures alone.
#[derive(Default)]
pub(super) struct Sequential {
    ac: Tables<AcTable>,
}

/// A component's part in a scan.
#[derive(Clone)]
struct ComponentPart {
    /// Which of the frame's components.
    index: usize,
    /// Blocks per MCU across and down: one in a scan of a single component.
    h: u32,
    v: u32,
    /// The MCU's blocks before this component's.
    first: u32,
    /// The blocks that the region needs.
    columns: Range<u32>,
    rows: Range<u32>,
    /// By pairs.
    quantisation: [i16; BLOCK],
}

/// How far a scan is decoded, in MCUs.
struct Extent {
    /// MCUs of a whole row, and rows of MCUs.
    width: u32,
    height: u32,
    /// What the region needs.
    columns: Range<u32>,
    rows: Range<u32>,
}

impl Sequential {
    /// Decodes exactly what `emit` asks for, where there is a row index from the start of each row of MCUs that it needs.
    /// The headers were read up to the first `scan`.
    pub(super) fn decode(
        &mut self,
        workspace: &mut Workspace,
        headers: &mut Headers<'_>,
        scan: Scan,
        index: Option<&[u8]>,
        mut emit: Emit<'_>,
    ) -> Result<(), Declined> {
        let (frame, region) = (emit.frame, emit.region);
        if scan.components().len() == frame.components().len() {
            self.scan(workspace, headers, frame, &scan, index, region, Some(&mut emit))?;
            return Ok(());
        }
        if index.is_some() {
            return Err(Declined("a row index beside several scans"));
        }
        let mut scans = Some(scan);
        let mut seen = [false; 3];
        while let Some(scan) = scans {
            for part in scan.components() {
                if std::mem::replace(&mut seen[part.component], true) {
                    return Err(Declined("a component in two scans"));
                }
            }
            scans = self.scan(workspace, headers, frame, &scan, None, region, None)?;
        }
        if seen.contains(&false) {
            return Err(Declined("a component in no scan"));
        }
        emit.up_to(region.y + region.h, &workspace.planes, &mut workspace.scratch);
        Ok(())
    }

    /// Decodes a scan into the planes, and with `emit` to pixels as it goes. Returns the next scan; with an index the
    /// scan is not read to its end, and there is none.
    #[expect(clippy::too_many_arguments, reason = "the parts of a picture, named one by one")]
    fn scan(
        &mut self,
        workspace: &mut Workspace,
        headers: &mut Headers<'_>,
        frame: &Frame,
        scan: &Scan,
        index: Option<&[u8]>,
        region: Region,
        mut emit: Option<&mut Emit<'_>>,
    ) -> Result<Option<Scan>, Declined> {
        let is_rolling = emit.is_some();
        let (parts, extent) = parts(headers, frame, scan, region)?;
        let tables = self.tables(&mut workspace.dc, headers, scan)?;
        let (kernels, file, interval) = (workspace.kernels, headers.bytes(), headers.restart_interval);
        let blocks = blocks(&parts, tables, &workspace.dc, &self.ac)?;
        let (mut next, mut is_before_end) = (None, false);
        let mut source = match index {
            Some(index) => {
                let segments = &mut workspace.segments;
                RowSource::Indexed(Indexed::new(kernels, file, scan, index, segments, &blocks, interval, &extent)?)
            }
            None => {
                let whole = Part { start: scan.data, restarts: 0, end: None };
                let end = workspace.segments.read(kernels, file, &whole, interval > 0)?;
                headers.resume(end);
                is_before_end = headers.ends_at(end);
                // A picture in one scan ends behind it, or something is odd.
                next = headers.next_scan()?.map(|(_, scan)| scan);
                if is_rolling && next.is_some() {
                    return Err(Declined("a scan behind the last"));
                }
                let mcus = Mcus::new(kernels, &blocks, &workspace.segments, interval, (0, 0, [0; 3]));
                RowSource::Through(Through::new(mcus, &extent))
            }
        };
        if workspace.until < Until::Coefficients {
            source.read()?;
            return Ok(next);
        }
        let values = extent.columns.len() * blocks.len() * BLOCK + SLACK;
        workspace.coefficients.fit(values);
        for part in parts.iter().flatten() {
            let component = &frame.components()[part.index];
            let (top, rows) = if is_rolling {
                // The last row of the MCU row above and one MCU row.
                (i64::from(extent.rows.start * part.v * component.block) - 1, 1 + part.v * component.block)
            } else {
                (i64::from(part.rows.start * component.block), part.rows.len() as u32 * component.block)
            };
            workspace.planes[part.index].start(component, &part.columns, top, rows as usize);
            let offsets = &mut workspace.offsets[part.index];
            offsets.clear();
            offsets.extend(part.columns.clone().map(|column| {
                let mcu = column / part.h - extent.columns.start;
                (mcu * blocks.len() as u32 + part.first + column % part.h) * BLOCK as u32
            }));
            // Whole groups: the last block again.
            let last = offsets.last().copied().unwrap_or(0);
            offsets.resize(offsets.len().next_multiple_of(GROUP), last);
        }
        let reach =
            u32::from(frame.components().iter().any(|c| matches!(c.upsampling, Upsampling::Smooth { down: true, .. })));
        for row in extent.rows.clone() {
            source.decode(&mut workspace.coefficients)?;
            for part in parts.iter().flatten() {
                let plane = &mut workspace.planes[part.index];
                if is_rolling && row > extent.rows.start {
                    plane.roll();
                }
                let component = &frame.components()[part.index];
                for down in 0..part.v {
                    let block_row = row * part.v + down;
                    if part.rows.contains(&block_row) && workspace.until >= Until::Samples {
                        let skipped = (down * part.h) as usize * BLOCK;
                        let coefficients = &workspace.coefficients[skipped..];
                        let offsets = &workspace.offsets[part.index];
                        plane.fill(
                            workspace.kernels,
                            block_row,
                            coefficients,
                            offsets,
                            &part.quantisation,
                            component,
                        )?;
                    }
                }
            }
            if let Some(emit) = &mut emit {
                let is_last = row + 1 == extent.rows.end;
                let ready = (row + 1) * frame.v_max * frame.block - reach;
                emit.up_to(if is_last { u32::MAX } else { ready }, &workspace.planes, &mut workspace.scratch);
            }
        }
        if region == Region::all(frame.decoded) {
            source.rest()?.check(is_before_end)?;
        }
        Ok(next)
    }

    /// The numbers of the DC and AC tables of each component of a scan.
    fn tables(
        &mut self,
        dc_tables: &mut Tables<DcTable>,
        headers: &Headers<'_>,
        scan: &Scan,
    ) -> Result<TableNumbers, Declined> {
        let mut tables = TableNumbers::default();
        for (numbers, component) in tables.iter_mut().zip(scan.components()) {
            let dc = headers.dc.get(component.dc).copied().flatten().ok_or(Declined("no DC table"))?;
            let ac = headers.ac.get(component.ac).copied().flatten().ok_or(Declined("no AC table"))?;
            *numbers = (dc_tables.find(dc)?, self.ac.find(ac)?);
        }
        Ok(tables)
    }
}

/// The blocks of a scan's MCUs.
fn blocks<'a>(
    parts: &[Option<ComponentPart>; 3],
    tables: TableNumbers,
    dc: &'a Tables<DcTable>,
    ac: &'a Tables<AcTable>,
) -> Result<McuBlocks<'a>, Declined> {
    let mut blocks = McuBlocks::new();
    for (i, (part, numbers)) in parts.iter().flatten().zip(tables).enumerate() {
        blocks.push(i, (part.h * part.v) as usize, dc.get(numbers.0), ac.get(numbers.1))?;
    }
    Ok(blocks)
}

/// The components of a scan, and which of its MCUs they need.
fn parts(
    headers: &Headers<'_>,
    frame: &Frame,
    scan: &Scan,
    region: Region,
) -> Result<([Option<ComponentPart>; 3], Extent), Declined> {
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
    let Size { w: width, h: height } = match (is_single, scan.components()) {
        (true, [only]) => frame.components()[only.component].blocks(),
        _ => Size { w: frame.size.w.div_ceil(8 * frame.h_max), h: frame.size.h.div_ceil(8 * frame.v_max) },
    };
    Ok((parts, Extent { width, height, columns, rows }))
}
