//! Progressive pictures. Each scan brings a part of the coefficients, so all coefficients that the region needs are
//! kept until the last scan is read, and are transformed then.
//!
//! Rows below the region are not read in any scan. Of the rows above and the columns next to it, only the histories are
//! kept that later scans need, see [`band`](super::band).
//!
//! A picture that lacks bits of some coefficient, or has them in another order than the standard's, is left to
//! libjpeg-turbo, which guesses what is missing ("block smoothing").

#![forbid(unsafe_code)]

use super::band::{Band, BandPosition, BandRun};
use super::fallback::Fallback;
use super::frame::Frame;
use super::huffman::{BandTable, TableCache};
use super::kernel::{GROUP, Kernels};
use super::markers::{Headers, Scan, Spectrum};
use super::mcu::{Intervals, TrailingData, check};
use super::order::BLOCK;
use super::pixel_writer::PixelWriter;
use super::scan_limit::scans_max;
use super::spectrum::{Coefficients, Coverage};
use super::stages::JpegStage;
use super::unstuff::Part;
use super::workspace::Workspace;
use crate::decode::geometry::Region;

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
        let mut quantisation = [None; 3];
        let mut scans_remaining = scans_max(frame.size);
        let mut next = Some(scan);
        while let Some(scan) = next {
            scans_remaining = scans_remaining.checked_sub(1).ok_or(Fallback("too many scans"))?;
            coverage.add(&scan)?;
            for part in scan.components() {
                let table = &mut quantisation[part.component];
                if table.is_none() {
                    // The table of a component's first scan is used.
                    let slot = frame.components()[part.component].quantisation;
                    *table = Some(headers.quantisation_by_pairs(slot)?);
                }
            }
            let interval = headers.restart_interval;
            let part = Part { start: scan.data, restarts: 0, end: None };
            let end = workspace.segments.read(workspace.kernels, headers.bytes(), &part, interval > 0)?;
            let trailing = match scan.spectrum.first {
                _ if workspace.last_stage < JpegStage::Coefficients => TrailingData::Nothing,
                0 => self.dc_scan(workspace, headers, frame, &scan)?,
                _ => self.ac_scan(workspace, headers, &scan)?,
            };
            headers.resume(end);
            next = headers.next_scan()?.map(|(_, scan)| scan);
            if region == Region::all(frame.decoded) {
                trailing.check(headers.ends_at(end))?;
            }
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
            offsets.clear();
            offsets.extend((0..columns.len() as u32).map(|block| block * BLOCK as u32));
            // Filled up to whole groups with the last block.
            let last = offsets.last().copied().unwrap_or(0);
            offsets.resize(offsets.len().next_multiple_of(GROUP), last);
            let quantisation = quantisation[i].ok_or(Fallback("a component in no scan"))?;
            let ordered = &mut workspace.coefficients;
            ordered.fit(columns.len() * BLOCK);
            for row in rows {
                workspace.kernels.order(coefficients.blocks(row), ordered.as_chunks_mut().0);
                plane.fill(workspace.kernels, row, ordered, offsets, &quantisation, component)?;
            }
        }
        writer.write_up_to(region.y + region.h, &workspace.planes, &mut workspace.scratch);
        Ok(())
    }

    /// Reads DC coefficients, or one more bit of them, in the region's rows. Returns the kind of data after them.
    fn dc_scan(
        &mut self,
        workspace: &mut Workspace,
        headers: &Headers<'_>,
        frame: &Frame,
        scan: &Scan,
    ) -> Result<TrailingData, Fallback> {
        let Spectrum { high, low, .. } = scan.spectrum;
        let is_single = scan.components().len() == 1;
        let mut parts = [None; 3];
        for (part, entry) in parts.iter_mut().zip(scan.components()) {
            let component = &frame.components()[entry.component];
            let table = match high {
                0 => {
                    let segment = headers.dc.get(entry.dc).copied().flatten().ok_or(Fallback("no DC table"))?;
                    Some(workspace.dc.find(segment)?)
                }
                _ => None,
            };
            let (h, v) = if is_single { (1, 1) } else { (component.h, component.v) };
            *part = Some((entry.component, h, v, table));
        }
        // As in libjpeg: at most ten blocks per MCU.
        if parts.iter().flatten().map(|(_, h, v, _)| h * v).sum::<u32>() > 10 {
            return Err(Fallback("an MCU of too many blocks"));
        }
        let rows = parts.iter().flatten().map(|(i, _, v, _)| self.coefficients[*i].rows().end.div_ceil(*v)).max();
        let width = match (is_single, scan.components()) {
            (true, [only]) => frame.components()[only.component].blocks().w,
            _ => frame.size.w.div_ceil(8 * frame.h_max),
        };
        let (mut intervals, mut bits) = Intervals::new(&workspace.segments, headers.restart_interval, 0);
        let mut predictors = [0_i32; 3];
        for row in 0..rows.unwrap_or(0) {
            let mut column = 0;
            while column < width {
                let (run, next) = intervals.run((width - column) as usize, &bits)?;
                if let Some(next) = next {
                    bits = next;
                    predictors = [0; 3];
                }
                for mcu in column..column + run as u32 {
                    for (i, h, v, table) in parts.iter().flatten() {
                        for block in 0..h * v {
                            let (x, y) = (mcu * h + block % h, row * v + block / h);
                            let value = match table {
                                Some(table) => {
                                    let difference = i32::from(bits.difference(workspace.dc.get(*table))?);
                                    let predictor = &mut predictors[*i];
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
                            self.coefficients[*i].add_dc(x, y, value as i16);
                        }
                    }
                }
                column += run as u32;
            }
            check(&bits)?;
        }
        intervals.trailing_data(&bits)
    }

    /// Reads a band of one component. Returns the kind of data after it.
    fn ac_scan(
        &mut self,
        workspace: &mut Workspace,
        headers: &Headers<'_>,
        scan: &Scan,
    ) -> Result<TrailingData, Fallback> {
        let [entry] = scan.components() else { return Err(Fallback("an AC scan of several components")) };
        let segment = headers.ac.get(entry.ac).copied().flatten().ok_or(Fallback("no AC table"))?;
        let table = self.ac.find(segment)?;
        let table = self.ac.get(table);
        let band = Band::new(scan.spectrum);
        let kernels: Kernels = workspace.kernels;
        let coefficients = &mut self.coefficients[entry.component];
        let (mut intervals, bits) = Intervals::new(&workspace.segments, headers.restart_interval, 0);
        let mut at = BandPosition { bits, eob_run: 0 };
        for row in 0..coefficients.rows().end {
            let mut column = 0;
            while column < coefficients.width() {
                let length = coefficients.run(row, column);
                let (run, next) = intervals.run(length, &at.bits)?;
                if let Some(bits) = next {
                    at = BandPosition { bits, eob_run: 0 };
                }
                let (history, blocks) = coefficients.part(row, column, run);
                let is_refining = scan.spectrum.high > 0;
                kernels.band(BandRun { table, band, is_refining, at: &mut at, history, blocks })?;
                column += run as u32;
            }
            check(&at.bits)?;
        }
        intervals.trailing_data(&at.bits)
    }
}
