//! Characters of bytes in byte-level vocabularies: the byte itself where it is a visible character, and otherwise one
//! from U+0100 on.

/// Number of characters up to the last one.
const END: usize = 0x144;

/// Byte of each character, or a number above all bytes.
const BYTES: [u16; END] = {
    let mut bytes = [u16::MAX; END];
    let (mut byte, mut next) = (0, 0x100);
    while byte < 0x100 {
        if is_visible(byte) {
            bytes[byte as usize] = byte;
        } else {
            bytes[next] = byte;
            next += 1;
        }
        byte += 1;
    }
    bytes
};

const fn is_visible(byte: u16) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// Returns the bytes of a token; `None` for one with a different character.
pub(crate) fn bytes_of(token: &str) -> Option<Vec<u8>> {
    let byte_of = |c: char| BYTES.get(c as usize).and_then(|&byte| u8::try_from(byte).ok());
    token.chars().map(byte_of).collect()
}

#[cfg(test)]
mod tests {
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    use super::*;

    #[test]
    fn each_byte_has_the_character_of_tokenizers() {
        let token: String = ByteLevel::alphabet().iter().collect();
        assert_eq!(bytes_of(&token).unwrap(), (0..=u8::MAX).collect::<Vec<_>>());
        for other in ["\u{144}", " ", "a\n", "\u{ad}", "中"] {
            assert_eq!(bytes_of(other), None);
        }
    }
}
