//! Gzip.

use super::codec::{Codec, Levels, Names};
use flate2::bufread::GzDecoder;
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

    fn reader<'a>(&self, packed: Box<dyn BufRead + 'a>, _: u64) -> Option<io::Result<Box<dyn Read + 'a>>> {
        Some(Ok(Box::new(Members { member: Some(GzDecoder::new(packed)) })))
    }
}

/// The members of a file in sequence, each one a gzip stream. Zeros after one are no member: tapes and
/// some archivers fill blocks with them, and gzip itself leaves them out.
struct Members<R> {
    /// `None` after the last one.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member
            && !out.is_empty()
        {
            let read = member.read(out)?;
            if read > 0 {
                return Ok(read);
            }
            let Some(mut rest) = self.member.take().map(GzDecoder::into_inner) else { break };
            self.member = if skip_zeros(&mut rest)? { Some(GzDecoder::new(rest)) } else { None };
        }
        Ok(0)
    }
}

/// Reads up to the first byte that is not zero. Returns false if there is none.
fn skip_zeros(packed: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = match packed.fill_buf() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Ok(false);
        }
        let (zeros, all) = (bytes.iter().take_while(|byte| **byte == 0).count(), bytes.len());
        packed.consume(zeros);
        if zeros < all {
            return Ok(true);
        }
    }
}
