//! Content of one object, unpacked if it is compressed.

use super::blocks::Blocks;
use super::pieces::{Pieces, Wanted};
use crate::format::Compression;
use crate::{Error, Result};
use bytes::{Buf as _, Bytes};
use std::io::{self, BufRead, Read};

/// Bytes of a piece that is unpacked. It is in a cache of the CPU still when its lines are copied.
const UNPACKED_BYTES: usize = 1 << 20;

/// Extensions of compressed files.
const EXTENSIONS: [(&str, &str); 12] = [
    ("gz", "gz"),
    ("gzip", "gz"),
    ("tgz", "gz"),
    ("zst", "zstd"),
    ("zstd", "zstd"),
    ("tzst", "zstd"),
    ("bz2", "bz2"),
    ("tbz", "bz2"),
    ("tbz2", "bz2"),
    ("br", "br"),
    ("tar.br", "br"),
    ("zlib", "zlib"),
];

/// Extensions of compressed files that cannot be read.
const UNREADABLE: [&str; 9] = ["xz", "txz", "lzma", "lz4", "lz", "z", "zip", "7z", "snappy"];

/// Returns the compression that the extension of an address declares. Case has no meaning.
///
/// # Errors
///
/// `Unsupported` for one that cannot be read.
pub fn compression_of(url: &str) -> Result<Option<Compression>> {
    // A query of a web server is no part of the name.
    let path = if url.starts_with("http") { url.split(['?', '#']).next().unwrap_or(url) } else { url };
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((_, extension)) = name.rsplit_once('.') else { return Ok(None) };
    let extension = extension.to_ascii_lowercase();
    if UNREADABLE.contains(&extension.as_str()) {
        let why = format!(
            "files that are compressed as .{extension} cannot be read: compress them as .gz, .zst, .bz2 or .br"
        );
        return Err(Error::new(crate::ErrorKind::Unsupported, why).with("object", crate::store::redact(url)));
    }
    let found = EXTENSIONS.iter().find(|(known, _)| *known == extension);
    found.map(|(_, name)| Compression::parse(name)).transpose()
}

/// Content of the object that [`Pieces::next_object`] has returned.
pub(super) enum Content<'a> {
    Plain(&'a mut Pieces),
    Unpacked { reader: Box<dyn Read + 'a>, blocks: Blocks, compression: Compression },
}

impl<'a> Content<'a> {
    /// Content from the start of `wanted` on.
    pub(super) fn of(pieces: &'a mut Pieces, wanted: &Wanted) -> Result<Self> {
        let Some(compression) = wanted.compression else { return Ok(Self::Plain(pieces)) };
        let blocks = Blocks::default();
        let mut reader = compression.reader(PieceReader { pieces, piece: Bytes::new() })?;
        let skipped = io::copy(&mut reader.by_ref().take(wanted.start), &mut io::sink());
        skipped.map_err(|e| unpack_error(compression, e))?;
        Ok(Self::Unpacked { reader, blocks, compression })
    }

    /// Returns the next piece; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>> {
        match self {
            Self::Plain(pieces) => pieces.next_piece(),
            Self::Unpacked { reader, blocks, compression } => {
                let mut memory = blocks.take(UNPACKED_BYTES);
                let mut filled = 0;
                while filled < memory.len() {
                    match reader.read(&mut memory[filled..]) {
                        Ok(0) => break,
                        Ok(read) => filled += read,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(unpack_error(*compression, e)),
                    }
                }
                memory.truncate(filled);
                Ok((filled > 0).then(|| blocks.share(memory)))
            }
        }
    }
}

/// Error of a store that a decoder has passed on, or its own.
fn unpack_error(compression: Compression, error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|e| compression.damaged().caused_by(e))
}

/// Pieces for a decoder.
struct PieceReader<'a> {
    pieces: &'a mut Pieces,
    piece: Bytes,
}

impl BufRead for PieceReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.piece.is_empty() {
            match self.pieces.next_piece().map_err(io::Error::other)? {
                Some(piece) => self.piece = piece,
                None => break,
            }
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, bytes: usize) {
        self.piece.advance(bytes);
    }
}

impl Read for PieceReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let found = self.fill_buf()?;
        let len = found.len().min(into.len());
        into[..len].copy_from_slice(&found[..len]);
        self.consume(len);
        Ok(len)
    }
}
