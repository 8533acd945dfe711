//! Damaged copies of valid files. The same seed produces the same damage on every machine.

use crate::data::Draws;

/// Returns `good` with changed bytes, a cut, a repeated piece or the tail of a different file. `special` contains bytes
/// that have a meaning in the format.
pub fn damage(good: &[u8], others: &[Vec<u8>], special: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let mut below = |n: usize| draws.below(n.max(1) as u64) as usize;
    for _ in 0..=below(3) {
        let at = below(bytes.len());
        match below(8) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << below(8),
            2 | 3 if !bytes.is_empty() => bytes[at] = below(256) as u8,
            4 if !bytes.is_empty() => bytes[at] = special[below(special.len())],
            5 => {
                let piece = bytes[at..(at + below(64)).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            6 => drop(bytes.drain(at..(at + below(16)).min(bytes.len()))),
            _ => {
                let other = &others[below(others.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[below(other.len())..]);
            }
        }
    }
    bytes
}
