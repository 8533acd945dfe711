//! Brotli.

use super::codec::{Codec, Levels, Names};
use std::io::{self, BufRead, Read, Write};

/// Buffer of the codec.
const BUFFER_BYTES: usize = 64 << 10;

/// Log2 of the window; 22 is the default and the largest without the large-window extension.
const WINDOW_LOG: u32 = 22;

pub(super) struct Brotli;

impl Codec for Brotli {
    fn names(&self) -> &'static Names {
        &Names { name: "br", extensions: &["br"], tar_extensions: &[], encodings: &["br"] }
    }

    fn levels(&self) -> Option<Levels> {
        Some((0, 11, 11))
    }

    fn compress(&self, raw: &[u8], level: u32) -> Option<io::Result<Vec<u8>>> {
        let mut writer = brotli::CompressorWriter::new(Vec::new(), BUFFER_BYTES, level, WINDOW_LOG);
        Some(writer.write_all(raw).map(|()| writer.into_inner()))
    }

    fn reader<'a>(&self, packed: Box<dyn BufRead + 'a>, _: u64) -> Option<io::Result<Box<dyn Read + 'a>>> {
        Some(Ok(Box::new(brotli::Decompressor::new(packed, BUFFER_BYTES))))
    }
}
