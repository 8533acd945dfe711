//! DC differences: sizes up to 15 bits, one per lookup.

use super::super::fallback::Fallback;
use super::super::markers::HuffmanSegment;
use super::{Code, Table, WINDOW, WindowSymbol};

/// Bits of a lookup for DC differences, which have few codes.
pub(in super::super) const DC_WINDOW: u32 = 9;

const DC_ENTRIES: usize = 1 << DC_WINDOW;

/// Entry of a DC difference; `bits` is 0 if the lookup decodes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct DcEntry {
    pub bits: u8,
    pub addend: i16,
}

/// Table of a DC code.
#[derive(Debug)]
pub(in super::super) struct DcTable {
    pub lookup: Box<[DcEntry; DC_ENTRIES]>,
    pub code: Code,
}

impl Default for DcTable {
    fn default() -> Self {
        Self { lookup: Box::new([DcEntry::default(); DC_ENTRIES]), code: Code::default() }
    }
}

impl Table for DcTable {
    fn build(&mut self, segment: HuffmanSegment<'_>) -> Result<(), Fallback> {
        // libjpeg rejects larger differences, too.
        if segment.values.iter().any(|size| *size > 15) {
            return Err(Fallback("a DC difference of more than 15 bits"));
        }
        self.code = Code::build(segment)?;
        let windows = self.code.windows();
        for (i, out) in self.lookup.iter_mut().enumerate() {
            let window = i << (WINDOW - DC_WINDOW);
            let (size, length) = windows[window];
            let one = WindowSymbol::of(window as u32, size, length);
            // Code and sign must be inside the smaller window.
            let one = one.filter(|_| u32::from(length) + u32::from(size > 0) <= DC_WINDOW);
            *out = one.map_or(DcEntry::default(), |one| DcEntry { bits: one.bits as u8, addend: one.addend });
        }
        Ok(())
    }
}
