//! The MCUs of one scan in order, across restart markers: decoded if the region needs them, skipped otherwise.

use super::entropy::Bits;
use super::fallback::Fallback;
use super::kernel::Kernels;
use super::mcu_blocks::{McuBlocks, Position};
use super::order::BLOCK;
use super::progression::FEW_RESTARTS;
use super::unstuff::Segments;

const TOO_SHORT: Fallback = Fallback("entropy-coded data that ends too early");
const UNREAD: Fallback = Fallback("unread bytes before a marker");

/// Intervals of a scan's MCUs between restart markers.
pub(super) struct Intervals<'a> {
    segments: &'a Segments,
    /// The current segment.
    segment: usize,
    /// MCUs per segment, and those that remain in the current one; unlimited without restart markers.
    interval: usize,
    remaining: usize,
}

impl<'a> Intervals<'a> {
    /// Returns the intervals from MCU `first` on, at which `segments` start, and the bits there. An interval of 0 means
    /// no restart markers.
    pub(super) fn new(segments: &'a Segments, interval: u32, first: usize) -> (Self, Bits<'a>) {
        let interval = if interval == 0 { usize::MAX } else { interval as usize };
        let bits = segments.bits(0).unwrap_or(Bits::new(&[], 0, 0));
        (Self { segments, segment: 0, interval, remaining: interval - first % interval }, bits)
    }

    /// Returns the number of the next `count` MCUs that can be read without a restart marker, and the bits after the
    /// restart marker if one comes first. `bits` are those read so far.
    pub(super) fn run(&mut self, count: usize, bits: &Bits<'_>) -> Result<(usize, Option<Bits<'a>>), Fallback> {
        let mut next = None;
        if self.remaining == 0 {
            if Self::has_bytes(bits)? {
                return Err(UNREAD);
            }
            self.segment += 1;
            next = Some(self.segments.bits(self.segment).ok_or(FEW_RESTARTS)?);
            self.remaining = self.interval;
        }
        let run = count.min(self.remaining);
        self.remaining -= run;
        Ok((run, next))
    }

    /// Returns an error if a scan must not end after `bits`. No encoder writes data that is not read; if codes are
    /// damaged, data may remain. libjpeg warns of it. Only bytes directly before the end of the picture are harmless,
    /// bytes before tables or a comment are not.
    pub(super) fn check_end(&self, bits: &Bits<'_>, is_before_end: bool) -> Result<(), Fallback> {
        if self.segments.bits(self.segment + 1).is_some() {
            return Err(Fallback("a restart marker after the last MCU"));
        }
        if Self::has_bytes(bits)? && !is_before_end { Err(UNREAD) } else { Ok(()) }
    }

    fn has_bytes(bits: &Bits<'_>) -> Result<bool, Fallback> {
        Ok(bits.remaining().ok_or(TOO_SHORT)? >= 8)
    }
}

/// Returns an error if more bits were read than the segment has.
pub(super) fn check(bits: &Bits<'_>) -> Result<(), Fallback> {
    bits.remaining().map(drop).ok_or(TOO_SHORT)
}

/// Reader of a scan's MCUs.
pub(super) struct Mcus<'a> {
    kernels: Kernels,
    blocks: &'a McuBlocks<'a>,
    intervals: Intervals<'a>,
    at: Position<'a>,
}

impl<'a> Mcus<'a> {
    /// Returns a reader at MCU `first` of the scan, at which `segments` start, after `bit` bits and with these
    /// predictors. An interval of 0 means no restart markers.
    pub(super) fn new(
        kernels: Kernels,
        blocks: &'a McuBlocks<'a>,
        segments: &'a Segments,
        interval: u32,
        (first, bit, predictors): (usize, u32, [i16; 3]),
    ) -> Self {
        let (intervals, mut bits) = Intervals::new(segments, interval, first);
        bits.fill();
        bits.consume(bit);
        Self { kernels, blocks, intervals, at: Position { bits, predictors } }
    }

    /// Returns the start of the next MCU, after a restart marker if one precedes it: the segment, the remaining bits of
    /// the segment, and the predictors.
    pub(super) fn next_start(&mut self) -> Result<(usize, u64, [i16; 3]), Fallback> {
        // Reads no MCU.
        self.run(0)?;
        let remaining = self.at.bits.remaining().ok_or(TOO_SHORT)?;
        Ok((self.intervals.segment, remaining, self.at.predictors))
    }

    /// Decodes the next `count` MCUs, see [`McuBlocks::decode`].
    pub(super) fn decode(&mut self, mut count: usize, mut coefficients: &mut [i16]) -> Result<(), Fallback> {
        while count > 0 {
            let run = self.run(count)?;
            self.kernels.decode(self.blocks, &mut self.at, run, coefficients)?;
            coefficients = &mut coefficients[run * self.blocks.len() * BLOCK..];
            count -= run;
        }
        Ok(())
    }

    pub(super) fn skip(&mut self, mut count: usize) -> Result<(), Fallback> {
        while count > 0 {
            let run = self.run(count)?;
            self.kernels.skip(self.blocks, &mut self.at, run)?;
            count -= run;
        }
        Ok(())
    }

    /// Returns the number of the next `count` MCUs that can be read without a restart marker, after one that may come
    /// first.
    fn run(&mut self, count: usize) -> Result<usize, Fallback> {
        let (run, next) = self.intervals.run(count, &self.at.bits)?;
        if let Some(bits) = next {
            self.at = Position { bits, predictors: [0; 3] };
        }
        Ok(run)
    }

    /// Returns an error if the scan must not end after the last MCU that was read, see [`Intervals::check_end`].
    pub(super) fn check_end(&self, is_before_end: bool) -> Result<(), Fallback> {
        self.intervals.check_end(&self.at.bits, is_before_end)
    }

    /// Returns an error if more data was decoded than there is.
    pub(super) fn check(&self) -> Result<(), Fallback> {
        check(&self.at.bits)
    }
}
