//! Directories that cannot be written, file systems without features, and full disks.

use super::index::{EMPTY, install};
use super::*;

/// Runs `body` as a user that file modes apply to, which root is not.
fn without_privileges(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                // Changes the identity of this thread alone, which ends with the test.
                rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(65_534)).unwrap();
            }
            body();
        });
        thread.join().unwrap();
    });
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_complete_read_only_directory_works_and_an_incomplete_one_is_an_error_that_names_the_fix() {
    let folder = folder();
    std::fs::write(folder.path().join(raw_name(0)), [0; 100]).unwrap();
    for file in [INDEX_BASENAME, "shard.00000.mds"] {
        set_mode(&folder.path().join(file), 0o444);
    }
    set_mode(folder.path(), 0o555);
    without_privileges(|| {
        let dir = open(folder.path(), shards(2, 100, false));
        assert!(matches!(dir.try_claim(0).unwrap(), ClaimOutcome::Resident(_)));
        assert_eq!(dir.open_shard(0).unwrap().unwrap().files[0].bytes, 100);
        let e = dir.try_claim(1).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Permission);
        assert!(e.to_string().contains("choose a different `local`"), "{e}");
        let below = folder.path().join("below");
        let e = StreamCache::open(config(&below, shards(1, 1, false)), &Stats::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Permission);
        // An index that cannot be kept is still an index.
        let mut fetch = || Ok(EMPTY.to_vec());
        assert_eq!(install(&below, "x", Some(&mut fetch), long_wait()).unwrap().0, EMPTY);
        assert!(!below.exists());
    });
    set_mode(folder.path(), 0o755);
}

#[test]
fn without_locks_and_unnamed_files_shards_are_still_fetched_and_appear_whole() {
    let folder = folder();
    let a = open(folder.path(), shards(3, 100, false));
    a.dir.locks.lock().unavailable = Some(rustix::io::Errno::NOLCK);
    a.dir.unnamed_files.store(false, Ordering::Relaxed);
    put(&a, 0, &unplanned);
    // Another writer's file with the common name is left alone: without locks it may be alive.
    std::fs::write(folder.path().join("shard.00001.mds.tmp"), b"half").unwrap();
    put(&a, 1, &unplanned);
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds", "shard.00001.mds", "shard.00001.mds.tmp"]);
    assert_eq!(std::fs::read(folder.path().join("shard.00001.mds")).unwrap(), [1; 100]);
}

#[test]
fn a_full_disk_evicts_shards_and_is_an_error_if_none_can_be_evicted() {
    let folder = folder();
    let dir = open(folder.path(), shards(3, 100, false));
    let set_free = |bytes: u64| *dir.dir.disk_available.lock() = Some(evict::DISK_RESERVE_BYTES + bytes);
    set_free(99);
    let e = claimed(&dir, 0).try_admit(&unplanned).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Full);
    assert!(e.to_string().contains("bytes_needed 100, bytes_free_for_shards 99"), "{e}");
    set_free(199);
    let first = claimed(&dir, 0).admit(&unplanned, no_wait()).unwrap();
    // Room that is reserved for the first is not free for the second.
    let AdmitOutcome::Wait { claim: second, .. } = claimed(&dir, 1).try_admit(&unplanned).unwrap() else {
        panic!("reserved twice")
    };
    let unread = publish(&dir, first).unwrap();
    set_free(99);
    let AdmitOutcome::Wait { claim: second, .. } = second.try_admit(&unplanned).unwrap() else {
        panic!("shard 0 is unread")
    };
    drop(unread);
    drop(publish(&dir, second.admit(&unplanned, no_wait()).unwrap()).unwrap());
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00001.mds"]);
}
