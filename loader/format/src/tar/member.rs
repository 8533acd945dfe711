//! Files of an archive, in sequence.

use tar::Header;

use super::BLOCK;
use super::pax::{Records, damaged, number};
use super::sparse::{self, SparseMap};
use crate::read_at::ReadAt;
use forebay_core::error::{Error, Result};

/// Most bytes of a long name, or of a file's pax records.
const EXTENSION_BYTES_MAX: u64 = 1 << 20;

/// Most headers that describe one file.
const EXTENSIONS_MAX: usize = 16;

/// Most bytes after the first empty block that are compared with zero. Programs write 10 kB there by default.
const PADDING_BYTES: u64 = 64 << 10;

/// A member of an archive.
#[derive(Debug, Default)]
pub struct Member {
    /// Path as it is stored.
    pub name: Vec<u8>,
    /// Offset of the first header that describes it.
    pub(super) start: u64,
    /// Offset of the next member.
    pub end: u64,
    /// Offset and bytes of its stored content.
    pub content: (u64, u64),
    /// Offsets of that content in the file, for files that are stored without their zeros.
    pub sparse: Option<SparseMap>,
    /// False for directories, links and devices.
    pub is_file: bool,
}

/// Reader of the members of an archive, or of a part of one that begins with a header.
pub struct Members<'a, R: ?Sized> {
    archive: &'a R,
    /// The archive ends with an empty block.
    is_whole: bool,
    at: u64,
    member: Member,
}

/// Returns true if `block` is the header of a member.
pub fn is_header(block: &[u8]) -> bool {
    block.try_into().is_ok_and(|block: &[u8; BLOCK as usize]| *block != [0; BLOCK as usize] && has_checksum(block))
}

fn has_checksum(block: &[u8; BLOCK as usize]) -> bool {
    let checksum = Header::from_byte_slice(block).cksum().ok();
    // Some old programs add the bytes as signed numbers.
    checksum == Some(sum(block, i32::from)) || checksum == Some(sum(block, |byte| i32::from(byte as i8)))
}

/// Properties of a member from the headers before its own.
#[derive(Default)]
struct Extensions {
    name: Option<Vec<u8>>,
    bytes: Option<u64>,
    sparse: sparse::Records,
}

impl<'a, R: ReadAt + ?Sized> Members<'a, R> {
    /// Starts at the front of a whole archive.
    pub(super) fn of_archive(archive: &'a R) -> Self {
        Self { archive, is_whole: true, at: 0, member: Member::default() }
    }

    /// Starts at the front of a part of an archive, which may end after any member.
    pub(super) fn of_part(part: &'a R) -> Self {
        Self { is_whole: false, ..Self::of_archive(part) }
    }

    /// Starts at the header at `offset` of a whole archive. Reads do not go back from there.
    pub fn of_rest(archive: &'a R, offset: u64) -> Self {
        Self { at: offset, ..Self::of_archive(archive) }
    }

    /// Returns the next member; `None` at the end of the archive.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for anything that is no tar file, with the offset.
    pub fn next_member(&mut self) -> Result<Option<&Member>> {
        let start = self.at;
        let found = self.advance().map_err(|e| e.with("offset", self.at))?;
        self.member.start = start;
        Ok(found.then_some(&self.member))
    }

    fn advance(&mut self) -> Result<bool> {
        let mut extensions = Extensions::default();
        for number in 0..EXTENSIONS_MAX {
            let Some(block) = self.header()? else {
                if number > 0 {
                    return Err(Error::format("the archive ends after a long name or pax records, without their file"));
                }
                return Ok(false);
            };
            let header = Header::from_byte_slice(&block);
            let bytes = content_bytes(header)?;
            match header.entry_type().as_byte() {
                b'L' => extensions.name = Some(until_nul(self.extension(bytes)?)),
                b'K' => drop(self.extension(bytes)?),
                b'x' | b'X' => self.read_records(bytes, &mut extensions)?,
                b'g' => self.check_global_records(bytes)?,
                kind => {
                    self.set_member(header, kind, bytes, extensions)?;
                    return Ok(true);
                }
            }
        }
        Err(Error::format(format!("more than {EXTENSIONS_MAX} headers describe one file")))
    }

    /// Reads the header at the current offset; `None` at the end of the archive.
    fn header(&self) -> Result<Option<[u8; BLOCK as usize]>> {
        let all = self.archive.bytes_seen_from(self.at);
        let left = all.saturating_sub(self.at);
        if left == 0 && !self.is_whole {
            return Ok(None);
        }
        if left == 0 {
            return Err(Error::format(
                "the archive is cut off: it has no empty block at its end; if its writer left that out, append 1,024 \
                 zeros",
            ));
        }
        let mut block = [0; BLOCK as usize];
        if left < BLOCK {
            return Err(cut_off(all, self.at + BLOCK));
        }
        self.archive.read_at(&mut block, self.at)?;
        if block == [0; BLOCK as usize] {
            self.check_padding(left - BLOCK)?;
            return Ok(None);
        }
        if !has_checksum(&block) {
            return Err(Error::format(
                "the bytes are not the header of a file in a tar, or are damaged: the checksum differs",
            ));
        }
        Ok(Some(block))
    }

    /// Checks that nothing follows the first empty block, after which the file has `bytes` bytes.
    fn check_padding(&self, bytes: u64) -> Result<()> {
        let mut padding = vec![0; bytes.min(PADDING_BYTES) as usize];
        self.archive.read_at(&mut padding, self.at + BLOCK)?;
        match padding.iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(first) => Err(Error::format(format!(
                "data follow the end of the archive, at byte {}: it is damaged, or several archives were joined, and \
                 most readers see only the first; write them as separate files",
                self.at + BLOCK + first as u64
            ))),
        }
    }

    /// Reads `bytes` bytes after the header at the current offset, and moves to the next header.
    fn extension(&mut self, bytes: u64) -> Result<Vec<u8>> {
        if bytes > EXTENSION_BYTES_MAX {
            return Err(Error::format(format!(
                "a long name or pax records of {bytes} bytes; at most {EXTENSION_BYTES_MAX} are read"
            )));
        }
        let mut content = vec![0; bytes as usize];
        let next = self.end_of(bytes)?;
        self.archive.read_at(&mut content, self.at + BLOCK)?;
        self.at = next;
        Ok(content)
    }

    /// Returns the offset after the header at the current offset and `bytes` bytes of content.
    fn end_of(&self, bytes: u64) -> Result<u64> {
        let all = self.archive.bytes_seen_from(self.at);
        let end = (self.at + BLOCK).saturating_add(bytes);
        if end > all {
            return Err(cut_off(all, end));
        }
        // The last block may be cut off after the content.
        Ok(end.checked_next_multiple_of(BLOCK).map_or(all, |end| end.min(all)))
    }

    fn read_records(&mut self, bytes: u64, extensions: &mut Extensions) -> Result<()> {
        let records = self.extension(bytes)?;
        for record in Records(&records) {
            let (key, value) = record?;
            match key {
                b"path" => extensions.name = Some(value.to_vec()),
                b"size" => extensions.bytes = Some(number(value)?),
                _ => extensions.sparse.add(key, value)?,
            }
        }
        Ok(())
    }

    /// Rejects records for all further files that would change their names or contents. Nothing writes them.
    fn check_global_records(&mut self, bytes: u64) -> Result<()> {
        let records = self.extension(bytes)?;
        for record in Records(&records) {
            let (key, _) = record?;
            if matches!(key, b"path" | b"size") || key.starts_with(b"GNU.sparse.") {
                let key = String::from_utf8_lossy(key);
                return Err(Error::format(format!("a global pax record `{key}`, which is not supported")));
            }
        }
        Ok(())
    }

    fn set_member(&mut self, header: &Header, kind: u8, bytes: u64, extensions: Extensions) -> Result<()> {
        let Extensions { name, bytes: pax_bytes, sparse } = extensions;
        let mut bytes = pax_bytes.unwrap_or(bytes);
        // Directories, links and devices have no content, whatever their size.
        if matches!(kind, b'1'..=b'6') {
            bytes = 0;
        }
        self.member.name.clear();
        match sparse.name().or(name.as_deref()) {
            Some(name) => self.member.name.extend_from_slice(name),
            None => self.member.name.extend_from_slice(&header.path_bytes()),
        }
        // Old archives mark a directory only by the slash.
        self.member.is_file = matches!(kind, b'0' | b'\0' | b'7' | b'S') && !self.member.name.ends_with(b"/");
        let mut content = self.at + BLOCK;
        self.member.sparse = None;
        if kind == b'S' {
            let (map, next) = SparseMap::from_header(self.archive, header, content)?;
            (self.member.sparse, content) = (Some(map), next);
            self.at = content - BLOCK;
        }
        self.member.end = self.end_of(bytes)?;
        if self.member.is_file
            && let Some((map, in_content)) = sparse.map(self.archive, content, bytes)?
        {
            self.member.sparse = Some(map);
            (content, bytes) = (content + in_content, bytes - in_content);
        }
        if let Some(map) = &self.member.sparse {
            map.check(bytes)?;
        }
        self.member.content = (content, bytes);
        self.at = self.member.end;
        Ok(())
    }
}

/// Sum of a header's bytes, with spaces for the sum itself.
fn sum(block: &[u8; BLOCK as usize], value: impl Fn(u8) -> i32) -> u32 {
    let bytes = block.iter().enumerate();
    bytes.map(|(i, byte)| if (148..156).contains(&i) { value(b' ') } else { value(*byte) }).sum::<i32>() as u32
}

/// Bytes of a member's content. Some programs leave the field of a directory empty.
fn content_bytes(header: &Header) -> Result<u64> {
    let field = &header.as_old().size;
    if field.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return Ok(0);
    }
    // A number of 95 bits with a sign, and `entry_size` reads 64 of them.
    let is_binary = field[0] & 0x80 != 0;
    if is_binary && (field[0] != 0x80 || field[1..4] != [0; 3]) {
        return Err(Error::format("a size that is negative or needs more than 64 bits"));
    }
    header.entry_size().map_err(damaged)
}

fn until_nul(mut name: Vec<u8>) -> Vec<u8> {
    if let Some(nul) = name.iter().position(|byte| *byte == 0) {
        name.truncate(nul);
    }
    name
}

fn cut_off(bytes: u64, needed: u64) -> Error {
    Error::format(format!("the archive is cut off: it has {bytes} bytes, and its headers describe {needed}"))
}
