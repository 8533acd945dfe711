//! Damage for good files: the same seed damages alike on every machine.

use crate::data::Draws;

/// A byte here and there, a cut, a piece twice, the tail of another file. `telling` are bytes that mean something in the
/// format.
pub fn damage(good: &[u8], others: &[Vec<u8>], telling: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let mut below = |n: usize| draws.below(n.max(1) as u64) as usize;
    for _ in 0..=below(3) {
        let at = below(bytes.len());
        match below(8) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << below(8),
            2 | 3 if !bytes.is_empty() => bytes[at] = below(256) as u8,
            4 if !bytes.is_empty() => bytes[at] = telling[below(telling.len())],
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
