//! AC coefficients of sequential scans: one or two symbols per lookup, or several if they are skipped.

use super::super::fallback::Fallback;
use super::super::markers::HuffmanSegment;
use super::{Code, END, ENTRIES, Table, UNDECIDED, WINDOW, addend, each_code};

/// One or two AC symbols, in a word with low bits that can be used as a shift directly.
///
/// From the lowest bits: 8 bits: bits of both symbols, below 64; 8: 64 less the bits of the first; 8: positions to
/// advance by, with the second value at the last of them, and [`END`] or [`UNDECIDED`] added at an end; 8:
/// zeros before the first value; 16 each: the addends of the last value and of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct PairEntry(u64);

impl PairEntry {
    #[inline(always)]
    pub(in super::super) fn bits(self) -> u32 {
        self.0 as u32 & 63
    }

    /// Returns the last value, from a word that starts with the entry's bits.
    #[inline(always)]
    pub(in super::super) fn value(self, word: u64) -> i16 {
        ((word >> (0_u64.wrapping_sub(self.0) & 63)) + (self.0 >> 32)) as i16
    }

    /// Returns the first value, from a word that starts with the entry's bits.
    #[inline(always)]
    pub(in super::super) fn first_value(self, word: u64) -> i16 {
        ((word >> (self.0 >> 8 & 63)) + (self.0 >> 48)) as i16
    }

    #[inline(always)]
    pub(in super::super) fn advance(self) -> u32 {
        (self.0 >> 16) as u32 & 255
    }

    #[inline(always)]
    pub(in super::super) fn first_run(self) -> u32 {
        (self.0 >> 24) as u32 & 255
    }
}

/// Fields of a [`PairEntry`].
#[derive(Clone, Copy)]
struct Symbols {
    first_bits: u32,
    bits: u32,
    first_run: u32,
    advance: u32,
    first_addend: i16,
    addend: i16,
}

impl Symbols {
    fn pair(self) -> PairEntry {
        let bytes = [self.bits, (64 - self.first_bits) & 63, self.advance, self.first_run].map(|v| v as u8);
        let addends = u64::from(self.first_addend as u16) << 16 | u64::from(self.addend as u16);
        PairEntry(addends << 32 | u64::from(u32::from_le_bytes(bytes)))
    }
}

/// One or several symbols that are skipped: their bits and the positions to advance by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct SkipEntry(u16);

impl SkipEntry {
    #[inline(always)]
    pub(in super::super) fn bits(self) -> u32 {
        u32::from(self.0) & 63
    }

    #[inline(always)]
    pub(in super::super) fn advance(self) -> u32 {
        u32::from(self.0 >> 8)
    }
}

#[derive(Debug)]
pub(in super::super) struct AcTable {
    pub pairs: Box<[PairEntry; ENTRIES]>,
    pub skips: Box<[SkipEntry; ENTRIES]>,
    pub code: Code,
}

impl Default for AcTable {
    fn default() -> Self {
        Self {
            pairs: Box::new([PairEntry::default(); ENTRIES]),
            skips: Box::new([SkipEntry::default(); ENTRIES]),
            code: Code::default(),
        }
    }
}

impl Table for AcTable {
    fn build(&mut self, segment: HuffmanSegment<'_>) -> Result<(), Fallback> {
        self.code = Code::build(segment)?;
        let mut windows = [(0, 0); ENTRIES];
        each_code(segment, WINDOW, |range, symbol, length| windows[range].fill((symbol, length as u8)));
        for window in 0..ENTRIES {
            self.pairs[window] = Self::pair(&windows, window as u32);
            self.skips[window] = Self::skip(&windows, window as u32);
        }
        Ok(())
    }
}

impl AcTable {
    /// Returns the number of zeros before the symbol's value, or `None` if the symbol ends the block. A run of 16 zeros
    /// without a value counts as 15 zeros and a value of 0.
    fn run(symbol: u8) -> Option<u32> {
        let (run, size) = (u32::from(symbol >> 4), symbol & 15);
        (size > 0 || run == 15).then_some(run)
    }

    fn pair(windows: &[(u8, u8); ENTRIES], window: u32) -> PairEntry {
        let nothing = Symbols { first_bits: 0, bits: 0, first_run: 63, advance: UNDECIDED, first_addend: 0, addend: 0 };
        // Symbol from bit `start` on: zeros before its value, end of its bits, addend. `None` if code and sign do not
        // fit.
        let symbol_at = |start: u32| {
            // The zeros shifted in are not used.
            let (symbol, length) = windows[(window << start) as usize & (ENTRIES - 1)];
            let (size, end) = (u32::from(symbol & 15), start + u32::from(length));
            let fits = length > 0 && end + u32::from(size > 0) <= WINDOW;
            fits.then(|| {
                let is_negative = size > 0 && window >> (WINDOW - 1 - end) & 1 == 0;
                (Self::run(symbol), end + size, addend(window >> (WINDOW - end), size, is_negative))
            })
        };
        let Some((run, bits, addend)) = symbol_at(0) else { return nothing.pair() };
        let Some(run) = run else {
            return Symbols { first_bits: bits, bits, advance: END, ..nothing }.pair();
        };
        let one = Symbols { first_bits: bits, bits, first_run: run, advance: run + 1, first_addend: addend, addend };
        if bits >= WINDOW {
            return one.pair();
        }
        match symbol_at(bits) {
            None => one.pair(),
            Some((None, end, _)) => {
                // The first value again: all of its bits are in the window.
                let value = ((window >> (WINDOW - bits)) as i16).wrapping_add(addend);
                let addend = value.wrapping_sub((window >> (WINDOW - end)) as i16);
                Symbols { bits: end, advance: one.advance + END, addend, ..one }.pair()
            }
            Some((Some(run), bits, addend)) => Symbols { bits, advance: one.advance + run + 1, addend, ..one }.pair(),
        }
    }

    fn skip(windows: &[(u8, u8); ENTRIES], window: u32) -> SkipEntry {
        let (mut bits, mut advance) = (0, 0);
        // One or two long runs more, and the position could no longer be distinguished from an end.
        while bits < WINDOW && advance <= 32 {
            let (symbol, length) = windows[(window << bits & (ENTRIES as u32 - 1)) as usize];
            if length == 0 || bits + u32::from(length) > WINDOW {
                break;
            }
            bits += u32::from(length) + u32::from(symbol & 15);
            match Self::run(symbol) {
                Some(run) => advance += run + 1,
                None => {
                    advance += END;
                    break;
                }
            }
        }
        let advance = if bits == 0 { UNDECIDED } else { advance };
        SkipEntry((advance << 8 | bits) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lookup_gives_the_same_as_decoding_one_symbol_at_a_time() {
        // Codes of all lengths: values of any size after short and long ones.
        let counts = [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 20];
        let total: u8 = counts.iter().sum();
        let values: Vec<u8> =
            (0..total).map(|i| [0x00, 0x01, 0xf0, 0x02, 0x11, 0x13, 0x05, 0x2a][usize::from(i) % 8]).collect();
        let mut table = AcTable::default();
        table.build(HuffmanSegment { counts: &counts, values: &values }).unwrap();
        let mut pairs = 0;
        for window in 0..ENTRIES as u32 {
            // Two kinds of bits after the window.
            for after in [0, 0x1f_ffff] {
                let bits = window << 21 | after;
                let one = |at: u32| {
                    let (symbol, length) = table.code.symbol(bits << at >> 16)?;
                    let size = u32::from(symbol & 15);
                    let value = if size == 0 { 0 } else { (bits << at << length >> (32 - size)) as i32 };
                    let value = if size > 0 && value < 1 << (size - 1) { value - (1 << size) + 1 } else { value };
                    Some((AcTable::run(symbol), value as i16, at + length + size))
                };
                let entry = table.pairs[window as usize];
                let word = u64::from(bits) << 32;
                if entry.advance() == UNDECIDED {
                    continue;
                }
                let (run, value, end) = one(0).unwrap();
                let Some(run) = run else {
                    assert_eq!((entry.advance(), entry.bits()), (END, end));
                    continue;
                };
                assert_eq!((entry.first_run(), entry.first_value(word)), (run, value));
                if entry.bits() == end {
                    assert_eq!((entry.advance(), entry.value(word)), (run + 1, value));
                    continue;
                }
                pairs += 1;
                let (second_run, second, both) = one(end).unwrap();
                assert_eq!(entry.bits(), both);
                match second_run {
                    Some(second_run) => {
                        assert_eq!(entry.advance(), run + 1 + second_run + 1);
                        assert_eq!(entry.value(word), second);
                    }
                    None => {
                        assert_eq!(entry.advance(), run + 1 + END);
                        assert_eq!(entry.value(word), value);
                    }
                }
            }
        }
        assert!(pairs > 100, "{pairs}");
    }
}
