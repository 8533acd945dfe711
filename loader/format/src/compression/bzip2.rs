//! Bzip2.

use super::codec::{Codec, Levels, Names};
use bzip2::bufread::MultiBzDecoder;
use bzip2::write::BzEncoder;
use std::io::{self, BufRead, Read, Write};

pub(super) struct Bzip2;

impl Codec for Bzip2 {
    fn names(&self) -> &'static Names {
        &Names { name: "bz2", extensions: &["bz2"], tar_extensions: &["tbz", "tbz2"], encodings: &["bzip2", "x-bzip2"] }
    }

    fn levels(&self) -> Option<Levels> {
        Some((1, 9, 9))
    }

    fn compress(&self, raw: &[u8], level: u32) -> Option<io::Result<Vec<u8>>> {
        let mut writer = BzEncoder::new(Vec::new(), bzip2::Compression::new(level));
        Some(writer.write_all(raw).and_then(|()| writer.finish()))
    }

    fn reader<'a>(&self, packed: Box<dyn BufRead + 'a>, _: u64) -> Option<io::Result<Box<dyn Read + 'a>>> {
        Some(Ok(Box::new(MultiBzDecoder::new(packed))))
    }
}
