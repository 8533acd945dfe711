//! Journal of a pass: a line of a file for each file that has been read, for a run that continues one that was stopped,
//! such as by `kill -9`.

use crate::error::Result;
use crate::format::{HashAlgo, Index, Shard};
use crate::store::{Peek, Version, is_url};
use crate::sync::Mutex;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Most bytes of the file.
const BYTES_MAX: u64 = 1 << 30;

/// Outcome of a file's survey that can be kept.
pub(super) trait Journaled: Sized {
    /// Text that is kept.
    fn to_text(&self) -> Result<String>;

    /// Returns the value with this [text](Self::to_text); `None` for a text of a different form.
    fn of_text(text: &str) -> Option<Self>;

    /// Bytes of the stored file.
    fn stored_bytes(&self) -> u64;
}

impl Journaled for Shard {
    fn to_text(&self) -> Result<String> {
        Ok(Index { shards: vec![self.clone()] }.to_json())
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut shards = Index::parse(text.as_bytes(), "an index").ok()?.shards;
        if shards.len() == 1 { shards.pop() } else { None }
    }

    fn stored_bytes(&self) -> u64 {
        self.zip_data.as_ref().unwrap_or(&self.raw_data).bytes
    }
}

/// Entries that are kept until the index of all files is complete.
pub(super) struct PassJournal<T> {
    known: HashMap<String, JournalEntry<T>>,
    path: Option<PathBuf>,
    file: Mutex<JournalFile>,
}

/// Entry of a file, and the version of its content, if that was known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JournalEntry<T> {
    pub(super) value: T,
    pub(super) version: Option<String>,
}

impl<T: Journaled> JournalEntry<T> {
    /// Returns true if the entry describes the file with the front `found`.
    pub(super) fn is_of(&self, found: &Peek) -> bool {
        let version = found.version.as_ref().map(Version::to_string);
        self.value.stored_bytes() == found.len
            && (version.is_none() || self.version.is_none() || version == self.version)
    }
}

enum JournalFile {
    /// Opened with the first entry.
    Closed,
    Open(File),
    /// It cannot be written.
    Failed,
}

impl<T: Journaled> PassJournal<T> {
    /// Opens the entries of the files `names` below `root`, in a file of `folder`. Where it cannot be written, a run
    /// that is stopped starts again.
    pub(super) fn open(folder: Option<&Path>, root: &str, names: &[String]) -> Self {
        let path = folder.map(|folder| folder.join(basename(root, names)));
        let known = path.as_ref().and_then(|path| read(path).ok()).unwrap_or_default();
        Self { known, path, file: Mutex::new(JournalFile::Closed) }
    }

    /// Returns the entry of the file `name` of an earlier run.
    pub(super) fn get(&self, name: &str) -> Option<&JournalEntry<T>> {
        self.known.get(name)
    }

    /// Keeps the entry of the file `name` with the content `version`.
    pub(super) fn add(&self, name: &str, entry: &T, version: Option<&Version>) {
        let Ok(entry) = entry.to_text() else { return };
        let version = version.map(Version::to_string);
        // A line that was cut off comes before the first one. One call writes a whole line, so that processes can share
        // the file.
        let line = format!("\n{}", serde_json::json!([name, entry, version]));
        let mut state = self.file.lock();
        let written = match (&mut *state, &self.path) {
            (JournalFile::Failed, _) | (_, None) => return,
            (JournalFile::Open(file), _) => file.write_all(line.as_bytes()),
            (JournalFile::Closed, Some(path)) => open(path).and_then(|mut file| {
                file.write_all(line.as_bytes())?;
                *state = JournalFile::Open(file);
                Ok(())
            }),
        };
        if let Err(e) = written {
            log::warn!("a run that is stopped cannot be continued: {e}");
            *state = JournalFile::Failed;
        }
    }

    /// Removes the file, since the index is complete.
    pub(super) fn end(&self) {
        *self.file.lock() = JournalFile::Closed;
        // If it stays, its entries are compared with the files before they are used.
        let _ = self.path.as_ref().map(std::fs::remove_file);
    }
}

/// Name of the file. The same names in a different folder are different files.
fn basename(root: &str, names: &[String]) -> String {
    let root =
        if is_url(root) { PathBuf::from(root) } else { std::path::absolute(root).unwrap_or_else(|_| root.into()) };
    let key = format!("{}\n{}", root.display(), names.join("\n"));
    format!("{}.jsonl", HashAlgo::Xxh3_128.hex(key.as_bytes()))
}

fn open(path: &Path) -> std::io::Result<File> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    OpenOptions::new().create(true).append(true).open(path)
}

fn read<T: Journaled>(path: &Path) -> std::io::Result<HashMap<String, JournalEntry<T>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    // The last line may be cut off.
    Ok(bytes.split(|byte| *byte == b'\n').filter_map(entry).collect())
}

/// File and entry of a line; `None` for a line that is cut off.
fn entry<T: Journaled>(line: &[u8]) -> Option<(String, JournalEntry<T>)> {
    let (name, entry, version): (String, String, Option<String>) = serde_json::from_slice(line).ok()?;
    Some((name, JournalEntry { value: T::of_text(&entry)?, version }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tar::count_fields;
    use crate::format::{Digests, FileInfo, Layout};

    fn shard(name: &str, bytes: u64) -> Shard {
        let counts = count_fields(&[0_u8; 1024][..]).expect("an empty tar");
        let raw_data = FileInfo { basename: name.into(), bytes, hashes: Digests::default() };
        Shard::new(Layout::tar(&counts).into(), 0, raw_data)
    }

    #[test]
    fn entries_are_kept_up_to_a_line_that_is_cut_off_and_from_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["a.tar".to_owned(), "b.tar".to_owned()];
        let open = |root: &str| PassJournal::open(Some(&folder.path().join("new")), root, &names);
        let first = open("/tars");
        first.add("a.tar", &shard("a.tar", 1024), None);
        first.add("b.tar", &shard("b.tar", 2048), Some(&Version::ETag("one".into())));
        let path = first.path.clone().expect("a path");
        let whole = std::fs::read(&path).expect("kept");
        std::fs::write(&path, &whole[..whole.len() - 3]).expect("cut off");
        let second = open("/tars");
        assert!(second.get("b.tar").is_none());
        assert_eq!(second.get("a.tar").map(|kept| &kept.value), Some(&shard("a.tar", 1024)));
        second.add("b.tar", &shard("b.tar", 4096), Some(&Version::ETag("one".into())));
        let third = open("/tars");
        assert_eq!(third.get("b.tar").map(|kept| kept.value.raw_data.bytes), Some(4096));
        for (tag, bytes, is_same) in
            [(Some("one"), 4096, true), (None, 4096, true), (Some("two"), 4096, false), (None, 4095, false)]
        {
            let found = Peek {
                front: Vec::new(),
                len: bytes,
                version: tag.map(|tag| Version::ETag(tag.into())),
                encoding: None,
                answered_s: None,
            };
            assert_eq!(third.get("b.tar").expect("kept").is_of(&found), is_same, "{tag:?} {bytes}");
        }
        assert!(open("/foreign").get("a.tar").is_none());
        third.end();
        second.end();
        assert!(!path.exists() && open("/tars").get("a.tar").is_none());
    }

    #[test]
    fn a_folder_that_cannot_be_written_keeps_nothing() {
        let kept = PassJournal::<Shard>::open(Some(Path::new("/proc/none")), "/tars", &[]);
        kept.add("a.tar", &shard("a.tar", 1024), None);
        kept.end();
        assert!(kept.get("a.tar").is_none());
    }
}
