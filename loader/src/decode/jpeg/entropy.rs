//! Entropy-coded blocks, from bytes without stuffing.
//!
//! The bits lie left-aligned in a 64-bit word that is filled up without a branch. A lookup serves one or two symbols
//! ([`huffman`](super::huffman)) and stores both values without asking whether there are two; what lies behind the
//! block's end is overwritten when the next block is decoded. Ends of blocks, codes longer than the window and data that
//! runs over the end of a block are one test.

use super::Declined;
use super::huffman::{AcTable, Code, DcTable, END_OF_BLOCK};

/// Coefficients of a block.
pub(super) const BLOCK: usize = 64;

/// Values behind the last block that decoding may overwrite.
pub(super) const SLACK: usize = BLOCK;

/// A bit that is read has to come from somewhere: bytes that must follow a segment's last one in memory. What they are
/// does not matter.
pub(super) const BYTES_AFTER: usize = 8;

/// Reads bits of one segment, a scan or what lies between two restart markers.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    /// The segment and whatever follows it.
    data: &'a [u8],
    /// Bits of `data` that belong to the segment.
    total: u64,
    /// The next byte to load.
    at: usize,
    /// The next bits, left-aligned.
    word: u64,
    /// How many of them count. There may be more, and they are right.
    count: u32,
}

impl<'a> Bits<'a> {
    /// Starts at the first of `len` bytes of `data`.
    pub(super) fn new(data: &'a [u8], len: usize) -> Self {
        Self { data, total: len as u64 * 8, at: 0, word: 0, count: 0 }
    }

    /// Makes at least 56 bits available. Behind the end of the data there are zeros.
    #[inline(always)]
    fn fill(&mut self) {
        let next = match self.data.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => 0,
        };
        self.word |= next >> self.count;
        self.at += (63 - self.count as usize) >> 3;
        self.count |= 56;
    }

    #[inline(always)]
    fn consume(&mut self, bits: u32) {
        self.word <<= bits;
        self.count -= bits;
    }

    /// Whether more bits were read than there are.
    pub(super) fn is_overrun(&self) -> bool {
        self.at as u64 * 8 - u64::from(self.count) > self.total
    }

    /// One symbol the slow way, and the value of `size` bits behind it. At least 31 bits must be available.
    #[cold]
    #[inline(never)]
    fn symbol(&mut self, code: &Code) -> Result<(u8, i16), Declined> {
        let (symbol, length) = code.symbol((self.word >> 48) as u32).ok_or(Declined("bits that are no code"))?;
        self.consume(length);
        let size = u32::from(symbol & 15);
        if size == 0 {
            return Ok((symbol, 0));
        }
        let bits = (self.word >> (64 - size)) as i32;
        self.consume(size);
        let is_negative = bits < 1 << (size - 1);
        Ok((symbol, (if is_negative { bits - (1 << size) + 1 } else { bits }) as i16))
    }

    /// The next DC difference, modulo 2^16. Leaves at least 25 bits.
    #[inline(always)]
    fn difference(&mut self, table: &DcTable) -> Result<i16, Declined> {
        self.fill();
        let entry = table.lookup[(self.word >> (64 - super::huffman::WINDOW)) as usize];
        if entry.bits == 0 {
            return self.symbol(&table.code).map(|(_, value)| value);
        }
        let value = (self.word >> (64 - u32::from(entry.bits))) as i16;
        self.consume(u32::from(entry.bits));
        Ok(value.wrapping_add(entry.addend))
    }

    /// Decodes a block into the first 64 values of `block`, in zigzag order, or in the order of rows where `BY_ROWS`.
    /// The rest of `block` is overwritten. `dc` is the component's predictor.
    #[inline(always)]
    pub(super) fn block<const BY_ROWS: bool>(
        &mut self,
        dc_table: &DcTable,
        ac_table: &AcTable,
        dc: &mut i16,
        block: &mut [i16; 2 * BLOCK],
    ) -> Result<(), Declined> {
        block[..BLOCK].fill(0);
        *dc = dc.wrapping_add(self.difference(dc_table)?);
        block[0] = *dc;
        let place = |k: u32| if BY_ROWS { usize::from(ROWS[k as usize & 127]) } else { k as usize & 127 };
        let mut k = 1;
        loop {
            let entry = ac_table.pairs[(self.word >> (64 - super::huffman::WINDOW)) as usize];
            let first = (self.word.wrapping_shr(64 - u32::from(entry.first_bits))) as i16;
            let last = (self.word.wrapping_shr(64 - u32::from(entry.bits))) as i16;
            block[place(k + u32::from(entry.first_run))] = first.wrapping_add(entry.first_addend);
            block[place(k + ((u32::from(entry.advance) - 1) & 63))] = last.wrapping_add(entry.addend);
            let next = k + u32::from(entry.advance);
            if next < 64 {
                k = next;
                self.consume(u32::from(entry.bits));
                self.fill();
                continue;
            }
            if is_end(next) {
                self.consume(u32::from(entry.bits));
                return Ok(());
            }
            self.fill();
            let (symbol, value) = self.symbol(&ac_table.code)?;
            self.fill();
            let Some(at) = step(symbol, k)? else { return Ok(()) };
            block[place(at)] = value;
            if at == 63 {
                return Ok(());
            }
            k = at + 1;
        }
    }

    /// Reads over a block; only the predictor changes.
    #[inline(always)]
    pub(super) fn skip(&mut self, dc_table: &DcTable, ac_table: &AcTable, dc: &mut i16) -> Result<(), Declined> {
        *dc = dc.wrapping_add(self.difference(dc_table)?);
        let mut k = 1;
        loop {
            let entry = ac_table.skips[(self.word >> (64 - super::huffman::WINDOW)) as usize];
            let next = k + u32::from(entry.advance);
            if next < 64 {
                k = next;
                self.consume(u32::from(entry.bits));
                self.fill();
                continue;
            }
            if is_end(next) {
                self.consume(u32::from(entry.bits));
                return Ok(());
            }
            self.fill();
            let (symbol, _) = self.symbol(&ac_table.code)?;
            self.fill();
            match step(symbol, k)? {
                None | Some(63) => return Ok(()),
                Some(at) => k = at + 1,
            }
        }
    }
}

/// Whether a position behind a lookup is a block's end, and the lookup's last symbol the block's. Other positions from
/// 64 on mean that the lookup went over the end (its second symbol may be the next block's), or decided nothing.
#[inline(always)]
fn is_end(next: u32) -> bool {
    next == 64 || (END_OF_BLOCK < next && next < END_OF_BLOCK + 64)
}

/// Where the value of an AC symbol goes that is read at position `k`; `None` is the block's end.
fn step(symbol: u8, k: u32) -> Result<Option<u32>, Declined> {
    let run = u32::from(symbol >> 4);
    if symbol & 15 == 0 && run != 15 {
        return Ok(None);
    }
    if k + run > 63 { Err(Declined("a block of more than 64 coefficients")) } else { Ok(Some(k + run)) }
}

/// Where the coefficients in zigzag order lie in rows; positions behind the block stay behind it.
pub(super) const ROWS: [u8; 128] = {
    let mut rows = [0; 128];
    let (mut i, mut x, mut y) = (0, 0_u8, 0_u8);
    while i < 64 {
        rows[i] = y * 8 + x;
        // Diagonals, upwards where x + y is even.
        let up = (x + y) % 2 == 0;
        match (up, x, y) {
            (true, 7, _) => y += 1,
            (true, _, 0) => x += 1,
            (true, _, _) => (x, y) = (x + 1, y - 1),
            (false, _, 7) => x += 1,
            (false, 0, _) => y += 1,
            (false, _, _) => (x, y) = (x - 1, y + 1),
        }
        i += 1;
    }
    while i < 128 {
        rows[i] = i as u8;
        i += 1;
    }
    rows
};
