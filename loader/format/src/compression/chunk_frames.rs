//! LitData's chunks with items that are compressed in groups. Unpacked, such a chunk is like one that was never
//! compressed.
//!
//! ```text
//!   "LDFZ01\0\0" | u16 version | u16 flags | u32 n | u32 items of a frame | u32 frames
//!       | u32 offset[0..=n] in the content of all frames
//!       | for each frame: u32 first item | u32 items | u64 offset | u32 bytes | u32 bytes of the content
//!       | frames of zstd
//! ```

use super::codec::{Codec, Names};
use super::expansion::check_expansion;
use super::zstd::RATIO_MAX;
use forebay_core::error::{Error, ErrorKind, Result};
use std::io::{self, BufRead, Read};

const MAGIC: &[u8; 8] = b"LDFZ01\0\0";
const VERSION: u16 = 1;

/// Bytes before the offsets.
const HEAD_BYTES: usize = 24;
/// Bytes of a frame in the table.
const ENTRY_BYTES: usize = 24;

pub(super) struct ChunkFrames;

impl Codec for ChunkFrames {
    fn names(&self) -> &'static Names {
        &Names { name: "litdata", extensions: &[], tar_extensions: &[], encodings: &[] }
    }

    fn compress(&self, _raw: &[u8], _level: u32) -> Option<io::Result<Vec<u8>>> {
        None
    }

    fn reader<'a>(&self, _packed: Box<dyn BufRead + 'a>, _: u64) -> Option<io::Result<Box<dyn Read + 'a>>> {
        None
    }

    fn unpack(&self, packed: &[u8], raw_bytes_max: u64, out: &mut Vec<u8>) -> Result<()> {
        unpack(packed, raw_bytes_max, out)
    }
}

/// Bytes at the front of a chunk of `items` items from which [`raw_bytes`] follow.
pub(crate) fn front_bytes(items: u64) -> u64 {
    items.saturating_add(1).saturating_mul(4).saturating_add(HEAD_BYTES as u64)
}

/// Returns the bytes of the unpacked chunk; `front` is its front.
///
/// # Errors
///
/// [`ErrorKind::Format`] for a chunk that is not one of `items` items; [`ErrorKind::Unsupported`] for a different
/// version.
pub(crate) fn raw_bytes(front: &[u8], items: u64) -> Result<u64> {
    let head = Head::read(front)?;
    if u64::from(head.items) != items {
        let found = head.items;
        return Err(Error::format(format!("the chunk has {found} items where the index declares {items}")));
    }
    Ok(head.table_bytes() + u64::from(head.offsets.last().copied().map_or(0, u32::from_le_bytes)))
}

/// Unpacks a chunk into the empty `out`, up to `raw_bytes_max`.
///
/// # Errors
///
/// [`ErrorKind::Format`] for a damaged chunk; [`ErrorKind::Full`] without memory.
fn unpack(packed: &[u8], raw_bytes_max: u64, out: &mut Vec<u8>) -> Result<()> {
    let head = Head::read(packed)?;
    let table_bytes = head.table_bytes();
    if table_bytes > raw_bytes_max {
        return Err(Error::format(format!("a chunk of {} items has more than {raw_bytes_max} bytes", head.items)));
    }
    let full = |_| Error::new(ErrorKind::Full, "no memory for an unpacked chunk");
    out.try_reserve_exact(table_bytes as usize).map_err(full)?;
    out.extend(head.items.to_le_bytes());
    for offset in head.offsets {
        let offset = u32::try_from(u64::from(u32::from_le_bytes(*offset)) + table_bytes);
        out.extend(offset.map_err(|_| Error::format("a chunk of more than 4 GiB"))?.to_le_bytes());
    }
    let mut items = 0_u64;
    for entry in head.frames.chunks_exact(ENTRY_BYTES) {
        let word = |at: usize| entry[at..at + 4].iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        let (first, count, place, bytes, content) = (word(0), word(4), word(8) | word(12) << 32, word(16), word(20));
        if first != items {
            return Err(damaged().with("frame_of_item", first));
        }
        items += count;
        let frame = usize::try_from(place).ok().and_then(|place| packed.get(place..)?.get(..bytes as usize));
        let frame = frame.ok_or_else(|| damaged().with("frame_of_item", first))?;
        let free = raw_bytes_max.saturating_sub(out.len() as u64);
        if content > free.min((frame.len() as u64).saturating_mul(RATIO_MAX)) {
            return Err(damaged().with("frame_of_item", first).with("content_bytes", content));
        }
        // Frames may share bytes of the chunk.
        check_expansion(packed.len() as u64, (out.len() as u64).saturating_add(content))?;
        let start = out.len();
        let failed = |e| damaged().with("frame_of_item", first).caused_by(e);
        let mut reader = zstd::stream::read::Decoder::with_buffer(frame).map_err(failed)?;
        out.try_reserve_exact(content as usize).map_err(full)?;
        out.resize(start + content as usize, 0);
        reader.read_exact(&mut out[start..]).map_err(failed)?;
        // The read after the last byte checks the end of the frame, too.
        if reader.read(&mut [0]).map_err(failed)? != 0 {
            return Err(damaged().with("frame_of_item", first));
        }
    }
    if items == u64::from(head.items) { Ok(()) } else { Err(damaged().with("items", items)) }
}

/// Tables at the front of a chunk.
struct Head<'a> {
    items: u32,
    /// One offset for each item and one more, as far as the front has them.
    offsets: &'a [[u8; 4]],
    /// Table of the frames, as far as the front has it.
    frames: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(front: &'a [u8]) -> Result<Self> {
        let (head, rest) = front.split_first_chunk::<HEAD_BYTES>().ok_or_else(damaged)?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if !head.starts_with(MAGIC) {
            return Err(damaged());
        }
        let version = u16::from_le_bytes([head[8], head[9]]);
        if version != VERSION {
            let message = format!("version {version} of compressed chunks is not known, only {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let (items, frames) = (word(12), word(20));
        let offsets = rest.get(..(items as usize + 1) * 4).ok_or_else(damaged)?;
        let rest = &rest[offsets.len()..];
        let frames = rest.get(..frames as usize * ENTRY_BYTES).unwrap_or(rest);
        Ok(Self { items, offsets: offsets.as_chunks().0, frames })
    }

    /// Bytes of the table of the unpacked chunk.
    fn table_bytes(&self) -> u64 {
        4 * (u64::from(self.items) + 2)
    }
}

fn damaged() -> Error {
    Error::format("the chunk is damaged, or its items are not compressed in groups")
}

#[cfg(test)]
mod tests {
    use super::super::Compression;

    #[test]
    fn frames_that_share_their_bytes_are_refused_together() {
        let frame = zstd::bulk::compress(&vec![0; 100 << 20], 1).unwrap();
        let items = 3_u32;
        let mut chunk = b"LDFZ01\0\0\x01\0\0\0".to_vec();
        let place = 24 + 4 * (items + 1) + 24 * items;
        let words = [items, 1, items].into_iter().chain((0..=items).map(|item| item * (100 << 20)));
        let entries = (0..items).flat_map(|item| [item, 1, place, 0, frame.len() as u32, 100 << 20]);
        chunk.extend(words.chain(entries).flat_map(u32::to_le_bytes));
        chunk.extend(&frame);
        let bytes = 20 + 3 * (100 << 20);
        let e = Compression::CHUNK_FRAMES.decompress(&chunk, bytes, &mut Vec::new()).unwrap_err();
        assert!(e.to_string().contains("decompression bomb"), "{e}");
    }
}
