//! Removal of the stuffing in entropy-coded data, the zeros after FF, so that the decoder's loop need not handle them.

use super::entropy::{BYTES_AFTER, Bits};
use super::fallback::Fallback;
use super::kernel::{Kernels, MARGIN};
use super::markers::{Headers, Scan};
use crate::kept::fit;

/// Data of a scan, or of a part of it, split at its restart markers.
#[derive(Default)]
pub(super) struct Segments {
    bytes: Vec<u8>,
    /// End of each segment in `bytes`.
    ends: Vec<usize>,
    /// Bits of the last segment's last byte that are after the part, 0 to 7.
    spare: u32,
}

/// Position in a file's entropy-coded data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BitPosition {
    /// Offset of a byte in the file that is not stuffing.
    pub byte: usize,
    /// Bit in it, 0 to 7 from the highest on.
    pub bit: u32,
}

/// Part of a scan's data.
pub(super) struct ScanPart {
    /// Start in the file.
    pub start: usize,
    /// Restart markers before it.
    pub restarts: usize,
    /// End in the file; `None` is the marker after the scan, or the end of the file.
    pub end: Option<BitPosition>,
}

impl Segments {
    /// Reads all data of `scan`, and moves `headers` to the marker after it. Returns true if the image ends there.
    pub(super) fn read_scan(
        &mut self,
        kernels: Kernels,
        headers: &mut Headers<'_>,
        scan: &Scan,
    ) -> Result<bool, Fallback> {
        let whole = ScanPart { start: scan.data, restarts: 0, end: None };
        headers.at = self.read(kernels, headers.bytes, &whole, headers.restart_interval > 0)?;
        Ok(headers.is_at_end())
    }

    /// Reads `part` of the data in `file`, and returns the offset at which it stopped: the offset of the marker after
    /// the scan if no end is given, or the end of a file without one. Restart markers belong to the data if
    /// `has_restarts`, and must count up.
    pub(super) fn read(
        &mut self,
        kernels: Kernels,
        file: &[u8],
        part: &ScanPart,
        has_restarts: bool,
    ) -> Result<usize, Fallback> {
        let start = part.start;
        let data = file.get(start..part.end.map_or(file.len(), |end| end.byte));
        let data = data.ok_or(Fallback("a part of a scan that is not there"))?;
        // The last byte may be an additional one with bits that do not belong to the part.
        fit(&mut self.bytes, data.len() + 1 + MARGIN + BYTES_AFTER, 0);
        self.ends.clear();
        self.spare = 0;
        let (mut at, mut end) = (0, 0);
        loop {
            let (read, written) = kernels.unstuff(&data[at..], &mut self.bytes[end..]);
            (at, end) = (at + read, end + written);
            self.ends.push(end);
            let expected = 0xd0 + ((part.restarts + self.ends.len() - 1) & 7) as u8;
            match (&data[at..], part.end) {
                ([0xff, code, ..], _) if has_restarts && *code == expected => at += 2,
                ([0xff, 0xd0..=0xd7, ..], _) => return Err(Fallback("a restart marker out of order")),
                ([0xff, 0xff, ..], _) => return Err(Fallback("filled up with FF")),
                ([0xff, _, ..], None) => return Ok(start + at),
                ([], Some(BitPosition { bit: 0, .. })) => return Ok(start + at),
                ([], Some(position)) => {
                    self.bytes[end] = *file.get(position.byte).ok_or(Fallback("a scan without an end"))?;
                    if let Some(last) = self.ends.last_mut() {
                        *last += 1;
                    }
                    self.spare = 8 - position.bit;
                    return Ok(start + at);
                }
                ([] | [0xff], None) => {
                    // Zeros at the end of the file are no data: files that are cut may be filled up with them.
                    let last = self.ends.len() - 1;
                    let zeros = self.bytes[self.start(last)..end].iter().rev().take_while(|byte| **byte == 0).count();
                    self.ends[last] -= zeros;
                    return Ok(file.len());
                }
                _ => return Err(Fallback("a scan without an end")),
            }
        }
    }

    /// Returns the bytes of a segment, without the stuffing.
    pub(super) fn segment_bytes(&self, number: usize) -> usize {
        self.ends[number] - self.start(number)
    }

    fn start(&self, number: usize) -> usize {
        if number == 0 { 0 } else { self.ends[number - 1] }
    }

    pub(super) fn bits(&self, number: usize) -> Option<Bits<'_>> {
        let end = *self.ends.get(number)?;
        let start = self.start(number);
        let spare = if number + 1 == self.ends.len() { self.spare } else { 0 };
        Some(Bits::new(&self.bytes[start..], end - start, spare))
    }
}
