//! Writes of files under names that appear only when all their bytes are on the medium.
//!
//! The file is written without a name (`O_TMPFILE`), forced to the medium, and linked: a process killed before the link
//! leaves nothing at all, one killed after it leaves a complete file. File systems without unnamed files get
//! `<name>.tmp` and a rename; the next process that claims the shard writes over it.
//!
//! **Why `fdatasync` before the link.** The link is a change of the directory, which the journal may commit before the
//! file's bytes are written back. After a power loss file systems differ: no bytes, some bytes, or the right size with
//! zeros where pages had not been written. The last case cannot be detected by the size, and comparing the hashes of
//! all shards at every start costs more than it saves. The bytes have to reach the medium anyway, and a thread that
//! waits for one shard does not block further downloads. Measured on a virtual disk with ext4, shards of 64 MiB in
//! sequence: 1.4 GiB/s with it, 3.1 GiB/s without.
//!
//! **Why `pwrite` and no ring.** A shard is written by the thread that has fetched and unpacked it, which has nothing
//! else to do at that time. Measured on ext4, 4 shards of 64 MiB in pieces of 1 MiB, medians of 12 alternating rounds
//! on two busy cores: `pwrite` 1,063 MiB/s and 0.275 CPU seconds per GiB, a ring with 4 pieces in flight 957 MiB/s and
//! 0.30; without `fdatasync` 2,428 MiB/s against 2,692, at 0.24 both. Rounds differ by more than that, so the
//! measurement shows no gain that would pay for a second way to write.

use crate::error::{Error, ErrorKind, Result};
use crate::format::compression::PackedBytes;
use crate::io::{WRITE_PIECE_BYTES, write_pieces};
use crate::sync::{AtomicBool, Ordering};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Point at which tests kill the process.
#[cfg(not(test))]
pub(super) fn moment(_: &str) {}
#[cfg(test)]
pub(super) use super::tests::moment;

/// Options of a write.
#[derive(Clone, Copy)]
pub(super) struct WriteMode<'a> {
    /// Only this process writes this file, so its `.tmp` may be overwritten.
    pub(super) is_alone: bool,
    /// Cleared when the file system rejects unnamed files.
    pub(super) unnamed_files: &'a AtomicBool,
    /// Sets attributes of the file, before it has a name.
    pub(super) label: &'a dyn Fn(&File),
}

/// Content of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileContent<'a> {
    /// All bytes.
    Whole(&'a [u8]),
    /// Compressed bytes, which are unpacked while the file is written.
    Packed(PackedBytes<'a>),
}

impl FileContent<'_> {
    /// Bytes of the file.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Packed(packed) => packed.bytes,
        }
    }

    /// Calls `use_piece` with all bytes, in pieces.
    fn each_piece(self, mut use_piece: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Self::Whole(bytes) => bytes.chunks(WRITE_PIECE_BYTES).try_for_each(use_piece),
            Self::Packed(packed) => packed.each_piece(WRITE_PIECE_BYTES, &mut use_piece),
        }
    }
}

impl<'a> From<&'a [u8]> for FileContent<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Whole(bytes)
    }
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// The file was linked by this call.
    New,
    /// A file of the same size was there before.
    AlreadyThere,
}

/// Returns the name of an unfinished file where unnamed files are rejected.
pub(super) fn tmp_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// Creates `path` with this content. It appears only when it is complete.
///
/// # Errors
///
/// `Full`, `Permission` or `Io`; `path` is then unchanged.
pub(super) fn write_file(path: &Path, content: FileContent<'_>, mode: WriteMode<'_>) -> Result<WriteOutcome> {
    let bytes = content.bytes();
    let result = create(path, mode).map_err(write_error).and_then(|(file, tmp)| {
        (mode.label)(&file);
        let filled = fill(&file, content);
        let Some(tmp) = tmp else { return filled.and_then(|()| link(&file, path, bytes)) };
        let renamed = filled.and_then(|()| rustix::fs::rename(&tmp, path).map_err(write_error));
        renamed.map(|()| WriteOutcome::New).inspect_err(|_| remove_quietly(&tmp))
    });
    result.map_err(|e| with_room(e.with("file", path.display()).with("bytes", bytes), path))
}

/// Converts an error number into an error that names the fix.
fn write_error(errno: Errno) -> Error {
    let sentence = match errno {
        Errno::NOSPC | Errno::DQUOT => {
            return Error::new(ErrorKind::Full, NO_ROOM).caused_by(std::io::Error::from(errno));
        }
        Errno::ROFS | Errno::ACCESS | Errno::PERM => "a file cannot be written: choose a different `local`",
        _ => "a file cannot be written",
    };
    Error::from_io(errno.into(), sentence)
}

const NO_ROOM: &str = "no room to write a file: free disk space, or inodes if there is space (df -i), or set \
                       `cache_limit` to what there is";

/// Adds the room on the file system of `path` to an error about a lack of it: bytes or inodes may be used up.
fn with_room(error: Error, path: &Path) -> Error {
    let folder = path.parent().unwrap_or(Path::new("."));
    match rustix::fs::statvfs(folder) {
        Ok(room) if error.message() == NO_ROOM => {
            let error = error.with("free_bytes", room.f_bavail.saturating_mul(room.f_frsize));
            // btrfs has no number of inodes.
            if room.f_files > 0 { error.with("free_inodes", room.f_favail) } else { error }
        }
        _ => error,
    }
}

/// Returns a new file, with its path unless it has no name.
fn create(path: &Path, mode: WriteMode<'_>) -> Result<(File, Option<PathBuf>), Errno> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let permissions = Mode::from_raw_mode(0o666);
    // Sub-directories of merged indexes appear with their first shard.
    std::fs::create_dir_all(folder).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    if mode.unnamed_files.load(Ordering::Relaxed) {
        match rustix::fs::open(folder, OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, permissions) {
            Ok(fd) => return Ok((fd.into(), None)),
            // EOPNOTSUPP: the file system (NFS, overlayfs on old kernels, FUSE). EISDIR, ENOENT, EINVAL: an old kernel.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
        mode.unnamed_files.store(false, Ordering::Relaxed);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if mode.is_alone {
        let tmp = tmp_path(path);
        let fd = rustix::fs::open(&tmp, flags | OFlags::TRUNC, permissions)?;
        return Ok((fd.into(), Some(tmp)));
    }
    // Without locks another process may be writing the same file, so each uses its own name.
    let mut own = path.as_os_str().to_owned();
    own.push(format!(".{}.{:x}.tmp", std::process::id(), unique()));
    let own = PathBuf::from(own);
    let fd = rustix::fs::open(&own, flags | OFlags::EXCL, permissions)?;
    Ok((fd.into(), Some(own)))
}

/// Returns a number that no process has, on any host that shares the directory.
fn unique() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn fill(file: &File, content: FileContent<'_>) -> Result<()> {
    // Room is allocated first, so that a full disk is detected before anything is written. File systems without it
    // (EOPNOTSUPP) report a full disk later.
    if let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) =
        rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, content.bytes().max(1))
    {
        return Err(write_error(errno));
    }
    moment("created");
    let mut at = 0;
    content.each_piece(|piece| {
        write_pieces(file, piece, at)
            .map_err(|e| if e.kind() == ErrorKind::Full { Error::new(e.kind(), NO_ROOM).caused_by(e) } else { e })?;
        at += piece.len() as u64;
        moment("piece");
        Ok(())
    })?;
    match rustix::io::retry_on_intr(|| rustix::fs::fdatasync(file)) {
        // The medium cannot be forced (some FUSE file systems).
        Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(write_error(errno)),
    }
    moment("written");
    Ok(())
}

/// Links an unnamed file at `path`.
fn link(file: &File, path: &Path, bytes: u64) -> Result<WriteOutcome> {
    let by_proc = format!("/proc/self/fd/{}", file.as_raw_fd());
    // Several attempts, because an existing file of the wrong size is removed first.
    for attempt in 0..3 {
        let linked = match rustix::fs::linkat(CWD, &*by_proc, CWD, path, AtFlags::SYMLINK_FOLLOW) {
            // No /proc: the descriptor itself can be linked with the right capability, or by the same credentials.
            Err(Errno::NOENT) => rustix::fs::linkat(file, "", CWD, path, AtFlags::EMPTY_PATH),
            other => other,
        };
        match linked {
            Ok(()) => return Ok(WriteOutcome::New),
            Err(Errno::EXIST) if attempt < 2 => match std::fs::metadata(path) {
                Ok(meta) if meta.is_file() && meta.len() == bytes => return Ok(WriteOutcome::AlreadyThere),
                Ok(_) => {
                    if let Err(e) = std::fs::remove_file(path)
                        && e.kind() != std::io::ErrorKind::NotFound
                    {
                        return Err(write_error(Errno::from_io_error(&e).unwrap_or(Errno::EXIST)));
                    }
                }
                Err(_) => {}
            },
            Err(errno) => return Err(write_error(errno)),
        }
    }
    Err(write_error(Errno::EXIST))
}

/// Removes a file that may be there. One that remains is found by the next survey.
pub(super) fn remove_quietly(path: &Path) {
    if let Err(e) = std::fs::remove_file(path)
        && e.kind() != std::io::ErrorKind::NotFound
    {
        log::debug!("{} cannot be removed: {e}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_a_lack_of_room_has_the_room_that_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard.00000.mds");
        let full = with_room(write_error(Errno::NOSPC), &path);
        assert_eq!(full.kind(), ErrorKind::Full);
        assert!(full.message().contains("inodes if there is space (df -i), or set `cache_limit`"), "{full}");
        assert!(full.context().iter().any(|(name, _)| *name == "free_bytes"), "{full}");
        let files = rustix::fs::statvfs(folder.path()).unwrap().f_files;
        assert_eq!(full.context().iter().any(|(name, _)| *name == "free_inodes"), files > 0, "{full}");
        assert_eq!(with_room(write_error(Errno::ACCESS), &path).context(), []);
        let open_files = with_room(write_error(Errno::MFILE), &path);
        assert_eq!(open_files.context(), []);
        assert!(open_files.to_string().contains("ulimit -n"), "{open_files}");
    }
}
