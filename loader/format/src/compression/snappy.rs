//! Snappy without frames, which needs all of the stream at once.

use super::codec::{Codec, Names, damaged, reserve, too_large};
use crate::Result;
use snap::raw::{Decoder, Encoder, decompress_len};
use std::io::{self, BufRead, Read};

pub(super) struct Snappy;

/// Bound of the bytes that one packed byte can become: a copy of 64 bytes takes three.
const RATIO_MAX: u64 = 22;

impl Codec for Snappy {
    fn names(&self) -> &'static Names {
        &Names { name: "snappy", extensions: &["snappy"], tar_extensions: &[], encodings: &[] }
    }

    fn compress(&self, raw: &[u8], _level: u32) -> Option<io::Result<Vec<u8>>> {
        Some(Encoder::new().compress_vec(raw).map_err(Into::into))
    }

    fn reader<'a>(&self, _packed: Box<dyn BufRead + 'a>, _: u64) -> Option<io::Result<Box<dyn Read + 'a>>> {
        None
    }

    fn unpack(&self, packed: &[u8], raw_bytes_max: u64, out: &mut Vec<u8>) -> Result<()> {
        let bytes = decompress_len(packed).map_err(|e| damaged(self).caused_by(e))?;
        if bytes as u64 > raw_bytes_max {
            return Err(too_large(self, raw_bytes_max));
        }
        reserve(self, RATIO_MAX, packed, bytes as u64, out)?;
        out.resize(bytes, 0);
        Decoder::new().decompress(packed, out).map(drop).map_err(|e| damaged(self).caused_by(e))
    }

    fn content_bytes(&self, front: &[u8]) -> Option<u64> {
        decompress_len(front).ok().map(|bytes| bytes as u64)
    }
}
