//! Characters that both engines treat alike.

use forebay_core::sync::OnceLock;

use crate::unicode;

/// A set of characters.
pub(crate) struct Characters {
    /// A bit for each character that is not in the set.
    absent: Box<[u64]>,
}

impl Characters {
    /// Returns the characters that have the same classes in the known patterns.
    pub(crate) fn of_patterns() -> &'static Self {
        static SET: OnceLock<Characters> = OnceLock::new();
        SET.get_or_init(|| Self::without(&[unicode::PATTERNS]))
    }

    /// Returns the characters that have the same properties.
    pub(crate) fn of_all() -> &'static Self {
        static SET: OnceLock<Characters> = OnceLock::new();
        SET.get_or_init(|| Self::without(&[unicode::PATTERNS, unicode::REST]))
    }

    fn without(tables: &[&[(u32, u32)]]) -> Self {
        let mut absent = vec![0; 0x0011_0000 / 64].into_boxed_slice();
        for c in tables.iter().flat_map(|table| table.iter()).flat_map(|&(first, last)| first..=last) {
            absent[c as usize / 64] |= 1_u64 << (c % 64);
        }
        Self { absent }
    }

    /// True if all characters of `text` are in the set. ASCII is.
    pub(crate) fn have_all(&self, text: &str) -> bool {
        text.is_ascii() || text.chars().all(|c| self.absent[c as usize / 64] & (1 << (c as u32 % 64)) == 0)
    }
}
