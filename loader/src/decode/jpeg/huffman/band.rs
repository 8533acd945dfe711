//! AC coefficients of progressive scans: one symbol per lookup, and end-of-band symbols that cover several blocks.

use super::super::fallback::Fallback;
use super::super::markers::HuffmanSegment;
use super::{Code, END, ENTRIES, Table, UNDECIDED, WINDOW, addend};

/// Symbol and its value's bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct BandEntry {
    /// Bits of code and value: at most 26.
    bits: u8,
    /// Positions to advance by, with the value at the last of them.
    advance: u8,
    addend: i16,
}

impl BandEntry {
    const UNDECIDED: Self = Self { bits: 0, advance: UNDECIDED as u8, addend: 0 };

    #[inline(always)]
    pub(in super::super) fn bits(self) -> u32 {
        u32::from(self.bits)
    }

    #[inline(always)]
    pub(in super::super) fn advance(self) -> u32 {
        u32::from(self.advance)
    }

    /// Returns the value, from a word that starts with the entry's bits.
    #[inline(always)]
    pub(in super::super) fn value(self, word: u64) -> i16 {
        ((word >> ((64 - self.bits()) & 63)) as i16).wrapping_add(self.addend)
    }
}

/// Table of an AC scan of a progressive picture.
#[derive(Debug)]
pub(in super::super) struct BandTable {
    pub lookup: Box<[BandEntry; ENTRIES]>,
    pub code: Code,
}

impl Default for BandTable {
    fn default() -> Self {
        Self { lookup: Box::new([BandEntry::UNDECIDED; ENTRIES]), code: Code::default() }
    }
}

impl Table for BandTable {
    fn build(&mut self, segment: HuffmanSegment<'_>) -> Result<(), Fallback> {
        self.code = Code::build(segment)?;
        let mut symbols = segment.values.iter();
        // Codes count up, so their windows follow each other.
        let mut start = 0;
        for (length, count) in (1..=WINDOW).zip(segment.counts) {
            for symbol in symbols.by_ref().take(usize::from(*count)) {
                let end = start + (ENTRIES >> length);
                Self::fill(&mut self.lookup[start..end], *symbol, length, (start >> (WINDOW - length)) as u32);
                start = end;
            }
        }
        self.lookup[start..].fill(BandEntry::UNDECIDED);
        Ok(())
    }
}

impl BandTable {
    /// Fills the windows of a symbol with the code `prefix`.
    fn fill(windows: &mut [BandEntry], symbol: u8, length: u32, prefix: u32) {
        let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
        let entry = |bits: u32, advance: u32, addend| BandEntry { bits: bits as u8, advance: advance as u8, addend };
        if size > 0 && length < WINDOW {
            let half = windows.len() / 2;
            let (negative, positive) = windows.split_at_mut(half);
            negative.fill(entry(length + size, run + 1, addend(prefix, size, true)));
            positive.fill(entry(length + size, run + 1, addend(prefix, size, false)));
        } else if size == 0 && run < 15 {
            windows.fill(entry(length, END + run, 0));
        } else {
            windows.fill(BandEntry::UNDECIDED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lookup_matches_its_code() {
        let counts = [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 20];
        let total: u8 = counts.iter().sum();
        let values: Vec<u8> =
            (0..total).map(|i| [0x00, 0x01, 0xf0, 0x32, 0x11, 0x13, 0x05, 0xe0][usize::from(i) % 8]).collect();
        let mut table = BandTable::default();
        table.build(HuffmanSegment { counts: &counts, values: &values }).unwrap();
        let (mut decided, mut undecided) = (0, 0);
        for window in 0..ENTRIES as u32 {
            for after in [0, 0x1f_ffff] {
                let bits = window << 21 | after;
                let entry = table.lookup[window as usize];
                if entry.advance() == UNDECIDED {
                    undecided += 1;
                    continue;
                }
                decided += 1;
                let (symbol, length) = table.code.symbol(bits >> 16).unwrap();
                let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
                assert_eq!(entry.bits(), length + size);
                if size == 0 {
                    assert_eq!(entry.advance(), END + run);
                    continue;
                }
                let value = (bits << length >> (32 - size)) as i32;
                let value = if value < 1 << (size - 1) { value - (1 << size) + 1 } else { value };
                assert_eq!((entry.advance(), i32::from(entry.value(u64::from(bits) << 32))), (run + 1, value));
            }
        }
        assert!(decided > 1000 && undecided > 100, "{decided} {undecided}");
    }
}
