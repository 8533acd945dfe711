//! Folders as destinations.

use super::payload::Payload;
use super::target::{Entry, ListRequest, ObjectTag, Page, PartAt, StoredPart, Target};
use crate::Error;
use crate::store::context::ThreadContext;
use crate::store::failure::Failure;
use async_trait::async_trait;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Start and end of the names of files that are being written, which listings leave out.
const TEMPORARY: (&str, &str) = (".forebay-", ".tmp");

/// Most names that are tried for a temporary file. Each is drawn from 2^64.
const NAMES_MAX: usize = 100;

/// Folder. Files appear under their names when they are complete and on disk.
pub(crate) struct FileTarget {
    root: PathBuf,
}

impl FileTarget {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Creates a temporary file in the folder of `key`, of which no other writer has the name, and returns its key.
    fn create(&self, context: &ThreadContext, key: &str) -> io::Result<String> {
        let folder = key.rfind('/').map_or("", |slash| &key[..=slash]);
        fs::create_dir_all(self.root.join(folder))?;
        let mut tried = 0;
        loop {
            let (start, end) = TEMPORARY;
            let temporary = format!("{folder}{start}{:016x}{end}", context.draws.borrow_mut().next());
            match File::create_new(self.root.join(&temporary)) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_MAX => tried += 1,
                created => return created.map(|_| temporary),
            }
        }
    }

    fn write(&self, temporary: &str, mut offset: u64, payload: &Payload) -> io::Result<()> {
        let file = File::options().write(true).open(self.root.join(temporary))?;
        for piece in payload.pieces() {
            file.write_all_at(piece, offset)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    fn publish(&self, key: &str, temporary: &str) -> io::Result<()> {
        let (temporary, path) = (self.root.join(temporary), self.root.join(key));
        File::open(&temporary)?.sync_all()?;
        fs::rename(&temporary, &path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    fn walk(&self, folder: &str, request: &ListRequest, found: &mut Vec<Entry>) -> io::Result<()> {
        let entries = match fs::read_dir(self.root.join(folder)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name =
                entry.file_name().into_string().map_err(|_| io::Error::other("a file's name is not in UTF-8"))?;
            if name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1) {
                continue;
            }
            let key = format!("{folder}{name}");
            let meta = match entry.metadata() {
                // It was removed in the meantime.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                meta => meta?,
            };
            let is_within = key.starts_with(&request.prefix);
            if meta.is_dir() {
                let inner = format!("{key}/");
                if is_within && !request.is_recursive {
                    found.push(Entry::folder(inner));
                } else if is_within || request.prefix.starts_with(&inner) {
                    self.walk(&inner, request, found)?;
                }
            } else if is_within {
                found.push(Entry { key, size: meta.len(), etag: None, modified: meta.modified().ok() });
            }
        }
        Ok(())
    }
}

fn failure(error: io::Error, what: &str, path: &Path) -> Failure {
    Failure::permanent(Error::from_io(error, what).with("path", path.display()))
}

fn without_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[async_trait(?Send)]
impl Target for FileTarget {
    fn parts_max(&self) -> u64 {
        1 << 30
    }

    async fn put(&self, context: &ThreadContext, key: &str, payload: &Payload) -> Result<ObjectTag, Failure> {
        let written = self.create(context, key).and_then(|temporary| {
            let written = self.write(&temporary, 0, payload).and_then(|()| self.publish(key, &temporary));
            written.inspect_err(|_| {
                // The first failure is reported.
                let _ = fs::remove_file(self.root.join(&temporary));
            })
        });
        written.map_err(|e| failure(e, "the file cannot be written", &self.root.join(key)))?;
        Ok(None)
    }

    async fn begin(&self, context: &ThreadContext, key: &str) -> Result<String, Failure> {
        self.create(context, key).map_err(|e| failure(e, "the file cannot be created", &self.root.join(key)))
    }

    async fn put_part(
        &self,
        _: &ThreadContext,
        key: &str,
        at: PartAt<'_>,
        payload: &Payload,
    ) -> Result<StoredPart, Failure> {
        let written = self.write(at.upload, at.offset, payload);
        written.map_err(|e| failure(e, "the file cannot be written", &self.root.join(key)))?;
        Ok(at.stored(payload, String::new()))
    }

    async fn complete(
        &self,
        _: &ThreadContext,
        key: &str,
        upload: &str,
        _: &[StoredPart],
    ) -> Result<ObjectTag, Failure> {
        self.publish(key, upload).map_err(|e| failure(e, "the file cannot be published", &self.root.join(key)))?;
        Ok(None)
    }

    async fn abort(&self, _: &ThreadContext, _: &str, upload: &str) -> Result<(), Failure> {
        let path = self.root.join(upload);
        without_missing(fs::remove_file(&path)).map_err(|e| failure(e, "the file cannot be removed", &path))
    }

    async fn list(&self, _: &ThreadContext, request: &ListRequest) -> Result<Page, Failure> {
        let mut entries = Vec::new();
        self.walk("", request, &mut entries).map_err(|e| failure(e, "the folder cannot be read", &self.root))?;
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Page { entries, next: None })
    }

    async fn find(&self, _: &ThreadContext, key: &str) -> Result<Option<Entry>, Failure> {
        let path = self.root.join(key);
        match fs::metadata(&path) {
            Ok(meta) => {
                let entry = Entry { key: key.to_owned(), size: meta.len(), etag: None, modified: meta.modified().ok() };
                Ok(meta.is_file().then_some(entry))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failure(e, "the file cannot be read", &path)),
        }
    }

    async fn delete(&self, _: &ThreadContext, key: &str) -> Result<(), Failure> {
        let path = self.root.join(key);
        without_missing(fs::remove_file(&path)).map_err(|e| failure(e, "the file cannot be removed", &path))
    }
}
