//! Zstandard.

use super::codec::{Codec, Levels, Names, damaged, reserve};
use crate::Result;
use std::io::{self, BufRead, Read};

pub(super) struct Zstd;

/// Bound of the bytes that one packed byte can become: a block of 128 KiB takes at least four bytes.
pub(super) const RATIO_MAX: u64 = 1 << 15;

impl Codec for Zstd {
    fn names(&self) -> &'static Names {
        &Names { name: "zstd", extensions: &["zst", "zstd"], tar_extensions: &["tzst"], encodings: &["zstd"] }
    }

    fn levels(&self) -> Option<Levels> {
        Some((1, 22, 3))
    }

    fn compress(&self, raw: &[u8], level: u32) -> Option<io::Result<Vec<u8>>> {
        Some(zstd::bulk::compress(raw, level as i32))
    }

    fn reader<'a>(&self, packed: Box<dyn BufRead + 'a>) -> Option<io::Result<Box<dyn Read + 'a>>> {
        let decoder = zstd::stream::read::Decoder::with_buffer(packed);
        Some(decoder.map(|decoder| Box::new(Stream(decoder)) as Box<dyn Read>))
    }

    /// libzstd writes to uninitialised memory, which saves writing all of it twice.
    fn unpack_declared(&self, packed: &[u8], raw_bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        reserve(self, RATIO_MAX, packed, raw_bytes, out)?;
        let unpacked = zstd::bulk::Decompressor::new().and_then(|mut zstd| zstd.decompress_to_buffer(packed, out));
        unpacked.map(drop).map_err(|e| damaged(self).caused_by(named(e)))
    }

    fn content_bytes(&self, front: &[u8]) -> Option<u64> {
        zstd::zstd_safe::get_frame_content_size(front).ok().flatten()
    }
}

/// Stream with errors that name a window that is too large.
struct Stream<R>(R);

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out).map_err(named)
    }
}

/// Returns `error` with its reason, if the stream needs a larger window than libzstd allows by default.
fn named(error: io::Error) -> io::Error {
    if error.to_string().contains("requires too much memory") {
        let message = "its window is larger than 128 MiB, as `zstd --long` and --ultra make it: compress it again with \
                       --long=27 or less";
        return io::Error::new(io::ErrorKind::InvalidData, message);
    }
    error
}
