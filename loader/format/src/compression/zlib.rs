//! Deflated bytes with the header and the checksum of zlib, as TensorFlow's option ZLIB writes them.

use super::codec::{Codec, Names};
use flate2::bufread::ZlibDecoder;
use std::io::{self, BufRead, Read};

pub(super) struct Zlib;

impl Codec for Zlib {
    fn names(&self) -> &'static Names {
        // Not by the names of files: TensorFlow gives its files no extension.
        &Names { name: "zlib", extensions: &[], tar_extensions: &[], encodings: &[] }
    }

    fn compress(&self, _raw: &[u8], _level: u32) -> Option<io::Result<Vec<u8>>> {
        None
    }

    fn reader<'a>(&self, packed: Box<dyn BufRead + 'a>, _: u64) -> Option<io::Result<Box<dyn Read + 'a>>> {
        Some(Ok(Box::new(ZlibDecoder::new(packed))))
    }
}
