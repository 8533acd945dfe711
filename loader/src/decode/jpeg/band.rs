//! The entropy-coded AC scans of progressive pictures: bands of coefficients, first their upper bits, then one bit more
//! with every scan.
//!
//! A scan that refines can only be read with the knowledge which coefficients are not zero so far: those have a bit
//! each between the symbols. So every block has a *history*, a word with a bit per coefficient, also where its
//! coefficients are not wanted; runs of zeros and the bits between them are then found by counting bits, not by going
//! over coefficients.
//!
//! Position `k` of the zigzag order is bit `63 - k` of the history and coefficient `63 - k` of the stored block. The bits of
//! a number that was read then stand in the order of the coefficients they are for.

#![forbid(unsafe_code)]

use super::entropy::{Bits, window};
use super::fallback::Fallback;
use super::huffman::{BAND_END, BandTable, UNDECIDED};
use super::markers::Spectrum;
use super::order::BLOCK;

/// What a scan holds of every block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    /// The first position, and the one behind the last.
    start: u32,
    end: u32,
    /// The lowest bit after the scan.
    low: u32,
    /// The positions as bits of a history.
    mask: u64,
}

impl Band {
    /// The band of an AC scan.
    pub(super) fn new(spectrum: Spectrum) -> Self {
        let (start, end) = (u32::from(spectrum.first), u32::from(spectrum.last) + 1);
        let mask = u64::MAX >> start & u64::MAX << (64 - end);
        Self { start, end, low: u32::from(spectrum.low), mask }
    }
}

/// Where reading an AC scan stands within a segment.
pub(super) struct BandPosition<'a> {
    pub bits: Bits<'a>,
    /// How many blocks from here on have nothing new.
    pub ended: u32,
}

/// A number's bits, put one after the other where `mask` has bits, the lowest first: the instruction PDEP.
pub(super) trait Deposit: Fn(u64, u64) -> u64 {}

impl<F: Fn(u64, u64) -> u64> Deposit for F {}

/// Blocks of a row that a scan reads in one go.
pub(super) struct BandRun<'a, 'b> {
    pub table: &'a BandTable,
    pub band: Band,
    /// Whether earlier scans brought upper bits.
    pub is_refining: bool,
    pub at: &'a mut BandPosition<'b>,
    /// The blocks' histories.
    pub history: &'a mut [u64],
    /// The blocks, as many, or `None` where only the histories are wanted.
    pub blocks: Option<&'a mut [[i16; BLOCK]]>,
}

impl BandRun<'_, '_> {
    #[inline(always)]
    pub(super) fn read(self, deposit: impl Deposit) -> Result<(), Fallback> {
        match (self.is_refining, self.blocks.is_some()) {
            (false, false) => self.first::<false>(),
            (false, true) => self.first::<true>(),
            (true, false) => self.refine::<false>(deposit),
            (true, true) => self.refine::<true>(deposit),
        }
    }

    #[inline(always)]
    fn first<const IS_KEPT: bool>(self) -> Result<(), Fallback> {
        // Local, so that it lives in registers.
        let mut bits = self.at.bits;
        let mut ended = self.at.ended;
        let mut nobody = [0; BLOCK];
        let blocks = self.blocks.unwrap_or_default();
        let mut i = ended as usize;
        while i < self.history.len() {
            let block = if IS_KEPT { &mut blocks[i] } else { &mut nobody };
            self.history[i] |= bits.first::<IS_KEPT>(self.table, self.band, &mut ended, block)?;
            i += 1 + ended as usize;
        }
        self.at.bits = bits;
        self.at.ended = (i - self.history.len()) as u32;
        Ok(())
    }

    #[inline(always)]
    fn refine<const IS_KEPT: bool>(self, deposit: impl Deposit) -> Result<(), Fallback> {
        let mut bits = self.at.bits;
        let mut ended = self.at.ended;
        let mut nobody = [0; BLOCK];
        let blocks = self.blocks.unwrap_or_default();
        for (i, history) in self.history.iter_mut().enumerate() {
            let block = if IS_KEPT { &mut blocks[i] } else { &mut nobody };
            bits.refine::<IS_KEPT>(self.table, self.band, &mut ended, history, block, &deposit)?;
        }
        self.at.bits = bits;
        self.at.ended = ended;
        Ok(())
    }
}

/// Stores the value of position `k` if the block `IS_KEPT`, and returns its bit of the history: none for a value whose
/// bits all lie beyond the sixteenth, which libjpeg-turbo stores as zero, too.
#[inline(always)]
fn store<const IS_KEPT: bool>(value: i16, k: u32, block: &mut [i16; BLOCK]) -> u64 {
    let place = (63 - k) & 63;
    if IS_KEPT {
        block[place as usize] = value;
    }
    u64::from(value != 0) << place
}

impl Bits<'_> {
    /// Reads the upper bits of a block's band, and stores them if the block `IS_KEPT`. Returns which coefficients have
    /// any. `ended` is set to how many blocks behind this one have none.
    #[inline(always)]
    fn first<const IS_KEPT: bool>(
        &mut self,
        table: &BandTable,
        band: Band,
        ended: &mut u32,
        block: &mut [i16; BLOCK],
    ) -> Result<u64, Fallback> {
        let mut new = 0;
        let mut k = band.start;
        *ended = 0;
        self.fill();
        let mut entry = table.lookup[window(self.word())];
        loop {
            let next = k + entry.advance();
            if next <= band.end {
                new |= store::<IS_KEPT>(entry.value(self.word()) << band.low, next - 1, block);
                self.consume(entry.bits());
                if next == band.end {
                    return Ok(new);
                }
                k = next;
                entry = table.lookup[window(self.word())];
                self.fill();
                continue;
            }
            let advance = entry.advance();
            if (BAND_END..UNDECIDED).contains(&advance) {
                self.consume(entry.bits());
                *ended = self.blocks_ended(advance - BAND_END) - 1;
                return Ok(new);
            }
            let (symbol, value) = self.symbol(&table.code)?;
            let run = u32::from(symbol >> 4);
            match (run, symbol & 15) {
                (15, 0) => k += 16,
                (_, 0) => {
                    *ended = self.blocks_ended(run) - 1;
                    return Ok(new);
                }
                _ => {
                    k += run + 1;
                    if k > band.end {
                        return Err(Fallback("a value behind the end of its band"));
                    }
                    new |= store::<IS_KEPT>(value << band.low, k - 1, block);
                }
            }
            if k > band.end {
                return Err(Fallback("zeros behind the end of their band"));
            }
            if k == band.end {
                return Ok(new);
            }
            self.fill();
            entry = table.lookup[window(self.word())];
        }
    }

    /// Reads one bit more of every coefficient of a block's band. While `ended` counts, only those that have bits
    /// already get one.
    #[inline(always)]
    fn refine<const IS_KEPT: bool>(
        &mut self,
        table: &BandTable,
        band: Band,
        ended: &mut u32,
        history: &mut u64,
        block: &mut [i16; BLOCK],
        deposit: &impl Deposit,
    ) -> Result<(), Fallback> {
        // What is not passed yet, of coefficients that have bits and of those that have none.
        let mut old = *history & band.mask;
        let mut zeros = !*history & band.mask;
        // Coefficients whose next bit is one.
        let mut ones = 0;
        if *ended == 0 {
            while old | zeros != 0 {
                self.fill();
                let entry = table.lookup[window(self.word())];
                let advance = entry.advance();
                let (run, value) = if advance < BAND_END {
                    let value = entry.value(self.word());
                    self.consume(entry.bits());
                    (advance - 1, value)
                } else if advance < UNDECIDED {
                    self.consume(entry.bits());
                    *ended = self.blocks_ended(advance - BAND_END);
                    break;
                } else {
                    let (symbol, value) = self.symbol(&table.code)?;
                    let run = u32::from(symbol >> 4);
                    if symbol & 15 == 0 && run < 15 {
                        *ended = self.blocks_ended(run);
                        break;
                    }
                    (run, value)
                };
                let left = zeros.count_ones();
                if run >= left || value.unsigned_abs() > 1 {
                    return Err(Fallback("a refinement behind the end of its band, or of more than a bit"));
                }
                let place = deposit(1 << (left - 1 - run), zeros);
                let behind = place - 1;
                let passed = old & !behind;
                let given = self.take(passed.count_ones());
                if IS_KEPT {
                    ones |= deposit(given, passed);
                    block[place.trailing_zeros() as usize & 63] = value << band.low;
                }
                if value != 0 {
                    *history |= place;
                }
                old &= behind;
                zeros &= behind;
            }
        }
        if *ended > 0 {
            *ended -= 1;
            if old != 0 {
                self.fill();
                let given = self.take(old.count_ones());
                if IS_KEPT {
                    ones |= deposit(given, old);
                }
            }
        }
        while IS_KEPT && ones != 0 {
            let value = &mut block[ones.trailing_zeros() as usize & 63];
            // Away from zero.
            *value = value.wrapping_add((1 << band.low) * (*value >> 15 | 1));
            ones &= ones - 1;
        }
        Ok(())
    }

    /// How many blocks, this one first, have nothing new: bits behind a symbol, as many as its upper half says.
    #[inline(always)]
    fn blocks_ended(&mut self, size: u32) -> u32 {
        1 << size | self.take(size) as u32
    }
}
