//! Entropy-coded AC scans of progressive pictures: bands of coefficients, first their upper bits, then one bit more
//! with every scan.
//!
//! To read a refining scan, the decoder must know the coefficients that are not zero so far, because these have a bit
//! each between the symbols. So every block has a *history*, a word with a bit per coefficient, even if its
//! coefficients are not needed. Runs of zeros and the bits between them are then found by counting bits, without a loop
//! over coefficients.
//!
//! Position `k` of the zigzag order is bit `63 - k` of the history and coefficient `63 - k` of the stored block. So the
//! bits of a number that was read have the order of their coefficients.

use super::entropy::Bits;
use super::fallback::Fallback;
use super::huffman::{BandTable, END, UNDECIDED};
use super::markers::Spectrum;
use super::order::BLOCK;

/// Band of coefficients that a scan has of every block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    /// The first position, and the one after the last.
    start: u32,
    end: u32,
    /// The lowest bit after the scan.
    low: u32,
    /// The positions as bits of a history.
    mask: u64,
}

impl Band {
    pub(super) fn new(spectrum: Spectrum) -> Self {
        let (start, end) = (u32::from(spectrum.first), u32::from(spectrum.last) + 1);
        let mask = u64::MAX >> start & u64::MAX << (64 - end);
        Self { start, end, low: u32::from(spectrum.low), mask }
    }
}

/// Position of reading an AC scan within a segment.
pub(super) struct BandPosition<'a> {
    pub bits: Bits<'a>,
    /// Number of blocks from here on without new coefficients: the standard's EOBRUN.
    pub eob_run: u32,
}

/// Blocks of a row that a scan reads in one call.
pub(super) struct BandRun<'a, 'b> {
    pub table: &'a BandTable,
    pub band: Band,
    /// True if earlier scans brought upper bits.
    pub is_refining: bool,
    pub at: &'a mut BandPosition<'b>,
    pub history: &'a mut [u64],
    /// The blocks, as many as histories, or `None` if only the histories are needed.
    pub blocks: Option<&'a mut [[i16; BLOCK]]>,
}

impl BandRun<'_, '_> {
    /// Reads the blocks. `deposit` distributes a number's bits over the bits of a mask, the lowest first: the
    /// instruction PDEP.
    #[inline(always)]
    pub(super) fn read(self, deposit: impl Fn(u64, u64) -> u64) -> Result<(), Fallback> {
        match (self.is_refining, self.blocks.is_some()) {
            (false, false) => self.first::<false>(),
            (false, true) => self.first::<true>(),
            (true, false) => self.refine::<false>(deposit),
            (true, true) => self.refine::<true>(deposit),
        }
    }

    #[inline(always)]
    fn first<const IS_KEPT: bool>(self) -> Result<(), Fallback> {
        // Local, so that the compiler keeps it in registers.
        let mut bits = self.at.bits;
        let mut eob_run = self.at.eob_run;
        let mut unused = [0; BLOCK];
        let blocks = self.blocks.unwrap_or_default();
        let mut i = eob_run as usize;
        while i < self.history.len() {
            let block = if IS_KEPT { &mut blocks[i] } else { &mut unused };
            self.history[i] |= bits.first::<IS_KEPT>(self.table, self.band, &mut eob_run, block)?;
            i += 1 + eob_run as usize;
        }
        self.at.bits = bits;
        self.at.eob_run = (i - self.history.len()) as u32;
        Ok(())
    }

    #[inline(always)]
    fn refine<const IS_KEPT: bool>(self, deposit: impl Fn(u64, u64) -> u64) -> Result<(), Fallback> {
        let mut bits = self.at.bits;
        let mut eob_run = self.at.eob_run;
        let mut unused = [0; BLOCK];
        let blocks = self.blocks.unwrap_or_default();
        for (i, history) in self.history.iter_mut().enumerate() {
            let block = if IS_KEPT { &mut blocks[i] } else { &mut unused };
            bits.refine::<IS_KEPT>(self.table, self.band, &mut eob_run, history, block, &deposit)?;
        }
        self.at.bits = bits;
        self.at.eob_run = eob_run;
        Ok(())
    }
}

/// Stores the value of position `k` if the block `IS_KEPT`, and returns its bit of the history. It is 0 for a value
/// with bits that are all above the sixteenth, because libjpeg-turbo stores zero as well.
#[inline(always)]
fn store<const IS_KEPT: bool>(value: i16, k: u32, block: &mut [i16; BLOCK]) -> u64 {
    let position = (63 - k) & 63;
    if IS_KEPT {
        block[position as usize] = value;
    }
    u64::from(value != 0) << position
}

impl Bits<'_> {
    /// Reads the upper bits of a block's band, and stores them if the block `IS_KEPT`. Returns the history's bits of
    /// the coefficients that have any. Sets `eob_run` to the number of blocks after this one that have none.
    #[inline(always)]
    fn first<const IS_KEPT: bool>(
        &mut self,
        table: &BandTable,
        band: Band,
        eob_run: &mut u32,
        block: &mut [i16; BLOCK],
    ) -> Result<u64, Fallback> {
        let mut new = 0;
        let mut k = band.start;
        *eob_run = 0;
        self.fill();
        let mut entry = table.entry(self.word);
        loop {
            let next = k + entry.advance();
            if next <= band.end {
                new |= store::<IS_KEPT>(entry.value(self.word) << band.low, next - 1, block);
                self.consume(entry.bits());
                if next == band.end {
                    return Ok(new);
                }
                k = next;
                entry = table.entry(self.word);
                self.fill();
                continue;
            }
            let advance = entry.advance();
            if (END..UNDECIDED).contains(&advance) {
                self.consume(entry.bits());
                *eob_run = self.read_eob_run(advance - END) - 1;
                return Ok(new);
            }
            let (symbol, value) = self.symbol(&table.code)?;
            let run = u32::from(symbol >> 4);
            match (run, symbol & 15) {
                (15, 0) => k += 16,
                (_, 0) => {
                    *eob_run = self.read_eob_run(run) - 1;
                    return Ok(new);
                }
                _ => {
                    k += run + 1;
                    if k > band.end {
                        return Err(Fallback("a value after the end of its band"));
                    }
                    new |= store::<IS_KEPT>(value << band.low, k - 1, block);
                }
            }
            if k > band.end {
                return Err(Fallback("zeros after the end of their band"));
            }
            if k == band.end {
                return Ok(new);
            }
            self.fill();
            entry = table.entry(self.word);
        }
    }

    /// Reads one more bit of every coefficient of a block's band. While `eob_run` is above 0, only coefficients that
    /// have bits already get one.
    #[inline(always)]
    fn refine<const IS_KEPT: bool>(
        &mut self,
        table: &BandTable,
        band: Band,
        eob_run: &mut u32,
        history: &mut u64,
        block: &mut [i16; BLOCK],
        deposit: &impl Fn(u64, u64) -> u64,
    ) -> Result<(), Fallback> {
        // Positions not passed yet, of coefficients with bits and of those without.
        let mut old = *history & band.mask;
        let mut zeros = !*history & band.mask;
        // Coefficients with a next bit of one.
        let mut ones = 0;
        if *eob_run == 0 {
            while old | zeros != 0 {
                self.fill();
                let entry = table.entry(self.word);
                let advance = entry.advance();
                let (run, value) = if advance < END {
                    let value = entry.value(self.word);
                    self.consume(entry.bits());
                    (advance - 1, value)
                } else if advance < UNDECIDED {
                    self.consume(entry.bits());
                    *eob_run = self.read_eob_run(advance - END);
                    break;
                } else {
                    let (symbol, value) = self.symbol(&table.code)?;
                    let run = u32::from(symbol >> 4);
                    if symbol & 15 == 0 && run < 15 {
                        *eob_run = self.read_eob_run(run);
                        break;
                    }
                    (run, value)
                };
                let remaining = zeros.count_ones();
                if run >= remaining || value.unsigned_abs() > 1 {
                    return Err(Fallback("a refinement after the end of its band, or of more than a bit"));
                }
                let position = deposit(1 << (remaining - 1 - run), zeros);
                let below = position - 1;
                let passed = old & !below;
                let bits = self.take(passed.count_ones());
                if IS_KEPT {
                    ones |= deposit(bits, passed);
                    block[position.trailing_zeros() as usize & 63] = value << band.low;
                }
                if value != 0 {
                    *history |= position;
                }
                old &= below;
                zeros &= below;
            }
        }
        if *eob_run > 0 {
            *eob_run -= 1;
            if old != 0 {
                self.fill();
                let bits = self.take(old.count_ones());
                if IS_KEPT {
                    ones |= deposit(bits, old);
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

    /// Reads the number of blocks, this one first, without new coefficients: as many bits as the symbol's upper half.
    #[inline(always)]
    fn read_eob_run(&mut self, size: u32) -> u32 {
        1 << size | self.take(size) as u32
    }
}
