//! Entries of the first directory of TIFF data, which EXIF data are, too.

/// Entry for a tag.
#[derive(Clone, Copy)]
pub(crate) struct TiffEntry {
    /// Start of its 12 bytes: tag, type, count and value.
    at: usize,
    /// Numbers start with their highest byte.
    is_big: bool,
}

const SHORT: u32 = 3;
const LONG: u32 = 4;

impl TiffEntry {
    /// Finds the first entry for `tag`. Data that are no TIFF, or damaged, have none.
    pub(crate) fn find(tiff: &[u8], tag: u32) -> Option<Self> {
        let is_big = match tiff.first_chunk::<4>()? {
            b"MM\0*" => true,
            b"II*\0" => false,
            _ => return None,
        };
        let read = |at: usize, length: usize| read(tiff, is_big, at, length);
        let directory = read(4, 4)? as usize;
        let count = read(directory, 2)? as usize;
        let at = (0..count).map(|i| directory + 2 + 12 * i).find(|at| read(*at, 2) == Some(tag))?;
        Some(Self { at, is_big })
    }

    /// Reads its value, if that is a short or a long number.
    pub(crate) fn number(self, tiff: &[u8]) -> Option<u32> {
        let length = match read(tiff, self.is_big, self.at + 2, 2)? {
            SHORT => 2,
            LONG => 4,
            _ => return None,
        };
        read(tiff, self.is_big, self.at + 8, length)
    }

    /// Replaces its value by a short number.
    pub(crate) fn replace(self, tiff: &mut [u8], number: u16) {
        let bytes = |number: u16| if self.is_big { number.to_be_bytes() } else { number.to_le_bytes() };
        for (at, number) in [(self.at + 2, SHORT as u16), (self.at + 8, number)] {
            if let Some(position) = tiff.get_mut(at..at + 2) {
                position.copy_from_slice(&bytes(number));
            }
        }
    }
}

fn read(tiff: &[u8], is_big: bool, at: usize, length: usize) -> Option<u32> {
    let bytes = tiff.get(at..)?.get(..length)?.iter().map(|byte| u32::from(*byte));
    let join = |number, byte| number << 8 | byte;
    Some(if is_big { bytes.fold(0, join) } else { bytes.rev().fold(0, join) })
}
