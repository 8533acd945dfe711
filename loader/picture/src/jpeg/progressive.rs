//! Progressive pictures. Each scan brings a part of the coefficients, so all coefficients that the region needs are
//! kept until the last scan is read, and are transformed then.
//!
//! Rows below the region are not read in any scan. Of the rows above and the columns next to it, only the histories are
//! kept that later scans need, see [`band`](super::band).
//!
//! A picture that lacks bits of some coefficient, or has them in a different order than the standard's, is left to
//! libjpeg-turbo, which guesses the missing bits ("block smoothing") and decodes the whole picture for that.

use std::ops::Range;

use super::band::{Band, BandPosition, BandRun};
use super::entropy::Bits;
use super::fallback::Fallback;
use super::frame::Component;
use super::huffman::{BandTable, TableCache};
use super::kernel::BlockRow;
use super::markers::{Headers, Scan, Spectrum};
use super::mcu::{Intervals, check};
use super::mcu_blocks::{ComponentPart, Extent, parts};
use super::order::BLOCK;
use super::pixel_writer::PixelWriter;
use super::progression::Coverage;
use super::scan_limit::scans_max;
use super::stages::JpegStage;
use super::workspace::{Workspace, set_offsets};
use crate::geometry::Region;
use crate::kept::fit;

/// Memory that one thread reuses for progressive pictures.
#[derive(Default)]
pub(super) struct Progressive {
    ac: TableCache<BandTable>,
    /// By the frame's components.
    coefficients: [Coefficients; 3],
}

impl Progressive {
    /// Decodes exactly the region of `writer`. The headers are read up to the first `scan`.
    pub(super) fn decode(
        &mut self,
        workspace: &mut Workspace,
        headers: &mut Headers<'_>,
        scan: Scan,
        mut writer: PixelWriter<'_>,
    ) -> Result<(), Fallback> {
        let (frame, region) = (writer.frame, writer.region);
        for (coefficients, component) in self.coefficients.iter_mut().zip(frame.components()) {
            coefficients.start(component, region);
        }
        let mut coverage = Coverage::default();
        let mut quantisation = [[0; BLOCK]; 3];
        let mut scans_remaining = scans_max(frame.size);
        let mut next = Some(scan);
        while let Some(scan) = next {
            scans_remaining = scans_remaining.checked_sub(1).ok_or(Fallback("too many scans"))?;
            coverage.add(&scan)?;
            let (parts, extent) = parts(headers, frame, &scan, region)?;
            if scan.spectrum.first == 0 && scan.spectrum.high == 0 {
                // The tables at a component's first scan are used.
                parts.iter().flatten().for_each(|part| quantisation[part.index] = part.quantisation);
            }
            let is_before_end = workspace.segments.read_scan(workspace.kernels, headers, &scan)?;
            if workspace.last_stage >= JpegStage::Coefficients {
                let (intervals, bits) = match scan.spectrum.first {
                    0 => self.dc_scan(workspace, headers, &scan, &parts, &extent)?,
                    _ => self.ac_scan(workspace, headers, &scan)?,
                };
                if region == Region::all(frame.decoded) {
                    intervals.check_end(&bits, is_before_end)?;
                }
            }
            next = headers.next_scan()?.map(|(_, scan)| scan);
        }
        coverage.check(frame.components().len())?;
        if workspace.last_stage < JpegStage::Samples {
            return Ok(());
        }
        for (i, component) in frame.components().iter().enumerate() {
            let coefficients = &mut self.coefficients[i];
            let (columns, rows) = component.needed(region);
            let plane = &mut workspace.planes[i];
            let (top, rows_of_samples) = (rows.start * component.block, rows.len() * component.block as usize);
            plane.start(component, &columns, i64::from(top), rows_of_samples);
            let offsets = &mut workspace.offsets[i];
            set_offsets(offsets, 0..columns.len() as u32);
            let ordered = &mut workspace.coefficients;
            ordered.fit(columns.len() * BLOCK);
            for row in rows {
                workspace.kernels.order(coefficients.blocks(row), ordered.as_chunks_mut().0);
                let blocks = BlockRow { coefficients: ordered, offsets, quantisation: &quantisation[i] };
                plane.fill(workspace.kernels, row, blocks, component)?;
            }
        }
        writer.write_up_to(region.y + region.h, &workspace.planes, &mut workspace.scratch);
        Ok(())
    }

    /// Reads DC coefficients, or one more bit of them, in the region's rows. Returns the position after them.
    fn dc_scan<'a>(
        &mut self,
        workspace: &'a mut Workspace,
        headers: &Headers<'_>,
        scan: &Scan,
        parts: &[Option<ComponentPart>; 3],
        extent: &Extent,
    ) -> Result<(Intervals<'a>, Bits<'a>), Fallback> {
        let Spectrum { high, low, .. } = scan.spectrum;
        let mut tables = [None; 3];
        for (table, entry) in tables.iter_mut().zip(scan.components()).filter(|_| high == 0) {
            *table = Some(workspace.dc.find(headers.dc_table(entry)?)?);
        }
        // As in libjpeg: at most ten blocks per MCU.
        if parts.iter().flatten().map(|part| part.h * part.v).sum::<u32>() > 10 {
            return Err(Fallback("an MCU of too many blocks"));
        }
        let (mut intervals, mut bits) = Intervals::new(&workspace.segments, headers.restart_interval, 0);
        let mut predictors = [0_i32; 3];
        for row in 0..extent.rows.end {
            let mut column = 0;
            while column < extent.width {
                let (run, next) = intervals.run((extent.width - column) as usize, &bits)?;
                if let Some(next) = next {
                    bits = next;
                    predictors = [0; 3];
                }
                for mcu in column..column + run as u32 {
                    for (ComponentPart { index, h, v, .. }, table) in parts.iter().flatten().zip(tables) {
                        for block in 0..h * v {
                            let (x, y) = (mcu * h + block % h, row * v + block / h);
                            let value = match table {
                                Some(table) => {
                                    let difference = i32::from(bits.difference(workspace.dc.get(table))?);
                                    let predictor = &mut predictors[*index];
                                    // libjpeg-turbo rejects values that do not fit.
                                    *predictor =
                                        predictor.checked_add(difference).ok_or(Fallback("a sum too large"))?;
                                    *predictor << low
                                }
                                None => {
                                    bits.fill();
                                    (bits.take(1) as i32) << low
                                }
                            };
                            self.coefficients[*index].add_dc(x, y, value as i16);
                        }
                    }
                }
                column += run as u32;
            }
            check(&bits)?;
        }
        Ok((intervals, bits))
    }

    /// Reads a band of one component. Returns the position after it.
    fn ac_scan<'a>(
        &mut self,
        workspace: &'a mut Workspace,
        headers: &Headers<'_>,
        scan: &Scan,
    ) -> Result<(Intervals<'a>, Bits<'a>), Fallback> {
        let [entry] = scan.components() else { return Err(Fallback("an AC scan of several components")) };
        let table = self.ac.find(headers.ac_table(entry)?)?;
        let table = self.ac.get(table);
        let band = Band::new(scan.spectrum);
        let coefficients = &mut self.coefficients[entry.component];
        let (mut intervals, bits) = Intervals::new(&workspace.segments, headers.restart_interval, 0);
        let mut at = BandPosition { bits, eob_run: 0 };
        for row in 0..coefficients.rows.end {
            let mut column = 0;
            while column < coefficients.width {
                let length = coefficients.run(row, column);
                let (run, next) = intervals.run(length, &at.bits)?;
                if let Some(bits) = next {
                    at = BandPosition { bits, eob_run: 0 };
                }
                let (history, blocks) = coefficients.part(row, column, run);
                let is_refining = scan.spectrum.high > 0;
                workspace.kernels.band(BandRun { table, band, is_refining, at: &mut at, history, blocks })?;
                column += run as u32;
            }
            check(&at.bits)?;
        }
        Ok((intervals, at.bits))
    }
}

/// A component's coefficients in the region, and the histories of all blocks that are read.
///
/// Blocks are stored from the last coefficient to the first, see [`band`](super::band).
#[derive(Default)]
struct Coefficients {
    /// The region's blocks, row by row.
    blocks: Vec<[i16; BLOCK]>,
    /// Histories of all blocks down to the region's last row, row by row.
    history: Vec<u64>,
    /// Blocks in a row of the component.
    width: u32,
    /// The blocks that the region needs.
    columns: Range<u32>,
    rows: Range<u32>,
}

const DC: usize = BLOCK - 1;

impl Coefficients {
    /// Resets all coefficients of the blocks that `region` needs to zero.
    fn start(&mut self, component: &Component, region: Region) {
        (self.columns, self.rows) = component.needed(region);
        self.width = component.blocks().w;
        let kept = self.columns.len() * self.rows.len();
        fit(&mut self.blocks, kept, [0; BLOCK]);
        self.blocks[..kept].fill([0; BLOCK]);
        let read = self.width as usize * self.rows.end as usize;
        fit(&mut self.history, read, 0);
        self.history[..read].fill(0);
    }

    /// Returns the number of blocks from this one on, in its row, that are either all kept or all not kept.
    fn run(&self, row: u32, column: u32) -> usize {
        let end = match self.rows.contains(&row) {
            true if column < self.columns.start => self.columns.start,
            true if column < self.columns.end => self.columns.end,
            _ => self.width,
        };
        (end - column) as usize
    }

    /// Returns the histories of the blocks of such a run, and the blocks if they are kept.
    fn part(&mut self, row: u32, column: u32, run: usize) -> (&mut [u64], Option<&mut [[i16; BLOCK]]>) {
        let position = row as usize * self.width as usize + column as usize;
        let blocks = self.position(column, row).map(|position| &mut self.blocks[position..position + run]);
        (&mut self.history[position..position + run], blocks)
    }

    /// Adds bits to the DC coefficient of a block, if it is kept.
    #[inline(always)]
    fn add_dc(&mut self, column: u32, row: u32, value: i16) {
        if let Some(position) = self.position(column, row) {
            // These bits were zero before.
            self.blocks[position][DC] |= value;
        }
    }

    fn blocks(&self, row: u32) -> &[[i16; BLOCK]] {
        let width = self.columns.len();
        &self.blocks[(row - self.rows.start) as usize * width..][..width]
    }

    #[inline(always)]
    fn position(&self, column: u32, row: u32) -> Option<usize> {
        let is_kept = self.columns.contains(&column) && self.rows.contains(&row);
        let x = || (column - self.columns.start) as usize;
        is_kept.then(|| (row - self.rows.start) as usize * self.columns.len() + x())
    }
}
