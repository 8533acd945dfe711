//! Content of a compressed file, as a file that is read from front to back with little memory.

use super::Compression;
use crate::read_at::{AHEAD_BYTES, FilePart, ReadAt, ended};
use forebay_core::error::{Error, Result};
use std::cell::RefCell;
use std::io::{self, BufRead, Read};

/// Bytes that are unpacked at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Bytes before the last offset that stay in memory: readers return to the front of a record.
const KEPT_BYTES: u64 = 1 << 20;

/// Content of a compressed file, which is unpacked while it is read. Reads do not go back by more than a mebibyte.
pub struct ForwardFile<'a>(RefCell<ForwardContent<'a>>);

/// Function that is called with pieces of the content.
type Watch<'a> = Box<dyn FnMut(&[u8]) + 'a>;

struct ForwardContent<'a> {
    reader: Box<dyn Read + 'a>,
    compression: Compression,
    /// Bytes from byte `start` of the content.
    window: Vec<u8>,
    start: u64,
    /// The window ends where the content ends.
    is_whole: bool,
    raw_bytes_max: u64,
    /// Failure for the next read.
    failure: Option<Error>,
    /// Called once with each byte of the content, in their order.
    watch: Option<Watch<'a>>,
}

impl<'a> ForwardFile<'a> {
    /// Content of `packed`, of at most `raw_bytes_max` bytes. `window_bytes_max` is as for [`Compression::reader`].
    ///
    /// # Errors
    ///
    /// As [`Compression::reader`].
    pub fn new(
        compression: Compression,
        packed: impl BufRead + 'a,
        window_bytes_max: u64,
        raw_bytes_max: u64,
    ) -> Result<Self> {
        let reader = compression.reader(packed, window_bytes_max)?;
        Ok(Self::of_reader(compression, reader, raw_bytes_max))
    }

    fn of_reader(compression: Compression, reader: Box<dyn Read + 'a>, raw_bytes_max: u64) -> Self {
        Self(RefCell::new(ForwardContent {
            reader,
            compression,
            window: Vec::new(),
            start: 0,
            is_whole: false,
            raw_bytes_max,
            failure: None,
            watch: None,
        }))
    }

    /// Calls `watch` with the bytes of the content as they are unpacked, from the first to the last.
    #[must_use]
    pub fn watched(self, watch: impl FnMut(&[u8]) + 'a) -> Self {
        self.0.borrow_mut().watch = Some(Box::new(watch));
        self
    }

    /// Reads the rest, which compares the length and the checksum that the stream has. Returns the bytes of the
    /// content.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a stream that is damaged or has too many bytes; errors of its storage.
    pub fn read_to_end(self) -> Result<u64> {
        let mut content = self.0.into_inner();
        let mut at = content.end();
        while !content.is_whole {
            at += CHUNK_BYTES as u64;
            content.fill(at, at)?;
        }
        content.failure.take().map_or(Ok(content.end()), Err)
    }
}

impl ForwardContent<'_> {
    fn end(&self) -> u64 {
        self.start + self.window.len() as u64
    }

    /// Unpacks up to byte `end`, or to the end of the content, for a reader at `offset`.
    fn fill(&mut self, offset: u64, end: u64) -> Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        while self.end() < end && !self.is_whole {
            let unused = offset.saturating_sub(KEPT_BYTES).min(self.end()).saturating_sub(self.start);
            if unused >= KEPT_BYTES {
                self.window.drain(..unused as usize);
                self.start += unused;
            }
            self.unpack_chunk()?;
        }
        Ok(())
    }

    fn unpack_chunk(&mut self) -> Result<()> {
        let known = self.window.len();
        self.window.resize(known + CHUNK_BYTES, 0);
        let read = loop {
            match self.reader.read(&mut self.window[known..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.window.truncate(known + *read.as_ref().unwrap_or(&0));
        if let Some(watch) = &mut self.watch {
            watch(&self.window[known..]);
        }
        self.is_whole = read.map_err(|e| self.compression.read_error(e))? == 0;
        if self.end() > self.raw_bytes_max {
            let (name, most) = (self.compression.name(), self.raw_bytes_max);
            return Err(Error::format(format!("the {name} stream holds more than {most} bytes: write smaller files")));
        }
        Ok(())
    }
}

impl ReadAt for ForwardFile<'_> {
    fn bytes(&self) -> u64 {
        let content = self.0.borrow();
        if content.is_whole { content.end() } else { u64::MAX }
    }

    fn bytes_seen_from(&self, offset: u64) -> u64 {
        let content = &mut *self.0.borrow_mut();
        if let Err(failure) = content.fill(offset, offset.saturating_add(AHEAD_BYTES)) {
            content.failure = Some(failure);
            return u64::MAX;
        }
        if content.is_whole { content.end() } else { u64::MAX }
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let content = &mut *self.0.borrow_mut();
        content.fill(offset, offset.saturating_add(into.len() as u64))?;
        let Some(start) = offset.checked_sub(content.start) else {
            return Err(Error::internal("a compressed file is read backwards"));
        };
        let found = content.window.get(usize::try_from(start).unwrap_or(usize::MAX)..);
        let found = found.and_then(|rest| rest.get(..into.len())).ok_or_else(|| ended(content.end()))?;
        into.copy_from_slice(found);
        Ok(())
    }
}

/// Bytes that are a part of the content of a compressed file in memory.
#[derive(Clone, Copy, Debug)]
pub struct PackedBytes<'a> {
    /// Compression of the file.
    pub compression: Compression,
    /// All bytes of the file.
    pub packed: &'a [u8],
    /// Bytes of its content.
    pub content_bytes: u64,
    /// First byte of the part.
    pub start: u64,
    /// Number of bytes of the part.
    pub bytes: u64,
}

impl PackedBytes<'_> {
    /// Calls `use_file` with the part, which is read from front to back, and then compares the rest of the content.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a damaged file or content of a different size; errors of `use_file`.
    pub fn read<T>(&self, use_file: impl FnOnce(&dyn ReadAt) -> Result<T>) -> Result<T> {
        super::check_expansion(self.packed.len() as u64, self.content_bytes)?;
        let end = self.start.checked_add(self.bytes).filter(|end| *end <= self.content_bytes);
        let end = end.ok_or_else(|| Error::format("the file is shorter than its index declares"))?;
        // The content is bounded by the file, and so is its window.
        let file = ForwardFile::new(self.compression, self.packed, u64::MAX, self.content_bytes)?;
        let value = use_file(&FilePart { file: &file, range: self.start..end })?;
        match file.read_to_end()? {
            found if found == self.content_bytes => Ok(value),
            found => Err(Error::format(format!(
                "the {} stream holds {found} bytes where the index declares {}",
                self.compression.name(),
                self.content_bytes
            ))),
        }
    }

    /// Calls `use_piece` with all bytes of the part, in pieces of at most `piece_bytes`.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn each_piece(&self, piece_bytes: usize, mut use_piece: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.read(|file| {
            let (mut piece, mut at) = (vec![0; piece_bytes], 0);
            while at < file.bytes() {
                let bytes = usize::try_from(file.bytes() - at).map_or(piece_bytes, |left| left.min(piece_bytes));
                file.read_at(&mut piece[..bytes], at)?;
                use_piece(&piece[..bytes])?;
                at += bytes as u64;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::{LineForm, survey};

    #[test]
    fn memory_does_not_grow_with_the_content() {
        let raw = vec![b'\n'; 100 << 20];
        let file = ForwardFile::of_reader(Compression::GZIP, Box::new(&*raw), u64::MAX);
        survey(&file, LineForm::Json, 1 << 20).unwrap();
        let capacity = file.0.borrow().window.capacity();
        assert!(capacity < 16 << 20, "{capacity}");
        assert_eq!(file.read_to_end().unwrap(), raw.len() as u64);
    }

    #[test]
    fn a_part_is_read_in_pieces_and_its_file_compared_to_the_end() {
        let raw: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let packed = Compression::ZSTD.compress(&raw).unwrap();
        let content_bytes = raw.len() as u64;
        let all = PackedBytes {
            compression: Compression::ZSTD,
            packed: &packed,
            content_bytes,
            start: 0,
            bytes: content_bytes,
        };
        let read = |part: PackedBytes<'_>| {
            let mut found = Vec::new();
            let collected = part.each_piece(1000, |piece| {
                found.extend_from_slice(piece);
                Ok(())
            });
            collected.map(|()| found)
        };
        assert!(read(all).unwrap() == raw);
        assert!(read(PackedBytes { start: 7, bytes: 2_000_000, ..all }).unwrap() == raw[7..2_000_007]);
        assert!(read(PackedBytes { start: 3_000_000, bytes: 0, ..all }).unwrap().is_empty());
        for (wrong, message) in [
            (PackedBytes { content_bytes: content_bytes - 1, bytes: 10, ..all }, "more than 2999999"),
            (PackedBytes { content_bytes: content_bytes + 1, ..all }, "holds 3000000 bytes where the index declares"),
            (PackedBytes { start: 1, ..all }, "shorter"),
            (PackedBytes { packed: &packed[..packed.len() - 3], bytes: 10, ..all }, "damaged"),
            (PackedBytes { content_bytes: 1 << 40, ..all }, "decompression bomb"),
        ] {
            let e = read(wrong).unwrap_err();
            assert!(e.to_string().contains(message), "{e}");
        }
    }
}
