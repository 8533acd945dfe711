//! Text of run lengths, as pycocotools writes it.

use forebay_core::error::{Error, Result};

/// Characters of a number: six have 30 bits, more than a picture has pixels.
const CHARACTERS_MAX: u32 = 6;

/// Returns the run lengths of a text: numbers of five bits in each character, from the fourth one on as a difference
/// from the second one before.
///
/// # Errors
///
/// [`crate::ErrorKind::Decode`] for characters that are no part of such a text, a text that ends inside of a number,
/// and a length below zero.
pub fn unpack(text: &[u8]) -> Result<Vec<u32>> {
    let failed = |message: &str, place: usize| Err(Error::decode(message.to_owned()).with("character", place));
    let mut lengths: Vec<u32> = Vec::new();
    let (mut number, mut characters) = (0_i64, 0);
    for (place, character) in text.iter().enumerate() {
        let bits = match character {
            48..=111 => i64::from(character - 48),
            _ => return failed("the text of run lengths has a character that cannot be part of one", place),
        };
        number |= (bits & 0x1f) << (5 * characters);
        characters += 1;
        if bits & 0x20 != 0 {
            if characters == CHARACTERS_MAX {
                return failed("a run length is larger than every picture", place);
            }
            continue;
        }
        if bits & 0x10 != 0 {
            number |= -1 << (5 * characters);
        }
        if let [.., second, _] = lengths[..]
            && lengths.len() > 2
        {
            number += i64::from(second);
        }
        match u32::try_from(number) {
            Ok(length) => lengths.push(length),
            Err(_) => return failed("a run length is below zero", place),
        }
        (number, characters) = (0, 0);
    }
    if characters > 0 {
        return failed("the text of run lengths ends inside a number", text.len());
    }
    Ok(lengths)
}
