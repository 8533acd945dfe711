//! RIFF container of WebP: finds the chunk to decode, and checks that the sizes agree.
//!
//! ```text
//! RIFF size WEBP --+-- VP8 | VP8L                                   one frame, nothing else
//!                  +-- VP8X (canvas) ... VP8 | VP8L ...             one frame of the canvas' size
//!                  +-- VP8X (canvas) ... ANMF (position VP8 | VP8L)... frames on the canvas
//! ```

use crate::geometry::{Region, Size};
use forebay_core::error::{Error, Result};

/// Bytes of a chunk's name and length.
const HEADER: usize = 8;

const FRAMES: &[&[u8]] = &[b"VP8 ", b"VP8L"];

/// The flag of an animation in `VP8X`.
const ANIMATED: u32 = 2;

/// Flags of `VP8X`: the file has EXIF data, and XMP data.
const HAS_EXIF: u32 = 8;
const HAS_XMP: u32 = 4;

/// Returns the EXIF data and the XMP data of a file, which are announced by its flags.
pub(super) fn metadata(bytes: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    let Some(mut rest) = bytes.get(12..).filter(|_| is_webp(bytes)) else { return (None, None) };
    let first = next_chunk(&mut rest).ok().filter(|first| first.name == b"VP8X");
    let flags = first.and_then(|first| number(first.body, 0, 1).ok()).unwrap_or(0);
    let find = |flag: u32, name: &[u8]| {
        let chunk = (flags & flag != 0).then(|| named_chunk(rest, &[name]).ok()).flatten();
        chunk.map(|chunk| chunk.body)
    };
    (find(HAS_EXIF, b"EXIF"), find(HAS_XMP, b"XMP "))
}

/// Returns true if `bytes` starts as a WebP file does.
pub fn is_webp(bytes: &[u8]) -> bool {
    bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")
}

/// Frame that a file is decoded to.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// Chunk `VP8 ` or `VP8L`, with name and length.
    pub chunk: &'a [u8],
    /// Chunk `ALPH` before it, the opacity of a `VP8 `.
    pub alpha: Option<&'a [u8]>,
    /// Region of the canvas that it covers; its own header has the same size.
    pub position: Region,
    pub canvas: Region,
}

#[derive(Clone, Copy)]
struct Chunk<'a> {
    name: &'a [u8],
    body: &'a [u8],
    /// Name, length and body.
    all: &'a [u8],
}

fn malformed(defect: &'static str) -> Error {
    Error::decode("the WebP is malformed").with("defect", defect)
}

fn truncated() -> Error {
    Error::decode("the WebP ends early")
}

/// Reads a little-endian number of `count` bytes, at most 4.
fn number(bytes: &[u8], at: usize, count: usize) -> Result<u32> {
    let bytes = bytes.get(at..at + count).ok_or_else(truncated)?;
    Ok(bytes.iter().rev().fold(0, |sum, b| sum << 8 | u32::from(*b)))
}

/// Takes the next chunk from `rest`.
fn next_chunk<'a>(rest: &mut &'a [u8]) -> Result<Chunk<'a>> {
    let body = rest.get(HEADER..HEADER + number(rest, 4, 4)? as usize).ok_or_else(truncated)?;
    let (all, after) = rest.split_at(HEADER + body.len());
    // Padded to an even length; the last one's padding may be missing.
    *rest = after.get(body.len() % 2..).unwrap_or_default();
    Ok(Chunk { name: &all[..4], body, all })
}

/// Returns the next chunk in `rest` with one of these names.
fn named_chunk<'a>(mut rest: &'a [u8], names: &[&[u8]]) -> Result<Chunk<'a>> {
    while !rest.is_empty() {
        let chunk = next_chunk(&mut rest)?;
        if names.contains(&chunk.name) {
            return Ok(chunk);
        }
    }
    Err(malformed("a chunk is missing"))
}

impl<'a> Frame<'a> {
    /// Finds the first frame. A truncated chunk, and a frame with a size that differs from the file's, are errors.
    pub(super) fn first(bytes: &'a [u8]) -> Result<Self> {
        if !is_webp(bytes) {
            return Err(malformed("no WebP signature"));
        }
        let riff = bytes[HEADER..].get(..number(bytes, 4, 4)? as usize).ok_or_else(truncated)?;
        let mut rest = riff.get(4..).unwrap_or_default();
        let first = next_chunk(&mut rest)?;
        if first.name != b"VP8X" {
            let all = Region::all(first.frame_size()?);
            return Ok(Self { chunk: first.all, alpha: None, position: all, canvas: all });
        }
        let (flags, w, h) = (number(first.body, 0, 1)?, number(first.body, 4, 3)? + 1, number(first.body, 7, 3)? + 1);
        let canvas = Region::all(Size { w, h });
        let (chunks, position) = if flags & ANIMATED == 0 {
            (rest, canvas)
        } else {
            let animated = named_chunk(rest, &[b"ANMF"])?.body;
            let field = |i: usize| number(animated, 3 * i, 3);
            // Corners are stored in units of two pixels.
            let position = Region { x: field(0)? * 2, y: field(1)? * 2, w: field(2)? + 1, h: field(3)? + 1 };
            (animated.get(16..).ok_or_else(truncated)?, position)
        };
        let frame = named_chunk(chunks, FRAMES)?;
        let alpha = named_chunk(chunks, &[b"ALPH"]).ok().filter(|_| frame.name == b"VP8 ").map(|chunk| chunk.all);
        if frame.frame_size()? != position.size() {
            return Err(malformed("a frame's size differs from the file's"));
        }
        if position.x + position.w > w || position.y + position.h > h {
            return Err(malformed("a frame outside of the canvas"));
        }
        Ok(Self { chunk: frame.all, alpha, position, canvas })
    }
}

impl Chunk<'_> {
    /// Reads the size in a frame's own header.
    fn frame_size(&self) -> Result<Size> {
        const SIDE: u32 = 0x3fff;
        let size = match (self.name, self.body) {
            (b"VP8 ", [_, _, _, 0x9d, 0x01, 0x2a, sides @ ..]) => {
                Size { w: number(sides, 0, 2)? & SIDE, h: number(sides, 2, 2)? & SIDE }
            }
            (b"VP8L", [0x2f, sides @ ..]) => {
                let sides = number(sides, 0, 4)?;
                Size { w: (sides & SIDE) + 1, h: (sides >> 14 & SIDE) + 1 }
            }
            _ => return Err(malformed("no header of a frame")),
        };
        if size.w == 0 || size.h == 0 { Err(malformed("a frame without pixels")) } else { Ok(size) }
    }
}

/// Returns a file with only this chunk.
pub(super) fn file(chunk: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(12 + chunk.len());
    file.extend(b"RIFF");
    file.extend((chunk.len() as u32 + 4).to_le_bytes());
    file.extend(b"WEBP");
    file.extend(chunk);
    file
}

/// Returns a file with the frame and its opacity.
pub(super) fn file_with_alpha(frame: &Frame<'_>) -> Vec<u8> {
    const HAS_ALPHA: u32 = 0x10;
    let mut chunks = b"VP8X".to_vec();
    chunks.extend(10_u32.to_le_bytes());
    chunks.extend(HAS_ALPHA.to_le_bytes());
    for side in [frame.position.w, frame.position.h] {
        chunks.extend(&(side - 1).to_le_bytes()[..3]);
    }
    for chunk in [frame.alpha.unwrap_or_default(), frame.chunk] {
        chunks.extend(chunk);
        chunks.resize(chunks.len().next_multiple_of(2), 0);
    }
    file(&chunks)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    type Named<'a> = ([u8; 4], &'a [u8]);

    fn chunk((name, body): Named<'_>) -> Vec<u8> {
        let mut out = name.to_vec();
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(body);
        out.resize(out.len().next_multiple_of(2), 0);
        out
    }

    /// Returns a file with these chunks.
    pub(in super::super) fn riff(chunks: &[Named<'_>]) -> Vec<u8> {
        file(&chunks.iter().flat_map(|c| chunk(*c)).collect::<Vec<_>>())
    }

    fn three(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_le_bytes()[..3].to_vec()).collect()
    }

    fn canvas(size: Size, flags: u8) -> Vec<u8> {
        let mut body = vec![flags, 0, 0, 0];
        body.extend(three(&[size.w - 1, size.h - 1]));
        body
    }

    /// Returns an extended file: a frame's chunk after more chunks.
    pub(in super::super) fn extended(size: Size, flags: u8, before: &[Named<'_>], frame: &[u8]) -> Vec<u8> {
        let mut chunks = chunk((*b"VP8X", &canvas(size, flags)));
        chunks.extend(before.iter().flat_map(|c| chunk(*c)));
        chunks.extend(frame);
        file(&chunks)
    }

    /// Returns an animation of frames, each a position and a chunk.
    pub(in super::super) fn animation(size: Size, frames: &[(Region, &[u8])]) -> Vec<u8> {
        let frames: Vec<Vec<u8>> = frames
            .iter()
            .map(|(position, frame)| {
                let mut body = three(&[position.x / 2, position.y / 2, position.w - 1, position.h - 1, 100]);
                body.push(0);
                body.extend(chunk((*b"ALPH", b"odd")));
                body.extend(*frame);
                body
            })
            .collect();
        let canvas = canvas(size, 2);
        let mut chunks: Vec<Named<'_>> = vec![(*b"VP8X", &canvas), (*b"ANIM", &[9; 6])];
        chunks.extend(frames.iter().map(|body| (*b"ANMF", &body[..])));
        riff(&chunks)
    }

    /// Returns the header of a frame.
    fn lossless(w: u32, h: u32) -> Vec<u8> {
        let mut body = vec![0x2f];
        body.extend(((w - 1) | ((h - 1) << 14)).to_le_bytes());
        body
    }

    fn lossy(w: u16, h: u16) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 0x9d, 0x01, 0x2a];
        body.extend(w.to_le_bytes());
        body.extend(h.to_le_bytes());
        body
    }

    #[test]
    fn a_frame_is_found_with_its_size_and_position() {
        let simple = riff(&[(*b"VP8 ", &lossy(0x4000 + 7, 5)), (*b"EXIF", b"x")]);
        let frame = Frame::first(&simple).unwrap();
        // The upper two bits of a side are a hint for scaling.
        assert_eq!(frame.canvas, Region { x: 0, y: 0, w: 7, h: 5 });
        assert_eq!(frame.chunk.len(), HEADER + 10);
        let chunk = chunk((*b"VP8L", &lossless(16384, 1)));
        let size = Size { w: 16384, h: 1 };
        assert_eq!(Frame::first(&file(&chunk)).unwrap().canvas.size(), size);
        let position = Region { x: 4, y: 2, w: 16384, h: 1 };
        let animated = animation(Size { w: 16388, h: 3 }, &[(position, &chunk)]);
        let frame = Frame::first(&animated).unwrap();
        assert_eq!((frame.position, frame.canvas.size()), (position, Size { w: 16388, h: 3 }));
    }

    #[test]
    fn contradicting_headers_are_errors() {
        let size = Size { w: 4, h: 4 };
        let four = chunk((*b"VP8L", &lossless(4, 4)));
        let position = |x, y, w, h| Region { x, y, w, h };
        assert!(Frame::first(&extended(size, 0, &[], &four)).is_ok());
        let huge = Size { w: 1 << 24, h: 1 << 24 };
        for (about, bytes) in [
            ("nothing", vec![]),
            ("a wrong RIFF", b"RIFF\x04\0\0\0WAVE".to_vec()),
            ("no chunk", riff(&[])),
            ("an unknown chunk", riff(&[(*b"ABCD", &lossless(4, 4))])),
            ("no signature", riff(&[(*b"VP8L", &[0; 5])])),
            ("no start code", riff(&[(*b"VP8 ", &[0; 10])])),
            ("no pixels", riff(&[(*b"VP8 ", &lossy(0, 4))])),
            ("a header cut", riff(&[(*b"VP8 ", &lossy(4, 4)[..9])])),
            ("a canvas cut", riff(&[(*b"VP8X", &[0; 9])])),
            ("a canvas alone", extended(size, 0, &[], &[])),
            ("a larger frame", extended(Size { w: 3, h: 4 }, 0, &[], &four)),
            ("a smaller frame", extended(huge, 0, &[], &four)),
            ("a frame in no animation", extended(size, 2, &[], &four)),
            ("a wrong size", animation(size, &[(position(0, 0, 3, 4), &four)])),
            ("outside of the canvas", animation(size, &[(position(2, 0, 4, 4), &four)])),
            ("an empty animation", animation(size, &[])),
            ("an animation cut", extended(size, 2, &[(*b"ANMF", &[0; 15])], &[])),
        ] {
            assert!(Frame::first(&bytes).is_err(), "{about}");
        }
    }
}
