//! The index of a directory.

use super::*;
use crate::cache::claim::DirectoryLock;
use crate::sync::{AtomicU32, Mutex};

/// Installs the index of `dir`, which `fetch` returns for the remote `remote`; `None` for no remote.
pub(super) fn install(
    dir: &Path,
    remote: &str,
    fetch: Option<&mut dyn FnMut() -> Result<Vec<u8>>>,
    policy: WaitPolicy<'_>,
) -> Result<(Vec<u8>, Option<ErrorKind>)> {
    let parse = |bytes: &[u8]| Index::parse(bytes, "index.json").map(|_| bytes.to_vec());
    let cached = CachedIndex::Compared;
    // A file that is read in pieces has the same outcome as one that is read as a whole.
    let read = |file: &std::fs::File| {
        let index = Index::read(file, "index.json").ok()?;
        assert!(index.shards.is_empty());
        Some(crate::io::read_whole(file, 1 << 20).map_err(|e| crate::Error::from_io(e, "the index")))
    };
    let source = IndexSource {
        dir,
        remote,
        cached,
        parse: &parse,
        read: &read,
        is_current: &|_| false,
        fetch,
        is_optional: false,
    };
    let installed = source.install(&Clock::system(), policy)?;
    assert_eq!(installed.bytes, installed.index.len() as u64);
    Ok((installed.index, installed.unchecked.map(|e| e.kind())))
}

pub(super) const EMPTY: &[u8] = b"{\"version\": 2, \"shards\": []}";

#[test]
fn the_index_is_fetched_once_and_a_changed_remote_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("train");
    let mut fetched = 0;
    let mut fetch = || {
        fetched += 1;
        Ok(EMPTY.to_vec())
    };
    assert_eq!(install(&dir, "s3://b", Some(&mut fetch), long_wait()).unwrap(), (EMPTY.to_vec(), None));
    assert_eq!(listing(&dir), [INDEX_BASENAME]);
    assert_eq!(install(&dir, "s3://b", Some(&mut fetch), long_wait()).unwrap().0, EMPTY);
    assert_eq!(fetched, 2, "once to fetch it, once to compare it");
    assert_eq!(install(&dir, "", None, long_wait()).unwrap().0, EMPTY);
    let mut changed = || Ok(b"{\"shards\": [], \"version\": 2}".to_vec());
    let e = install(&dir, "s3://b", Some(&mut changed), long_wait()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Stale);
    assert!(e.to_string().contains("s3://b") && e.to_string().contains("train/index.json"), "{e}");
    let mut offline = || Err(crate::Error::new(ErrorKind::Network, "unreachable"));
    assert_eq!(
        install(&dir, "s3://b", Some(&mut offline), long_wait()).unwrap(),
        (EMPTY.to_vec(), Some(ErrorKind::Network))
    );
    let e = install(&folder.path().join("none"), "", None, long_wait()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
}

#[test]
fn a_wait_for_the_index_lasts_as_long_as_its_fetch_makes_progress() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let parse = |bytes: &[u8]| Index::parse(bytes, "index.json");
    for makes_progress in [true, false] {
        let lock = Mutex::new(Some(DirectoryLock::try_lock(dir).unwrap().expect("no process has it")));
        let clock = Clock::manual();
        let checks = AtomicU32::new(0);
        // Called once for each check of the directory.
        let step = || {
            let number = checks.fetch_add(1, Ordering::Relaxed);
            clock.advance(Duration::from_secs(6));
            if makes_progress {
                let time = std::time::UNIX_EPOCH + Duration::from_secs(u64::from(number));
                let times = std::fs::FileTimes::new().set_modified(time);
                std::fs::File::open(dir).unwrap().set_times(times).unwrap();
            }
            if number == 5 {
                drop(lock.lock().take());
            }
            false
        };
        let mut fetch = || Ok(EMPTY.to_vec());
        let fetch: Option<&mut dyn FnMut() -> Result<Vec<u8>>> = Some(&mut fetch);
        let source = IndexSource {
            dir,
            remote: "s3://b",
            cached: CachedIndex::OfRemote,
            parse: &parse,
            read: &|_| None,
            is_current: &|_| false,
            fetch,
            is_optional: false,
        };
        let installed = source.install(&clock, WaitPolicy::new(&step, Duration::from_secs(10)));
        if makes_progress {
            assert_eq!(installed.unwrap().bytes, EMPTY.len() as u64);
            std::fs::remove_file(dir.join(INDEX_BASENAME)).unwrap();
        } else {
            assert_eq!(installed.unwrap_err().kind(), ErrorKind::Timeout);
        }
    }
}

#[test]
fn a_file_has_its_attributes_before_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for unnamed in [true, false] {
        let labelled = AtomicBool::new(false);
        let label = |_: &std::fs::File| labelled.store(!path.exists(), Ordering::Relaxed);
        let mode = WriteMode { is_alone: true, unnamed_files: &AtomicBool::new(unnamed), label: &label };
        write_file(&path, b"bytes"[..].into(), mode).unwrap();
        assert!(labelled.load(Ordering::Relaxed));
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn an_index_that_a_second_stream_fetched_meanwhile_is_compared_too() {
    let folder = tempfile::tempdir().unwrap();
    let dir = &folder.path().join("train");
    let (waiting, is_waiting) = std::sync::mpsc::channel();
    let second = std::thread::scope(|scope| {
        // The first one has the lock of the directory until the second one waits for it.
        let (started, start) = std::sync::mpsc::channel();
        let first = scope.spawn(move || {
            let mut fetch = || {
                started.send(()).unwrap();
                is_waiting.recv().unwrap();
                Ok(EMPTY.to_vec())
            };
            install(dir, "s3://a", Some(&mut fetch), long_wait())
        });
        start.recv().unwrap();
        let waiting = Mutex::new(waiting);
        let stop = || {
            let _ = waiting.lock().send(());
            false
        };
        let mut other = || Ok(b"{\"shards\": [], \"version\": 2}".to_vec());
        let second = install(dir, "s3://b", Some(&mut other), WaitPolicy::new(&stop, Duration::from_secs(60)));
        first.join().unwrap().unwrap();
        second
    });
    let e = second.unwrap_err();
    assert!(e.kind() == ErrorKind::Stale && e.to_string().contains("s3://b"), "{e}");
}

#[test]
fn an_answer_that_is_no_index_is_never_kept_and_one_that_is_there_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("train");
    let half = &EMPTY[..EMPTY.len() / 2];
    let trailing = [EMPTY, b"\n{}"].concat();
    for bad in [b"<html>sign in</html>".as_slice(), half, &trailing, b"", b"{}", b"[]"] {
        let mut answer = || Ok(bad.to_vec());
        let e = install(&dir, "s3://b", Some(&mut answer), long_wait()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format, "{e}");
        assert!(!dir.exists(), "nothing is left");
        // As another program may have left it.
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join(INDEX_BASENAME), bad).unwrap();
        assert_eq!(install(&dir, "", None, long_wait()).unwrap_err().kind(), ErrorKind::Format);
        let mut healthy = || Ok(EMPTY.to_vec());
        assert_eq!(install(&dir, "s3://b", Some(&mut healthy), long_wait()).unwrap().0, EMPTY);
        assert_eq!(std::fs::read(dir.join(INDEX_BASENAME)).unwrap(), EMPTY);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn an_index_that_is_no_regular_file_is_refused_without_a_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(INDEX_BASENAME);
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    let e = install(folder.path(), "", None, long_wait()).unwrap_err();
    assert!(e.to_string().contains("regular file"), "{e}");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    let e = install(folder.path(), "", None, long_wait()).unwrap_err();
    assert!(e.to_string().contains("regular file"), "{e}");
}
