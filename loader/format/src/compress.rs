//! Whole-file compression: br, bz2, gz, snappy and zstd, each with its levels, named as in the index (`zstd:3`), and
//! those of other programs, which are only read.
//!
//! Unpacking never trusts a size: the caller passes the raw size from the index, and gets exactly that many bytes or an
//! error. Memory grows with the bytes that come out. So a decompression bomb costs no more memory than the index
//! declares, and a false declaration none.

use std::fmt;
use std::io::{BufRead, Read, Write};

use super::frames;
use forebay_core::error::{Error, ErrorKind, Result};

/// Output buffer of the streaming codecs.
const BUFFER_BYTES: usize = 64 << 10;

/// Memory that is taken for the content of a stream whatever its size, if that much is declared.
const RESERVED_BYTES_MIN: u64 = 1 << 20;

/// Log2 of brotli's window; 22 is the default and the largest without the large-window extension.
const BROTLI_WINDOW_LOG: u32 = 22;

/// Family of compression algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the names of the algorithms")]
pub enum CompressionAlgo {
    Brotli,
    Bzip2,
    Gzip,
    Snappy,
    Zstd,
    /// Groups of the items of one of LitData's chunks, by zstd: only read.
    ChunkFrames,
    /// As TensorFlow's option ZLIB: only read.
    Zlib,
}

impl CompressionAlgo {
    /// All families of whole files, which can be written.
    pub const ALL: [Self; 5] = [Self::Brotli, Self::Bzip2, Self::Gzip, Self::Snappy, Self::Zstd];

    const READ_ONLY: [Self; 2] = [Self::ChunkFrames, Self::Zlib];

    /// Name, and levels.
    fn facts(self) -> (&'static str, Option<(u8, u8, u8)>) {
        match self {
            Self::Brotli => ("br", Some((0, 11, 11))),
            Self::Bzip2 => ("bz2", Some((1, 9, 9))),
            Self::Gzip => ("gz", Some((0, 9, 9))),
            Self::Snappy => ("snappy", None),
            Self::Zstd => ("zstd", Some((1, 22, 3))),
            Self::ChunkFrames => ("litdata", None),
            Self::Zlib => ("zlib", None),
        }
    }

    /// Name in the index, and extension of the file name.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// Lowest level, highest level (inclusive) and default; `None` for a family without levels.
    pub fn levels(self) -> Option<(u8, u8, u8)> {
        self.facts().1
    }

    /// Bound of the bytes that one packed byte can become.
    fn ratio_max(self) -> u64 {
        match self {
            // A copy of 64 bytes takes three.
            Self::Snappy => 22,
            // A block of 128 KiB takes at least four bytes.
            Self::Zstd | Self::ChunkFrames => 1 << 15,
            // Not bounded usefully.
            Self::Brotli | Self::Bzip2 | Self::Gzip | Self::Zlib => u64::MAX,
        }
    }
}

/// Algorithm with an optional level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compression {
    algo: CompressionAlgo,
    level: Option<u8>,
}

impl Compression {
    /// Groups of the items of a chunk.
    pub(crate) const CHUNK_FRAMES: Self = Self::of(CompressionAlgo::ChunkFrames);
    /// Gzip, of any level.
    pub const GZIP: Self = Self::of(CompressionAlgo::Gzip);
    /// Deflated bytes with the head and the checksum of zlib.
    pub const ZLIB: Self = Self::of(CompressionAlgo::Zlib);

    /// A family, whatever the level.
    pub(crate) const fn of(algo: CompressionAlgo) -> Self {
        Self { algo, level: None }
    }

    /// Parses a family, or a family, a colon and a level without leading zeros.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let unsupported = || {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "`{text}` is not a known compression; known are br[:0-11], bz2[:1-9], gz[:0-9], snappy, zstd[:1-22]"
                ),
            )
        };
        let mut all = CompressionAlgo::ALL.into_iter().chain(CompressionAlgo::READ_ONLY);
        let algo = all.find(|algo| algo.name() == name).ok_or_else(unsupported)?;
        let Some(level) = level else { return Ok(Self { algo, level: None }) };
        let (low, high, _) = algo.levels().ok_or_else(unsupported)?;
        // The reference compares whole texts, so `zstd:03` and `zstd:+3` are unknown to it.
        let number = level.parse::<u8>().ok().filter(|n| n.to_string() == level && (low..=high).contains(n));
        Ok(Self { algo, level: Some(number.ok_or_else(unsupported)?) })
    }

    /// Extension of the compressed file's name, without the dot.
    pub fn extension(self) -> &'static str {
        self.algo.name()
    }

    /// Compresses `raw` in one call. The output depends on nothing else.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Internal`] if a codec fails, which none does for bytes in memory.
    pub fn compress(self, raw: &[u8]) -> Result<Vec<u8>> {
        let failed = |e: std::io::Error| Error::internal(format!("{self} failed to compress")).caused_by(e);
        let default = self.algo.levels().map_or(0, |(_, _, default)| default);
        let level = self.level.unwrap_or(default).into();
        match self.algo {
            CompressionAlgo::Brotli => {
                let mut writer = brotli::CompressorWriter::new(Vec::new(), BUFFER_BYTES, level, BROTLI_WINDOW_LOG);
                writer.write_all(raw).map_err(failed)?;
                Ok(writer.into_inner())
            }
            CompressionAlgo::Bzip2 => {
                let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(level));
                writer.write_all(raw).map_err(failed)?;
                writer.finish().map_err(failed)
            }
            CompressionAlgo::Gzip => {
                let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
                writer.write_all(raw).map_err(failed)?;
                writer.finish().map_err(failed)
            }
            CompressionAlgo::Snappy => snap::raw::Encoder::new().compress_vec(raw).map_err(|e| failed(e.into())),
            CompressionAlgo::Zstd => zstd::bulk::compress(raw, level as i32).map_err(failed),
            CompressionAlgo::ChunkFrames => Err(Error::config("chunks of LitData are read only")),
            CompressionAlgo::Zlib => Err(Error::config("files that are compressed by zlib are read only")),
        }
    }

    /// Unpacks `packed` into `out`, which is cleared first. The index declares that it holds `raw_bytes`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if the stream is damaged, or holds fewer or more bytes; [`ErrorKind::Full`] without memory
    /// for them. `out` is then empty.
    pub fn decompress(self, packed: &[u8], raw_bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let unpacked = match self.algo {
            // libzstd writes to uninitialised memory, which saves writing all of it twice.
            CompressionAlgo::Zstd => self.reserve(packed, raw_bytes, out).and_then(|()| {
                let unpacked =
                    zstd::bulk::Decompressor::new().and_then(|mut zstd| zstd.decompress_to_buffer(packed, out));
                unpacked.map(drop).map_err(|e| self.damaged().caused_by(e))
            }),
            _ => self.unpack(packed, raw_bytes, out),
        };
        let checked = unpacked.and_then(|()| match out.len() as u64 {
            found if found == raw_bytes => Ok(()),
            found => {
                let why = format!("the {self} stream holds {found} bytes where the index declares {raw_bytes}");
                Err(Error::format(why))
            }
        });
        checked.inspect_err(|_| out.clear())
    }

    /// Unpacks `packed`, whose raw size is unknown, up to `raw_bytes_max`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if the stream is damaged or holds more than `raw_bytes_max`.
    pub fn decompress_all(self, packed: &[u8], raw_bytes_max: u64) -> Result<Vec<u8>> {
        let mut raw = Vec::new();
        self.unpack(packed, raw_bytes_max, &mut raw)?;
        Ok(raw)
    }

    /// Unpacks `packed` into the empty `out`, up to `raw_bytes_max`. Memory grows with the bytes that come out.
    fn unpack(self, packed: &[u8], raw_bytes_max: u64, out: &mut Vec<u8>) -> Result<()> {
        match self.algo {
            CompressionAlgo::ChunkFrames => return frames::unpack(packed, raw_bytes_max, out),
            CompressionAlgo::Snappy => {
                // Needs all memory at once; the stream declares its size.
                let bytes = snap::raw::decompress_len(packed).map_err(|e| self.damaged().caused_by(e))?;
                if bytes as u64 > raw_bytes_max {
                    return Err(self.too_large(raw_bytes_max));
                }
                self.reserve(packed, bytes as u64, out)?;
                out.resize(bytes, 0);
                let unpacked = snap::raw::Decoder::new().decompress(packed, out);
                return unpacked.map(drop).map_err(|e| self.damaged().caused_by(e));
            }
            _ => {}
        }
        let mut reader = self.reader(packed)?;
        // One allocation suffices for nearly all: few streams are more than eight times smaller than their content.
        let likely = (packed.len() as u64 * 8).max(RESERVED_BYTES_MIN);
        allocate(likely.min(raw_bytes_max), out)?;
        // The read after the last byte checks the trailer (length, CRC), too.
        let read = reader.by_ref().take(raw_bytes_max.saturating_add(1)).read_to_end(out);
        read.map_err(|e| match e.kind() {
            std::io::ErrorKind::OutOfMemory => Error::from_io(e, "no memory for the unpacked bytes"),
            _ => self.damaged().caused_by(e),
        })?;
        if out.len() as u64 > raw_bytes_max { Err(self.too_large(raw_bytes_max)) } else { Ok(()) }
    }

    /// Unpacks a stream as it is read. After the last byte its length and checksum are compared, if it has them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a compression that needs all of the stream at once. Reads return the errors of
    /// `packed`, and others for a stream that is damaged.
    pub fn reader<'a>(self, packed: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>> {
        Ok(match self.algo {
            CompressionAlgo::Brotli => Box::new(brotli::Decompressor::new(packed, BUFFER_BYTES)),
            CompressionAlgo::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(packed)),
            CompressionAlgo::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            CompressionAlgo::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(packed)),
            CompressionAlgo::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(packed);
                Box::new(decoder.map_err(|e| self.damaged().caused_by(e))?)
            }
            CompressionAlgo::Snappy | CompressionAlgo::ChunkFrames => {
                return Err(Error::new(ErrorKind::Unsupported, format!("{self} cannot be unpacked as it is read")));
            }
        })
    }

    /// Allocates memory for `raw_bytes`, unless `packed` cannot hold that many.
    fn reserve(self, packed: &[u8], raw_bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        let packed_bytes = packed.len() as u64;
        if raw_bytes > packed_bytes.saturating_mul(self.algo.ratio_max()) {
            return Err(Error::format(format!("{packed_bytes} bytes of {self} cannot hold the {raw_bytes} declared")));
        }
        allocate(raw_bytes, out)
    }

    /// Returns the bytes of the content of a stream that begins with `front`, if the stream declares them there.
    pub fn content_bytes(self, front: &[u8]) -> Option<u64> {
        match self.algo {
            CompressionAlgo::Zstd => zstd::zstd_safe::get_frame_content_size(front).ok().flatten(),
            CompressionAlgo::Snappy => snap::raw::decompress_len(front).ok().map(|bytes| bytes as u64),
            CompressionAlgo::Brotli
            | CompressionAlgo::Bzip2
            | CompressionAlgo::Gzip
            | CompressionAlgo::Zlib
            | CompressionAlgo::ChunkFrames => None,
        }
    }

    /// Error for a stream that cannot be unpacked.
    pub fn damaged(self) -> Error {
        Error::format(format!("the {self} stream is damaged or not {self} at all"))
    }

    fn too_large(self, raw_bytes_max: u64) -> Error {
        Error::format(format!("the {self} stream holds more than {raw_bytes_max} bytes"))
    }
}

fn allocate(bytes: u64, out: &mut Vec<u8>) -> Result<()> {
    let reserved = usize::try_from(bytes).ok().and_then(|bytes| out.try_reserve_exact(bytes).ok());
    reserved.ok_or_else(|| Error::new(ErrorKind::Full, format!("no memory for {bytes} unpacked bytes")))
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algo.name())?;
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

    fn sample() -> Vec<u8> {
        (0..100_000u32).map(|i| if i % 5 == 0 { (i.wrapping_mul(2_654_435_761) >> 24) as u8 } else { 7 }).collect()
    }

    #[test]
    fn every_name_of_the_reference_parses_and_prints_back() {
        let mut count = 0;
        for algo in CompressionAlgo::ALL {
            let mut texts = vec![algo.name().to_owned()];
            if let Some((low, high, _)) = algo.levels() {
                texts.extend((low..=high).map(|level| format!("{}:{level}", algo.name())));
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
