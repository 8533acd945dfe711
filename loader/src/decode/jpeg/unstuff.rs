//! Entropy-coded data without its stuffing: the zeros behind FF go before decoding, so that the decoder's loop does not
//! look for them.

use super::Declined;
use super::entropy::{BYTES_AFTER, Bits};
use super::kernel::{Kernels, MARGIN};
use crate::decode::pixels::fit;

/// A scan's data, cut at its restart markers.
#[derive(Default)]
pub(super) struct Segments {
    bytes: Vec<u8>,
    /// Where each segment ends in `bytes`.
    ends: Vec<usize>,
}

impl Segments {
    /// Takes the data that starts at `start` of `file`, and says where the marker behind it stands. Restart markers
    /// belong to the data if `has_restarts`, and must count up.
    pub(super) fn read(
        &mut self,
        kernels: Kernels,
        file: &[u8],
        start: usize,
        has_restarts: bool,
    ) -> Result<usize, Declined> {
        let data = &file[start..];
        fit(&mut self.bytes, data.len() + MARGIN + BYTES_AFTER);
        self.ends.clear();
        let (mut at, mut end) = (0, 0);
        loop {
            let (read, written) = kernels.unstuff(&data[at..], &mut self.bytes[end..]);
            (at, end) = (at + read, end + written);
            self.ends.push(end);
            let expected = 0xd0 + ((self.ends.len() - 1) & 7) as u8;
            match data[at..] {
                [0xff, code, ..] if has_restarts && code == expected => at += 2,
                [0xff, 0xd0..=0xd7, ..] => return Err(Declined("a restart marker out of order")),
                [0xff, 0xff, ..] => return Err(Declined("filled up with FF")),
                [0xff, _, ..] => return Ok(start + at),
                _ => return Err(Declined("a scan without an end")),
            }
        }
    }

    /// The bits of a segment.
    pub(super) fn bits(&self, number: usize) -> Option<Bits<'_>> {
        let end = *self.ends.get(number)?;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        Some(Bits::new(&self.bytes[start..], end - start))
    }
}
