//! Baseline and extended sequential pictures: from the MCUs that a region needs to its pixels.
//!
//! In a picture with one scan, each row of MCUs is decoded, transformed and converted to pixels before the next, so
//! that its data stays in the first cache levels. With several scans, the planes of all components are filled first.
//! Rows above the region and columns next to it are skipped, rows below are not read. With a row index ([`source`]),
//! only the columns left of the region are skipped in each row, and nothing else is decoded.

use super::entropy::SLACK;
use super::fallback::Fallback;
use super::frame::Frame;
use super::kernel::BlockRow;
use super::markers::{Headers, Scan};
use super::mcu::Mcus;
use super::mcu_blocks::{McuBlocks, parts};
use super::order::BLOCK;
use super::pixel_writer::PixelWriter;
use super::progression::Coverage;
use super::row_index::RowIndexReader;
use super::stages::JpegStage;
use super::workspace::{Workspace, set_offsets};
use crate::geometry::Region;
use source::{IndexedRows, RowSource, ScanRows};

mod source;

/// Decodes exactly the region of `writer`; with a row index, from the start of each row of MCUs that it needs. The
/// headers are read up to the first `scan`.
pub(super) fn decode(
    workspace: &mut Workspace,
    headers: &mut Headers<'_>,
    scan: Scan,
    index: Option<&[u8]>,
    mut writer: PixelWriter<'_>,
) -> Result<(), Fallback> {
    let (frame, region) = (writer.frame, writer.region);
    if scan.components().len() == frame.components().len() {
        decode_scan(workspace, headers, frame, &scan, index, region, Some(&mut writer))?;
        return Ok(());
    }
    if index.is_some() {
        return Err(Fallback("a row index for several scans"));
    }
    let mut scans = Some(scan);
    let mut coverage = Coverage::default();
    while let Some(scan) = scans {
        coverage.add(&scan)?;
        scans = decode_scan(workspace, headers, frame, &scan, None, region, None)?;
    }
    coverage.check(frame.components().len())?;
    writer.write_up_to(region.y + region.h, &workspace.planes, &mut workspace.scratch);
    Ok(())
}

/// Decodes a scan into the planes and, if there is a `writer`, row by row to pixels. Returns the next scan. With an
/// index the scan is not read to its end, and `None` is returned.
fn decode_scan(
    workspace: &mut Workspace,
    headers: &mut Headers<'_>,
    frame: &Frame,
    scan: &Scan,
    index: Option<&[u8]>,
    region: Region,
    mut writer: Option<&mut PixelWriter<'_>>,
) -> Result<Option<Scan>, Fallback> {
    let is_rolling = writer.is_some();
    let (parts, extent) = parts(headers, frame, scan, region)?;
    let (kernels, file, interval) = (workspace.kernels, headers.bytes, headers.restart_interval);
    let blocks = McuBlocks::new(headers, scan, &parts, &mut workspace.dc, &mut workspace.ac)?;
    let (mut next, mut is_before_end) = (None, false);
    let mut source = match index {
        Some(stored) => {
            let mut index = RowIndexReader::new(stored, file, scan)?;
            let row = extent.rows.start;
            let start = index.skip(row)?;
            let (segments, blocks, extent) = (&mut workspace.segments, &blocks, &extent);
            RowSource::Index(IndexedRows { kernels, file, segments, blocks, interval, extent, index, row, start })
        }
        None => {
            is_before_end = workspace.segments.read_scan(kernels, headers, scan)?;
            // A picture in one scan must end after it.
            next = headers.next_scan()?.map(|(_, scan)| scan);
            if is_rolling && next.is_some() {
                return Err(Fallback("a scan after the last"));
            }
            let mcus = Mcus::new(kernels, &blocks, &workspace.segments, interval, (0, 0, [0; 3]));
            RowSource::Scan(ScanRows::new(mcus, &extent))
        }
    };
    if workspace.last_stage < JpegStage::Coefficients {
        source.read()?;
        return Ok(next);
    }
    let values = extent.columns.len() * blocks.len() * BLOCK + SLACK;
    workspace.coefficients.fit(values);
    for part in parts.iter().flatten() {
        let component = &frame.components()[part.index];
        let (top, rows) = if is_rolling {
            // The last row of the MCU row above, and one row of MCUs.
            (i64::from(extent.rows.start * part.v * component.block) - 1, 1 + part.v * component.block)
        } else {
            (i64::from(part.rows.start * component.block), part.rows.len() as u32 * component.block)
        };
        workspace.planes[part.index].start(component, &part.columns, top, rows as usize);
        let position = |column| {
            let mcu = column / part.h - extent.columns.start;
            mcu * blocks.len() as u32 + part.first + column % part.h
        };
        set_offsets(&mut workspace.offsets[part.index], part.columns.clone().map(position));
    }
    let delay = u32::from(frame.components().iter().any(|c| c.upsampling.is_smooth_down()));
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
                if part.rows.contains(&block_row) && workspace.last_stage >= JpegStage::Samples {
                    let skipped = (down * part.h) as usize * BLOCK;
                    let blocks = BlockRow {
                        coefficients: &workspace.coefficients[skipped..],
                        offsets: &workspace.offsets[part.index],
                        quantisation: &part.quantisation,
                    };
                    plane.fill(kernels, block_row, blocks, component)?;
                }
            }
        }
        if let Some(writer) = &mut writer {
            let is_last = row + 1 == extent.rows.end;
            let ready = (row + 1) * frame.v_max * frame.block - delay;
            writer.write_up_to(if is_last { u32::MAX } else { ready }, &workspace.planes, &mut workspace.scratch);
        }
    }
    if region == Region::all(frame.decoded) {
        source.check_end(is_before_end)?;
    }
    Ok(next)
}
