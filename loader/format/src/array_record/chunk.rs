//! Chunks of a range of a file, and their records.

use std::borrow::Cow;

use highway::{HighwayHash, HighwayHasher, Key};

use crate::Compression;
use crate::wire::Fields;
use forebay_core::error::{Error, ErrorKind, Result};

/// Bytes of a block. The last one of a file has the postscript.
pub const BLOCK_BYTES: u64 = 64 << 10;

/// Bytes of the head of a block. Its content helps to find chunks in a damaged file, and is not read.
const BLOCK_HEAD_BYTES: u64 = 24;

/// Bytes of the head of a chunk.
const HEAD_BYTES: usize = 40;

/// Most bytes of the records of a chunk, and of a chunk: a shard has at most as many.
const CHUNK_BYTES_MAX: u64 = u32::MAX as u64;

/// Most records of a chunk: a few bytes may declare any number of empty ones, and the size of each is in memory.
const CHUNK_RECORDS_MAX: u64 = 1 << 24;

/// Most bytes of the size of a record in a chunk.
const SIZE_BYTES_MAX: u64 = 10;

/// Key of the hashes: `Riegeli/records\n`, twice.
const KEY: Key = Key([0x2f69_6c65_6765_6952, 0x0a73_6472_6f63_6572, 0x2f69_6c65_6765_6952, 0x0a73_6472_6f63_6572]);

/// Hash of the head of a chunk, or of its data.
pub fn hash(bytes: &[u8]) -> u64 {
    HighwayHasher::new(KEY).hash64(bytes)
}

/// Head of a chunk.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Bytes of the data, without heads of blocks.
    data_bytes: u64,
    data_hash: u64,
    kind: u8,
    records: u64,
    /// Bytes of all records together.
    record_bytes: u64,
}

/// Returns true if a file that begins with `front` begins with the heads of a block and a chunk.
pub fn starts_file(front: &[u8]) -> bool {
    let head = front.get(BLOCK_HEAD_BYTES as usize..).and_then(|rest| rest.first_chunk());
    head.is_some_and(|head| Head::parse(head).is_ok())
}

impl Head {
    fn parse(head: &[u8; HEAD_BYTES]) -> Result<Self> {
        let word = |at: usize| head[at..at + 8].iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        if hash(&head[8..]) != word(0) {
            let message =
                "the header of a chunk does not match its hash: the file is damaged, or is not an ArrayRecord file";
            return Err(Error::format(message));
        }
        let kind_and_records = word(24);
        Ok(Self {
            data_bytes: word(8),
            data_hash: word(16),
            kind: kind_and_records as u8,
            records: kind_and_records >> 8,
            record_bytes: word(32),
        })
    }
}

/// Data of a chunk, or an error if they are damaged.
type ChunkData<'a> = Result<Cow<'a, [u8]>>;

/// Bytes of a range of a file.
struct Blocks<'a> {
    bytes: &'a [u8],
    /// Offset of the first of them in the file.
    start: u64,
    at: usize,
}

impl<'a> Blocks<'a> {
    fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Returns the next `count` bytes, without heads of blocks.
    fn take(&mut self, count: u64) -> Result<Cow<'a, [u8]>> {
        let ended = || Error::format("the file ends inside a chunk");
        let rest = &self.bytes[self.at..];
        // Checked before any memory is taken.
        let count = usize::try_from(count).ok().filter(|count| *count <= rest.len()).ok_or_else(ended)?;
        let mut taken: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        let mut left = count;
        while left > 0 {
            let in_block = self.position() % BLOCK_BYTES;
            if in_block == 0 {
                self.at += BLOCK_HEAD_BYTES as usize;
            }
            let in_block = self.position() % BLOCK_BYTES;
            let bytes = left.min((BLOCK_BYTES - in_block) as usize);
            let part = self.bytes.get(self.at..).and_then(|rest| rest.get(..bytes)).ok_or_else(ended)?;
            if taken.is_empty() {
                taken = Cow::Borrowed(part);
            } else {
                taken.to_mut().extend_from_slice(part);
            }
            self.at += bytes;
            left -= bytes;
        }
        Ok(taken)
    }

    /// Returns the next chunk, with an error instead of damaged data; `None` at the end.
    fn chunk(&mut self) -> Result<Option<(Head, ChunkData<'a>)>> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let start = self.position();
        let head = self.take(HEAD_BYTES as u64)?;
        let head = head.first_chunk().ok_or_else(|| Error::internal("the head of a chunk was not read"))?;
        let head = Head::parse(head)?;
        let data = self.take(head.data_bytes)?;
        let damaged = || Error::format("the data of a chunk does not match its hash: the file is damaged");
        let data = if hash(&data) == head.data_hash { Ok(data) } else { Err(damaged()) };
        // Padding: a chunk has at least as many bytes as records, and ends neither in the head of a block nor right
        // after it.
        let padded = start.saturating_add(head.records);
        let in_block = padded % BLOCK_BYTES;
        let padded = if (1..=BLOCK_HEAD_BYTES).contains(&in_block) {
            padded.saturating_add(BLOCK_HEAD_BYTES + 1 - in_block)
        } else {
            padded
        };
        let end = padded.max(self.position()) - self.start;
        self.at = usize::try_from(end).unwrap_or(usize::MAX).min(self.bytes.len());
        Ok(Some((head, data)))
    }
}

/// Content of a chunk.
#[derive(Debug)]
pub enum ChunkContent<'a> {
    /// A record.
    Record(&'a [u8]),
    /// All records of a chunk that is damaged.
    Lost {
        /// Number of records.
        records: u64,
        /// Bytes of all of them.
        bytes: u64,
        /// Reason, with the offset of the chunk.
        error: Error,
    },
}

/// Calls `each` with each record of the chunks in `bytes`, which are at byte `start` of the file. Returns after the
/// record for which it returns false.
///
/// # Errors
///
/// [`ErrorKind::Format`] for damaged chunks, with their offset; [`ErrorKind::Unsupported`] for transposed ones, and for
/// chunks of more than 4 GiB; errors of `each`.
pub fn each_record(bytes: &[u8], start: u64, mut each: impl FnMut(&[u8]) -> Result<bool>) -> Result<()> {
    each_content(bytes, start, |content| match content {
        ChunkContent::Record(record) => each(record),
        ChunkContent::Lost { error, .. } => Err(error),
    })
}

/// Calls `each` like [`each_record`], and once for each chunk with damaged data, if its head is whole.
///
/// # Errors
///
/// As [`each_record`].
pub fn each_content(bytes: &[u8], start: u64, mut each: impl FnMut(ChunkContent<'_>) -> Result<bool>) -> Result<()> {
    let mut blocks = Blocks { bytes, start, at: 0 };
    loop {
        let place = blocks.position();
        let located = |e: Error| e.with("byte", place);
        let Some((head, data)) = blocks.chunk().map_err(located)? else { return Ok(()) };
        let decoded = match data {
            Ok(ref data) => Records::decode(head, data),
            Err(damage) => Err(damage),
        };
        let records = match decoded.map_err(located) {
            Err(error) if error.kind() == ErrorKind::Format => {
                if !each(ChunkContent::Lost { records: head.records, bytes: head.record_bytes, error })? {
                    return Ok(());
                }
                continue;
            }
            decoded => decoded?,
        };
        let mut at = 0;
        for size in records.sizes {
            let end = at + size;
            if !each(ChunkContent::Record(&records.values[at..end]))? {
                return Ok(());
            }
            at = end;
        }
    }
}

/// Records of a chunk.
struct Records<'a> {
    /// Bytes of each. Together they are as many as the values.
    sizes: Vec<usize>,
    values: Cow<'a, [u8]>,
}

impl<'a> Records<'a> {
    fn decode(head: Head, data: &'a [u8]) -> Result<Self> {
        let damaged = || Error::format("the records of a chunk differ from its header: the file is damaged");
        if head.records == 0 {
            // The signature, metadata and padding.
            return Ok(Self { sizes: Vec::new(), values: Cow::Borrowed(&[]) });
        }
        match head.kind {
            b'r' => {}
            b't' => {
                let message = "the chunks of the file are transposed, which is not supported: write the file without \
                               the option `transpose`";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            kind => return Err(Error::format(format!("a chunk has the unknown type {kind:#x}"))),
        }
        if head.record_bytes > CHUNK_BYTES_MAX {
            let message = "a chunk has records of more than 4 GiB: write the file with a smaller group_size";
            return Err(Error::new(ErrorKind::Unsupported, message).with("bytes", head.record_bytes));
        }
        if head.records > CHUNK_RECORDS_MAX {
            let message = "a chunk has too many records: write the file with a smaller group_size, and in more files";
            let error = Error::new(ErrorKind::Unsupported, message);
            return Err(error.with("records", head.records).with("records_max", CHUNK_RECORDS_MAX));
        }
        let (compression, rest) = data.split_first().ok_or_else(damaged)?;
        let mut fields = Fields::new(rest, 0..rest.len());
        let sizes_bytes = usize::try_from(fields.varint()?).unwrap_or(usize::MAX);
        let (sizes, values) = rest[fields.rest()].split_at_checked(sizes_bytes).ok_or_else(damaged)?;
        let sizes = unpack(*compression, sizes, head.records.saturating_mul(SIZE_BYTES_MAX))?;
        // Each size has a byte at least.
        if (sizes.len() as u64) < head.records {
            return Err(damaged());
        }
        let mut fields = Fields::new(&sizes, 0..sizes.len());
        let (mut found, mut total) = (Vec::new(), 0_u64);
        for _ in 0..head.records {
            let size = fields.varint()?;
            total = total.checked_add(size).filter(|total| *total <= head.record_bytes).ok_or_else(damaged)?;
            found.push(size as usize);
        }
        let values = unpack(*compression, values, head.record_bytes)?;
        if total != head.record_bytes || values.len() as u64 != total || !fields.is_at_end() {
            return Err(damaged());
        }
        Ok(Self { sizes: found, values })
    }
}

/// Unpacks `packed` to at most `bytes_max` bytes.
fn unpack(compression: u8, packed: &[u8], bytes_max: u64) -> Result<Cow<'_, [u8]>> {
    let compression = match compression {
        0 => return Ok(Cow::Borrowed(packed)),
        b'b' => Compression::BROTLI,
        b's' => Compression::SNAPPY,
        b'z' => Compression::ZSTD,
        code => {
            let message = format!("a chunk has the unknown compression {code:#x}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    };
    let mut fields = Fields::new(packed, 0..packed.len());
    let bytes = fields.varint()?;
    if bytes > bytes_max {
        return Err(Error::format(format!(
            "a chunk declares {bytes} bytes, and at most {bytes_max} are possible: the file is damaged"
        )));
    }
    let mut unpacked = Vec::new();
    compression.decompress(&packed[fields.rest()], bytes, &mut unpacked)?;
    Ok(Cow::Owned(unpacked))
}
