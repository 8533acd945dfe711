//! Creation of a row index: one pass over the scan that records only places and predictors.

use super::super::fallback::Fallback;
use super::super::layout::{blocks, parts};
use super::super::markers::Headers;
use super::super::mcu::Mcus;
use super::super::row_index::{RowIndexWriter, RowStart};
use super::super::unstuff::BitPlace;
use super::super::workspace::Workspace;
use super::Sequential;
use crate::decode::geometry::Region;

impl Sequential {
    /// Appends the row index of the picture `bytes` to `out`. On an error `out` is unchanged.
    pub(in super::super) fn index(
        &mut self,
        workspace: &mut Workspace,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fallback> {
        let before = out.len();
        self.try_index(workspace, bytes, out).inspect_err(|_| out.truncate(before))
    }

    fn try_index(&mut self, workspace: &mut Workspace, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fallback> {
        let mut headers = Headers::new(bytes)?;
        let (frame, scan) = headers.next_scan()?.ok_or(Fallback("no scan"))?;
        if frame.is_progressive || scan.components().len() != frame.components().len() {
            return Err(Fallback("several scans"));
        }
        let (parts, extent) = parts(&headers, &frame, &scan, Region::all(frame.size))?;
        let tables = self.tables(&mut workspace.dc, &headers, &scan)?;
        let interval = headers.restart_interval;
        headers.at = workspace.segments.read_scan(workspace.kernels, &headers, &scan)?;
        let is_before_end = headers.is_at_end();
        if headers.next_scan()?.is_some() {
            return Err(Fallback("a scan after the last"));
        }
        let blocks = blocks(&parts, tables, &workspace.dc, &self.ac)?;
        let mut mcus = Mcus::new(workspace.kernels, &blocks, &workspace.segments, interval, (0, 0, [0; 3]));
        let mut writer = RowIndexWriter::new(bytes, &scan, out);
        let mut cursor = DataCursor { file: bytes, segment: 0, bytes: 0, at: scan.data };
        for row in 0..extent.height {
            if row > 0 {
                let (segment, remaining, predictors) = mcus.next_start()?;
                let bits = workspace.segments.segment_bytes(segment) as u64 * 8 - remaining;
                let byte = cursor.advance_to(segment, (bits / 8) as usize)?;
                writer.push(RowStart { place: BitPlace { byte, bit: (bits % 8) as u32 }, predictors })?;
            }
            mcus.skip(extent.width as usize)?;
            mcus.check()?;
        }
        // A picture that cannot be decoded as a whole must not be decoded with an index either, so it gets none.
        mcus.trailing_data()?.check(is_before_end)?;
        writer.finish();
        Ok(())
    }
}

/// Cursor in a file's entropy-coded data, stuffing and restart markers included.
struct DataCursor<'a> {
    file: &'a [u8],
    /// The current segment, and the number of its bytes before the cursor.
    segment: usize,
    bytes: usize,
    /// Offset in the file.
    at: usize,
}

impl DataCursor<'_> {
    /// Advances to byte `bytes` of segment `segment`, and returns its offset in the file.
    fn advance_to(&mut self, segment: usize, bytes: usize) -> Result<usize, Fallback> {
        while (self.segment, self.bytes) < (segment, bytes) {
            match self.file.get(self.at..) {
                Some([0xff, 0xd0..=0xd7, ..]) => {
                    (self.segment, self.bytes) = (self.segment + 1, 0);
                    self.at += 2;
                }
                Some([0xff, 0, ..]) => (self.bytes, self.at) = (self.bytes + 1, self.at + 2),
                Some([byte, ..]) if *byte != 0xff => (self.bytes, self.at) = (self.bytes + 1, self.at + 1),
                _ => return Err(Fallback("a row after the scan")),
            }
        }
        Ok(self.at)
    }
}
