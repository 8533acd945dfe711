//! Gzip.

use super::codec::{Codec, Levels, Names};
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, BufRead, Read, Write};

pub(super) struct Gzip;

impl Codec for Gzip {
    fn names(&self) -> &'static Names {
        &Names { name: "gz", extensions: &["gz", "gzip"], tar_extensions: &["tgz"], encodings: &["gzip", "x-gzip"] }
    }

    fn levels(&self) -> Option<Levels> {
        Some((0, 9, 9))
    }

    fn compress(&self, raw: &[u8], level: u32) -> Option<io::Result<Vec<u8>>> {
        let mut writer = GzEncoder::new(Vec::new(), flate2::Compression::new(level));
        Some(writer.write_all(raw).and_then(|()| writer.finish()))
    }

    fn reader<'a>(&self, packed: Box<dyn BufRead + 'a>) -> Option<io::Result<Box<dyn Read + 'a>>> {
        Some(Ok(Box::new(MultiGzDecoder::new(packed))))
    }
}
