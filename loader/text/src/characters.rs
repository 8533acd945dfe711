//! Characters that both engines treat alike.

use forebay_core::sync::OnceLock;

use crate::unicode;

/// Bytes of ASCII that are checked at once.
const ASCII_BYTES: usize = 16;

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
        let mut set = Self { absent: vec![0; 0x0011_0000 / 64].into_boxed_slice() };
        for c in tables.iter().flat_map(|table| table.iter()).flat_map(|&(first, last)| first..=last) {
            set.remove(c);
        }
        set
    }

    fn remove(&mut self, c: u32) {
        self.absent[c as usize / 64] |= 1_u64 << (c % 64);
    }

    /// Returns the characters of this set that `is_kept` is true for. ASCII is kept.
    pub(crate) fn filter(&self, is_kept: impl Fn(char) -> bool) -> Self {
        let mut set = Self { absent: self.absent.clone() };
        ('\u{80}'..=char::MAX).filter(|&c| !is_kept(c)).for_each(|c| set.remove(c.into()));
        set
    }

    /// True if all characters of `text` are in the set. ASCII is.
    pub(crate) fn have_all(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&first) = bytes.get(at) {
            if first < 0x80 {
                // A run of ASCII is checked in steps of one vector.
                let step = bytes[at..].first_chunk::<ASCII_BYTES>().filter(|chunk| chunk.is_ascii());
                at += step.map_or(1, |chunk| chunk.len());
                continue;
            }
            // The last byte has the lowest six bits of the number, in which a row of the table has a bit for each.
            let tail = |count: usize| bytes.get(at + count).map_or(0, |byte| usize::from(byte & 0x3f));
            let (row, length) = match first {
                0x80..0xe0 => (usize::from(first & 0x1f), 2),
                0xe0..0xf0 => (usize::from(first & 0xf) << 6 | tail(1), 3),
                _ => (usize::from(first & 7) << 12 | tail(1) << 6 | tail(2), 4),
            };
            if self.absent[row] >> tail(length - 1) & 1 != 0 {
                return false;
            }
            at += length;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_each_character_that_is_not_removed() {
        let set = Characters::of_all().filter(|c| c != 'é' && c != '中' && c != '🤣');
        let is_in =
            |table: &[(u32, u32)], c: char| table.iter().any(|&(first, last)| (first..=last).contains(&c.into()));
        for c in ('\0'..='\u{ffff}').chain(('\u{10000}'..=char::MAX).step_by(7)).chain(['🤣', char::MAX]) {
            let expected = !is_in(unicode::PATTERNS, c) && !is_in(unicode::REST, c) && !matches!(c, 'é' | '中' | '🤣');
            for text in [c.to_string(), format!("a{c}"), format!("{}{c}", "a".repeat(20)), format!("ä語{c}b")] {
                assert_eq!(set.have_all(&text), expected, "{text:?}");
            }
        }
        assert!(set.have_all("") && set.have_all(&"a".repeat(100)));
    }
}
