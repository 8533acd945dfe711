//! Huffman tables in the form that the entropy decoder looks them up in.
//!
//! A lookup takes the next [`WINDOW`] bits. It serves a symbol whose code and sign bit lie inside the window: the rest
//! of the value's bits add the same to the value whatever they are, so an entry holds an *addend* with which
//!
//! ```text
//! value = (the bits of code and value, as a number) + addend        modulo 2^16
//! ```
//!
//! strips the code and extends the sign at once. Where a second symbol fits into the window, the entry serves both.
//! Longer codes, and bits that are no code, are decoded one symbol at a time by [`Code`].
//!
//! Building a table costs some microseconds, and most files carry the standard ones: [`Tables`] keeps them by content.

use super::Declined;
use super::markers::HuffmanSegment;

/// Bits that a lookup sees. One more serves hardly more symbols and makes tables that leave the first-level cache.
pub(super) const WINDOW: u32 = 11;

/// Positions that an entry moves on by at the end of a block: beyond every sum of position and runs that is not an end.
pub(super) const END_OF_BLOCK: u32 = 128;

/// What an entry moves on by when the lookup decides nothing.
pub(super) const LONG: u32 = 192;

const ENTRIES: usize = 1 << WINDOW;

/// The same for DC differences, of which there are few.
pub(super) const DC_WINDOW: u32 = 9;

const DC_ENTRIES: usize = 1 << DC_WINDOW;

/// Tables of a class that are kept. A scan uses three at most, so none that it found goes while it looks for the next.
const KEPT: usize = 8;

/// One or two AC symbols, in a word whose low bits can serve as a shift at once.
///
/// From the lowest: 8 bits: bits of both, below 64; 8: 64 less the bits of the first; 8: positions to move on by, the
/// second value at the last of them, [`END_OF_BLOCK`] or [`LONG`] more at an end; 8: zeros before the first value; 16
/// each: the addends of the last value and of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pair(u64);

impl Pair {
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.0 as u32 & 63
    }

    /// The last value, of a word that starts with the entry's bits.
    #[inline(always)]
    pub(super) fn value(self, word: u64) -> i16 {
        ((word >> (0_u64.wrapping_sub(self.0) & 63)) + (self.0 >> 32)) as i16
    }

    /// The first value.
    #[inline(always)]
    pub(super) fn first_value(self, word: u64) -> i16 {
        ((word >> (self.0 >> 8 & 63)) + (self.0 >> 48)) as i16
    }

    #[inline(always)]
    pub(super) fn advance(self) -> u32 {
        (self.0 >> 16) as u32 & 255
    }

    #[inline(always)]
    pub(super) fn first_run(self) -> u32 {
        (self.0 >> 24) as u32 & 255
    }
}

/// What goes into a [`Pair`].
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
    fn pair(self) -> Pair {
        let bytes = [self.bits, (64 - self.first_bits) & 63, self.advance, self.first_run].map(|v| v as u8);
        let addends = u64::from(self.first_addend as u16) << 16 | u64::from(self.addend as u16);
        Pair(addends << 32 | u64::from(u32::from_le_bytes(bytes)))
    }
}

/// One symbol or several whose values nobody wants: their bits, and what to move on by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Skip(u16);

impl Skip {
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        u32::from(self.0) & 63
    }

    #[inline(always)]
    pub(super) fn advance(self) -> u32 {
        u32::from(self.0 >> 8)
    }
}

/// A DC difference; `bits` is 0 where the lookup decides nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub bits: u8,
    pub addend: i16,
}

/// A canonical code, for one symbol at a time.
#[derive(Debug)]
pub(super) struct Code {
    /// One more than the largest code of each length, as the upper bits of 16; 0 where there is none.
    ends: [u32; 17],
    /// What to add to a code of a length for its place among the symbols.
    places: [i32; 17],
    symbols: [u8; 256],
}

impl Default for Code {
    fn default() -> Self {
        Self { ends: [0; 17], places: [0; 17], symbols: [0; 256] }
    }
}

impl Code {
    fn build(segment: HuffmanSegment<'_>) -> Result<Self, Declined> {
        let mut this = Self::default();
        this.symbols[..segment.values.len()].copy_from_slice(segment.values);
        let (mut code, mut place) = (0_u32, 0_i32);
        for (length, count) in (1..).zip(segment.counts) {
            this.places[length] = place - code as i32;
            code += u32::from(*count);
            place += i32::from(*count);
            // No code is all ones, so the one after the last must still fit.
            if *count > 0 && code >= 1 << length {
                return Err(Declined("a Huffman table with more codes than fit"));
            }
            this.ends[length] = if *count > 0 { code << (16 - length) } else { 0 };
            code <<= 1;
        }
        Ok(this)
    }

    /// The symbol that the 16 bits `next` start with, and its length.
    pub(super) fn symbol(&self, next: u32) -> Option<(u8, u32)> {
        let length = (1..=16).find(|length| next < self.ends[*length])?;
        let place = (next >> (16 - length)) as i32 + self.places[length];
        // The symbols are as many as the codes.
        Some((self.symbols[place as usize & 255], length as u32))
    }

    /// For every window: symbol and length of the code it starts with, or length 0.
    fn windows(&self) -> [(u8, u8); ENTRIES] {
        let mut windows = [(0, 0); ENTRIES];
        let mut start = 0;
        while start < ENTRIES {
            match self.symbol((start as u32) << (16 - WINDOW)) {
                Some((symbol, length)) if length <= WINDOW => {
                    let end = start + (ENTRIES >> length);
                    windows[start..end].fill((symbol, length as u8));
                    start = end;
                }
                // Codes grow with their length: all that follow are longer.
                _ => break,
            }
        }
        windows
    }
}

/// What takes the known bits `prefix` off the `size` bits of a value behind them, and extends its sign.
fn addend(prefix: u32, size: u32, is_negative: bool) -> i16 {
    let stripped = 0_u32.wrapping_sub(prefix << size);
    (if is_negative { stripped.wrapping_sub((1 << size) - 1) } else { stripped }) as i16
}

/// A DC table.
#[derive(Debug)]
pub(super) struct DcTable {
    pub lookup: Box<[Difference; DC_ENTRIES]>,
    pub code: Code,
}

/// An AC table.
#[derive(Debug)]
pub(super) struct AcTable {
    pub pairs: Box<[Pair; ENTRIES]>,
    pub skips: Box<[Skip; ENTRIES]>,
    pub code: Code,
}

/// A table that can be made from a segment.
pub(super) trait Table: Default {
    /// Becomes the table of `segment`, or stays what it is.
    fn build(&mut self, segment: HuffmanSegment<'_>) -> Result<(), Declined>;
}

impl Default for DcTable {
    fn default() -> Self {
        Self { lookup: Box::new([Difference::default(); DC_ENTRIES]), code: Code::default() }
    }
}

impl Table for DcTable {
    fn build(&mut self, segment: HuffmanSegment<'_>) -> Result<(), Declined> {
        // libjpeg takes no larger difference, either.
        if segment.values.iter().any(|size| *size > 15) {
            return Err(Declined("a DC difference of more than 15 bits"));
        }
        self.code = Code::build(segment)?;
        let windows = self.code.windows();
        for (i, out) in self.lookup.iter_mut().enumerate() {
            let window = i << (WINDOW - DC_WINDOW);
            let (size, length) = windows[window];
            let one = Single::of(window as u32, size, length);
            // Code and sign must lie inside the smaller window.
            let one = one.filter(|_| u32::from(length) + u32::from(size > 0) <= DC_WINDOW);
            *out = one.map_or(Difference::default(), |one| Difference { bits: one.bits as u8, addend: one.addend });
        }
        Ok(())
    }
}

/// A symbol at the start of a window, with its value's bits.
#[derive(Clone, Copy)]
struct Single {
    bits: u32,
    addend: i16,
}

impl Single {
    /// `None` where code and sign do not fit into the window.
    fn of(window: u32, size: u8, length: u8) -> Option<Self> {
        let (size, length) = (u32::from(size & 15), u32::from(length));
        if length == 0 || length + u32::from(size > 0) > WINDOW {
            return None;
        }
        let is_negative = size > 0 && window >> (WINDOW - 1 - length) & 1 == 0;
        Some(Self { bits: length + size, addend: addend(window >> (WINDOW - length), size, is_negative) })
    }
}

impl Default for AcTable {
    fn default() -> Self {
        Self {
            pairs: Box::new([Pair::default(); ENTRIES]),
            skips: Box::new([Skip::default(); ENTRIES]),
            code: Code::default(),
        }
    }
}

impl Table for AcTable {
    fn build(&mut self, segment: HuffmanSegment<'_>) -> Result<(), Declined> {
        self.code = Code::build(segment)?;
        let windows = self.code.windows();
        for window in 0..ENTRIES {
            self.pairs[window] = Self::pair(&windows, window as u32);
            self.skips[window] = Self::skip(&windows, window as u32);
        }
        Ok(())
    }
}

impl AcTable {
    /// Zeros before the value and positions to move on by. A run of zeros without a value counts as a value of 0 at
    /// its end when it is 16 long, and ends the block otherwise.
    fn run(symbol: u8) -> Option<u32> {
        let (run, size) = (u32::from(symbol >> 4), symbol & 15);
        (size > 0 || run == 15).then_some(run)
    }

    fn pair(windows: &[(u8, u8); ENTRIES], window: u32) -> Pair {
        let nothing = Symbols { first_bits: 0, bits: 0, first_run: 63, advance: LONG, first_addend: 0, addend: 0 };
        let (symbol, length) = windows[window as usize];
        let Some(first) = Single::of(window, symbol, length) else { return nothing.pair() };
        let Some(run) = Self::run(symbol) else {
            let bits = u32::from(length);
            return Symbols { first_bits: bits, bits, advance: END_OF_BLOCK, ..nothing }.pair();
        };
        let one = Symbols {
            first_bits: first.bits,
            bits: first.bits,
            first_run: run,
            advance: run + 1,
            first_addend: first.addend,
            addend: first.addend,
        };
        if first.bits >= WINDOW {
            return one.pair();
        }
        // What the window holds behind the first symbol; the zeros shifted in are not looked at.
        let rest = window << first.bits & (ENTRIES as u32 - 1);
        let (symbol, length) = windows[rest as usize];
        let size = u32::from(symbol & 15);
        let end = first.bits + u32::from(length);
        if length == 0 || end + u32::from(size > 0) > WINDOW {
            return one.pair();
        }
        let Some(run) = Self::run(symbol) else {
            // The first value once more: all of its bits are in the window.
            let value = ((window >> (WINDOW - first.bits)) as i16).wrapping_add(first.addend);
            let addend = value.wrapping_sub((window >> (WINDOW - end)) as i16);
            return Symbols { bits: end, advance: one.advance + END_OF_BLOCK, addend, ..one }.pair();
        };
        let is_negative = size > 0 && window >> (WINDOW - 1 - end) & 1 == 0;
        let addend = addend(window >> (WINDOW - end), size, is_negative);
        Symbols { bits: end + size, advance: one.advance + run + 1, addend, ..one }.pair()
    }

    fn skip(windows: &[(u8, u8); ENTRIES], window: u32) -> Skip {
        let (mut bits, mut advance) = (0, 0);
        // A long run or two, and the position could no longer be told from an end.
        while bits < WINDOW && advance <= 32 {
            let (symbol, length) = windows[(window << bits & (ENTRIES as u32 - 1)) as usize];
            if length == 0 || bits + u32::from(length) > WINDOW {
                break;
            }
            bits += u32::from(length) + u32::from(symbol & 15);
            match Self::run(symbol) {
                Some(run) => advance += run + 1,
                None => {
                    advance += END_OF_BLOCK;
                    break;
                }
            }
        }
        let advance = if bits == 0 { LONG } else { advance };
        Skip((advance << 8 | bits) as u16)
    }
}

/// Tables by their content, those used last.
#[derive(Debug)]
pub(super) struct Tables<T> {
    kept: Vec<Kept<T>>,
    /// Uses so far.
    clock: u64,
}

#[derive(Debug)]
struct Kept<T> {
    counts: [u8; 16],
    values: Vec<u8>,
    last_use: u64,
    table: T,
}

impl<T> Default for Tables<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), clock: 0 }
    }
}

impl<T: Table> Tables<T> {
    /// The number of the table of `segment`, for [`get`](Self::get). Good until [`KEPT`] other tables were asked for.
    pub(super) fn find(&mut self, segment: HuffmanSegment<'_>) -> Result<usize, Declined> {
        self.clock += 1;
        let place = self.kept.iter().position(|k| k.counts == *segment.counts && k.values == segment.values);
        if let Some(place) = place {
            self.kept[place].last_use = self.clock;
            return Ok(place);
        }
        if self.kept.len() < KEPT {
            let mut table = T::default();
            table.build(segment)?;
            let values = segment.values.to_vec();
            self.kept.push(Kept { counts: *segment.counts, values, last_use: self.clock, table });
            return Ok(self.kept.len() - 1);
        }
        // In place: the numbers of the others stay.
        let oldest = (0..KEPT).min_by_key(|i| self.kept[*i].last_use).unwrap_or(0);
        let Kept { counts, values, last_use, table } = &mut self.kept[oldest];
        table.build(segment)?;
        (*counts, *last_use) = (*segment.counts, self.clock);
        values.clear();
        values.extend_from_slice(segment.values);
        Ok(oldest)
    }

    pub(super) fn get(&self, number: usize) -> &T {
        &self.kept[number].table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of `count` codes of 8 bits.
    fn counts(count: u8) -> [u8; 16] {
        std::array::from_fn(|i| if i == 7 { count } else { 0 })
    }

    #[test]
    fn a_table_found_stays_in_its_place_while_others_push_old_ones_out() {
        let mut tables = Tables::<DcTable>::default();
        let values: Vec<u8> = (0..16).collect();
        for count in 1..16 {
            let (first, second) = (counts(count), counts(count + 1));
            let first = HuffmanSegment { counts: &first, values: &values[..usize::from(count)] };
            let second = HuffmanSegment { counts: &second, values: &values[..usize::from(count) + 1] };
            let number = tables.find(first).unwrap();
            tables.find(second).unwrap();
            let last = tables.get(number).code.symbol(u32::from(count - 1) << 8);
            assert_eq!(last, Some((count - 1, 8)));
            assert_eq!(tables.get(number).code.symbol(u32::from(count) << 8), None);
            assert_eq!(tables.find(first).unwrap(), number);
        }
        assert_eq!(tables.kept.len(), KEPT);
    }

    #[test]
    fn a_table_that_cannot_be_built_leaves_the_kept_ones_alone() {
        let mut tables = Tables::<DcTable>::default();
        let values: Vec<u8> = (0..16).collect();
        let mut good = Vec::new();
        for count in 1..=KEPT as u8 {
            let counts = counts(count);
            good.push(tables.find(HuffmanSegment { counts: &counts, values: &values[..usize::from(count)] }).unwrap());
        }
        // Two codes of one bit: one of them would be all ones.
        let full = std::array::from_fn(|i| if i == 0 { 2 } else { 0 });
        assert!(tables.find(HuffmanSegment { counts: &full, values: &[0, 1] }).is_err());
        assert!(tables.find(HuffmanSegment { counts: &counts(1), values: &[16] }).is_err());
        for (count, number) in (1..).zip(good) {
            assert_eq!(tables.get(number).code.symbol(u32::from(count - 1_u8) << 8), Some((count - 1, 8)));
        }
    }

    #[test]
    fn every_window_gives_what_one_symbol_at_a_time_gives() {
        // Codes of all lengths: values of any size behind short and long ones.
        let counts = [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 20];
        let total: u8 = counts.iter().sum();
        let values: Vec<u8> =
            (0..total).map(|i| [0x00, 0x01, 0xf0, 0x02, 0x11, 0x13, 0x05, 0x2a][usize::from(i) % 8]).collect();
        let mut table = AcTable::default();
        table.build(HuffmanSegment { counts: &counts, values: &values }).unwrap();
        let mut pairs = 0;
        for window in 0..ENTRIES as u32 {
            // Two kinds of bits behind the window.
            for behind in [0, 0x1f_ffff] {
                let bits = window << 21 | behind;
                let one = |at: u32| {
                    let (symbol, length) = table.code.symbol(bits << at >> 16)?;
                    let size = u32::from(symbol & 15);
                    let value = if size == 0 { 0 } else { (bits << at << length >> (32 - size)) as i32 };
                    let value = if size > 0 && value < 1 << (size - 1) { value - (1 << size) + 1 } else { value };
                    Some((AcTable::run(symbol), value as i16, at + length + size))
                };
                let entry = table.pairs[window as usize];
                let word = u64::from(bits) << 32;
                if entry.advance() == LONG {
                    continue;
                }
                let (run, value, end) = one(0).unwrap();
                let Some(run) = run else {
                    assert_eq!((entry.advance(), entry.bits()), (END_OF_BLOCK, end));
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
                        assert_eq!(entry.advance(), run + 1 + END_OF_BLOCK);
                        assert_eq!(entry.value(word), value);
                    }
                }
            }
        }
        assert!(pairs > 100, "{pairs}");
    }
}
