//! Folders as destinations.

use super::payload::Payload;
use super::target::{Conditional, Expected, ListRequest, ListedEntry, ObjectTag, Page, PartAt, StoredPart, Target};
use crate::Error;
use crate::context::ThreadContext;
use crate::failure::Failure;
use async_trait::async_trait;
use forebay_core::sync::{Arc, Mutex};
use forebay_core::versions::FileFacts;
use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Start and end of the names of files that are being written, which listings leave out.
const TEMPORARY: (&str, &str) = (".forebay-", ".tmp");

/// Second part of the names of files that are locked while they are written. Files of writers over a network lack it.
const LOCKED: &str = "locked-";

/// Most names that are tried for a temporary file. Each is drawn from 2^64.
const NAMES_MAX: usize = 100;

/// Folder. Files appear under their names when they are complete and on disk.
///
/// A temporary file is locked by `flock` while it is written. A file without a lock was left by a killed process,
/// and may be removed.
///
/// Folders are created as files need them. If a file is discarded, the folders that were created for it are removed
/// as well, unless a second file is in them.
pub(crate) struct FileTarget {
    root: PathBuf,
    /// Temporary files that are written, by their keys.
    written: Mutex<HashMap<String, Arc<File>>>,
    /// Folders that were created here, and that no file was published in yet.
    folders: Mutex<HashSet<PathBuf>>,
}

impl FileTarget {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, written: Mutex::default(), folders: Mutex::default() }
    }

    /// Creates a temporary file in the folder of `key`, with a name that no second writer has, and returns its key.
    fn create(&self, context: &ThreadContext, key: &str) -> io::Result<String> {
        let folder = key.rfind('/').map_or("", |slash| &key[..=slash]);
        let mut tried = 0;
        loop {
            let (start, end) = TEMPORARY;
            let temporary = format!("{folder}{start}{LOCKED}{:016x}{end}", context.draws.borrow_mut().next());
            let created = self.create_folder(&self.root.join(folder));
            match created.and_then(|()| File::create_new(self.root.join(&temporary))) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_MAX => tried += 1,
                // A parallel upload has discarded its file, and the folder with it.
                Err(e) if e.kind() == io::ErrorKind::NotFound && tried < NAMES_MAX => tried += 1,
                // Another process has removed it as a file without a writer.
                Ok(file) if !lock(&file)? && tried < NAMES_MAX => tried += 1,
                Ok(file) => {
                    self.written.lock().insert(temporary.clone(), Arc::new(file));
                    return Ok(temporary);
                }
                Err(e) => {
                    self.remove_folders(&self.root.join(&temporary));
                    return Err(e);
                }
            }
        }
    }

    /// Creates a folder and those above it that do not exist.
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        // Most files have a folder already.
        if folder.as_os_str().is_empty() || folder.is_dir() {
            return Ok(());
        }
        let is_absent = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
        let mut created = fs::create_dir(folder);
        if let Some(parent) = folder.parent().filter(|_| created.as_ref().is_err_and(is_absent)) {
            self.create_folder(parent)?;
            created = fs::create_dir(folder);
        }
        match created {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            Err(e) => Err(e),
            Ok(()) => {
                self.folders.lock().insert(folder.to_owned());
                Ok(())
            }
        }
    }

    /// Removes the folders of a file that were created here, as far as they are empty.
    fn remove_folders(&self, path: &Path) {
        let mut folders = self.folders.lock();
        for folder in path.ancestors().skip(1) {
            if !folders.contains(folder) || fs::remove_dir(folder).is_err() {
                return;
            }
            folders.remove(folder);
        }
    }

    /// Keeps the folders of a file that was published.
    fn keep_folders(&self, path: &Path) {
        let mut folders = self.folders.lock();
        for folder in path.ancestors().skip(1) {
            if !folders.remove(folder) {
                return;
            }
        }
    }

    fn file(&self, temporary: &str) -> io::Result<Arc<File>> {
        self.written.lock().get(temporary).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Removes a temporary file.
    fn discard(&self, temporary: &str) -> io::Result<()> {
        // Its lock ends afterwards.
        let _file = self.written.lock().remove(temporary);
        let path = self.root.join(temporary);
        without_missing(fs::remove_file(&path))?;
        self.remove_folders(&path);
        Ok(())
    }

    fn write(&self, temporary: &str, mut offset: u64, payload: &Payload) -> io::Result<()> {
        let file = self.file(temporary)?;
        for piece in payload.pieces() {
            file.write_all_at(piece, offset)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Stores a file by a function that gives the temporary one its name, or returns false.
    fn put_by(
        &self,
        context: &ThreadContext,
        key: &str,
        payload: &Payload,
        name: impl FnOnce(&Path, &Path) -> io::Result<bool>,
    ) -> Result<bool, Failure> {
        let stored = self.create(context, key).and_then(|temporary| {
            let stored = self.write(&temporary, 0, payload).and_then(|()| self.publish(key, &temporary, name));
            if !matches!(stored, Ok(true)) {
                // The first failure is reported.
                let _ = self.discard(&temporary);
            }
            stored
        });
        stored.map_err(|e| failure(e, "the file cannot be written", &self.root.join(key)))
    }

    fn publish(
        &self,
        key: &str,
        temporary: &str,
        name: impl FnOnce(&Path, &Path) -> io::Result<bool>,
    ) -> io::Result<bool> {
        self.file(temporary)?.sync_all()?;
        let path = self.root.join(key);
        if !name(&self.root.join(temporary), &path)? {
            return Ok(false);
        }
        self.written.lock().remove(temporary);
        self.keep_folders(&path);
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
        Ok(true)
    }
}

/// Listing of a folder and of the folders in it, through links.
struct Walk<'a> {
    root: &'a Path,
    /// The folder part of the prefix, with a slash at its end or empty.
    start: &'a str,
    /// Start of the names in that folder.
    names: &'a [u8],
    is_recursive: bool,
    found: Vec<ListedEntry>,
    /// Identities of the folder that is read, and of those above it up to the start.
    above: Vec<(u64, u64)>,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Path, request: &'a ListRequest) -> Self {
        let (start, names) = request.prefix.split_at(request.prefix.rfind('/').map_or(0, |slash| slash + 1));
        let (found, above) = (Vec::new(), Vec::new());
        Self { root, start, names: names.as_bytes(), is_recursive: request.is_recursive, found, above }
    }

    fn run(mut self) -> Result<Vec<ListedEntry>, Failure> {
        self.folder(self.start)?;
        self.found.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(self.found)
    }

    fn folder(&mut self, folder: &str) -> Result<(), Failure> {
        let path = self.root.join(folder);
        let failed = |e| failure(e, "the folder cannot be read", &path);
        let is_start = self.above.is_empty();
        let Some(meta) = unless_absent(fs::metadata(&path)).map_err(failed)? else { return Ok(()) };
        let Some(entries) = unless_absent(fs::read_dir(&path)).map_err(failed)? else { return Ok(()) };
        self.above.push((meta.dev(), meta.ino()));
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if is_start && !name.as_bytes().starts_with(self.names) {
                continue;
            }
            let name = name.into_string().map_err(|name| {
                let shown = format!("{folder}{}", name.to_string_lossy());
                failed(io::Error::other(format!("the name of {shown} is not in UTF-8: rename it")))
            })?;
            if name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1) {
                continue;
            }
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let meta = if is_link { fs::metadata(entry.path()) } else { entry.metadata() };
            // It was removed in the meantime, or is a link without a file.
            let failed = |e| failure(e, "the file cannot be read", &entry.path());
            let Some(meta) = unless_absent(meta).map_err(failed)? else { continue };
            let key = format!("{folder}{name}");
            if !meta.is_dir() {
                self.found.push(ListedEntry { key, size: meta.len(), etag: None, modified: meta.modified().ok() });
            } else if !self.is_recursive {
                self.found.push(ListedEntry::folder(format!("{key}/")));
            } else if self.is_above(&meta, is_link) {
                let why = "links of folders form a loop: remove the link";
                return Err(Failure::permanent(Error::config(why).with("path", entry.path().display())));
            } else {
                self.folder(&format!("{key}/"))?;
            }
        }
        self.above.pop();
        Ok(())
    }

    /// Returns true for a folder above the folder in work: its files would be listed without end.
    fn is_above(&self, meta: &fs::Metadata, is_link: bool) -> bool {
        let is_it = |path: &Path| fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (meta.dev(), meta.ino()));
        self.above.contains(&(meta.dev(), meta.ino()))
            // A link to a folder above the start leads to the start again, by a long way.
            || is_link && fs::canonicalize(self.root.join(self.start)).is_ok_and(|start| start.ancestors().any(is_it))
    }
}

/// Returns nothing for a path that does not exist, such as a path below a file, a name that is too long for a file,
/// and a link to itself.
fn unless_absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(e) => match Errno::from_io_error(&e) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP) => Ok(None),
            _ => Err(e),
        },
    }
}

fn failure(error: io::Error, what: &str, path: &Path) -> Failure {
    Failure::permanent(Error::from_io(error, what).with("path", path.display()))
}

/// Locks a new temporary file. Returns false if it is not in its folder any more.
fn lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        // A file system may have no locks. There the file cannot be locked by a process that would remove it either.
        _ => Ok(file.metadata()?.nlink() > 0),
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<bool> {
    fs::rename(from, to).map(|()| true)
}

/// Renames a file if there is none of the new name, or returns false.
fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // Not every file system has it.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if to.try_exists()? => Ok(false),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename(from, to),
        Err(e) => Err(e.into()),
    }
}

/// Returns the version of a file, which each write replaces; `None` if there is none.
fn version_of(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some(FileFacts::from(&meta).version_at(path))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
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
        self.put_by(context, key, payload, rename)?;
        Ok(None)
    }

    async fn put_if(
        &self,
        context: &ThreadContext,
        key: &str,
        payload: &Payload,
        expected: &Expected,
    ) -> Result<Conditional, Failure> {
        let is_stored = self.put_by(context, key, payload, |temporary, path| match expected {
            Expected::Absent => rename_new(temporary, path),
            // Another writer may replace it between the comparison and the rename.
            Expected::Version(version) if version_of(path)?.as_ref() != Some(version) => Ok(false),
            Expected::Version(_) => rename(temporary, path),
        })?;
        Ok(if is_stored { Conditional::Stored } else { Conditional::Unexpected })
    }

    async fn version(&self, _: &ThreadContext, key: &str) -> Result<Option<String>, Failure> {
        let path = self.root.join(key);
        version_of(&path).map_err(|e| failure(e, "the file cannot be read", &path))
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
        self.publish(key, upload, rename)
            .map_err(|e| failure(e, "the file cannot be published", &self.root.join(key)))?;
        Ok(None)
    }

    async fn abort(&self, _: &ThreadContext, _: &str, upload: &str) -> Result<(), Failure> {
        self.discard(upload).map_err(|e| failure(e, "the file cannot be removed", &self.root.join(upload)))
    }

    async fn list(&self, _: &ThreadContext, request: &ListRequest) -> Result<Page, Failure> {
        Ok(Page { entries: Walk::new(&self.root, request).run()?, markers: Vec::new(), next: None, has_moved: true })
    }

    async fn find(&self, _: &ThreadContext, key: &str) -> Result<Option<ListedEntry>, Failure> {
        let path = self.root.join(key);
        match fs::metadata(&path) {
            Ok(meta) => {
                let entry =
                    ListedEntry { key: key.to_owned(), size: meta.len(), etag: None, modified: meta.modified().ok() };
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
