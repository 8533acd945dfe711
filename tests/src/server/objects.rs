//! Served objects: a folder, or a map in memory.

use bytes::Bytes;
use forebay_loader::sync::Mutex;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Root of the served objects: a folder, or a map in memory.
#[derive(Debug)]
pub struct Root(RootKind);

#[derive(Debug)]
enum RootKind {
    Folder(PathBuf),
    Memory(Mutex<BTreeMap<String, Stored>>),
}

#[derive(Clone, Debug)]
struct Stored {
    bytes: Bytes,
    etag: String,
    modified: SystemTime,
    digest: Option<Digest>,
}

/// Header with a digest of the digests of an object's parts.
pub(super) type Digest = (&'static str, String);

/// Opened object.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) content: Content,
    pub(super) len: u64,
    /// Entity tag, quotation marks included.
    pub(super) etag: String,
    pub(super) modified: SystemTime,
    pub(super) digest: Option<Digest>,
}

/// Source of an object's bytes.
#[derive(Debug)]
pub(super) enum Content {
    File(File),
    Memory(Bytes),
}

/// Entry of a listing.
#[derive(Debug)]
pub(super) struct ListedObject {
    pub(super) key: String,
    pub(super) len: u64,
    pub(super) etag: String,
    pub(super) modified: SystemTime,
}

impl Object {
    /// Returns the bytes.
    pub(super) fn read(self) -> Vec<u8> {
        match self.content {
            Content::Memory(bytes) => bytes.to_vec(),
            Content::File(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map(|_| bytes).unwrap_or_default()
            }
        }
    }
}

impl Root {
    /// Returns a root in a folder.
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self(RootKind::Folder(path.into()))
    }

    /// Returns an empty root in memory.
    pub fn memory() -> Self {
        Self(RootKind::Memory(Mutex::default()))
    }

    /// Adds or replaces an object.
    pub(super) fn put(&self, key: &str, bytes: Bytes) -> io::Result<()> {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &bytes);
        let etag = format!("\"{}\"", super::sigv4::hex(&digest.as_ref()[..16]));
        self.put_joined(key, bytes, etag, None)
    }

    /// Adds or replaces an object with an entity tag and a digest, which only memory keeps.
    pub(super) fn put_joined(&self, key: &str, bytes: Bytes, etag: String, digest: Option<Digest>) -> io::Result<()> {
        let key = checked(key).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        match &self.0 {
            RootKind::Folder(root) => {
                let path = root.join(key);
                std::fs::create_dir_all(path.parent().unwrap_or(root))?;
                // Renamed at the end, so that a request in flight continues with the old file.
                let unfinished = path.with_extension("server-put");
                std::fs::write(&unfinished, &bytes)?;
                std::fs::rename(unfinished, path)
            }
            RootKind::Memory(map) => {
                map.lock().insert(key.to_owned(), Stored { bytes, etag, modified: SystemTime::now(), digest });
                Ok(())
            }
        }
    }

    /// Removes an object; false if it does not exist.
    pub(super) fn delete(&self, key: &str) -> bool {
        match &self.0 {
            RootKind::Folder(root) => checked(key).is_some_and(|key| std::fs::remove_file(root.join(key)).is_ok()),
            RootKind::Memory(map) => map.lock().remove(key).is_some(),
        }
    }

    /// Opens an object; returns `None` if it does not exist.
    pub(super) fn get(&self, key: &str) -> Option<Object> {
        let key = checked(key)?;
        match &self.0 {
            RootKind::Folder(root) => {
                let file = File::open(root.join(key)).ok()?;
                let meta = file.metadata().ok().filter(Metadata::is_file)?;
                Some(Object {
                    content: Content::File(file),
                    len: meta.len(),
                    etag: etag(&meta),
                    modified: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    digest: None,
                })
            }
            RootKind::Memory(map) => {
                let Stored { bytes, etag, modified, digest } = map.lock().get(key)?.clone();
                Some(Object { len: bytes.len() as u64, content: Content::Memory(bytes), etag, modified, digest })
            }
        }
    }

    /// Returns all objects with a key that starts with `prefix`, sorted.
    pub(super) fn list(&self, prefix: &str) -> io::Result<Vec<ListedObject>> {
        match &self.0 {
            RootKind::Folder(root) => {
                let mut found = Vec::new();
                walk(root, String::new(), prefix, &mut found)?;
                found.sort_by(|a, b| a.key.cmp(&b.key));
                Ok(found)
            }
            RootKind::Memory(map) => {
                let map = map.lock();
                let entries = map.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
                let entry = |(key, stored): (&String, &Stored)| ListedObject {
                    key: key.clone(),
                    len: stored.bytes.len() as u64,
                    etag: stored.etag.clone(),
                    modified: stored.modified,
                };
                Ok(entries.map(entry).collect())
            }
        }
    }
}

/// Returns the key if it is below the root. It may end with a slash, as folders of web services do.
fn checked(key: &str) -> Option<&str> {
    let bad = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains('\0');
    (!key.strip_suffix('/').unwrap_or(key).split('/').any(bad)).then_some(key)
}

fn etag(meta: &Metadata) -> String {
    format!("\"{:x}-{:x}-{:x}{:08x}\"", meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

fn walk(root: &Path, folder: String, prefix: &str, found: &mut Vec<ListedObject>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(&folder))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let key = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let meta = entry.metadata()?;
        if meta.is_dir() {
            if key.starts_with(prefix) || prefix.starts_with(&format!("{key}/")) {
                walk(root, key, prefix, found)?;
            }
        } else if key.starts_with(prefix) {
            let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push(ListedObject { key, len: meta.len(), etag: etag(&meta), modified });
        }
    }
    Ok(())
}
