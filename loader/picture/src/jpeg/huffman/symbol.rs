//! One symbol per lookup: DC differences, and AC coefficients of progressive scans, with their end-of-band symbols that
//! cover several blocks.

use super::super::fallback::Fallback;
use super::super::markers::HuffmanSegment;
use super::{Code, END, ENTRIES, Table, UNDECIDED, addend, each_code};

/// Symbol and its value's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct SymbolEntry {
    /// Bits of code and value: at most 26; 0 if the lookup decodes nothing.
    bits: u8,
    /// Positions to advance by, with the value at the last of them.
    advance: u8,
    addend: i16,
}

impl SymbolEntry {
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

/// Table of symbols up to `SYMBOL_MAX`, for lookups of as many bits as `ENTRIES` needs.
#[derive(Debug)]
pub(in super::super) struct SymbolTable<const ENTRIES: usize, const SYMBOL_MAX: u8> {
    lookup: Box<[SymbolEntry; ENTRIES]>,
    pub code: Code,
}

/// Table of DC differences, which have few codes. libjpeg rejects larger differences, too.
pub(in super::super) type DcTable = SymbolTable<512, 15>;

/// Table of an AC scan of a progressive picture.
pub(in super::super) type BandTable = SymbolTable<ENTRIES, 255>;

impl<const ENTRIES: usize, const SYMBOL_MAX: u8> Default for SymbolTable<ENTRIES, SYMBOL_MAX> {
    fn default() -> Self {
        Self { lookup: Box::new([SymbolEntry::UNDECIDED; ENTRIES]), code: Code::default() }
    }
}

impl<const ENTRIES: usize, const SYMBOL_MAX: u8> Table for SymbolTable<ENTRIES, SYMBOL_MAX> {
    fn build(&mut self, segment: HuffmanSegment<'_>) -> Result<(), Fallback> {
        if segment.values.iter().any(|symbol| *symbol > SYMBOL_MAX) {
            return Err(Fallback("a DC difference of more than 15 bits"));
        }
        self.code = Code::build(segment)?;
        let end = each_code(segment, Self::WINDOW, |windows, symbol, length| {
            let prefix = (windows.start >> (Self::WINDOW - length)) as u32;
            Self::fill(&mut self.lookup[windows], symbol, length, prefix);
        });
        self.lookup[end..].fill(SymbolEntry::UNDECIDED);
        Ok(())
    }
}

impl<const ENTRIES: usize, const SYMBOL_MAX: u8> SymbolTable<ENTRIES, SYMBOL_MAX> {
    /// Bits of a lookup.
    const WINDOW: u32 = ENTRIES.ilog2();

    /// Returns the entry of the bits at the start of a word.
    #[inline(always)]
    pub(in super::super) fn entry(&self, word: u64) -> SymbolEntry {
        self.lookup[(word >> (64 - Self::WINDOW)) as usize]
    }

    /// Fills the windows of a symbol with the code `prefix`.
    fn fill(windows: &mut [SymbolEntry], symbol: u8, length: u32, prefix: u32) {
        let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
        let entry = |advance: u32, is_negative| {
            let (bits, advance) = ((length + size) as u8, advance as u8);
            SymbolEntry { bits, advance, addend: addend(prefix, size, is_negative) }
        };
        if size > 0 && length < Self::WINDOW {
            let half = windows.len() / 2;
            let (negative, positive) = windows.split_at_mut(half);
            negative.fill(entry(run + 1, true));
            positive.fill(entry(run + 1, false));
        } else if size == 0 && run < 15 {
            windows.fill(entry(END + run, false));
        } else {
            windows.fill(SymbolEntry::UNDECIDED);
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
                let entry = table.entry(u64::from(bits) << 32);
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
