//! The cache in one process: its shards here, its index in `index`, and unusual disks in `disks`. `processes` tests it
//! between several.

mod disks;
mod index;
mod processes;

pub(super) use processes::moment;
pub(crate) use processes::remove_when_named;

use super::shards::files_of;
use super::write::{WriteMode, write_file};
use super::*;
use crate::clock::Clock;
use crate::error::{ErrorKind, Result};
use crate::format::index::{FileInfo, INDEX_BASENAME, Index, Shard};
use crate::format::layout::Layout;
use crate::stats::Stats;
use crate::sync::{Arc, AtomicBool, Ordering};
use std::path::Path;
use std::time::Duration;

fn never() -> bool {
    false
}

fn long_wait() -> WaitPolicy<'static> {
    WaitPolicy::new(&never, Duration::from_secs(60))
}

fn no_wait() -> WaitPolicy<'static> {
    WaitPolicy::new(&never, Duration::ZERO)
}

fn unplanned(_: u32) -> Option<u64> {
    None
}

fn raw_name(shard: u32) -> String {
    format!("shard.{shard:05}.mds")
}

fn file(name: &str, bytes: u64) -> FileInfo {
    FileInfo { basename: name.into(), bytes, hashes: Default::default() }
}

fn shard(data: FileInfo) -> Shard {
    Shard::new(Layout::mds([]).unwrap().into(), 0, data)
}

/// `count` shards of `bytes` bytes, with compressed files of half the size when `zip`.
fn shards(count: u32, bytes: u64, zip: bool) -> Vec<Shard> {
    let zip_data = |i| zip.then(|| file(&format!("{}.zstd", raw_name(i)), bytes / 2));
    (0..count).map(|i| Shard { zip_data: zip_data(i), ..shard(file(&raw_name(i), bytes)) }).collect()
}

fn config(dir: &Path, shards: Vec<Shard>) -> StreamCacheConfig {
    let shards = Arc::new(ShardSet::new(Arc::new(Index { shards })));
    let blocks = Some(Blocks::OF_BYTES);
    StreamCacheConfig { dir: dir.to_owned(), shards, has_remote: true, blocks, ..StreamCacheConfig::default() }
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(INDEX_BASENAME), b"{}").unwrap();
    dir
}

fn open(dir: &Path, shards: Vec<Shard>) -> Arc<StreamCache> {
    StreamCache::open(config(dir, shards), &Stats::default()).unwrap()
}

fn claimed(dir: &Arc<StreamCache>, shard: u32) -> ShardClaim {
    match dir.try_claim(shard).unwrap() {
        ClaimOutcome::Claimed(claim) => claim,
        other => panic!("{other:?}"),
    }
}

/// Fetches `shard` with content that names it, without keeping it.
fn put(dir: &Arc<StreamCache>, shard: u32, next_use: &dyn Fn(u32) -> Option<u64>) {
    drop(publish(dir, claimed(dir, shard).admit(next_use, no_wait()).unwrap()).unwrap());
}

fn publish(dir: &StreamCache, admission: Admission) -> Result<ResidencyGuard> {
    let files: Vec<&FileInfo> = files_of(&dir.dir.shards[admission.shard() as usize]).collect();
    let content: Vec<Vec<u8>> = files.iter().map(|f| vec![admission.shard() as u8; f.bytes as usize]).collect();
    let files =
        files.iter().zip(&content).map(|(f, bytes)| PublishFile { name: &f.basename, content: bytes[..].into() });
    let files: Vec<PublishFile<'_>> = files.collect();
    admission.publish(&files)
}

fn listing(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn bytes_on_disk(dir: &Path) -> u64 {
    // A file that another process evicts after the listing does not count.
    std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().metadata().map_or(0, |meta| meta.len())).sum()
}

#[test]
fn a_published_shard_is_resident_and_the_directory_holds_nothing_else() {
    let folder = folder();
    let dir = open(folder.path(), shards(2, 1000, false));
    assert!(!dir.is_resident(0));
    assert!(dir.open_shard(0).unwrap().is_none());
    let claim = claimed(&dir, 0);
    assert!(matches!(dir.try_claim(0).unwrap(), ClaimOutcome::Busy), "a second thread does not fetch it");
    let admission = claim.admit(&unplanned, no_wait()).unwrap();
    assert_eq!(listing(folder.path()), [INDEX_BASENAME], "nothing appears before publishing");
    let _guard = publish(&dir, admission).unwrap();
    assert!(dir.is_resident(0));
    assert!(matches!(dir.try_claim(0).unwrap(), ClaimOutcome::Resident(_)));
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds"]);
    let open = dir.open_shard(0).unwrap().unwrap();
    assert_eq!(open.files[0].bytes, 1000);
    assert!(Arc::ptr_eq(&open, &dir.open_shard(0).unwrap().unwrap()), "readers share descriptors");
}

#[test]
fn a_dropped_claim_is_free_for_the_next_thread_that_waits() {
    let folder = folder();
    let dir = open(folder.path(), shards(1, 10, false));
    let claim = claimed(&dir, 0);
    let waiter = {
        let dir = dir.clone();
        std::thread::spawn(move || matches!(dir.claim(0, long_wait()).unwrap(), ClaimOutcome::Claimed(_)))
    };
    drop(claim);
    assert!(waiter.join().unwrap());
}

#[test]
fn a_waiter_sees_the_shard_that_a_second_thread_publishes() {
    let folder = folder();
    let dir = open(folder.path(), shards(1, 10, false));
    let admitted = claimed(&dir, 0).admit(&unplanned, no_wait()).unwrap();
    let waiter = {
        let dir = dir.clone();
        std::thread::spawn(move || matches!(dir.claim(0, long_wait()).unwrap(), ClaimOutcome::Resident(_)))
    };
    let _guard = publish(&dir, admitted).unwrap();
    assert!(waiter.join().unwrap());
}

#[test]
fn a_wait_ends_with_the_shard_s_name_when_its_time_is_over_or_it_is_stopped() {
    let folder = folder();
    let dir = open(folder.path(), shards(1, 10, false));
    let _claim = claimed(&dir, 0);
    let e = dir.claim(0, no_wait()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Timeout);
    assert!(e.to_string().contains("shard.00000.mds") && e.to_string().contains("a different thread"), "{e}");
    let e = dir.claim(0, WaitPolicy::new(&|| true, Duration::from_secs(60))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed);
}

#[test]
fn wrong_sizes_and_names_leave_the_shard_absent() {
    let folder = folder();
    let dir = open(folder.path(), shards(1, 10, false));
    let admitted = claimed(&dir, 0).admit(&unplanned, no_wait()).unwrap();
    let e = admitted.publish(&[PublishFile { name: "shard.00000.mds", content: [0; 9][..].into() }]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Checksum);
    assert!(e.to_string().contains("expected 10"), "{e}");
    let admitted = claimed(&dir, 0).admit(&unplanned, no_wait()).unwrap();
    let e = admitted.publish(&[PublishFile { name: "foreign", content: [0; 10][..].into() }]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Internal);
    assert_eq!(listing(folder.path()), [INDEX_BASENAME]);
    assert!(!dir.is_resident(0));
}

#[test]
fn a_shard_that_is_removed_as_soon_as_it_has_its_name_is_fetched_again() {
    for zip in [false, true] {
        let folder = folder();
        let dir = open(folder.path(), shards(1, 10, zip));
        remove_when_named(&folder.path().join(raw_name(0)), 1);
        let admitted = claimed(&dir, 0).admit(&unplanned, no_wait()).unwrap();
        drop(publish(&dir, admitted).unwrap());
        assert!(!dir.is_resident(0));
        assert!(dir.open_shard(0).unwrap().is_none());
        put(&dir, 0, &unplanned);
        assert!(dir.open_shard(0).unwrap().is_some());
    }
}

#[test]
fn a_folder_that_is_removed_is_made_again_with_the_next_shard() {
    let folder = folder();
    let dir = open(folder.path(), shards(2, 10, false));
    put(&dir, 0, &unplanned);
    std::fs::remove_dir_all(folder.path()).unwrap();
    put(&dir, 1, &unplanned);
    put(&dir, 0, &unplanned);
    assert_eq!(listing(folder.path()), [raw_name(0), raw_name(1)]);
}

#[test]
fn a_shard_that_is_published_without_one_of_its_files_is_an_error_of_the_engine() {
    let folder = folder();
    let dir = open(folder.path(), shards(1, 10, false));
    let admitted = claimed(&dir, 0).admit(&unplanned, no_wait()).unwrap();
    assert_eq!(admitted.publish(&[]).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn a_replaced_file_is_whole_at_every_moment_and_stays_where_the_new_one_cannot_be_written() {
    let folder = folder();
    let path = folder.path().join(raw_name(0));
    let dir = open(folder.path(), shards(1, 10, false));
    put(&dir, 0, &unplanned);
    let new = [PublishFile { name: "shard.00000.mds", content: [7; 10][..].into() }];
    std::fs::write(&path, [1; 10]).unwrap();
    let reader = dir.open_shard(0).unwrap().unwrap();
    let blocked = write::tmp_path(&path);
    std::fs::create_dir(&blocked).unwrap();
    dir.replace(0, &new).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), [1; 10]);
    std::fs::remove_dir(&blocked).unwrap();
    assert!(dir.replace(0, &new).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), [7; 10]);
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds"]);
    drop(reader);
    let wrong = dir.replace(0, &[PublishFile { name: "shard.00000.mds", content: [7; 9][..].into() }]).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Checksum);
    // In use, by a reader that has not opened it yet or by a fetch.
    let held = ResidencyGuard::of_resident(&dir, 0).unwrap();
    assert!(!dir.replace(0, &new).unwrap());
    drop(held);
    std::fs::remove_file(&path).unwrap();
    let claim = claimed(&dir, 0);
    assert!(!dir.replace(0, &new).unwrap());
    drop(claim);
    assert!(dir.replace(0, &new).unwrap(), "an absent shard is written");
    assert!(dir.is_resident(0));
}

#[test]
fn the_limit_holds_and_the_farthest_next_use_is_evicted_first() {
    let folder = folder();
    let dir = StreamCache::open(
        StreamCacheConfig { group: CacheGroup::new(Some(350)), ..config(folder.path(), shards(6, 100, false)) },
        &Stats::default(),
    )
    .unwrap();
    let plan = |shard: u32| Some(u64::from([5, 9, 7, 6, 20, 3][shard as usize] as u32));
    for shard in [0, 1, 2, 3] {
        put(&dir, shard, &plan);
        assert!(bytes_on_disk(folder.path()) <= 350);
    }
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds", "shard.00002.mds", "shard.00003.mds"]);
    // Shard 4 is used last of all: no shard that is used sooner is evicted for it.
    let AdmitOutcome::Wait { claim, .. } = claimed(&dir, 4).try_admit(&plan).unwrap() else {
        panic!("there is no room")
    };
    let e = claim.admit(&plan, no_wait()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Full);
    assert!(e.to_string().contains("cache_limit 350"), "{e}");
    put(&dir, 5, &plan);
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds", "shard.00003.mds", "shard.00005.mds"]);
}

#[test]
fn claimed_and_unread_shards_are_never_evicted() {
    let folder = folder();
    let dir = StreamCache::open(
        StreamCacheConfig { group: CacheGroup::new(Some(250)), ..config(folder.path(), shards(4, 100, false)) },
        &Stats::default(),
    )
    .unwrap();
    let first = claimed(&dir, 0).admit(&unplanned, no_wait()).unwrap();
    let second = claimed(&dir, 1).admit(&unplanned, no_wait()).unwrap();
    // Reserved bytes count before anything is written.
    assert!(matches!(claimed(&dir, 2).try_admit(&unplanned).unwrap(), AdmitOutcome::Wait { .. }));
    let _unread = publish(&dir, first).unwrap();
    let second = publish(&dir, second).unwrap();
    assert!(matches!(claimed(&dir, 2).try_admit(&unplanned).unwrap(), AdmitOutcome::Wait { .. }), "both are unread");
    drop(second);
    put(&dir, 2, &unplanned);
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds", "shard.00002.mds"]);
}

#[test]
fn evicted_bytes_count_until_their_reader_closes_them() {
    let folder = folder();
    let dir = StreamCache::open(
        StreamCacheConfig { group: CacheGroup::new(Some(150)), ..config(folder.path(), shards(2, 100, false)) },
        &Stats::default(),
    )
    .unwrap();
    put(&dir, 0, &unplanned);
    let reader = dir.open_shard(0).unwrap().unwrap();
    let AdmitOutcome::Wait { claim, .. } = claimed(&dir, 1).try_admit(&unplanned).unwrap() else {
        panic!("its bytes are not free")
    };
    assert!(reader.is_evicted());
    assert!(dir.open_shard(0).unwrap().is_none(), "an evicted shard is not opened again");
    let mut read = [0u8; 100];
    crate::io::read_exact_at(&reader.files[0].file, &mut read, 0).unwrap();
    drop(reader);
    assert!(matches!(claim.try_admit(&unplanned).unwrap(), AdmitOutcome::Admitted(_)));
}

#[test]
fn bytes_on_disk_are_those_published_and_not_evicted() {
    for keep_zip in [false, true] {
        let folder = folder();
        let (stats, group) = (Stats::default(), CacheGroup::new(Some(2 + 330)));
        let config = StreamCacheConfig { keep_zip, group, ..config(folder.path(), shards(4, 100, true)) };
        let dir = StreamCache::open(config, &stats).unwrap();
        (0..4).for_each(|shard| put(&dir, shard, &unplanned));
        let counter = |name| stats.counter(name).get();
        assert!(counter("cache_evicted") > 0);
        let remaining = counter("cache_published_bytes") - counter("cache_evicted_bytes");
        assert_eq!(remaining, bytes_on_disk(folder.path()) - 2, "keep_zip: {keep_zip}");
    }
}

#[test]
fn pulses_turn_once_a_second_at_most() {
    let folder = folder();
    let clock = Clock::manual();
    let config = StreamCacheConfig { clock: clock.clone(), ..config(folder.path(), shards(1, 100, false)) };
    let dir = StreamCache::open(config, &Stats::default()).unwrap();
    let claim = claimed(&dir, 0);
    let is_up = || dir.dir.locks.lock().is_pulse_up(0);
    let mut turns = Vec::new();
    for _ in 0..4 {
        claim.report_progress();
        turns.push(is_up());
        clock.advance(Duration::from_millis(600));
    }
    assert_eq!(turns, [true, true, false, false]);
    clock.advance(Duration::from_secs(1));
    claim.report_progress();
    assert!(is_up());
    drop(claim);
    assert!(!is_up(), "it ends with the claim");
}

#[test]
fn shards_that_the_plan_does_not_know_are_evicted_by_their_last_use() {
    let folder = folder();
    let dir = StreamCache::open(
        StreamCacheConfig { group: CacheGroup::new(Some(350)), ..config(folder.path(), shards(5, 100, false)) },
        &Stats::default(),
    )
    .unwrap();
    for shard in [0, 1, 2] {
        put(&dir, shard, &unplanned);
    }
    for (shard, seconds) in [(0, 300), (1, 100), (2, 200)] {
        let times = rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec { tv_sec: seconds, tv_nsec: 0 },
            last_modification: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        };
        let file = std::fs::File::open(folder.path().join(raw_name(shard))).unwrap();
        rustix::fs::futimens(&file, &times).unwrap();
    }
    // A reader sets the time: shard 1 becomes the most recent.
    drop(dir.open_shard(1).unwrap().unwrap());
    put(&dir, 3, &unplanned);
    assert!(!dir.is_resident(2));
    put(&dir, 4, &unplanned);
    assert_eq!((dir.is_resident(0), dir.is_resident(1)), (false, true));
}

#[test]
fn directories_of_a_group_share_one_limit_and_one_plan() {
    let (first, second) = (folder(), folder());
    let group = CacheGroup::new(Some(2 + 2 + 250));
    let open = |folder: &Path, first_shard| {
        let group = group.clone();
        StreamCache::open(
            StreamCacheConfig { group, first_shard, ..config(folder, shards(2, 100, false)) },
            &Stats::default(),
        )
        .unwrap()
    };
    let (a, b) = (open(first.path(), 0), open(second.path(), 2));
    // Local files do not count and are not evicted.
    let third = folder();
    std::fs::write(third.path().join(raw_name(0)), [0; 100]).unwrap();
    let local = StreamCacheConfig {
        has_remote: false,
        group: group.clone(),
        first_shard: 4,
        ..config(third.path(), shards(1, 100, false))
    };
    let local = StreamCache::open(local, &Stats::default()).unwrap();
    let plan = |shard: u32| Some([5, 9, 6, 7, 100][shard as usize]);
    put(&a, 0, &plan);
    put(&a, 1, &plan);
    // The second shard of the first stream is used last of all: it is evicted for one of the second stream.
    put(&b, 0, &plan);
    assert_eq!((a.is_resident(0), a.is_resident(1), b.is_resident(0)), (true, false, true));
    // Number 1 of the second stream is number 3 of the plan, used after both that are on disk.
    assert!(matches!(claimed(&b, 1).try_admit(&plan).unwrap(), AdmitOutcome::Wait { .. }));
    assert!(local.is_resident(0));
}

#[test]
fn a_limit_below_one_shard_is_an_error_with_the_figures() {
    let folder = folder();
    let dir = StreamCache::open(
        StreamCacheConfig { group: CacheGroup::new(Some(101)), ..config(folder.path(), shards(1, 100, false)) },
        &Stats::default(),
    )
    .unwrap();
    let e = claimed(&dir, 0).try_admit(&unplanned).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Config);
    let figures = "cache_limit is 101 bytes and must be at least 102: 100 for a shard and 2 for index.json and";
    assert!(e.to_string().contains(figures) && e.to_string().contains("shard.00000.mds"), "{e}");
}

#[test]
fn two_data_sets_of_a_process_share_claims_holds_and_the_strictest_limit() {
    let folder = folder();
    let a = open(folder.path(), shards(3, 100, false));
    let b = StreamCache::open(
        StreamCacheConfig { group: CacheGroup::new(Some(150)), ..config(folder.path(), shards(3, 100, false)) },
        &Stats::default(),
    )
    .unwrap();
    let claim = claimed(&a, 0);
    assert!(matches!(b.try_claim(0).unwrap(), ClaimOutcome::Busy));
    drop(claim);
    put(&a, 0, &unplanned);
    let ClaimOutcome::Resident(unread) = b.try_claim(0).unwrap() else { panic!("it is on disk") };
    // `a` has no limit itself, but `b`'s holds for it too, and `b` has not read shard 0.
    assert!(matches!(claimed(&a, 1).try_admit(&unplanned).unwrap(), AdmitOutcome::Wait { .. }));
    drop((b, unread));
    put(&a, 1, &unplanned);
    let e = StreamCache::open(config(folder.path(), shards(2, 100, false)), &Stats::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Stale);
}

#[test]
fn jobs_with_different_remotes_and_one_index_do_not_share_a_directory() {
    let folder = folder();
    let open = |remote: &str| {
        let config = StreamCacheConfig { remote: Some(remote.into()), ..config(folder.path(), shards(1, 10, false)) };
        StreamCache::open(config, &Stats::default())
    };
    let first = open("s3://a").unwrap();
    open("s3://a").unwrap();
    let e = open("s3://b").unwrap_err();
    assert!(e.kind() == ErrorKind::Stale && e.to_string().contains("s3://b"), "{e}");
    drop(first);
    open("s3://b").unwrap();
}

#[test]
fn keep_zip_decides_which_files_stay() {
    let folder = folder();
    let dir = open(folder.path(), shards(1, 100, true));
    put(&dir, 0, &unplanned);
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds"]);
    drop(dir);
    let keep = StreamCacheConfig { keep_zip: true, ..config(folder.path(), shards(1, 100, true)) };
    let dir = StreamCache::open(keep.clone(), &Stats::default()).unwrap();
    assert_eq!(dir.disk_bytes(0), 150);
    assert!(!dir.is_resident(0), "the raw file alone is not all that is wanted");
    put(&dir, 0, &unplanned);
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds", "shard.00000.mds.zstd"]);
    drop(dir);
    // Only the compressed file: it is unpacked, not fetched, and removed afterwards.
    std::fs::remove_file(folder.path().join("shard.00000.mds")).unwrap();
    let dir = open(folder.path(), shards(1, 100, true));
    let claim = claimed(&dir, 0);
    assert_eq!(claim.packed_files().unwrap(), [folder.path().join("shard.00000.mds.zstd")]);
    let admission = claim.admit(&unplanned, no_wait()).unwrap();
    drop(admission.publish(&[PublishFile { name: "shard.00000.mds", content: [7; 100][..].into() }]).unwrap());
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds"]);
    drop(dir);
    // Both are there without keep_zip: the compressed one is removed at the start.
    std::fs::write(folder.path().join("shard.00000.mds.zstd"), [0; 50]).unwrap();
    let dir = open(folder.path(), shards(1, 100, true));
    assert!(dir.is_resident(0));
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds"]);
}

#[test]
fn files_of_a_killed_writer_are_removed_and_never_count_as_shards() {
    let folder = folder();
    std::fs::write(folder.path().join("shard.00000.mds.tmp"), [1; 100]).unwrap();
    std::fs::write(folder.path().join("shard.00001.mds"), [1; 99]).unwrap();
    std::fs::write(folder.path().join("notes.txt.tmp"), b"not ours").unwrap();
    let dir = open(folder.path(), shards(2, 100, false));
    assert!(!dir.is_resident(0) && !dir.is_resident(1));
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "notes.txt.tmp", "shard.00001.mds"]);
    put(&dir, 1, &unplanned);
    assert_eq!(dir.open_shard(1).unwrap().unwrap().files[0].bytes, 100, "the short file was replaced");
}

#[test]
fn a_stream_without_a_remote_loses_nothing_and_names_missing_shards() {
    let folder = folder();
    std::fs::write(folder.path().join("shard.00000.mds"), [1; 100]).unwrap();
    std::fs::write(folder.path().join("shard.00000.mds.zstd"), [1; 50]).unwrap();
    std::fs::write(folder.path().join("shard.00002.mds"), [1; 60]).unwrap();
    let before = listing(folder.path());
    let local = StreamCacheConfig {
        has_remote: false,
        group: CacheGroup::new(Some(10)),
        ..config(folder.path(), shards(3, 100, true))
    };
    let dir = StreamCache::open(local, &Stats::default()).unwrap();
    assert!(matches!(dir.try_claim(0).unwrap(), ClaimOutcome::Resident(_)));
    assert!(dir.open_shard(0).unwrap().is_some());
    let e = dir.try_claim(1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("shard.00001.mds"), "{e}");
    assert_eq!(dir.open_shard(1).unwrap_err().kind(), ErrorKind::NotFound);
    let e = dir.open_shard(2).unwrap_err();
    assert!(e.kind() == ErrorKind::Checksum && e.to_string().contains("bytes 60, expected 100"), "{e}");
    assert_eq!(dir.try_claim(2).unwrap_err().to_string(), e.to_string(), "all calls report the same error");
    // A second data set of the same directory that has a remote and a limit evicts nothing either.
    let limited =
        StreamCacheConfig { group: CacheGroup::new(Some(250)), ..config(folder.path(), shards(3, 100, true)) };
    let limited = StreamCache::open(limited, &Stats::default()).unwrap();
    assert!(matches!(claimed(&limited, 1).try_admit(&unplanned).unwrap(), AdmitOutcome::Wait { .. }));
    assert_eq!(listing(folder.path()), before);
}

#[test]
fn shards_of_merged_indexes_are_in_sub_directories_and_split_formats_have_two_files() {
    let folder = folder();
    let raw_meta = Some(Box::new(file("3/shard.00000.json.meta", 8)));
    let shards = vec![Shard { raw_meta, ..shard(file("3/shard.00000.json", 40)) }];
    let limited = StreamCacheConfig { group: CacheGroup::new(Some(60)), ..config(folder.path(), shards) };
    let dir = StreamCache::open(limited, &Stats::default()).unwrap();
    put(&dir, 0, &unplanned);
    assert_eq!(listing(&folder.path().join("3")), ["shard.00000.json", "shard.00000.json.meta"]);
    assert_eq!(dir.open_shard(0).unwrap().unwrap().files[1].bytes, 8);
    // Half a shard does not count.
    std::fs::remove_file(folder.path().join("3/shard.00000.json.meta")).unwrap();
    assert!(dir.open_shard(0).unwrap().is_none());
    assert!(!dir.is_resident(0));
    put(&dir, 0, &unplanned);
    assert!(dir.is_resident(0));
}
