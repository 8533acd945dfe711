//! Records of a TFRecord file: lengths, CRCs and offsets.

use std::ops::Range;

use super::features::FeatureCounts;
use crate::Compression;
use crate::read_at::{AHEAD_BYTES, ReadAt};
use crate::table::OffsetTable;
use forebay_core::error::{Error, Result};

/// Bytes before the data of a record: its length, and the CRC of the length.
pub(super) const HEAD_BYTES: usize = 12;
/// Bytes after the data: their CRC.
pub(super) const TAIL_BYTES: usize = 4;
/// Bytes of a record around its data.
pub(crate) const FRAME_BYTES: u64 = (HEAD_BYTES + TAIL_BYTES) as u64;

/// Bytes that are read at once, so that the heads of short records take few reads.
const WINDOW_BYTES: u64 = 64 << 10;

/// Advice for a file with records that differ from its index.
const RECOUNT: &str = "The file was written again after its records were counted: remove the .idx file next to it, or \
                       make it again, or pass Stream(ignore_counts=True)";

/// Most bytes of a record.
const RECORD_BYTES_MAX: u64 = u32::MAX as u64 - FRAME_BYTES;

/// CRC of `bytes` as the files store it, masked: an unmasked CRC of bytes that contain CRCs would be weak.
pub(super) fn masked_crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Appends a record with this data.
pub fn append(data: &[u8], out: &mut Vec<u8>) {
    let length = (data.len() as u64).to_le_bytes();
    out.extend(length);
    out.extend(masked_crc(&length).to_le_bytes());
    out.extend_from_slice(data);
    out.extend(masked_crc(data).to_le_bytes());
}

/// Appends a record of `bytes` bytes that were lost. Its CRC is wrong, so that reading it is an error.
pub(crate) fn append_lost(bytes: usize, out: &mut Vec<u8>) {
    append(&vec![0; bytes], out);
    out.last_mut().into_iter().for_each(|byte| *byte ^= 1);
}

/// Returns the length of the record that begins with `head`.
pub(super) fn length(head: &[u8; HEAD_BYTES]) -> Result<u64> {
    let [l0, l1, l2, l3, l4, l5, l6, l7, crc @ ..] = *head;
    let length = [l0, l1, l2, l3, l4, l5, l6, l7];
    if masked_crc(&length) != u32::from_le_bytes(crc) {
        return Err(Error::format(
            "the length of a record does not match its CRC: the file is damaged, or is not a TFRecord file",
        ));
    }
    match u64::from_le_bytes(length) {
        length if length <= RECORD_BYTES_MAX => Ok(length),
        length => Err(Error::format(format!("a record of {length} bytes is larger than 4 GiB"))),
    }
}

/// Returns true if `head` begins a record of `bytes` in all.
pub fn is_record(head: &[u8], bytes: u64) -> bool {
    head.first_chunk().is_some_and(|head| length(head).is_ok_and(|length| length + FRAME_BYTES == bytes))
}

/// Returns true if a file that begins with `front` begins with a record.
pub fn starts_record(front: &[u8]) -> bool {
    front.first_chunk().is_some_and(|head| length(head).is_ok())
}

/// Returns the data of the record that `sample` is.
pub(super) fn data(sample: &[u8]) -> Result<Range<usize>> {
    let whole = sample.split_first_chunk::<HEAD_BYTES>().and_then(|(head, rest)| {
        let (data, crc) = rest.split_last_chunk::<TAIL_BYTES>()?;
        Some((head, data, u32::from_le_bytes(*crc)))
    });
    let (head, data, crc) = whole.ok_or_else(|| Error::format("a record ends before its data"))?;
    if length(head)? != data.len() as u64 {
        return Err(Error::format(format!("a record declares a length that differs from {}", data.len())));
    }
    if masked_crc(data) != crc {
        return Err(Error::format("the data of a record does not match its CRC: the file is damaged"));
    }
    Ok(HEAD_BYTES..HEAD_BYTES + data.len())
}

/// Returns the compression of a file that begins with `front`. TensorFlow's file names do not show it.
pub fn compression_of(front: &[u8]) -> Option<Compression> {
    match front {
        // The length of a first record may have any bytes.
        _ if starts_record(front) => None,
        [0x1f, 0x8b, ..] => Some(Compression::GZIP),
        [method, flags, ..] if method & 15 == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0 => {
            Some(Compression::ZLIB)
        }
        _ => None,
    }
}

/// Records of a file, from front to back.
struct Records<'a, R: ?Sized> {
    file: &'a R,
    at: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl<'a, R: ReadAt + ?Sized> Records<'a, R> {
    fn new(file: &'a R) -> Self {
        Self { file, at: 0, window: Vec::new(), window_start: 0 }
    }

    /// Returns the range of the next record.
    fn next(&mut self) -> Result<Option<Range<u64>>> {
        let bytes = self.file.bytes_seen_from(self.at);
        if self.at == bytes {
            return Ok(None);
        }
        let (start, left) = (self.at, bytes.saturating_sub(self.at));
        let located = |e: Error| e.with("byte", start);
        let ended = || located(Error::format("the file ends inside a record"));
        if left < FRAME_BYTES {
            return Err(ended());
        }
        let length = length(self.head()?).map_err(located)?;
        if length > left - FRAME_BYTES {
            return Err(ended());
        }
        self.at += length + FRAME_BYTES;
        Ok(Some(start..self.at))
    }

    /// Returns the head of the record at the current offset, which the file has.
    fn head(&mut self) -> Result<&[u8; HEAD_BYTES]> {
        let in_window = |this: &Self| {
            let start = usize::try_from(this.at.checked_sub(this.window_start)?).ok()?;
            Some(start).filter(|start| start + HEAD_BYTES <= this.window.len())
        };
        if in_window(self).is_none() {
            let left = self.file.bytes_seen_from(self.at).saturating_sub(self.at);
            self.window.resize(WINDOW_BYTES.min(left) as usize, 0);
            self.window_start = self.at;
            self.file.read_at(&mut self.window, self.at)?;
        }
        let head = in_window(self).and_then(|start| self.window[start..].first_chunk());
        head.ok_or_else(|| Error::internal("the head of a record was not read"))
    }
}

/// Reads the offsets of the records of `file`, which the index declares to be `samples`.
pub(super) fn offsets<R: ReadAt + ?Sized>(file: &R, samples: u64) -> Result<OffsetTable> {
    offsets_of(file, samples, |_| Ok(()))
}

/// Returns the [`offsets`] of the records of `file`, and the first damage that [`check`] finds.
pub(super) fn offsets_checked<R: ReadAt + ?Sized>(file: &R, samples: u64) -> Result<(OffsetTable, Option<Error>)> {
    let (mut record, mut damage) = (Vec::new(), None);
    let offsets = offsets_of(file, samples, |range| {
        read_record(file, range, &mut record)?;
        if damage.is_none() {
            damage = data(&record).err().map(|e| e.with("byte", range.start));
        }
        Ok(())
    })?;
    Ok((offsets, damage))
}

/// Returns the offsets of the records of `file`, and calls `use_record` with the range of each.
fn offsets_of<R: ReadAt + ?Sized>(
    file: &R,
    samples: u64,
    mut use_record: impl FnMut(&Range<u64>) -> Result<()>,
) -> Result<OffsetTable> {
    let mut records = Records::new(file);
    let mut ranges = Vec::new();
    while let Some(range) = records.next()? {
        use_record(&range)?;
        if ranges.len() as u64 == samples {
            let message = format!("the file has more records than the {samples} that the index declares");
            return Err(Error::format(message).with("field", "samples").hinting(RECOUNT));
        }
        ranges.push((range.start, range.end));
    }
    if ranges.len() as u64 != samples {
        let message = format!("the file has {} records where the index declares {samples}", ranges.len());
        return Err(Error::format(message).with("field", "samples").hinting(RECOUNT));
    }
    OffsetTable::of_blocks(&ranges, 1, file.bytes())
}

/// Compares the CRCs of the records of `file`, which are at `offsets`.
pub(super) fn check(file: &dyn ReadAt, offsets: &OffsetTable) -> Result<()> {
    let mut record = Vec::new();
    for number in 0..offsets.len() {
        let (start, bytes) = offsets.range(number)?;
        let range = start..start + u64::from(bytes);
        let found = match file.in_memory() {
            Some(all) => usize::try_from(start).ok().and_then(|start| all.get(start..)?.get(..bytes as usize)),
            None => {
                read_record(file, &range, &mut record)?;
                Some(&*record)
            }
        };
        let found = found.ok_or_else(|| Error::internal("a record is outside of its file"));
        found.and_then(data).map_err(|e| e.with("byte", start))?;
    }
    Ok(())
}

/// Counts the records of `file`, and those with each feature.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for a file that is no TFRecord file or is damaged, with the offset; errors of its
/// storage.
pub fn count_features<R: ReadAt + ?Sized>(file: &R) -> Result<FeatureCounts> {
    counted(file, false)
}

/// Counts like [`count_features`], where records do not match their CRC: their features are unknown.
///
/// # Errors
///
/// As [`count_features`], also for a file without a record that is whole.
pub fn count_whole_records<R: ReadAt + ?Sized>(file: &R) -> Result<FeatureCounts> {
    counted(file, true)
}

fn counted<R: ReadAt + ?Sized>(file: &R, accepts_damage: bool) -> Result<FeatureCounts> {
    let (mut records, mut counts) = (Records::new(file), FeatureCounts::default());
    let (mut record, mut damage) = (Vec::new(), None);
    while let Some(range) = records.next()? {
        let located = |e: Error| e.with("byte", range.start);
        read_record(file, &range, &mut record)?;
        match data(&record).map_err(located) {
            Err(e) if accepts_damage => {
                counts.damaged += 1;
                damage.get_or_insert(e);
            }
            data => counts.add(&record[data?]).map_err(located)?,
        }
    }
    damage.filter(|_| counts.samples == 0).map_or(Ok(counts), Err)
}

/// Reads the record at `range` into `record`. Memory grows with the bytes that the file has.
fn read_record<R: ReadAt + ?Sized>(file: &R, range: &Range<u64>, record: &mut Vec<u8>) -> Result<()> {
    let bytes = (range.end - range.start) as usize;
    // One allocation for all bytes where the size of the file is known, and it has them.
    let step = if file.bytes() == u64::MAX { AHEAD_BYTES as usize } else { bytes };
    record.clear();
    while record.len() < bytes {
        let read = record.len();
        record.resize(bytes.min(read + step), 0);
        file.read_at(&mut record[read..], range.start + read as u64)?;
    }
    Ok(())
}

/// Counts the whole records at the `front` of a file that is cut off there, without those that do not match their CRC.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for a front that does not begin a TFRecord file.
pub fn front_features(front: &[u8]) -> Result<FeatureCounts> {
    let (mut counts, mut rest, mut damage) = (FeatureCounts::default(), front, None);
    while let Some(head) = rest.first_chunk() {
        let whole = usize::try_from(length(head)? + FRAME_BYTES).unwrap_or(usize::MAX);
        let Some((record, more)) = rest.split_at_checked(whole) else { break };
        match data(record) {
            Ok(data) => counts.add(&record[data])?,
            Err(e) => damage = damage.or(Some(e)),
        }
        rest = more;
    }
    damage.filter(|_| counts.samples == 0).map_or(Ok(counts), Err)
}
