//! Baseline and extended sequential pictures: which MCUs a region needs, and their way to pixels.
//!
//! With one scan, MCU rows are decoded, transformed and turned into pixels one after the other, so that all of it
//! happens in the first cache levels. With several, the planes of all components are filled first. Rows above the
//! region and columns beside it are read over, rows below are not touched.

use std::ops::Range;

use super::Declined;
use super::emit::{Emit, Scratch};
use super::entropy::{BLOCK, SLACK};
use super::frame::{Frame, Upsampling};
use super::huffman::{AcTable, DcTable, Tables};
use super::kernel::{GROUP, Kernels};
use super::markers::{Headers, Scan};
use super::mcu::{McuBlocks, Mcus};
use super::plane::Plane;
use super::rows::{RowReader, RowStart};
use super::unstuff::{BitPlace, Part, Segments};
use crate::decode::geometry::{Region, Size};
use crate::decode::pixels::Pixels;

mod index;

/// By the scan's components: the numbers of the DC and the AC table.
type TableNumbers = [(usize, usize); 3];

/// One thread's decoder; what it needs stays with it from picture to picture.
pub(super) struct Sequential {
    kernels: Kernels,
    dc: Tables<DcTable>,
    ac: Tables<AcTable>,
    segments: Segments,
    /// A row of MCUs, block behind block.
    coefficients: Vec<i16>,
    /// By the frame's components.
    planes: [Plane; 3],
    offsets: [Vec<u32>; 3],
    scratch: Scratch,
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
    /// In rows.
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
    pub(super) fn new(kernels: Kernels) -> Self {
        Self {
            kernels,
            dc: Tables::default(),
            ac: Tables::default(),
            segments: Segments::default(),
            coefficients: Vec::new(),
            planes: Default::default(),
            offsets: Default::default(),
            scratch: Default::default(),
        }
    }

    /// The size of a picture that [`decode`](Self::decode) may take.
    pub(super) fn size(bytes: &[u8]) -> Result<Size, Declined> {
        match Headers::new(bytes)?.next_scan()? {
            Some((frame, _)) => Ok(frame.size),
            None => Err(Declined("no scan")),
        }
    }

    /// Decodes exactly `region`.
    pub(super) fn decode(&mut self, bytes: &[u8], region: Region, pixels: &mut Pixels) -> Result<(), Declined> {
        self.decode_from(bytes, None, region, pixels)
    }

    /// The same, starting at the first row of MCUs that the region needs where there is a row index.
    pub(super) fn decode_from(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        region: Region,
        pixels: &mut Pixels,
    ) -> Result<(), Declined> {
        let mut headers = Headers::new(bytes)?;
        let (frame, scan) = headers.next_scan()?.ok_or(Declined("no scan"))?;
        let inside = |start: u32, length: u32, of: u32| length > 0 && start <= of && length <= of - start;
        if !inside(region.x, region.w, frame.size.w) || !inside(region.y, region.h, frame.size.h) {
            return Err(Declined("a region outside of the picture"));
        }
        let out = pixels.start(region, 3);
        let mut emit = Emit { kernels: self.kernels, frame: &frame, region, out, done: 0 };
        if scan.components().len() == frame.components().len() {
            self.scan(bytes, &mut headers, &frame, &scan, index, region, Some(&mut emit))?;
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
            scans = self.scan(bytes, &mut headers, &frame, &scan, None, region, None)?;
        }
        if seen.contains(&false) {
            return Err(Declined("a component in no scan"));
        }
        emit.up_to(region.y + region.h, &self.planes, &mut self.scratch);
        Ok(())
    }

    /// Decodes a scan into the planes, and with `emit` to pixels as it goes. Returns the next scan; with an index, the
    /// scan may not have been read to its end, and there is none.
    #[expect(clippy::too_many_arguments, reason = "the parts of a picture, named one by one")]
    fn scan(
        &mut self,
        bytes: &[u8],
        headers: &mut Headers<'_>,
        frame: &Frame,
        scan: &Scan,
        index: Option<&[u8]>,
        region: Region,
        mut emit: Option<&mut Emit<'_>>,
    ) -> Result<Option<Scan>, Declined> {
        let is_rolling = emit.is_some();
        let (parts, extent) = parts(headers, frame, scan, region)?;
        let tables = self.tables(headers, scan)?;
        let interval = headers.restart_interval;
        let width = extent.width as usize;
        // Where the scan is read from, and where its rows must lead.
        let (start, behind, mcus_before) = match index {
            Some(index) => {
                let rows = RowReader::new(index, bytes, scan)?;
                let (start, behind) = rows.around(&extent.rows, extent.height)?;
                (start, behind, width * extent.rows.start as usize)
            }
            None => (RowStart { place: BitPlace { byte: scan.data, bit: 0 }, predictors: [0; 3] }, None, 0),
        };
        let restarts = mcus_before.checked_div(interval as usize).unwrap_or(0);
        let part = Part { start: start.place.byte, restarts, end: behind.map(|row| row.place) };
        let end = self.segments.read(self.kernels, bytes, &part, interval > 0)?;
        let mut next = None;
        if behind.is_none() {
            headers.resume(end);
            // A picture in one scan ends behind it, or something is odd.
            next = headers.next_scan()?.map(|(_, scan)| scan);
            if is_rolling && next.is_some() {
                return Err(Declined("a scan behind the last"));
            }
        }
        let blocks = blocks(&parts, tables, &self.dc, &self.ac)?;
        let values = extent.columns.len() * blocks.len() * BLOCK + SLACK;
        if self.coefficients.len() < values {
            self.coefficients.resize(values, 0);
        }
        for part in parts.iter().flatten() {
            let plane = &mut self.planes[part.index];
            if is_rolling {
                // The last row of the MCU row above and one MCU row.
                let top = i64::from(extent.rows.start * part.v * 8) - 1;
                plane.start(&part.columns, top, 1 + part.v as usize * 8);
            } else {
                plane.start(&part.columns, i64::from(part.rows.start) * 8, part.rows.len() * 8);
            }
            let offsets = &mut self.offsets[part.index];
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
        let first = (mcus_before, start.place.bit, start.predictors);
        let mut mcus = Mcus::new(self.kernels, &blocks, &self.segments, interval, first);
        mcus.skip(width * extent.rows.start as usize - mcus_before)?;
        for row in extent.rows.clone() {
            if row > extent.rows.start {
                mcus.skip(width - extent.columns.len())?;
            } else {
                mcus.skip(extent.columns.start as usize)?;
            }
            mcus.decode(extent.columns.len(), &mut self.coefficients)?;
            mcus.check()?;
            for part in parts.iter().flatten() {
                let plane = &mut self.planes[part.index];
                if is_rolling && row > extent.rows.start {
                    plane.roll();
                }
                let component = &frame.components()[part.index];
                for down in 0..part.v {
                    let block_row = row * part.v + down;
                    if part.rows.contains(&block_row) {
                        let skipped = (down * part.h) as usize * BLOCK;
                        let coefficients = &self.coefficients[skipped..];
                        let offsets = &self.offsets[part.index];
                        plane.fill(self.kernels, block_row * 8, coefficients, offsets, &part.quantisation, component);
                    }
                }
            }
            if let Some(emit) = &mut emit {
                let is_last = row + 1 == extent.rows.end;
                let ready = (row + 1) * frame.v_max * 8 - reach;
                emit.up_to(if is_last { u32::MAX } else { ready }, &self.planes, &mut self.scratch);
            }
        }
        if let Some(behind) = behind {
            mcus.skip(width - extent.columns.end as usize)?;
            let bits = if behind.place.bit > 0 { 8 - behind.place.bit } else { 0 };
            if mcus.place()? != (self.segments.len() - 1, bits.into(), behind.predictors) {
                return Err(Declined("a row index that leads elsewhere"));
            }
        }
        Ok(next)
    }

    /// The numbers of the DC and AC tables of each component of a scan.
    fn tables(&mut self, headers: &Headers<'_>, scan: &Scan) -> Result<TableNumbers, Declined> {
        let mut tables = TableNumbers::default();
        for (numbers, component) in tables.iter_mut().zip(scan.components()) {
            let dc = headers.dc.get(component.dc).copied().flatten().ok_or(Declined("no DC table"))?;
            let ac = headers.ac.get(component.ac).copied().flatten().ok_or(Declined("no AC table"))?;
            *numbers = (self.dc.find(dc)?, self.ac.find(ac)?);
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
        let table = headers.quantisation.get(component.quantisation).copied().flatten();
        let quantisation = in_rows(&table.ok_or(Declined("no quantisation table"))?);
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

/// A zigzag-ordered table in rows. The transform multiplies modulo 2^16, as libjpeg-turbo's does.
fn in_rows(table: &[u16; 64]) -> [i16; BLOCK] {
    let mut rows = [0; BLOCK];
    for (value, row) in table.iter().zip(super::entropy::ROWS) {
        rows[usize::from(row)] = *value as i16;
    }
    rows
}
