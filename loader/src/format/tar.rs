//! Tar files, as WebDataset stores samples in them: read only, in place, without unpacking.
//!
//! Understood are POSIX ustar, GNU long names and pax paths and sizes; everything that is not a regular file is passed
//! over. [`entries`] goes through the files, [`samples`] groups those that follow each other under one key: the path up
//! to the first dot of its last part; what follows the dot is the field.

use std::ops::Range;

use crate::error::{Error, Result};

const BLOCK_BYTES: usize = 512;

/// Longest name or pax header that is taken, in bytes; real ones are a few hundred.
const EXTENSION_BYTES_MAX: usize = 1 << 20;

/// Most files of one sample; real ones have a handful.
const FIELDS_MAX: usize = 1000;

/// A regular file in a tar file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path as stored. Nothing here opens files, so it is not checked to be a safe one.
    pub path: String,
    /// Where its bytes lie in the tar file.
    pub data: Range<usize>,
}

/// The files of one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarSample {
    /// The path up to the first dot of its last part.
    pub key: String,
    /// What follows that dot, and where the bytes lie in the tar file.
    pub fields: Vec<(String, Range<usize>)>,
}

/// The regular files of `tar`, in their order. Ends after the first error.
pub fn entries(tar: &[u8]) -> Entries<'_> {
    Entries { tar, at: 0, done: false }
}

/// The samples of `tar`: files with one key that follow each other.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] as [`entries`], and for a field that a sample has twice,
/// and for a sample of more than 1,000 files.
pub fn samples(tar: &[u8]) -> Result<Vec<TarSample>> {
    let mut samples: Vec<TarSample> = Vec::new();
    for entry in entries(tar) {
        let entry = entry?;
        // A file without a dot, or with nothing before it, is no part of a sample.
        let name_at = entry.path.rfind('/').map_or(0, |slash| slash + 1);
        let Some(dot) = entry.path[name_at..].find('.').filter(|&dot| dot > 0).map(|dot| name_at + dot) else {
            continue;
        };
        let (key, field) = (&entry.path[..dot], entry.path[dot + 1..].to_lowercase());
        match samples.last_mut().filter(|sample| sample.key == key) {
            Some(sample) => {
                if sample.fields.iter().any(|(name, _)| *name == field) {
                    return Err(Error::format("a sample has a field twice").with("path", &entry.path));
                }
                if sample.fields.len() == FIELDS_MAX {
                    return Err(
                        Error::format(format!("a sample has more than {FIELDS_MAX} files")).with("path", &entry.path)
                    );
                }
                sample.fields.push((field, entry.data));
            }
            None => samples.push(TarSample { key: key.to_owned(), fields: vec![(field, entry.data)] }),
        }
    }
    Ok(samples)
}

/// Iterator of [`entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    tar: &'a [u8],
    at: usize,
    done: bool,
}

/// What headers before a file's own say about it.
#[derive(Default)]
struct Overrides {
    path: Option<String>,
    size: Option<u64>,
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let at = self.at;
        match self.advance() {
            Ok(entry) => {
                self.done = entry.is_none();
                entry.map(Ok)
            }
            Err(e) => {
                self.done = true;
                Some(Err(e.with("byte", at)))
            }
        }
    }
}

impl<'a> Entries<'a> {
    fn advance(&mut self) -> Result<Option<Entry>> {
        let mut overrides = Overrides::default();
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            let kind = header[156];
            let own_size = number(&header[124..136]).ok_or_else(|| Error::format("a tar header has no size"))?;
            match kind {
                b'L' | b'x' => {
                    let data = self.data(own_size)?;
                    let bytes = &self.tar[data];
                    if bytes.len() > EXTENSION_BYTES_MAX {
                        return Err(Error::format("a tar header's extension is too long").with("bytes", bytes.len()));
                    }
                    if kind == b'L' {
                        overrides.path = Some(text(bytes)?.to_owned());
                    } else {
                        pax(bytes, &mut overrides)?;
                    }
                }
                0 | b'0' | b'7' => {
                    let path = match overrides.path.take() {
                        Some(path) => path,
                        None => ustar_path(header)?,
                    };
                    let data = self.data(overrides.size.unwrap_or(own_size))?;
                    return Ok(Some(Entry { path, data }));
                }
                _ => {
                    self.data(own_size)?;
                    // Global pax headers stand between an entry's own headers and it in no tar that is written.
                    overrides = Overrides::default();
                }
            }
        }
    }

    /// The next header, or none at the end: a block of zeros, or nothing more.
    fn header(&mut self) -> Result<Option<&'a [u8; BLOCK_BYTES]>> {
        let rest = &self.tar[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let header = rest.first_chunk::<BLOCK_BYTES>().ok_or_else(|| Error::format("the tar file ends in a header"))?;
        if header.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        // The sum counts its own field as spaces.
        let sum: u64 =
            header.iter().enumerate().map(|(i, &b)| if (148..156).contains(&i) { 32 } else { u64::from(b) }).sum();
        if number(&header[148..156]) != Some(sum) {
            return Err(Error::format("a tar header's checksum is wrong"));
        }
        self.at += BLOCK_BYTES;
        Ok(Some(header))
    }

    /// Where the data of `size` bytes lies that follows; moves behind it and its padding.
    fn data(&mut self, size: u64) -> Result<Range<usize>> {
        let left = self.tar.len() - self.at;
        let size = usize::try_from(size)
            .ok()
            .filter(|&size| size <= left)
            .ok_or_else(|| Error::format(format!("{size} bytes are declared and {left} are left")))?;
        let start = self.at;
        // The padding of the last file may be cut off.
        self.at = size
            .checked_next_multiple_of(BLOCK_BYTES)
            .map_or(self.tar.len(), |padded| (start + padded).min(self.tar.len()));
        Ok(start..start + size)
    }
}

/// A number field: octal digits, or for large ones bytes with the top bit of the first set.
fn number(field: &[u8]) -> Option<u64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // Negative numbers start with 0xff and make no size.
        let start = u64::from(first & 0x7f);
        return rest.iter().try_fold(start, |n, &b| n.checked_mul(256)?.checked_add(b.into()));
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

/// Text up to its first NUL.
fn text(bytes: &[u8]) -> Result<&str> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).map_err(|e| Error::format("a name in a tar file is not UTF-8").caused_by(e))
}

/// The path of a header; POSIX puts the front of a long one into a second field, which GNU uses for other things.
fn ustar_path(header: &[u8; BLOCK_BYTES]) -> Result<String> {
    let name = text(&header[..100])?;
    let prefix = if header[257..263] == *b"ustar\0" { text(&header[345..500])? } else { "" };
    Ok(if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") })
}

/// Records of a pax header: `<length> <key>=<value>\n`, the length counting all of it.
fn pax(mut bytes: &[u8], overrides: &mut Overrides) -> Result<()> {
    let wrong = || Error::format("a pax header is damaged");
    while !bytes.is_empty() {
        let space = bytes.iter().take(20).position(|&b| b == b' ').ok_or_else(wrong)?;
        let length: usize = text(&bytes[..space])?.parse().map_err(|_| wrong())?;
        let record = bytes.get(space + 1..length).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(wrong)?;
        let equals = record.iter().position(|&b| b == b'=').ok_or_else(wrong)?;
        let value = &record[equals + 1..];
        match &record[..equals] {
            b"path" => overrides.path = Some(text(value)?.to_owned()),
            b"size" => overrides.size = Some(text(value)?.parse().map_err(|_| wrong())?),
            _ => {}
        }
        bytes = &bytes[length..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(path: &str, kind: u8, size: usize) -> Vec<u8> {
        let mut header = vec![0; BLOCK_BYTES];
        header[..path.len()].copy_from_slice(path.as_bytes());
        header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
        header[148..156].fill(b' ');
        header[156] = kind;
        header[257..263].copy_from_slice(b"ustar\0");
        let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        header
    }

    fn file(path: &str, kind: u8, data: &[u8]) -> Vec<u8> {
        let mut out = header(path, kind, data.len());
        out.extend(data);
        out.resize(out.len().next_multiple_of(BLOCK_BYTES), 0);
        out
    }

    fn pax_record(key: &str, value: &str) -> String {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length.to_string().len() + rest != length {
            length += 1;
        }
        format!("{length} {key}={value}\n")
    }

    #[test]
    fn files_group_into_samples_by_key() {
        let long = format!("deep/{}.jpg", "x".repeat(200));
        let mut tar = file("dir/", b'5', b"");
        tar.extend(file("dir.v1/000.jpg", b'0', b"pixels"));
        tar.extend(file("dir.v1/000.CLS", b'0', b"7"));
        tar.extend(file(".hidden", b'0', b"-"));
        tar.extend(file("dir.v1/001.seg.png", 0, b""));
        tar.extend(file("././@LongLink", b'L', format!("{long}\0").as_bytes()));
        tar.extend(file("short.jpg", b'0', b"long"));
        tar.extend(file(
            "PaxHeaders/x",
            b'x',
            (pax_record("mtime", "1.5") + &pax_record("path", "pax.txt")).as_bytes(),
        ));
        tar.extend(file("short.txt", b'0', &[b'p'; 600]));
        tar.extend([0; 1024]);
        let samples = samples(&tar).unwrap();
        let shown: Vec<_> = samples
            .iter()
            .flat_map(|s| s.fields.iter().map(|(f, r)| (s.key.as_str(), f.as_str(), &tar[r.clone()])))
            .collect();
        assert_eq!(
            shown,
            [
                ("dir.v1/000", "jpg", &b"pixels"[..]),
                ("dir.v1/000", "cls", b"7"),
                ("dir.v1/001", "seg.png", b""),
                (&long[..long.len() - 4], "jpg", b"long"),
                ("pax", "txt", &[b'p'; 600]),
            ]
        );
    }

    #[test]
    fn a_tar_that_lies_is_refused() {
        let fine = file("a.b", b'0', b"12345");
        assert_eq!(entries(&fine).count(), 1);
        assert_eq!(entries(&fine[..517]).count(), 1, "padding may be missing");
        let mut wrong_sum = fine.clone();
        wrong_sum[0] = b'b';
        for (tar, words) in [
            (&fine[..516], "5 bytes are declared and 4 are left"),
            (&fine[..100], "ends in a header"),
            (&wrong_sum, "checksum"),
            (&file("p", b'x', b"99 path=x\n"), "pax"),
            (&file("p", b'x', b"1 path=x\n"), "pax"),
        ] {
            let e = entries(tar).find_map(Result::err).unwrap();
            assert!(e.to_string().contains(words), "{e}");
        }
        let twice = [file("a.b", b'0', b""), file("a.b", b'0', b"")].concat();
        assert!(samples(&twice).is_err());
    }

    #[test]
    fn sizes_of_eight_gigabytes_and_more_are_understood() {
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Some(2 << 32));
        assert_eq!(number(&[0xff; 12]), None);
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"x"), None);
    }
}
