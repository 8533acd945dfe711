//! Whole-file compression: br, bz2, gz, snappy and zstd, each with its levels, named as in the index (`zstd:3`), and
//! compressions of all programs, which are only read.
//!
//! A family of algorithms is a file with an implementation of `Codec` (`codec`) and an entry in `registry`. Nothing
//! else in the engine lists its extensions or encodings (`file_names`).
//!
//! Unpacking never trusts a size: the caller passes the raw size from the index, and gets exactly that many bytes or an
//! error. Memory grows with the bytes that come out. So a decompression bomb costs no more memory than the index
//! declares, and a false declaration none. An index may be made of the bomb itself: `expansion` bounds the bytes that
//! any stream may become.

mod brotli;
mod bzip2;
pub(crate) mod chunk_frames;
mod codec;
mod expansion;
mod file_names;
mod forward;
mod gzip;
mod registry;
mod snappy;
mod zlib;
mod zstd;

pub use codec::{Levels, WINDOW_BYTES_MAX};
pub use expansion::check_expansion;
pub use file_names::{is_tar_extension, readable_extensions, without_extension};
pub use forward::{ForwardFile, PackedBytes};

use codec::Codec;
use forebay_core::error::{Error, ErrorKind, Result};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, Read};

/// Algorithm with an optional level.
#[derive(Clone, Copy)]
pub struct Compression {
    codec: &'static dyn Codec,
    level: Option<u8>,
}

impl Compression {
    /// Brotli, of any level.
    pub const BROTLI: Self = Self { codec: &brotli::Brotli, level: None };
    /// Groups of the items of one of LitData's chunks, by zstd.
    pub(crate) const CHUNK_FRAMES: Self = Self { codec: &chunk_frames::ChunkFrames, level: None };
    /// Gzip, of any level.
    pub const GZIP: Self = Self { codec: &gzip::Gzip, level: None };
    /// Snappy without frames.
    pub const SNAPPY: Self = Self { codec: &snappy::Snappy, level: None };
    /// Deflated bytes with the header and the checksum of zlib.
    pub const ZLIB: Self = Self { codec: &zlib::Zlib, level: None };
    /// Zstandard, of any level.
    pub const ZSTD: Self = Self { codec: &zstd::Zstd, level: None };

    /// Names and levels of the families that can be written; `None` for a family without levels.
    pub fn written() -> impl Iterator<Item = (&'static str, Option<Levels>)> {
        registry::WRITTEN.iter().map(|codec| (codec.names().name, codec.levels()))
    }

    /// Parses a family, or a family, a colon and a level without leading zeros.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for any further text.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let codec = registry::all().find(|codec| codec.names().name == name).ok_or_else(|| unknown(text))?;
        let Some(level) = level else { return Ok(Self { codec, level: None }) };
        let (low, high, _) = codec.levels().ok_or_else(|| unknown(text))?;
        // The reference compares whole texts, so `zstd:03` and `zstd:+3` are unknown to it.
        let number = level.parse::<u8>().ok().filter(|n| n.to_string() == level && (low..=high).contains(n));
        Ok(Self { codec, level: Some(number.ok_or_else(|| unknown(text))?) })
    }

    /// Name of the family in the index, and extension of the compressed file's name, without the dot.
    pub fn name(self) -> &'static str {
        self.codec.names().name
    }

    /// Compresses `raw` in one call. The output depends on nothing else.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a family that is only read. [`ErrorKind::Internal`] if a codec fails, which none does
    /// for bytes in memory.
    pub fn compress(self, raw: &[u8]) -> Result<Vec<u8>> {
        let default = self.codec.levels().map_or(0, |(_, _, default)| default);
        let packed = self.codec.compress(raw, self.level.unwrap_or(default).into());
        let packed = packed.ok_or_else(|| Error::config(format!("files compressed by {self} are read only")))?;
        packed.map_err(|e| Error::internal(format!("{self} failed to compress")).caused_by(e))
    }

    /// Unpacks `packed` into `out`, which is cleared first. The index declares that it holds `raw_bytes`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if the stream is damaged, or holds fewer or more bytes; [`ErrorKind::Full`] without memory
    /// for them. `out` is then empty.
    pub fn decompress(self, packed: &[u8], raw_bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let unpacked = self.codec.unpack_declared(packed, raw_bytes, out);
        let checked = unpacked.and_then(|()| match out.len() as u64 {
            found if found == raw_bytes => Ok(()),
            found => {
                let why = format!("the {self} stream holds {found} bytes where the index declares {raw_bytes}");
                Err(Error::format(why))
            }
        });
        checked.inspect_err(|_| out.clear())
    }

    /// Unpacks `packed`, a stream with an unknown raw size, up to `raw_bytes_max`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if the stream is damaged or holds more than `raw_bytes_max`.
    pub fn decompress_all(self, packed: &[u8], raw_bytes_max: u64) -> Result<Vec<u8>> {
        let mut raw = Vec::new();
        self.codec.unpack(packed, raw_bytes_max, &mut raw)?;
        Ok(raw)
    }

    /// Unpacks a stream as it is read. After the last byte its length and checksum are compared, if it has them. A
    /// window of more than `window_bytes_max`, or 128 MiB if that is more, is an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a compression that needs all of the stream at once. Reads return the errors of
    /// `packed`, and further errors for a stream that is damaged.
    pub fn reader<'a>(self, packed: impl BufRead + 'a, window_bytes_max: u64) -> Result<Box<dyn Read + 'a>> {
        codec::reader(self.codec, packed, window_bytes_max)
    }

    /// Returns the bytes of the window of a stream that begins with `front`, if it may take much memory.
    pub fn window_bytes(self, front: &[u8]) -> u64 {
        self.codec.window_bytes(front)
    }

    /// Error of a read of a [`reader`](Self::reader).
    pub fn read_error(self, error: std::io::Error) -> Error {
        codec::read_error(self.codec, error)
    }

    /// Returns the bytes of the content of a stream that begins with `front`, if the stream declares them there.
    pub fn content_bytes(self, front: &[u8]) -> Option<u64> {
        self.codec.content_bytes(front)
    }

    /// Returns true if a stream can be unpacked as it is read.
    pub fn is_streamed(self) -> bool {
        codec::is_streamed(self.codec)
    }

    /// Error for a stream that cannot be unpacked.
    pub fn damaged(self) -> Error {
        codec::damaged(self.codec)
    }
}

/// Error for a text that is not a compression.
fn unknown(text: &str) -> Error {
    let known: Vec<_> = Compression::written()
        .map(|(name, levels)| match levels {
            Some((low, high, _)) => format!("{name}[:{low}-{high}]"),
            None => name.to_owned(),
        })
        .collect();
    let why = format!("`{text}` is not a known compression; known are {}", known.join(", "));
    Error::new(ErrorKind::Unsupported, why)
}

impl PartialEq for Compression {
    fn eq(&self, other: &Self) -> bool {
        (self.name(), self.level) == (other.name(), other.level)
    }
}

impl Eq for Compression {}

impl Hash for Compression {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name(), self.level).hash(state);
    }
}

impl fmt::Debug for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compression({self})")
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.level.map_or(Ok(()), |level| write!(f, ":{level}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stream_of_unknown_size_is_unpacked() {
        for name in ["br", "bz2", "gz", "snappy", "zstd"] {
            let compression = Compression::parse(name).unwrap();
            let packed = compression.compress(b"").unwrap();
            assert_eq!(compression.decompress_all(&packed, 1 << 30).unwrap(), b"", "{name}");
        }
    }

    #[test]
    fn zeros_behind_gzip_streams_are_left_out() {
        let gz = Compression::parse("gz").unwrap();
        let [a, b] = [&b"one"[..], b"two"].map(|raw| gz.compress(raw).unwrap());
        for zeros in [0, 1, 512, 100_000] {
            let packed = [&a[..], &vec![0; zeros], &b, &vec![0; zeros]].concat();
            assert_eq!(gz.decompress_all(&packed, 1 << 20).unwrap(), b"onetwo", "{zeros}");
            let e = gz.decompress_all(&[&packed[..], b"x"].concat(), 1 << 20).unwrap_err();
            assert!(e.to_string().contains("damaged"), "{e}");
        }
    }

    #[test]
    fn windows_up_to_the_bound_are_read_and_a_larger_one_is_named() {
        // Magic number, no size, the window; a last block without bytes.
        let packed = |log: u8| [0x28, 0xb5, 0x2f, 0xfd, 0x00, (log - 10) << 3, 1, 0, 0];
        let read = |log, most| {
            let bytes = packed(log);
            let mut reader = Compression::ZSTD.reader(&bytes[..], most).unwrap();
            reader.read_to_end(&mut Vec::new()).map_err(|e| Compression::ZSTD.read_error(e))
        };
        for (log, most, is_read) in [(27, 0, true), (28, 0, false), (28, 1 << 28, true), (31, 1 << 31, true)] {
            assert_eq!(Compression::ZSTD.window_bytes(&packed(log)), 1 << log);
            match read(log, most) {
                Ok(bytes) => assert!(bytes == 0 && is_read, "{log}"),
                Err(e) => {
                    assert_eq!((is_read, e.kind()), (false, ErrorKind::Unsupported), "{log}");
                    assert!(e.to_string().contains("more than 128 MiB") && e.to_string().contains("--long=27"), "{e}");
                }
            }
        }
        assert_eq!(Compression::ZSTD.decompress_all(&packed(31), 1 << 20).unwrap(), b"");
        let e = read(32, u64::MAX).unwrap_err();
        assert!(e.to_string().contains("more than 2048 MiB"), "{e}");
    }

    fn sample() -> Vec<u8> {
        (0..100_000u32).map(|i| if i % 5 == 0 { (i.wrapping_mul(2_654_435_761) >> 24) as u8 } else { 7 }).collect()
    }

    #[test]
    fn every_name_of_the_reference_parses_and_prints_back() {
        let mut count = 0;
        for (name, levels) in Compression::written() {
            let mut texts = vec![name.to_owned()];
            if let Some((low, high, _)) = levels {
                texts.extend((low..=high).map(|level| format!("{name}:{level}")));
            }
            for text in texts {
                assert_eq!(Compression::parse(&text).unwrap().to_string(), text);
                count += 1;
            }
        }
        assert_eq!(count, 5 + 12 + 9 + 10 + 22);
        for text in ["", "zip", "zstd:0", "zstd:23", "zstd:03", "zstd:+3", "zstd:", "snappy:1", "br:12", "zstd:3:4"] {
            assert_eq!(Compression::parse(text).unwrap_err().kind(), ErrorKind::Unsupported, "{text}");
        }
    }

    #[test]
    fn every_algorithm_restores_its_input() {
        for text in ["br:5", "br:0", "bz2", "gz", "gz:0", "snappy", "zstd", "zstd:1", "zstd:19"] {
            let compression = Compression::parse(text).unwrap();
            for raw in [sample(), Vec::new(), vec![9]] {
                let packed = compression.compress(&raw).unwrap();
                let mut out = Vec::new();
                compression.decompress(&packed, raw.len() as u64, &mut out).unwrap();
                assert!(out == raw, "{text}");
            }
        }
    }

    #[test]
    fn a_stream_of_unknown_size_is_unpacked_up_to_the_bound() {
        let raw = sample();
        for text in ["br:1", "bz2:1", "gz:1", "snappy", "zstd"] {
            let compression = Compression::parse(text).unwrap();
            let packed = compression.compress(&raw).unwrap();
            assert!(compression.decompress_all(&packed, raw.len() as u64).unwrap() == raw, "{text}");
            let e = compression.decompress_all(&packed, raw.len() as u64 - 1).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Format, "{text}");
            let e = compression.decompress_all(&packed[..packed.len() / 2], u64::MAX).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Format, "{text}");
        }
    }

    #[test]
    fn a_stream_that_is_longer_or_shorter_than_declared_is_rejected() {
        let raw = sample();
        for text in ["br:1", "bz2:1", "gz:1", "snappy", "zstd"] {
            let compression = Compression::parse(text).unwrap();
            let packed = compression.compress(&raw).unwrap();
            for declared in [raw.len() - 1, raw.len() + 1, 0, 10 * raw.len()] {
                let mut out = Vec::new();
                let e = compression.decompress(&packed, declared as u64, &mut out).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Format, "{text} {declared}");
                assert!(out.is_empty());
            }
        }
    }

    #[test]
    fn a_false_declaration_takes_no_memory() {
        for text in ["br:1", "bz2:1", "gz:1", "snappy", "zstd"] {
            let compression = Compression::parse(text).unwrap();
            let mut packed = compression.compress(b"few bytes").unwrap();
            if text == "snappy" {
                // The stream declares as much.
                packed.splice(..1, [0x80, 0x80, 0x80, 0x80, 1]);
            }
            let mut out = Vec::new();
            let e = compression.decompress(&packed, 1 << 28, &mut out).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Format, "{text}");
            assert!(out.is_empty() && out.capacity() <= 1 << 20, "{text}: {}", out.capacity());
        }
    }

    #[test]
    fn a_truncated_stream_is_rejected_at_every_length() {
        let raw = sample();
        for text in ["br:1", "bz2:1", "gz:1", "snappy", "zstd"] {
            let compression = Compression::parse(text).unwrap();
            let packed = compression.compress(&raw).unwrap();
            let mut out = Vec::new();
            for len in (0..packed.len()).step_by(packed.len() / 50 + 1).chain([packed.len() - 1]) {
                let e = compression.decompress(&packed[..len], raw.len() as u64, &mut out).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Format, "{text} {len}");
            }
        }
    }
}
