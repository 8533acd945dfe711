//! Listing of a folder of this machine, by several threads: the lengths of a million files are as many system calls.

use crate::catalog::kept_index::KeptFile;
use crate::error::{Error, ErrorKind, Result};
use crate::sources::files::FileList;
use crate::sync::{Condvar, Mutex, in_threads};
use crate::versions::{FileFacts, Versions};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Folders that are read at the same time: the answers of a file server take a while.
const THREADS: usize = 16;

/// Depth at which links of folders are taken for a loop.
const DEPTH_MAX: usize = 64;

/// Files below a folder, and all folders, itself included.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) files: FileList,
    pub(super) folders: Vec<KeptFile>,
}

/// Lists the files below `root`, through links, and puts their versions in `versions`. `progress` is called after each
/// folder.
///
/// # Errors
///
/// `Config` for a name that is not in UTF-8, for a link without a file and for links that form a loop, with the path;
/// errors of the file system.
pub(super) fn walk(root: &Path, versions: Option<&Versions>, progress: &(dyn Fn() + Sync)) -> Result<Walked> {
    let mut state =
        Mutex::new(WalkState { waiting: vec![String::new()], active: 0, walked: Walked::default(), error: None });
    let changed = Condvar::new();
    let work = || {
        let mut state_now = state.lock();
        loop {
            if state_now.error.is_some() || state_now.waiting.is_empty() && state_now.active == 0 {
                changed.notify_all();
                return;
            }
            let Some(folder) = state_now.waiting.pop() else {
                state_now = changed.wait(state_now);
                continue;
            };
            state_now.active += 1;
            drop(state_now);
            let read = read_folder(root, &folder, versions);
            progress();
            state_now = state.lock();
            state_now.active -= 1;
            match read {
                Ok(FolderContent { files, below, folder }) => {
                    state_now.walked.files.append(&files);
                    state_now.walked.folders.push(folder);
                    state_now.waiting.extend(below);
                }
                Err(e) => state_now.error = state_now.error.take().or(Some(e)),
            }
            changed.notify_all();
        }
    };
    let ended = in_threads(THREADS, work).into_iter().collect::<std::thread::Result<Vec<()>>>();
    ended.map_err(|_| Error::internal("the listing of a folder panicked"))?;
    let WalkState { walked, error, .. } = state.get_mut();
    match error.take() {
        Some(error) => Err(error),
        None => {
            walked.folders.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Ok(std::mem::take(walked))
        }
    }
}

/// Returns up to `count` paths of files below `root`, the folder's own files first.
///
/// # Errors
///
/// Errors of the file system.
pub(in crate::catalog) fn first_names(root: &Path, count: usize) -> Result<Vec<String>> {
    let (mut names, mut folders) = (Vec::new(), VecDeque::from([String::new()]));
    let mut folders_left = count;
    while let Some(folder) = folders.pop_front() {
        let path = root.join(&folder);
        let failed = |e: io::Error| Error::from_io(e, "the folder cannot be read").with("folder", path.display());
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // The listing of all files reports those that are not in UTF-8.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let key = format!("{folder}{name}");
            match fs::metadata(entry.path()) {
                Ok(meta) if meta.is_dir() && folders_left > 0 => {
                    folders_left -= 1;
                    folders.push_back(key + "/");
                }
                Ok(meta) if meta.is_file() => names.push(key),
                _ => {}
            }
            if names.len() == count {
                return Ok(names);
            }
        }
    }
    Ok(names)
}

struct WalkState {
    /// Paths of folders with a slash at the end, but for the first.
    waiting: Vec<String>,
    /// Folders that threads read.
    active: usize,
    walked: Walked,
    error: Option<Error>,
}

struct FolderContent {
    files: FileList,
    below: Vec<String>,
    folder: KeptFile,
}

fn read_folder(root: &Path, folder: &str, versions: Option<&Versions>) -> Result<FolderContent> {
    let path = root.join(folder);
    let failed = |e: io::Error| Error::from_io(e, "the folder cannot be read").with("folder", path.display());
    // Taken first: a file that appears in the meantime makes the list outdated.
    let folder_now = state_of(&path, folder).map_err(failed)?;
    let mut content = FolderContent { files: FileList::default(), below: Vec::new(), folder: folder_now };
    for entry in fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| {
            Error::config("the name of a file is not in UTF-8: rename it").with("file", path.join(name).display())
        })?;
        let key = format!("{folder}{name}");
        let kind = entry.file_type().map_err(failed)?;
        let meta = match fs::metadata(entry.path()) {
            Ok(meta) => meta,
            Err(e) if kind.is_symlink() && e.kind() == io::ErrorKind::NotFound => {
                let message = "a link leads to no file: remove it";
                return Err(Error::new(ErrorKind::NotFound, message).with("link", entry.path().display()));
            }
            // It was removed in the meantime.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => {
                return Err(Error::from_io(e, "a file cannot be read").with("file", entry.path().display()));
            }
        };
        if meta.is_dir() {
            if key.matches('/').count() >= DEPTH_MAX || kind.is_symlink() && is_above(&meta, root, folder) {
                let message = "links of folders form a loop, or folders are too deep: remove the link";
                return Err(Error::config(message).with("folder", entry.path().display()));
            }
            content.below.push(key + "/");
        } else if meta.is_file() {
            content.files.push(&key, meta.len());
            if let Some(versions) = versions {
                versions.expect(&key, &FileFacts::from(&meta).version_at(&entry.path()));
            }
        }
    }
    Ok(content)
}

/// Returns true if `target` is `folder` or a folder above it.
fn is_above(target: &fs::Metadata, root: &Path, folder: &str) -> bool {
    let is_target = |path: &Path| fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (target.dev(), target.ino()));
    let inner = Path::new(folder).ancestors().any(|above| is_target(&root.join(above)));
    inner || fs::canonicalize(root).is_ok_and(|root| root.ancestors().any(is_target))
}

/// Returns the state of a folder or file, called `name`, by which a change of it is noticed.
pub(super) fn state_of(path: &Path, name: &str) -> io::Result<KeptFile> {
    Ok(KeptFile { name: name.to_owned(), bytes: 0, version: changed_ns(path)?.to_string() })
}

/// Returns the time of the last change of a folder's names, or of a file, in nanoseconds since 1970.
pub(super) fn changed_ns(path: &Path) -> io::Result<i64> {
    let meta = fs::metadata(path)?;
    Ok(meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    fn listed(root: &Path) -> Vec<(String, u64)> {
        let Walked { files, .. } = walk(root, None, &|| ()).unwrap();
        let mut listed: Vec<_> = files.paths.iter().map(str::to_owned).zip(files.bytes).collect();
        listed.sort();
        listed
    }

    #[test]
    fn links_of_files_and_folders_are_followed() {
        let (data, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(data.path().join("cats/old")).unwrap();
        fs::write(data.path().join("cats/old/1.jpg"), "one").unwrap();
        symlink(data.path().join("cats"), root.path().join("a")).unwrap();
        symlink(data.path().join("cats"), root.path().join("b")).unwrap();
        symlink(data.path().join("cats/old/1.jpg"), root.path().join("2.jpg")).unwrap();
        fs::create_dir(root.path().join("empty")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, root.path().join("pipe.jpg"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        let expected = [("2.jpg", 3), ("a/old/1.jpg", 3), ("b/old/1.jpg", 3)];
        assert_eq!(listed(root.path()), expected.map(|(path, bytes)| (path.to_owned(), bytes)));
        let folders: Vec<_> = walk(root.path(), None, &|| ()).unwrap().folders.into_iter().map(|f| f.name).collect();
        assert_eq!(folders, ["", "a/", "a/old/", "b/", "b/old/", "empty/"]);
    }

    #[test]
    fn names_are_taken_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        for name in [" ", "a b", "100%", "#1", "a+b", "line\nbreak", "back\\slash", "..jpg", &"x".repeat(255)] {
            fs::write(root.path().join(name), name).unwrap();
        }
        assert!(listed(root.path()).iter().all(|(name, bytes)| name.len() as u64 == *bytes));
        assert_eq!(listed(root.path()).len(), 9);
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_named() {
        let root = tempfile::tempdir().unwrap();
        let failure = || walk(root.path(), None, &|| ()).unwrap_err().to_string();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        for (link, target) in [("loop", root.path().to_owned()), ("above", root.path().parent().unwrap().to_owned())] {
            let link = root.path().join("a/b").join(link);
            symlink(target, &link).unwrap();
            assert!(
                failure()
                    .contains(&format!("loop, or folders are too deep: remove the link (folder {}", link.display()))
            );
            fs::remove_file(link).unwrap();
        }
        let link = root.path().join("a/none.jpg");
        symlink("nowhere", &link).unwrap();
        assert!(failure().contains("none.jpg"));
        fs::remove_file(link).unwrap();
        fs::write(root.path().join("a").join(OsStr::from_bytes(b"x\xff.jpg")), "").unwrap();
        assert!(failure().contains("UTF-8"), "{}", failure());
        assert!(walk(&root.path().join("absent"), None, &|| ()).unwrap_err().to_string().contains("absent"));
    }

    #[test]
    fn a_folder_that_changed_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let before = changed_ns(root.path()).unwrap();
        rustix::fs::utimensat(
            rustix::fs::CWD,
            root.path(),
            &rustix::fs::Timestamps {
                last_access: rustix::fs::Timespec { tv_sec: 1, tv_nsec: 5 },
                last_modification: rustix::fs::Timespec { tv_sec: 1, tv_nsec: 5 },
            },
            rustix::fs::AtFlags::empty(),
        )
        .unwrap();
        assert_ne!(before, changed_ns(root.path()).unwrap());
        assert_eq!(changed_ns(root.path()).unwrap(), 1_000_000_005);
    }
}
