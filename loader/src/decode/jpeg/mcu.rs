//! The MCUs of one scan, in order: decoded where they are wanted, read over where not, across restart markers.

#![forbid(unsafe_code)]

use super::entropy::Bits;
use super::fallback::Fallback;
use super::kernel::Kernels;
use super::mcu_blocks::{McuBlocks, Position};
use super::order::BLOCK;
use super::unstuff::Segments;

const TOO_SHORT: Fallback = Fallback("entropy-coded data that ends too early");
const LEFT_OVER: Fallback = Fallback("bytes that are left over before a marker");

/// How a scan's MCUs lie between its restart markers.
pub(super) struct Intervals<'a> {
    segments: &'a Segments,
    /// The current segment.
    segment: usize,
    /// MCUs per segment, and those that the current one still has; without limit where there are no restart markers.
    interval: usize,
    left: usize,
}

impl<'a> Intervals<'a> {
    /// At MCU number `first` of the scan, where `segments` start, with the bits there. An interval of 0 means no restart
    /// markers.
    pub(super) fn new(segments: &'a Segments, interval: u32, first: usize) -> (Self, Bits<'a>) {
        let interval = if interval == 0 { usize::MAX } else { interval as usize };
        let bits = segments.bits(0).unwrap_or(Bits::new(&[], 0, 0));
        (Self { segments, segment: 0, interval, left: interval - first % interval }, bits)
    }

    /// How many of the next `wanted` MCUs can be read in one go, and the bits behind the restart marker if one comes
    /// first. `bits` are those read so far.
    pub(super) fn run(&mut self, wanted: usize, bits: &Bits<'_>) -> Result<(usize, Option<Bits<'a>>), Fallback> {
        let mut next = None;
        if self.left == 0 {
            if Self::has_bytes(bits)? {
                return Err(LEFT_OVER);
            }
            self.segment += 1;
            next = Some(self.segments.bits(self.segment).ok_or(Fallback("a missing restart marker"))?);
            self.left = self.interval;
        }
        let run = wanted.min(self.left);
        self.left -= run;
        Ok((run, next))
    }

    /// What is there behind the `bits` that were read.
    pub(super) fn rest(&self, bits: &Bits<'_>) -> Result<Rest, Fallback> {
        Ok(match self.segments.bits(self.segment + 1) {
            Some(_) => Rest::Segments,
            None if Self::has_bytes(bits)? => Rest::Bytes,
            None => Rest::Nothing,
        })
    }

    fn has_bytes(bits: &Bits<'_>) -> Result<bool, Fallback> {
        Ok(bits.left().ok_or(TOO_SHORT)? >= 8)
    }
}

/// What a scan's data has behind the last MCU that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// Bytes before the marker that comes next.
    Bytes,
    /// A restart marker, and what comes behind it.
    Segments,
}

impl Rest {
    /// Whether a scan that was read to its end may go on so. Nobody writes more than there is to read, and where codes are
    /// damaged it may be what is left: libjpeg warns of it, and only bytes before the picture's end are harmless, not those
    /// before tables or a comment that stand between.
    pub(super) fn check(self, is_before_end: bool) -> Result<(), Fallback> {
        match self {
            Self::Nothing => Ok(()),
            Self::Bytes if is_before_end => Ok(()),
            Self::Bytes => Err(LEFT_OVER),
            Self::Segments => Err(Fallback("a restart marker behind the last MCU")),
        }
    }
}

/// Whether all that was read was there.
pub(super) fn check(bits: &Bits<'_>) -> Result<(), Fallback> {
    bits.left().map(drop).ok_or(TOO_SHORT)
}

/// A scan's MCUs.
pub(super) struct Mcus<'a> {
    kernels: Kernels,
    blocks: &'a McuBlocks<'a>,
    intervals: Intervals<'a>,
    at: Position<'a>,
}

impl<'a> Mcus<'a> {
    /// At MCU number `first` of the scan, where `segments` start: behind `bit` bits, with these predictors. An interval
    /// of 0 means no restart markers.
    pub(super) fn new(
        kernels: Kernels,
        blocks: &'a McuBlocks<'a>,
        segments: &'a Segments,
        interval: u32,
        (first, bit, predictors): (usize, u32, [i16; 3]),
    ) -> Self {
        let (intervals, mut bits) = Intervals::new(segments, interval, first);
        bits.pass(bit);
        Self { kernels, blocks, intervals, at: Position { bits, predictors } }
    }

    /// Where the next MCU starts, behind the restart marker that may come before it: which segment, how many of its
    /// bits are left, and the predictors there.
    pub(super) fn place(&mut self) -> Result<(usize, u64, [i16; 3]), Fallback> {
        // No MCU is taken.
        self.run(0)?;
        let left = self.at.bits.left().ok_or(TOO_SHORT)?;
        Ok((self.intervals.segment, left, self.at.predictors))
    }

    /// Decodes the next `count` MCUs, see [`McuBlocks::decode`].
    pub(super) fn decode(&mut self, count: usize, coefficients: &mut [i16]) -> Result<(), Fallback> {
        let mut done = 0;
        while done < count {
            let run = self.run(count - done)?;
            let place = done * self.blocks.len() * BLOCK;
            self.kernels.decode(self.blocks, &mut self.at, run, &mut coefficients[place..])?;
            done += run;
        }
        Ok(())
    }

    /// Reads over the next `count` MCUs.
    pub(super) fn skip(&mut self, count: usize) -> Result<(), Fallback> {
        let mut done = 0;
        while done < count {
            let run = self.run(count - done)?;
            self.kernels.skip(self.blocks, &mut self.at, run)?;
            done += run;
        }
        Ok(())
    }

    /// How many of the next `wanted` MCUs can be read in one go, behind the restart marker that may come first.
    fn run(&mut self, wanted: usize) -> Result<usize, Fallback> {
        let (run, next) = self.intervals.run(wanted, &self.at.bits)?;
        if let Some(bits) = next {
            self.at = Position { bits, predictors: [0; 3] };
        }
        Ok(run)
    }

    /// What is there behind the last MCU that was read.
    pub(super) fn rest(&self) -> Result<Rest, Fallback> {
        self.intervals.rest(&self.at.bits)
    }

    /// Whether all that was decoded was there.
    pub(super) fn check(&self) -> Result<(), Fallback> {
        check(&self.at.bits)
    }
}
