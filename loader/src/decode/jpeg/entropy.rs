//! Entropy-coded blocks, from bytes without stuffing.
//!
//! The bits lie left-aligned in a 64-bit word that is filled up without a branch. A lookup serves one or two symbols
//! ([`huffman`](super::huffman)) and stores both values without asking whether there are two; what lies behind the
//! block's end is overwritten when the next block is decoded. Ends of blocks, codes longer than the window and data that
//! runs over the end of a block are one test.

#![forbid(unsafe_code)]

use super::fallback::Fallback;
use super::huffman::{AcTable, Code, DC_WINDOW, DcTable, END_OF_BLOCK, PairEntry, WINDOW};
use super::order::{BLOCK, PLACES};

/// Values behind the last block that decoding may overwrite.
pub(super) const SLACK: usize = BLOCK;

/// A bit that is read has to come from somewhere: bytes that must follow a segment's last one in memory. What they are
/// does not matter.
pub(super) const BYTES_AFTER: usize = 8;

/// Reads bits of one segment, a scan or what lies between two restart markers.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    /// What was not loaded yet of the segment and whatever follows it.
    rest: &'a [u8],
    /// The next bits, left-aligned.
    word: u64,
    /// How many of them count. There may be more, and they are right.
    count: u32,
    /// Bits that were loaded from behind the end of the data: zeros.
    made_up: u64,
    /// Bits behind the segment's end in the data.
    foreign: u64,
}

impl<'a> Bits<'a> {
    /// Starts at the first of `len` bytes of `data`, the last `spare` bits of which are not the segment's.
    pub(super) fn new(data: &'a [u8], len: usize, spare: u32) -> Self {
        let foreign = (data.len() - len) as u64 * 8 + u64::from(spare);
        Self { rest: data, word: 0, count: 0, made_up: 0, foreign }
    }

    /// Makes at least 56 bits available. Behind the end of the data there are zeros.
    #[inline(always)]
    pub(super) fn fill(&mut self) {
        let bytes = ((self.count ^ 63) >> 3) & 7;
        match self.rest.first_chunk::<8>() {
            Some(next) => {
                self.word |= u64::from_be_bytes(*next) >> self.count;
                self.rest = &self.rest[bytes as usize..];
            }
            None => {
                // The last bytes are not the segment's, see `BYTES_AFTER`.
                self.rest = &[];
                self.made_up += u64::from(bytes) * 8;
            }
        }
        self.count |= 56;
    }

    #[inline(always)]
    pub(super) fn consume(&mut self, bits: u32) {
        self.word <<= bits;
        self.count -= bits;
    }

    /// The next bits, left-aligned: at least 56 after [`fill`](Self::fill), less what was consumed since.
    #[inline(always)]
    pub(super) fn word(&self) -> u64 {
        self.word
    }

    /// The next `count` bits, 63 at most, as a number.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> u64 {
        if count <= self.count {
            let number = self.word >> 1 >> (63 - count);
            self.consume(count);
            return number;
        }
        self.take_many(count)
    }

    #[cold]
    #[inline(never)]
    fn take_many(&mut self, count: u32) -> u64 {
        self.fill();
        let upper = self.take(count - count.min(32));
        self.fill();
        upper << count.min(32) | self.take(count.min(32))
    }

    /// Bits of the segment that were not read; `None` when more were read than there are.
    pub(super) fn left(&self) -> Option<u64> {
        ((self.rest.len() as u64) * 8 + u64::from(self.count)).checked_sub(self.foreign + self.made_up)
    }

    /// Passes over the first bits of a segment, 7 at most.
    pub(super) fn pass(&mut self, bits: u32) {
        self.fill();
        self.consume(bits);
    }

    /// One symbol the slow way, and the value behind it: 31 bits at most.
    #[inline(always)]
    pub(super) fn symbol(&mut self, code: &Code) -> Result<(u8, i16), Fallback> {
        self.fill();
        let (symbol, value, bits) = symbol(code, self.word).ok_or(Fallback("bits that are no code"))?;
        self.consume(bits);
        Ok((symbol, value))
    }

    /// The next DC difference, modulo 2^16. Leaves at least 25 bits.
    #[inline(always)]
    pub(super) fn difference(&mut self, table: &DcTable) -> Result<i16, Fallback> {
        self.fill();
        let entry = table.lookup[(self.word >> (64 - DC_WINDOW)) as usize];
        if entry.bits == 0 {
            return self.symbol(&table.code).map(|(_, value)| value);
        }
        let value = (self.word >> (64 - u32::from(entry.bits))) as i16;
        self.consume(u32::from(entry.bits));
        Ok(value.wrapping_add(entry.addend))
    }

    /// Decodes a block into the first 64 values of `block`, in zigzag order, or by pairs where `BY_PAIRS`.
    /// The rest of `block` is overwritten. `dc` is the component's predictor.
    #[inline(always)]
    pub(super) fn block<const BY_PAIRS: bool>(
        &mut self,
        dc_table: &DcTable,
        ac_table: &AcTable,
        dc: &mut i16,
        block: &mut [i16; 2 * BLOCK],
    ) -> Result<(), Fallback> {
        block[..BLOCK].fill(0);
        *dc = dc.wrapping_add(self.difference(dc_table)?);
        block[0] = *dc;
        let mut k = 1;
        let mut entry = ac_table.pairs[window(self.word)];
        self.fill();
        loop {
            let next = loop {
                // Two lookups take 50 bits at most, so one filling up serves both. It does not stand between them: the
                // way from entry to entry is what takes time.
                let next = store::<BY_PAIRS>(entry, self.word, k, block);
                if next >= 64 {
                    break next;
                }
                k = next;
                self.consume(entry.bits());
                entry = ac_table.pairs[window(self.word)];
                let next = store::<BY_PAIRS>(entry, self.word, k, block);
                if next >= 64 {
                    break next;
                }
                k = next;
                self.consume(entry.bits());
                self.fill();
                entry = ac_table.pairs[window(self.word)];
            };
            if is_end(next) {
                self.consume(entry.bits());
                return Ok(());
            }
            let (symbol, value) = self.symbol(&ac_table.code)?;
            let Some(at) = step(symbol, k)? else { return Ok(()) };
            block[place::<BY_PAIRS>(at)] = value;
            if at == 63 {
                return Ok(());
            }
            k = at + 1;
            self.fill();
            entry = ac_table.pairs[window(self.word)];
        }
    }

    /// Reads over a block; only the predictor changes.
    #[inline(always)]
    pub(super) fn skip(&mut self, dc_table: &DcTable, ac_table: &AcTable, dc: &mut i16) -> Result<(), Fallback> {
        *dc = dc.wrapping_add(self.difference(dc_table)?);
        let mut k = 1;
        let mut entry = ac_table.skips[window(self.word)];
        self.fill();
        loop {
            // As in `block`: 52 bits at most.
            let next = loop {
                let next = k + entry.advance();
                if next >= 64 {
                    break next;
                }
                k = next;
                self.consume(entry.bits());
                entry = ac_table.skips[window(self.word)];
                let next = k + entry.advance();
                if next >= 64 {
                    break next;
                }
                k = next;
                self.consume(entry.bits());
                self.fill();
                entry = ac_table.skips[window(self.word)];
            };
            if is_end(next) {
                self.consume(entry.bits());
                return Ok(());
            }
            let (symbol, _) = self.symbol(&ac_table.code)?;
            match step(symbol, k)? {
                None | Some(63) => return Ok(()),
                Some(at) => k = at + 1,
            }
            self.fill();
            entry = ac_table.skips[window(self.word)];
        }
    }
}

/// Where a coefficient goes.
#[inline(always)]
fn place<const BY_PAIRS: bool>(k: u32) -> usize {
    if BY_PAIRS { usize::from(PLACES[k as usize & 127]) } else { k as usize & 127 }
}

/// Stores an entry's values, which may be one twice, from position `k` on; returns the position behind them.
#[inline(always)]
fn store<const BY_PAIRS: bool>(entry: PairEntry, word: u64, k: u32, block: &mut [i16; 2 * BLOCK]) -> u32 {
    block[place::<BY_PAIRS>(k + entry.first_run())] = entry.first_value(word);
    block[place::<BY_PAIRS>(k + ((entry.advance() - 1) & 63))] = entry.value(word);
    k + entry.advance()
}

/// The number that the next [`WINDOW`] bits are.
#[inline(always)]
pub(super) fn window(word: u64) -> usize {
    (word >> (64 - WINDOW)) as usize
}

/// The symbol that a word starts with, its value, and the bits of both: 31 at most.
#[cold]
#[inline(never)]
fn symbol(code: &Code, word: u64) -> Option<(u8, i16, u32)> {
    let (symbol, length) = code.symbol((word >> 48) as u32)?;
    let size = u32::from(symbol & 15);
    if size == 0 {
        return Some((symbol, 0, length));
    }
    let bits = (word << length >> (64 - size)) as i32;
    let value = if bits < 1 << (size - 1) { bits - (1 << size) + 1 } else { bits };
    Some((symbol, value as i16, length + size))
}

/// Whether a position behind a lookup is a block's end, and the lookup's last symbol the block's. Other positions from
/// 64 on mean that the lookup went over the end (its second symbol may be the next block's), or decided nothing.
#[inline(always)]
fn is_end(next: u32) -> bool {
    next == 64 || (END_OF_BLOCK < next && next < END_OF_BLOCK + 64)
}

/// Where the value of an AC symbol goes that is read at position `k`; `None` is the block's end.
fn step(symbol: u8, k: u32) -> Result<Option<u32>, Fallback> {
    let run = u32::from(symbol >> 4);
    if symbol & 15 == 0 && run != 15 {
        return Ok(None);
    }
    if k + run > 63 { Err(Fallback("a block of more than 64 coefficients")) } else { Ok(Some(k + run)) }
}
