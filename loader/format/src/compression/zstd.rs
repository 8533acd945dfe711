//! Zstandard.

use super::codec::{Codec, Levels, Names, WINDOW_BYTES_MAX, damaged, reserve};
use crate::{Error, ErrorKind, Result};
use std::io::{self, BufRead, Read};

pub(super) struct Zstd;

/// Windows that every reader of zstd accepts: without an option the program makes none that is larger.
const WINDOW_BYTES_MIN: u64 = 128 << 20;

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

    /// libzstd takes memory for as much of a window as the content fills.
    fn reader<'a>(
        &self,
        packed: Box<dyn BufRead + 'a>,
        window_bytes_max: u64,
    ) -> Option<io::Result<Box<dyn Read + 'a>>> {
        let most = window_bytes_max.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        let decoder = zstd::stream::read::Decoder::with_buffer(packed).and_then(|mut decoder| {
            decoder.window_log_max(most.ilog2())?;
            Ok(decoder)
        });
        Some(decoder.map(|decoder| Box::new(Stream { decoder, window_bytes_max: most }) as Box<dyn Read>))
    }

    /// libzstd writes to uninitialised memory, which saves writing all of it twice.
    fn unpack_declared(&self, packed: &[u8], raw_bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        reserve(self, RATIO_MAX, packed, raw_bytes, out)?;
        let unpacked = zstd::bulk::Decompressor::new().and_then(|mut zstd| zstd.decompress_to_buffer(packed, out));
        unpacked.map(drop).map_err(|e| damaged(self).caused_by(e))
    }

    fn window_bytes(&self, front: &[u8]) -> u64 {
        declared_window(front).unwrap_or(0)
    }

    fn content_bytes(&self, front: &[u8]) -> Option<u64> {
        zstd::zstd_safe::get_frame_content_size(front).ok().flatten()
    }
}

/// Stream with errors that name a window that is too large.
struct Stream<R> {
    decoder: R,
    window_bytes_max: u64,
}

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(out).map_err(|e| named(e, self.window_bytes_max))
    }
}

/// Returns `error` with its reason, if the stream needs a larger window than `window_bytes_max`.
fn named(error: io::Error, window_bytes_max: u64) -> io::Error {
    if !error.to_string().contains("requires too much memory") {
        return error;
    }
    let most = window_bytes_max >> 20;
    let message = format!("the zstd stream has a window of more than {most} MiB, as `zstd --long` and --ultra make it");
    let hint = "raise `memory` if it is set, or compress the file again with --long=27 or less";
    io::Error::other(Error::new(ErrorKind::Unsupported, message).hinting(hint))
}

/// Returns the bytes of the window that the frame with this `front` declares.
fn declared_window(front: &[u8]) -> Option<u64> {
    let [0x28, 0xb5, 0x2f, 0xfd, descriptor, window, ..] = *front else { return None };
    // A frame with this flag has its content as the window.
    if descriptor & 0x20 != 0 {
        return zstd::zstd_safe::get_frame_content_size(front).ok().flatten();
    }
    let whole = 1_u64 << (10 + (window >> 3));
    Some(whole + whole / 8 * u64::from(window & 7))
}
