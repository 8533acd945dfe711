//! Decoding of entropy-coded blocks, from bytes without stuffing.
//!
//! The next bits are kept left-aligned in a 64-bit word that is refilled without a branch. A lookup decodes one or two
//! symbols ([`huffman`](super::huffman)) and stores both values without testing whether there are two; values stored
//! after the block's end are overwritten when the next block is decoded. A single test covers ends of blocks, codes
//! longer than the window and data that runs over the end of a block.

use super::fallback::Fallback;
use super::huffman::{AcTable, Code, DcTable, END, PairEntry, WINDOW};
use super::order::{BLOCK, POSITIONS};

/// Values after the last block that decoding may overwrite.
pub(super) const SLACK: usize = BLOCK;

/// Bytes that must follow a segment's last one in memory, because bits are loaded eight bytes at a time. Their values
/// do not matter.
pub(super) const BYTES_AFTER: usize = 8;

/// Reads the AC symbols of a block. A lookup gives an entry of `$entries`, and `$next` the position after it. `$single`
/// stores a value that was read without a lookup.
macro_rules! ac_symbols {
    (
        $bits:ident, $entries:expr, $code:expr,
        |$entry:ident, $k:ident| $next:expr, |$at:ident, $value:ident| $single:block
    ) => {{
        let mut $k = 1;
        let mut $entry = $entries[window($bits.word)];
        $bits.fill();
        loop {
            let next = loop {
                // Two lookups take at most 52 bits, so one refill serves both. It is placed after the second lookup,
                // because the latency from entry to entry limits the speed.
                let next = $next;
                if next >= 64 {
                    break next;
                }
                $k = next;
                $bits.consume($entry.bits());
                $entry = $entries[window($bits.word)];
                let next = $next;
                if next >= 64 {
                    break next;
                }
                $k = next;
                $bits.consume($entry.bits());
                $bits.fill();
                $entry = $entries[window($bits.word)];
            };
            if is_end(next) {
                $bits.consume($entry.bits());
                return Ok(());
            }
            let (symbol, $value) = $bits.symbol(&$code)?;
            let Some($at) = step(symbol, $k)? else { return Ok(()) };
            $single
            if $at == 63 {
                return Ok(());
            }
            $k = $at + 1;
            $bits.fill();
            $entry = $entries[window($bits.word)];
        }
    }};
}

/// Reader of the bits of one segment: a scan, or the part of it between two restart markers.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    /// Bytes of the segment, and of the data after it, that are not loaded yet.
    rest: &'a [u8],
    /// The next bits, left-aligned: at least 56 after [`fill`](Self::fill), less those consumed since.
    pub word: u64,
    /// Number of valid bits in `word`. There may be more, and these are right.
    count: u32,
    /// Zero bits that were loaded after the end of the data.
    padding: u64,
    /// Bits of the data after the segment's end.
    foreign: u64,
}

impl<'a> Bits<'a> {
    /// Returns a reader of `len` bytes of `data`, without the last `spare` bits, which are not the segment's.
    pub(super) fn new(data: &'a [u8], len: usize, spare: u32) -> Self {
        let foreign = (data.len() - len) as u64 * 8 + u64::from(spare);
        Self { rest: data, word: 0, count: 0, padding: 0, foreign }
    }

    /// Makes at least 56 bits available. After the end of the data, zeros are appended.
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
                self.padding += u64::from(bytes) * 8;
            }
        }
        self.count |= 56;
    }

    #[inline(always)]
    pub(super) fn consume(&mut self, bits: u32) {
        self.word <<= bits;
        self.count -= bits;
    }

    /// Reads the next `count` bits, at most 63, as a number.
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

    /// Returns the number of unread bits of the segment, or `None` if more were read than it has.
    pub(super) fn remaining(&self) -> Option<u64> {
        ((self.rest.len() as u64) * 8 + u64::from(self.count)).checked_sub(self.foreign + self.padding)
    }

    /// Reads one symbol without a lookup, and the value after it: at most 31 bits.
    #[inline(always)]
    pub(super) fn symbol(&mut self, code: &Code) -> Result<(u8, i16), Fallback> {
        self.fill();
        let (symbol, value, bits) = symbol(code, self.word).ok_or(Fallback("bits that are no code"))?;
        self.consume(bits);
        Ok((symbol, value))
    }

    /// Reads the next DC difference, modulo 2^16. At least 25 bits remain available.
    #[inline(always)]
    pub(super) fn difference(&mut self, table: &DcTable) -> Result<i16, Fallback> {
        self.fill();
        let entry = table.entry(self.word);
        if entry.bits() == 0 {
            return self.symbol(&table.code).map(|(_, value)| value);
        }
        let value = entry.value(self.word);
        self.consume(entry.bits());
        Ok(value)
    }

    /// Decodes a block into the first 64 values of `block`, by pairs if `BY_PAIRS`, in zigzag order otherwise. The rest
    /// of `block` is overwritten. `dc` is the component's predictor.
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
        ac_symbols!(
            self,
            ac_table.pairs,
            ac_table.code,
            |entry, k| store::<BY_PAIRS>(entry, self.word, k, block),
            |at, value| {
                block[position::<BY_PAIRS>(at)] = value;
            }
        )
    }

    /// Skips a block; only the predictor changes.
    #[inline(always)]
    pub(super) fn skip(&mut self, dc_table: &DcTable, ac_table: &AcTable, dc: &mut i16) -> Result<(), Fallback> {
        *dc = dc.wrapping_add(self.difference(dc_table)?);
        ac_symbols!(self, ac_table.skips, ac_table.code, |entry, k| k + entry.advance(), |_at, _value| {})
    }
}

/// Returns the position of coefficient `k` in a block.
#[inline(always)]
fn position<const BY_PAIRS: bool>(k: u32) -> usize {
    if BY_PAIRS { usize::from(POSITIONS[k as usize & 127]) } else { k as usize & 127 }
}

/// Stores an entry's values from position `k` on; the two may be one value twice. Returns the position after them.
#[inline(always)]
fn store<const BY_PAIRS: bool>(entry: PairEntry, word: u64, k: u32, block: &mut [i16; 2 * BLOCK]) -> u32 {
    block[position::<BY_PAIRS>(k + entry.first_run())] = entry.first_value(word);
    block[position::<BY_PAIRS>(k + ((entry.advance() - 1) & 63))] = entry.value(word);
    k + entry.advance()
}

/// Returns the next [`WINDOW`] bits as a number.
#[inline(always)]
fn window(word: u64) -> usize {
    (word >> (64 - WINDOW)) as usize
}

/// Returns the symbol at the start of a word, its value, and the bits of both: at most 31.
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

/// Returns true if `next`, the position after a lookup, is the end of a block and the lookup decoded its last symbol.
/// Most positions from 64 on mean that the lookup passed the end (its second symbol may belong to the next block), or
/// decoded nothing.
#[inline(always)]
fn is_end(next: u32) -> bool {
    next == 64 || (END < next && next < END + 64)
}

/// Returns the position of an AC symbol's value when it is read at position `k`, or `None` at the block's end.
fn step(symbol: u8, k: u32) -> Result<Option<u32>, Fallback> {
    let run = u32::from(symbol >> 4);
    if symbol & 15 == 0 && run != 15 {
        return Ok(None);
    }
    if k + run > 63 { Err(Fallback("a block of more than 64 coefficients")) } else { Ok(Some(k + run)) }
}
