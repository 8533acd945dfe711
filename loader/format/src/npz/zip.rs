//! Members of a zip archive, by the directory at its end. Local headers repeat it, and only their lengths are used.
//!
//! Sizes are bounded before memory is allocated: the directory by the file and by [`DIRECTORY_BYTES_MAX`], a member by
//! the most that deflate packs into its bytes, and all packed members together by the file, so that they share no
//! bytes.

use crate::compression::check_expansion;
use crate::read_at::ReadAt;
use flate2::bufread::DeflateDecoder;
use forebay_core::error::{Error, ErrorKind, Result};
use std::io::Read;

/// Bytes of the end of the directory, without the comment after it, and of its locator and end in archives of zip64.
const END_BYTES: usize = 22;
const LOCATOR_BYTES: usize = 20;
const END64_BYTES: usize = 56;

/// Most bytes after the end of the directory: the longest comment.
const COMMENT_BYTES_MAX: usize = u16::MAX as usize;

/// Most bytes of a directory, and members of a file: a member is a column.
const DIRECTORY_BYTES_MAX: u64 = 16 << 20;
const MEMBERS_MAX: u64 = 10_000;

/// Bytes of a member in the directory, and of a local header, each without name and extra fields.
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;

/// Extra field with sizes that do not fit 32 bits.
const ZIP64_FIELD: u16 = 1;

/// Most bytes that deflate packs into one.
const DEFLATE_RATIO_MAX: u64 = 1032;

/// Flag of members that are encrypted.
const ENCRYPTED: u16 = 1;

/// Compression of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Stored,
    Deflated,
}

/// File in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Path in the archive.
    pub(super) name: String,
    /// Bytes of the unpacked content.
    pub(super) bytes: u64,
    method: Method,
    packed_bytes: u64,
    crc: u32,
    /// Offset of its local header.
    header_at: u64,
    /// Offset of the directory, before which the content ends.
    directory_at: u64,
}

/// Returns the members of the archive `file`, without folders.
///
/// # Errors
///
/// [`ErrorKind::Format`] for a file that is no zip archive or is damaged; [`ErrorKind::Unsupported`] for members that
/// are encrypted or compressed by a different method than deflate, and for too many; errors of its storage.
pub(super) fn members(file: &dyn ReadAt) -> Result<Vec<Member>> {
    let Directory { start, bytes, members } = directory(file)?;
    let mut directory = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    file.read_at(&mut directory, start)?;
    let (mut rest, mut found, mut packed) = (&directory[..], Vec::new(), 0_u64);
    for _ in 0..members {
        let (member, after) = entry(rest, start)?;
        rest = after;
        packed = packed.saturating_add(member.packed_bytes);
        if packed > start {
            return Err(Error::format("the members of the archive have more bytes than the file"));
        }
        if !member.name.ends_with('/') {
            found.push(member);
        }
    }
    Ok(found)
}

/// Offset of the directory of an archive.
struct Directory {
    start: u64,
    bytes: u64,
    members: u64,
}

fn directory(file: &dyn ReadAt) -> Result<Directory> {
    let no_archive = || Error::format("the file is not a zip archive, or is cut off");
    let tail_bytes = file.bytes().min((END_BYTES + COMMENT_BYTES_MAX) as u64);
    let mut tail = vec![0; tail_bytes as usize];
    file.read_at(&mut tail, file.bytes() - tail_bytes)?;
    let is_end = |at: &usize| {
        let end = &tail[*at..];
        end.starts_with(b"PK\x05\x06")
            && u16_at(end, 20).is_some_and(|comment| END_BYTES + usize::from(comment) == end.len())
    };
    let starts = 0..(tail.len() + 1).saturating_sub(END_BYTES);
    let at = starts.rev().find(is_end).ok_or_else(no_archive)?;
    let end = &tail[at..];
    let end_at = file.bytes() - tail_bytes + at as u64;
    let word = |place| u32_at(end, place).ok_or_else(no_archive);
    let count = u16_at(end, 10).ok_or_else(no_archive)?;
    let mut found = Directory { start: word(16)?.into(), bytes: word(12)?.into(), members: count.into() };
    let mut limit = end_at;
    let is_large = count == u16::MAX || found.start == u64::from(u32::MAX) || found.bytes == u64::from(u32::MAX);
    if is_large && let Some((at, large)) = directory64(file, end_at)? {
        (found, limit) = (large, at);
    }
    if u16_at(end, 4) != Some(0) {
        return Err(Error::new(ErrorKind::Unsupported, "the archive is split into several parts: save it as one file"));
    }
    if found.start.checked_add(found.bytes).is_none_or(|end| end > limit) {
        return Err(Error::format("the directory of the archive is not in the file: it is cut off or damaged"));
    }
    if found.bytes > DIRECTORY_BYTES_MAX || found.members > MEMBERS_MAX {
        let message = format!("the file has more than {MEMBERS_MAX} arrays, or the names of them are too long");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(found)
}

/// Returns the end of the directory of an archive of zip64, and its offset, if there is one before the end at `end_at`.
fn directory64(file: &dyn ReadAt, end_at: u64) -> Result<Option<(u64, Directory)>> {
    let Some(locator_at) = end_at.checked_sub(LOCATOR_BYTES as u64) else { return Ok(None) };
    let mut locator = [0; LOCATOR_BYTES];
    file.read_at(&mut locator, locator_at)?;
    if !locator.starts_with(b"PK\x06\x07") {
        return Ok(None);
    }
    let damaged = || Error::format("the end of the archive is damaged");
    let at = u64_at(&locator, 8).filter(|at| at.checked_add(END64_BYTES as u64).is_some_and(|end| end <= locator_at));
    let at = at.ok_or_else(damaged)?;
    let mut end = [0; END64_BYTES];
    file.read_at(&mut end, at)?;
    let word = |place| u64_at(&end, place).ok_or_else(damaged);
    if !end.starts_with(b"PK\x06\x06") {
        return Err(damaged());
    }
    Ok(Some((at, Directory { start: word(48)?, bytes: word(40)?, members: word(32)? })))
}

/// Returns the member that `directory`, which is at `directory_at` of the file, begins with, and the rest.
fn entry(directory: &[u8], directory_at: u64) -> Result<(Member, &[u8])> {
    let damaged = || Error::format("the directory of the archive is damaged");
    let (head, rest) = directory.split_at_checked(ENTRY_BYTES).ok_or_else(damaged)?;
    let half = |place| u16_at(head, place).ok_or_else(damaged);
    let word = |place| u32_at(head, place).ok_or_else(damaged);
    if !head.starts_with(b"PK\x01\x02") {
        return Err(damaged());
    }
    let (name, rest) = rest.split_at_checked(half(28)?.into()).ok_or_else(damaged)?;
    let (mut extra, rest) = rest.split_at_checked(half(30)?.into()).ok_or_else(damaged)?;
    let rest = rest.get(usize::from(half(32)?)..).ok_or_else(damaged)?;
    let name = std::str::from_utf8(name).map_err(|_| Error::format("the name of an array is not UTF-8"))?;
    let about = |e: Error| e.with("array", name);
    let mut sizes = [u64::from(word(24)?), word(20)?.into(), word(42)?.into()];
    while let Some((head, more)) = extra.split_at_checked(4) {
        let (kind, len) = (u16_at(head, 0), u16_at(head, 2).map_or(0, usize::from));
        let (mut field, more) = more.split_at_checked(len).ok_or_else(damaged)?;
        extra = more;
        if kind == Some(ZIP64_FIELD) {
            // It has the values that do not fit, in this order.
            for size in sizes.iter_mut().filter(|size| **size == u64::from(u32::MAX)) {
                *size = u64_at(field, 0).ok_or_else(damaged)?;
                field = &field[8..];
            }
        }
    }
    let [bytes, packed_bytes, header_at] = sizes;
    if half(8)? & ENCRYPTED != 0 {
        return Err(about(Error::new(ErrorKind::Unsupported, "the array is encrypted: save it without a password")));
    }
    let method = match half(10)? {
        0 if bytes == packed_bytes => Method::Stored,
        8 if bytes <= packed_bytes.saturating_mul(DEFLATE_RATIO_MAX) => Method::Deflated,
        0 | 8 => return Err(about(Error::format("the sizes of an array do not fit its compression"))),
        other => {
            let message = "the array is not compressed by deflate: save it by numpy's savez_compressed";
            return Err(about(Error::new(ErrorKind::Unsupported, message).with("method", other)));
        }
    };
    let crc = word(16)?;
    Ok((Member { name: name.to_owned(), bytes, method, packed_bytes, crc, header_at, directory_at }, rest))
}

impl Member {
    /// Appends the unpacked content to `out`. `archive` is the whole file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a damaged file; [`ErrorKind::Full`] without memory.
    pub(super) fn unpack(&self, archive: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let damaged = || Error::format("the content of an array is damaged");
        let packed = self.packed(archive).ok_or_else(damaged)?;
        check_expansion(self.packed_bytes, self.bytes)?;
        let start = out.len();
        let full = |_| Error::new(ErrorKind::Full, format!("no memory for an array of {} bytes", self.bytes));
        out.try_reserve(usize::try_from(self.bytes).unwrap_or(usize::MAX)).map_err(full)?;
        match self.method {
            Method::Stored => out.extend_from_slice(packed),
            Method::Deflated => {
                let mut content = DeflateDecoder::new(packed).take(self.bytes + 1);
                content.read_to_end(out).map_err(|e| damaged().caused_by(e))?;
            }
        }
        let found = &out[start..];
        if found.len() as u64 != self.bytes {
            return Err(damaged().with("bytes", found.len()).with("declared", self.bytes));
        }
        if crc_fast::crc32_iso_hdlc(found) != self.crc {
            return Err(Error::format("the content of an array does not match its CRC: the file is damaged"));
        }
        Ok(())
    }

    fn packed<'a>(&self, archive: &'a [u8]) -> Option<&'a [u8]> {
        let content = archive.get(..usize::try_from(self.directory_at).ok()?)?;
        let (head, rest) = content.get(usize::try_from(self.header_at).ok()?..)?.split_at_checked(LOCAL_BYTES)?;
        let skipped = usize::from(u16_at(head, 26)?) + usize::from(u16_at(head, 28)?);
        let packed = rest.get(skipped..)?.get(..usize::try_from(self.packed_bytes).ok()?)?;
        head.starts_with(b"PK\x03\x04").then_some(packed)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_le_bytes(*word))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}
