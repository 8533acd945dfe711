//! Creation of row indexes: one pass over the scan that records only positions and predictors.

use super::fallback::Fallback;
use super::markers::Headers;
use super::mcu::Mcus;
use super::mcu_blocks::{McuBlocks, parts};
use super::row_index::{RowIndexWriter, RowStart};
use super::unstuff::BitPosition;
use super::workspace::Workspace;
use crate::geometry::Region;

/// Maker of row indexes for [`Decoder::decode_scaled`](super::Decoder::decode_scaled).
#[derive(Default)]
pub struct RowIndexer {
    workspace: Workspace,
}

impl RowIndexer {
    /// Appends the row index of the JPEG file `bytes` to `out`: some 6 bytes for each row of MCUs. Returns false, with
    /// `out` unchanged, for bytes that cannot have an index: everything except a flawless picture in one sequential
    /// scan.
    pub fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let made = self.write(bytes, out);
        made.inspect_err(|reason| {
            log::trace!("no row index for a value: {reason}");
            out.truncate(before);
        })
        .is_ok()
    }

    fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fallback> {
        let Workspace { kernels, segments, dc, ac, .. } = &mut self.workspace;
        let mut headers = Headers::new(bytes)?;
        let (frame, scan) = headers.next_scan()?.ok_or(Fallback("no scan"))?;
        if frame.is_progressive || scan.components().len() != frame.components().len() {
            return Err(Fallback("several scans"));
        }
        let (parts, extent) = parts(&headers, &frame, &scan, Region::all(frame.size))?;
        let blocks = McuBlocks::new(&headers, &scan, &parts, dc, ac)?;
        let interval = headers.restart_interval;
        let is_before_end = segments.read_scan(*kernels, &mut headers, &scan)?;
        if headers.next_scan()?.is_some() {
            return Err(Fallback("a scan after the last"));
        }
        let mut mcus = Mcus::new(*kernels, &blocks, segments, interval, (0, 0, [0; 3]));
        let mut writer = RowIndexWriter::new(bytes, &scan, out);
        let mut cursor = DataCursor { file: bytes, segment: 0, bytes: 0, at: scan.data };
        for row in 0..extent.height {
            if row > 0 {
                let (segment, remaining, predictors) = mcus.next_start()?;
                let bits = segments.segment_bytes(segment) as u64 * 8 - remaining;
                let byte = cursor.advance_to(segment, (bits / 8) as usize)?;
                writer.push(RowStart { position: BitPosition { byte, bit: (bits % 8) as u32 }, predictors })?;
            }
            mcus.skip(extent.width as usize)?;
            mcus.check()?;
        }
        // A picture that cannot be decoded as a whole must not be decoded with an index either, so it gets none.
        mcus.check_end(is_before_end)?;
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
