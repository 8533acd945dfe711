//! The rate of a program that only reads: GETs from a store, or reads from the disk past the page cache.

use crate::addresses::{Address, Found};
use crate::output::Output;
use crate::{Result, Session};
use forebay_loader::objects::Objects;
use forebay_loader::store::local_folder;
use forebay_loader::sync::{AtomicU64, AtomicUsize, Ordering, in_threads};
use forebay_loader::worker::DataSet;
use forebay_loader::{Error, ErrorKind};
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Reads at a time.
const READERS: usize = 16;

/// Bytes of a request to a store, and of a read from disk.
const REQUEST_BYTES: u64 = 8 << 20;
const READ_BYTES: u64 = 1 << 20;

/// Files that are read at most, and the time.
const FILES_MAX: usize = 4096;
const TIME: Duration = Duration::from_secs(3);

/// Alignment of reads past the page cache.
const ALIGNMENT: usize = 4096;

/// Rate of reading.
pub(super) struct Plain {
    pub(super) is_local: bool,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// The store did not answer some of the requests.
    pub(super) has_failed: bool,
}

/// Returns files of the data set with their lengths: those that its index names, or those at the address.
pub(super) fn files(
    address: &str,
    split: Option<&str>,
    data: &DataSet,
    session: &Session,
) -> Result<Vec<(String, u64)>> {
    let mut files = Vec::new();
    let is_named = data.describe().iter().all(|stream| stream.kind.is_none());
    if let (Some(index), true) = (data.index(0), is_named) {
        for url in Address::all(address)? {
            let folder =
                [Some(url.url.trim_end_matches('/')), split].into_iter().flatten().collect::<Vec<_>>().join("/");
            for shard in index.shards.iter().take(FILES_MAX) {
                let stored = shard.zip_data.as_ref().unwrap_or(&shard.raw_data);
                files.push((format!("{folder}/{}", stored.basename), stored.bytes));
            }
        }
        return Ok(files);
    }
    let objects = session.objects()?;
    for url in Address::all(address)? {
        match url.find(&objects, true)? {
            Found::Object(entry) => files.push((entry.url, entry.size)),
            Found::Several(mut entries) => {
                while let Some(page) = entries.next_page()?.filter(|_| files.len() < FILES_MAX) {
                    files.extend(page.into_iter().map(|entry| (entry.url, entry.size)));
                }
            }
        }
    }
    files.retain(|(_, bytes)| *bytes > 0);
    Ok(files)
}

/// Reads the files for some seconds; `None` if there are none.
///
/// # Errors
///
/// The first failure of the disk; of the store, if it answers no request or more attempts would not help.
pub(super) fn rate(objects: &Objects, files: &[(String, u64)], output: &Output) -> Result<Option<Plain>> {
    let Some((first, _)) = files.first() else { return Ok(None) };
    let is_local = local_path(first).is_some();
    let step = if is_local { READ_BYTES } else { REQUEST_BYTES };
    let pieces: Vec<(usize, u64)> = files
        .iter()
        .enumerate()
        .flat_map(|(file, (_, bytes))| (0..*bytes).step_by(step as usize).map(move |start| (file, start)))
        .collect();
    let bar = output.progress(0, "MB read");
    let (began, next, bytes) = (Instant::now(), AtomicUsize::new(0), AtomicU64::new(0));
    let read = || {
        let mut buffer = vec![0; READ_BYTES as usize + ALIGNMENT];
        let mut opened: Option<(usize, File)> = None;
        while began.elapsed() < TIME && !output.is_stopped() {
            let Some((file, start)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)).copied() else { break };
            let (url, length) = &files[file];
            let end = (start + step).min(*length);
            let count = match local_path(url) {
                Some(path) => {
                    let failed = |e| Error::from_io(e, "the file cannot be read").with("file", &path);
                    if opened.as_ref().is_none_or(|(known, _)| *known != file) {
                        opened = Some((file, open(Path::new(&path)).map_err(failed)?));
                    }
                    let aligned = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
                    let into = &mut buffer[aligned..aligned + READ_BYTES as usize];
                    let read = opened.as_ref().map_or(Ok(0), |(_, file)| file.read_at(into, start));
                    read.map_err(failed)? as u64
                }
                None => objects.read_range(url, start..end, None)?.len() as u64,
            };
            let all = bytes.fetch_add(count, Ordering::Relaxed) + count;
            bar.set_position(all / 1_000_000);
        }
        Ok::<_, Error>(())
    };
    let ended = in_threads(READERS, read);
    bar.finish_and_clear();
    let (bytes, mut has_failed) = (bytes.load(Ordering::Relaxed), false);
    for thread in ended {
        let read = thread.map_err(|_| Error::internal("a thread that reads has panicked"))?;
        has_failed |= is_refused(read, bytes)?;
    }
    Ok(Some(Plain { is_local, bytes, seconds: began.elapsed().as_secs_f64(), has_failed }))
}

/// Returns true for a thread that has ended because the store refuses 16 requests at a time. The `bytes` of all
/// threads are its rate.
///
/// # Errors
///
/// Any other failure.
fn is_refused(read: Result<()>, bytes: u64) -> Result<bool> {
    match read {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == ErrorKind::Network && bytes > 0 => Ok(true),
        Err(error) => Err(error),
    }
}

/// Path of a file of this machine.
fn local_path(url: &str) -> Option<String> {
    if url.starts_with('/') {
        return Some(url.to_owned());
    }
    local_folder(url).map(|path| path.to_string_lossy().into_owned())
}

/// Opens a file for reads past the page cache, if its file system has them.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    let direct = options.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(path);
    direct.or_else(|_| options.open(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_this_machine_are_recognized() {
        assert_eq!(local_path("/data/a.mds").as_deref(), Some("/data/a.mds"));
        assert_eq!(local_path("s3://bucket/a.mds"), None);
        assert_eq!(local_path("http://host/a.mds"), None);
    }

    #[test]
    fn a_store_that_refuses_some_requests_has_a_rate() {
        let failed = |kind| Err(Error::new(kind, "failed"));
        assert_eq!(is_refused(Ok(()), 0).ok(), Some(false));
        assert_eq!(is_refused(failed(ErrorKind::Network), 1).ok(), Some(true));
        for (kind, bytes) in [(ErrorKind::Network, 0), (ErrorKind::Permission, 1)] {
            assert_eq!(is_refused(failed(kind), bytes).expect_err("a failure").kind(), kind);
        }
    }

    #[test]
    fn a_file_of_any_length_is_read_past_the_page_cache_or_through_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, vec![7; ALIGNMENT + 3]).expect("written");
        let mut buffer = vec![0; 3 * ALIGNMENT];
        let aligned = buffer.as_ptr().align_offset(ALIGNMENT);
        let count = open(&path).expect("open").read_at(&mut buffer[aligned..aligned + 2 * ALIGNMENT], 0).expect("read");
        assert_eq!((count, buffer[aligned], buffer[aligned + count - 1]), (ALIGNMENT + 3, 7, 7));
    }
}
