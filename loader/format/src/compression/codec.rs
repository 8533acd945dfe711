//! Interface of a family of compression algorithms.

use super::expansion::{Bounded, Used, check_expansion};
use crate::{Error, ErrorKind, Result};
use std::io::{self, BufRead, Read};

/// Lowest level, highest level (inclusive), and default.
pub type Levels = (u8, u8, u8);

/// Memory that is taken for the content of a stream of any size, if that much is declared.
const RESERVED_BYTES_MIN: u64 = 1 << 20;

/// Largest window of any stream, in bytes: zstd's `--long=31`.
pub const WINDOW_BYTES_MAX: u64 = 1 << 31;

/// Names of a family in files and headers, all in lower case.
pub(super) struct Names {
    /// Name in the index, and extension of the files that the writer makes.
    pub(super) name: &'static str,
    /// Extensions of compressed files, the most common one first.
    pub(super) extensions: &'static [&'static str],
    /// Extensions of compressed tars that have no `.tar` before them.
    pub(super) tar_extensions: &'static [&'static str],
    /// Names as a `Content-Encoding`.
    pub(super) encodings: &'static [&'static str],
}

/// Family of compression algorithms: a file next to this one, and an entry in the registry.
pub(super) trait Codec: Sync {
    fn names(&self) -> &'static Names;

    /// Levels; `None` for a family without levels.
    fn levels(&self) -> Option<Levels> {
        None
    }

    /// Compresses `raw`; `None` for a family that is only read.
    fn compress(&self, raw: &[u8], level: u32) -> Option<io::Result<Vec<u8>>>;

    /// Unpacks a stream as it is read; `None` for a family that needs all of the stream at once. A stream with a larger
    /// window than `window_bytes_max` is refused, if the family has windows that matter.
    fn reader<'a>(
        &self,
        packed: Box<dyn BufRead + 'a>,
        window_bytes_max: u64,
    ) -> Option<io::Result<Box<dyn Read + 'a>>>;

    /// Unpacks `packed` into the empty `out`, up to `raw_bytes_max`. Memory grows with the bytes that come out.
    fn unpack(&self, packed: &[u8], raw_bytes_max: u64, out: &mut Vec<u8>) -> Result<()> {
        // All of the content is in memory, and a window is at most as large.
        let mut reader = reader(self, packed, WINDOW_BYTES_MAX)?;
        // One allocation suffices for nearly all: few streams are more than eight times smaller than their content.
        let likely = (packed.len() as u64 * 8).max(RESERVED_BYTES_MIN);
        allocate(likely.min(raw_bytes_max), out)?;
        // The read after the last byte checks the trailer (length, CRC), too.
        let read = reader.by_ref().take(raw_bytes_max.saturating_add(1)).read_to_end(out);
        read.map_err(|e| read_error(self, e))?;
        if out.len() as u64 > raw_bytes_max { Err(too_large(self, raw_bytes_max)) } else { Ok(()) }
    }

    /// Unpacks `packed`, which is declared to hold `raw_bytes`, into the empty `out`.
    fn unpack_declared(&self, packed: &[u8], raw_bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        self.unpack(packed, raw_bytes, out)
    }

    /// Bytes of the window of a stream that begins with `front`, if it is one that takes much memory.
    fn window_bytes(&self, _front: &[u8]) -> u64 {
        0
    }

    /// Bytes of the content of a stream that begins with `front`, if the stream declares them there.
    fn content_bytes(&self, _front: &[u8]) -> Option<u64> {
        None
    }
}

/// Returns true if a stream of the family can be unpacked as it is read.
pub(super) fn is_streamed(codec: &dyn Codec) -> bool {
    codec.reader(Box::new(&[][..]), WINDOW_BYTES_MAX).is_some()
}

/// Unpacks a stream as it is read.
pub(super) fn reader<'a>(
    codec: &(impl Codec + ?Sized),
    packed: impl BufRead + 'a,
    window_bytes_max: u64,
) -> Result<Box<dyn Read + 'a>> {
    let (packed, used) = Used::new(packed);
    let reader = codec.reader(Box::new(packed), window_bytes_max).ok_or_else(|| {
        let name = codec.names().name;
        Error::new(ErrorKind::Unsupported, format!("{name} cannot be unpacked while it is being read"))
    })?;
    let unpacked = reader.map_err(|e| damaged(codec).caused_by(e))?;
    Ok(Box::new(Bounded { unpacked, used, bytes: 0 }))
}

/// Allocates memory for `raw_bytes`, unless `packed` cannot hold that many: one of its bytes becomes at most
/// `ratio_max`.
pub(super) fn reserve(
    codec: &impl Codec,
    ratio_max: u64,
    packed: &[u8],
    raw_bytes: u64,
    out: &mut Vec<u8>,
) -> Result<()> {
    let packed_bytes = packed.len() as u64;
    if raw_bytes > packed_bytes.saturating_mul(ratio_max) {
        let name = codec.names().name;
        return Err(Error::format(format!(
            "{packed_bytes} bytes of {name} cannot unpack to the declared {raw_bytes} bytes: the data is damaged"
        )));
    }
    check_expansion(packed_bytes, raw_bytes)?;
    allocate(raw_bytes, out)
}

fn allocate(bytes: u64, out: &mut Vec<u8>) -> Result<()> {
    let reserved = usize::try_from(bytes).ok().and_then(|bytes| out.try_reserve_exact(bytes).ok());
    reserved.ok_or_else(|| Error::new(ErrorKind::Full, format!("no memory for {bytes} unpacked bytes")))
}

/// Error of a read of an unpacked stream: an error of the packed bytes' storage as it is.
pub(super) fn read_error(codec: &(impl Codec + ?Sized), error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Error::from_io(error, "no memory for the unpacked bytes"),
        _ => error.downcast::<Error>().unwrap_or_else(|e| damaged(codec).caused_by(e)),
    }
}

/// Error for a stream that cannot be unpacked.
pub(super) fn damaged(codec: &(impl Codec + ?Sized)) -> Error {
    let name = codec.names().name;
    Error::format(format!("the {name} stream is damaged or not {name} at all"))
}

/// Error for a stream with more bytes than allowed.
pub(super) fn too_large(codec: &(impl Codec + ?Sized), raw_bytes_max: u64) -> Error {
    Error::format(format!("the {} stream holds more than {raw_bytes_max} bytes", codec.names().name))
}
