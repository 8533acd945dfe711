//! Whole files that must be regular ones.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads the regular file at `path`, of at most `bytes_max` bytes.
///
/// # Errors
///
/// `InvalidData` for anything but a regular file, since a device may deliver bytes without end and a pipe would be
/// waited for, and for a larger file, which is not read.
pub fn read_regular(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    read_whole(&open_regular(path)?, bytes_max)
}

/// Opens the regular file at `path` for reads.
///
/// # Errors
///
/// `InvalidData` for anything but a regular file.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    // NONBLOCK: opening a pipe must not wait for its writer; for a regular file it has no effect.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidData, "it is not a regular file"));
    }
    Ok(file)
}

/// Reads `file` from its start, of at most `bytes_max` bytes.
///
/// # Errors
///
/// `InvalidData` for a larger file, which is not read; `OutOfMemory` for one that the memory does not hold.
pub(crate) fn read_whole(mut file: &File, bytes_max: u64) -> Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let too_large = || Error::new(ErrorKind::InvalidData, format!("it has more than {bytes_max} bytes"));
    if length > bytes_max {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
    file.seek(SeekFrom::Start(0))?;
    // The file may grow meanwhile.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_pipes_and_folders_are_rejected_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for path in [&*pipe, &link, folder.path()] {
            assert_eq!(read_regular(path, 4).unwrap_err().kind(), ErrorKind::InvalidData, "{}", path.display());
        }
        assert_eq!(read_regular(&folder.path().join("none"), 4).unwrap_err().kind(), ErrorKind::NotFound);
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read_regular(&file, 4).unwrap(), b"text");
        assert_eq!(read_regular(&file, 3).unwrap_err().to_string(), "it has more than 3 bytes");
    }
}
