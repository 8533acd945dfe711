//! Whole-file compression: br, bz2, gz, snappy and zstd, each with its levels, named as in the index (`zstd:3`).
//!
//! Unpacking never trusts a size in the compressed bytes: the caller passes the raw size from the index, and gets
//! exactly that many bytes or an error. So a decompression bomb costs no more memory than the index declares.

use std::fmt;
use std::io::{Read, Write};

use crate::error::{Error, ErrorKind, Result};

/// Output buffer of the streaming codecs.
const BUFFER_BYTES: usize = 64 << 10;

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
}

impl CompressionAlgo {
    /// All families.
    pub const ALL: [Self; 5] = [Self::Brotli, Self::Bzip2, Self::Gzip, Self::Snappy, Self::Zstd];

    /// Name in the index, and extension of the file name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Bzip2 => "bz2",
            Self::Gzip => "gz",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
        }
    }

    /// Lowest level, highest level (inclusive) and default; `None` for a family without levels.
    pub fn levels(self) -> Option<(u8, u8, u8)> {
        match self {
            Self::Brotli => Some((0, 11, 11)),
            Self::Bzip2 => Some((1, 9, 9)),
            Self::Gzip => Some((0, 9, 9)),
            Self::Snappy => None,
            Self::Zstd => Some((1, 22, 3)),
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
        let algo = CompressionAlgo::ALL.into_iter().find(|algo| algo.name() == name).ok_or_else(unsupported)?;
        let Some(level) = level else { return Ok(Self { algo, level: None }) };
        let (low, high, _) = algo.levels().ok_or_else(unsupported)?;
        // The reference compares whole texts, so `zstd:03` and `zstd:+3` are unknown to it.
        let number = level.parse::<u8>().ok().filter(|n| n.to_string() == level && (low..=high).contains(n));
        Ok(Self { algo, level: Some(number.ok_or_else(unsupported)?) })
    }

    /// The family.
    pub fn algo(self) -> CompressionAlgo {
        self.algo
    }

    /// Extension of the compressed file's name, without the dot.
    pub fn extension(self) -> &'static str {
        self.algo.name()
    }

    fn level(self) -> u8 {
        self.level.or_else(|| self.algo.levels().map(|(_, _, default)| default)).unwrap_or(0)
    }

    /// Compresses `raw` in one call. The output depends on nothing else.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Internal`] if a codec fails, which none does for bytes in memory.
    pub fn compress(self, raw: &[u8]) -> Result<Vec<u8>> {
        let failed = |e: std::io::Error| Error::internal(format!("{self} failed to compress")).caused_by(e);
        let level = u32::from(self.level());
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
            CompressionAlgo::Snappy => snap::raw::Encoder::new()
                .compress_vec(raw)
                .map_err(|e| Error::internal(format!("{self} failed to compress")).caused_by(e)),
            CompressionAlgo::Zstd => zstd::bulk::compress(raw, i32::from(self.level())).map_err(failed),
        }
    }

    /// Unpacks `packed` into `out`, which it must fill exactly.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if the stream is damaged, or holds fewer or more bytes than `out`. The contents of `out`
    /// are then unspecified.
    pub fn decompress_into(self, packed: &[u8], out: &mut [u8]) -> Result<()> {
        match self.algo {
            CompressionAlgo::Brotli => self.drain(brotli::Decompressor::new(packed, BUFFER_BYTES), out),
            CompressionAlgo::Bzip2 => self.drain(bzip2::read::MultiBzDecoder::new(packed), out),
            CompressionAlgo::Gzip => self.drain(flate2::read::MultiGzDecoder::new(packed), out),
            CompressionAlgo::Snappy => {
                let declared = snap::raw::decompress_len(packed).map_err(|e| self.damaged().caused_by(e))?;
                if declared != out.len() {
                    return Err(self.wrong_size(out.len(), declared));
                }
                snap::raw::Decoder::new().decompress(packed, out).map_err(|e| self.damaged().caused_by(e))?;
                Ok(())
            }
            CompressionAlgo::Zstd => {
                // A stream that holds more than `out` fails here, with libzstd's own message.
                let expected = out.len();
                let written = zstd::bulk::decompress_to_buffer(packed, out).map_err(|e| self.damaged().caused_by(e))?;
                if written == expected { Ok(()) } else { Err(self.wrong_size(expected, written)) }
            }
        }
    }

    /// Unpacks `packed` into `out`, which is cleared first. The index declares that it holds `raw_bytes`.
    ///
    /// # Errors
    ///
    /// As [`decompress_into`](Self::decompress_into); `out` is then empty.
    pub fn decompress(self, packed: &[u8], raw_bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let raw_bytes = usize::try_from(raw_bytes)
            .map_err(|_| Error::format(format!("a raw size of {raw_bytes} bytes does not fit this machine")))?;
        out.try_reserve_exact(raw_bytes).map_err(|e| {
            Error::new(ErrorKind::Full, format!("no memory for {raw_bytes} unpacked bytes")).caused_by(e)
        })?;
        if self.algo == CompressionAlgo::Zstd {
            // libzstd writes to uninitialised memory, which saves writing all of it twice.
            let written = zstd::bulk::Decompressor::new()
                .and_then(|mut codec| codec.decompress_to_buffer(packed, out))
                .map_err(|e| self.damaged().caused_by(e));
            let checked = match written {
                Ok(written) if written != raw_bytes => Err(self.wrong_size(raw_bytes, written)),
                other => other.map(drop),
            };
            return checked.inspect_err(|_| out.clear());
        }
        out.resize(raw_bytes, 0);
        self.decompress_into(packed, out).inspect_err(|_| out.clear())
    }

    /// Unpacks `packed`, whose raw size is unknown, up to `raw_bytes_max`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if the stream is damaged or holds more than `raw_bytes_max`.
    pub fn decompress_all(self, packed: &[u8], raw_bytes_max: u64) -> Result<Vec<u8>> {
        let mut raw = Vec::new();
        let mut read = |reader: &mut dyn Read| -> Result<()> {
            let limit = raw_bytes_max.saturating_add(1);
            let held = reader.take(limit).read_to_end(&mut raw).map_err(|e| self.damaged().caused_by(e))?;
            match held as u64 > raw_bytes_max {
                true => Err(Error::format(format!("the {self} stream holds more than {raw_bytes_max} bytes"))),
                false => Ok(()),
            }
        };
        match self.algo {
            CompressionAlgo::Brotli => read(&mut brotli::Decompressor::new(packed, BUFFER_BYTES))?,
            CompressionAlgo::Bzip2 => read(&mut bzip2::read::MultiBzDecoder::new(packed))?,
            CompressionAlgo::Gzip => read(&mut flate2::read::MultiGzDecoder::new(packed))?,
            CompressionAlgo::Snappy => {
                // The stream declares its size, which is at most 4 GiB.
                let declared = snap::raw::decompress_len(packed).map_err(|e| self.damaged().caused_by(e))?;
                let declared = declared as u64;
                if declared > raw_bytes_max {
                    return Err(Error::format(format!("the {self} stream holds more than {raw_bytes_max} bytes")));
                }
                self.decompress(packed, declared, &mut raw)?;
            }
            CompressionAlgo::Zstd => {
                let mut decoder =
                    zstd::stream::read::Decoder::with_buffer(packed).map_err(|e| self.damaged().caused_by(e))?;
                read(&mut decoder)?;
            }
        }
        Ok(raw)
    }

    /// Fills `out` from `reader`, which must end there.
    fn drain(self, mut reader: impl Read, out: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            match reader.read(&mut out[filled..]) {
                Ok(0) => return Err(self.wrong_size(out.len(), filled)),
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.damaged().caused_by(e)),
            }
        }
        // The read after the last byte checks the trailer (length, CRC), too.
        match reader.read(&mut [0u8; 1]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Error::format(format!("the {self} stream holds more than the declared {} bytes", out.len()))),
            Err(e) => Err(self.damaged().caused_by(e)),
        }
    }

    fn damaged(self) -> Error {
        Error::format(format!("the {self} stream is damaged or not {self} at all"))
    }

    fn wrong_size(self, declared: usize, found: usize) -> Error {
        Error::format(format!("the {self} stream holds {found} bytes where the index declares {declared}"))
    }
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
    fn a_truncated_stream_is_rejected_at_every_length() {
        let raw = sample();
        for text in ["br:1", "bz2:1", "gz:1", "snappy", "zstd"] {
            let compression = Compression::parse(text).unwrap();
            let packed = compression.compress(&raw).unwrap();
            let mut out = vec![0; raw.len()];
            for len in (0..packed.len()).step_by(packed.len() / 50 + 1).chain([packed.len() - 1]) {
                let e = compression.decompress_into(&packed[..len], &mut out).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Format, "{text} {len}");
            }
        }
    }
}
