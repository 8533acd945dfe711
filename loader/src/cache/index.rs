//! `index.json`: fetched once per directory, and compared with the remote one.
//!
//! An extended attribute of the file names the remote that the directory belongs to, because two remotes may have equal
//! indexes: one without hashes describes any data of the same sizes. Where the file system has no such attributes, or
//! another program has written the file, only the bytes of the indexes are compared.

use super::turn::{Turn, take_turn};
use super::wait_policy::WaitPolicy;
use super::write::{WriteMode, WriteOutcome, remove_quietly, write_file};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::{INDEX_BASENAME, INDEX_BYTES_MAX, describe_folder};
use crate::io::{open_regular, read_whole};
use crate::sync::AtomicBool;
use rustix::fs::{XattrFlags, fsetxattr, getxattr, setxattr};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Index of a directory.
#[derive(Debug)]
pub(crate) struct InstalledIndex<T> {
    /// Result of the parser.
    pub(crate) index: T,
    /// Length of the file.
    pub(crate) bytes: u64,
    /// True if the file was in the directory already.
    pub(crate) was_kept: bool,
    /// Error that prevented a comparison with the remote one.
    pub(crate) unchecked: Option<Error>,
    /// Remote that the directory belongs to, if that is a different one with the same index. The caller has to compare
    /// the data.
    pub(crate) previous_remote: Option<String>,
    /// Error that prevented the index from being kept in the directory.
    pub(crate) unkept: Option<Error>,
}

/// Condition for the use of a cached index where there is a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachedIndex {
    /// Its bytes equal the remote ones, if those can be fetched.
    Compared,
    /// The directory does not belong to a different remote: the remote has no such file, or one that may differ.
    OfRemote,
    /// Any.
    Trusted,
}

/// Index of one directory, cached and remote.
pub(crate) struct IndexSource<'a, 'f, T> {
    pub(crate) dir: &'a Path,
    /// Name of the remote.
    pub(crate) remote: &'a str,
    /// Condition for the use of a cached index.
    pub(crate) cached: CachedIndex,
    /// Parser. Bytes that it rejects are never kept.
    pub(crate) parse: &'a dyn Fn(&[u8]) -> Result<T>,
    /// Parser of a file from its start, which need not be in memory as a whole. `None` leaves the file to `parse`.
    pub(crate) read: &'a dyn Fn(&File) -> Option<Result<T>>,
    /// Returns true if the remote index surely has the content of this long file, which is compared in pieces.
    pub(crate) is_current: &'a dyn Fn(&File) -> bool,
    /// Returns the remote index and is called at most once; `None` for streams without a remote.
    pub(crate) fetch: Option<&'f mut dyn FnMut() -> Result<Vec<u8>>>,
    /// True if the directory is only for the index: a full disk is then no error either.
    pub(crate) is_optional: bool,
}

impl<T> IndexSource<'_, '_, T> {
    /// Reads `dir`/index.json, and fetches it first if it is not there, or is no index.
    ///
    /// One process fetches at a time where locks work. In a directory that cannot be written, the index is fetched and
    /// returned without being kept.
    ///
    /// # Errors
    ///
    /// `Stale` when the two differ, naming both; `NotFound` when there is neither an index nor a remote; errors of
    /// `parse`; errors of `fetch` when the index is absent; `Closed` and `Timeout` of the wait.
    pub(crate) fn install(mut self, clock: &Clock, policy: WaitPolicy<'_>) -> Result<InstalledIndex<T>> {
        let mut refused = None;
        if let Some(cached) = self.cached(&mut refused)? {
            return Ok(cached);
        }
        let dir = self.dir;
        if self.fetch.is_none() {
            let message = format!("there is no index.json, and no remote to fetch it from: {}", describe_folder(dir));
            return Err(Error::new(ErrorKind::NotFound, message).with("file", self.path().display()));
        }
        // A directory that cannot be created or written fails again, with a clear message, when a shard is written.
        let absent = dir.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
        let is_created = std::fs::create_dir_all(dir).is_ok();
        let (path, remote) = (self.path(), self.remote);
        let awaited = || format!("{}, which a different process fetches from {remote}", path.display());
        // Without locks each process writes the same bytes. With them, the file may be from a different remote.
        let lock = match take_turn(dir, clock, policy, &awaited, || self.cached(&mut refused))? {
            Turn::Made(cached) => return Ok(cached),
            Turn::Own(lock) => Some(lock),
            Turn::Unlocked => None,
        };
        if let Some(error) = refused {
            // Once, although the file was read before and in the turn.
            match self.cached {
                CachedIndex::OfRemote => log::info!("{} is made again: {error}", path.display()),
                _ => log::warn!("{} is not an index, and is fetched again: {error}", path.display()),
            }
        }
        let fetched = self.fetch.map_or_else(|| Err(Error::internal("no remote")), |fetch| fetch());
        let fetched = fetched.and_then(|bytes| Ok(((self.parse)(&bytes)?, bytes)));
        let (index, bytes) = fetched.inspect_err(|_| remove_empty(absent))?;
        let is_alone = lock.is_some();
        // If there is a file, it is no index. Without locks it may be the one that a different process has just
        // fetched, and only an index that is made of files has the same bytes again.
        if is_alone || self.cached == CachedIndex::OfRemote {
            remove_quietly(&path);
        }
        let (mut previous_remote, mut unkept) = (None, None);
        // Before the file has its name: a different process takes an index without a record for its own remote's.
        let label = |file: &File| {
            note(&path, fsetxattr(file, REMOTE_ATTRIBUTE, self.remote.as_bytes(), XattrFlags::empty()));
            share_as(dir, file);
        };
        match write_file(
            &path,
            bytes[..].into(),
            WriteMode { is_alone, unnamed_files: &AtomicBool::new(true), label: &label },
        ) {
            Ok(WriteOutcome::New) => {}
            Ok(WriteOutcome::AlreadyThere) => {
                let there = open(&path)?.map_or(Text::Memory(Vec::new()), Text::File);
                compare(&path, &there, self.remote, &bytes)?;
                previous_remote = different_remote(&path, self.remote);
            }
            Err(e) if is_created && e.kind() != ErrorKind::Permission && !self.is_optional => return Err(e),
            Err(e) => unkept = Some(e),
        }
        let was_kept = false;
        Ok(InstalledIndex { index, bytes: bytes.len() as u64, was_kept, unchecked: None, previous_remote, unkept })
    }

    fn path(&self) -> PathBuf {
        self.dir.join(INDEX_BASENAME)
    }

    /// Returns the cached index, compared with the remote one; `None` if there is none, or one that can be replaced and
    /// that the parser has `refused`.
    fn cached(&mut self, refused: &mut Option<Error>) -> Result<Option<InstalledIndex<T>>> {
        let path = self.path();
        let is_closed = || std::fs::metadata(self.dir).is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied);
        let file = match open(&path) {
            // A home of a different user, such as /root after a change of the user.
            Err(e) if e.kind() == ErrorKind::Permission && self.is_optional && is_closed() => return Ok(None),
            other => other?,
        };
        let Some(file) = file else { return Ok(None) };
        // Also for an index of different shards: the shards of the second remote may have the same names.
        if self.cached == CachedIndex::OfRemote && different_remote(&path, self.remote).is_some() {
            return Err(stale(&path, self.remote));
        }
        let (index, text) = match self.parsed(file, &path) {
            Ok(parsed) => parsed,
            Err(e) if self.fetch.is_some() => {
                *refused = Some(e);
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let (mut unchecked, mut previous_remote) = (None, None);
        if self.cached == CachedIndex::Compared
            && let Some(fetch) = &mut self.fetch
        {
            let recorded = recorded_remote(&path);
            previous_remote = recorded.clone().filter(|recorded| recorded != self.remote);
            // An answer that is no index is no reason to reject the cached one. Equal bytes are not parsed again.
            let parsed = |current: Vec<u8>| {
                if !text.equals(&current)? {
                    (self.parse)(&current)?;
                }
                Ok(current)
            };
            let is_current =
                matches!(&text, Text::File(file) if text.bytes()? > FETCHED_BYTES_MAX && (self.is_current)(file));
            if !is_current {
                match fetch().and_then(parsed) {
                    Ok(current) => compare(&path, &text, self.remote, &current)?,
                    Err(e) if previous_remote.is_some() => return Err(stale(&path, self.remote).caused_by(e)),
                    Err(e) => unchecked = Some(e),
                }
            }
            if recorded.is_none() && unchecked.is_none() {
                // Not over the record that a different process has made meanwhile.
                note(&path, setxattr(&path, REMOTE_ATTRIBUTE, self.remote.as_bytes(), XattrFlags::CREATE));
                previous_remote = different_remote(&path, self.remote);
            }
        }
        let was_kept = true;
        Ok(Some(InstalledIndex { index, bytes: text.bytes()?, was_kept, unchecked, previous_remote, unkept: None }))
    }

    /// Parses `file`, which is at `path`.
    fn parsed(&self, file: File, path: &Path) -> Result<(T, Text)> {
        if let Some(index) = (self.read)(&file) {
            return Ok((index?, Text::File(file)));
        }
        let bytes = read_whole(&file, INDEX_BYTES_MAX).map_err(|e| unreadable(e, path))?;
        Ok(((self.parse)(&bytes)?, Text::Memory(bytes)))
    }
}

/// Content of a cached index.
enum Text {
    Memory(Vec<u8>),
    File(File),
}

impl Text {
    fn bytes(&self) -> Result<u64> {
        match self {
            Self::Memory(bytes) => Ok(bytes.len() as u64),
            Self::File(file) => {
                let length = file.metadata().map(|meta| meta.len());
                length.map_err(|e| Error::from_io(e, "the index cannot be read"))
            }
        }
    }

    fn equals(&self, current: &[u8]) -> Result<bool> {
        let Self::File(file) = self else { return Ok(matches!(self, Self::Memory(bytes) if bytes == current)) };
        if self.bytes()? != current.len() as u64 {
            return Ok(false);
        }
        let mut piece = vec![0; PIECE_BYTES];
        for (number, expected) in current.chunks(PIECE_BYTES).enumerate() {
            let piece = &mut piece[..expected.len()];
            let read = file.read_exact_at(piece, (number * PIECE_BYTES) as u64);
            match read {
                Ok(()) if piece == expected => {}
                Ok(()) => return Ok(false),
                // It was cut meanwhile.
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
                Err(e) => return Err(Error::from_io(e, "the index cannot be read")),
            }
        }
        Ok(true)
    }
}

/// Largest index that is fetched by one request to be compared. A longer one is compared in pieces: each rank of a node
/// would have it in memory.
const FETCHED_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a piece in which two indexes are compared.
const PIECE_BYTES: usize = 1 << 20;

/// Name of the extended attribute with the remote's name.
const REMOTE_ATTRIBUTE: &str = "user.forebay.remote";

/// Records that `dir` belongs to `remote`, if the file system can.
pub(crate) fn record_remote(dir: &Path, remote: &str) {
    let path = dir.join(INDEX_BASENAME);
    note(&path, setxattr(&path, REMOTE_ATTRIBUTE, remote.as_bytes(), XattrFlags::empty()));
}

/// Lets the users that may write `dir`, and may replace any file in it, also write the index `file`: they need locks on
/// it. With the sticky bit each user can replace only their own files.
fn share_as(dir: &Path, file: &File) {
    let (Ok(folder), Ok(meta)) = (std::fs::metadata(dir), file.metadata()) else { return };
    let (folder, mode) = (folder.mode(), meta.mode());
    let readers_as_writers = (mode & 0o044) >> 1;
    let shared = mode | folder & readers_as_writers;
    if folder & 0o1000 == 0 && shared != mode {
        // Without it the remaining users have no locks, which is an error where they need them.
        let _ = file.set_permissions(std::fs::Permissions::from_mode(shared & 0o7777));
    }
}

/// Logs that the remote of the index at `path` could not be recorded.
fn note(path: &Path, recorded: rustix::io::Result<()>) {
    if let Err(errno) = recorded {
        log::debug!("{} does not record its remote: {errno}", path.display());
    }
}

/// Returns the remote that the index at `path` belongs to, if that is known and differs from `remote`.
fn different_remote(path: &Path, remote: &str) -> Option<String> {
    recorded_remote(path).filter(|recorded| recorded != remote)
}

/// Returns the remote that the directory of the index at `path` belongs to, if that is known.
fn recorded_remote(path: &Path) -> Option<String> {
    let mut name = vec![0; REMOTE_BYTES_MAX];
    let bytes = getxattr(path, REMOTE_ATTRIBUTE, &mut name[..]).ok()?;
    name.truncate(bytes);
    String::from_utf8(name).ok()
}

/// Longest name of a remote that is read.
const REMOTE_BYTES_MAX: usize = 4_096;

/// Returns the error for a directory that belongs to a different remote than `remote`, or to an earlier state of it.
pub(crate) fn stale(path: &Path, remote: &str) -> Error {
    let recorded = different_remote(path, remote);
    let why = match recorded {
        Some(_) => {
            "the directory is filled from a different remote: choose a different `local`, or remove the directory"
        }
        None => {
            "the remote index changed since this directory was filled: remove the directory, or choose a different \
             `local`"
        }
    };
    let error = Error::new(ErrorKind::Stale, why).with("cached", path.display()).with("remote", remote);
    match recorded {
        Some(recorded) => error.with("filled_from", recorded),
        None => error,
    }
}

/// Adds the advice for a remote that has no index to the store's error, unless the error has a more precise one.
pub(crate) fn with_advice_on_remote(error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound || error.has_hint_of_store() {
        return error;
    }
    error.hinting("check the path in `remote`, and `split`")
}

/// Removes folders that were created for an index that then could not be fetched, the innermost first. A folder that is
/// no longer empty stays.
fn remove_empty(folders: Vec<&Path>) {
    let _ = folders.into_iter().try_for_each(std::fs::remove_dir);
}

fn open(path: &Path) -> Result<Option<File>> {
    match open_regular(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(unreadable(e, path)),
    }
}

fn unreadable(e: std::io::Error, path: &Path) -> Error {
    Error::from_io(e, "the index cannot be read").with("file", path.display())
}

fn compare(path: &Path, cached: &Text, remote: &str, current: &[u8]) -> Result<()> {
    if cached.equals(current)? {
        return Ok(());
    }
    Err(stale(path, remote).with("cached_bytes", cached.bytes()?).with("remote_bytes", current.len()))
}
