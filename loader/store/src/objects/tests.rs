use super::*;
use crate::{Error, ErrorKind, Result};
use crate::{FetchBuffer, StoreConfig};
use forebay_core::sync::Arc;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

/// Folder with objects `0`, `1`, ... of the lengths.
fn folder(lengths: &[usize]) -> TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (number, len) in lengths.iter().enumerate() {
        std::fs::write(folder.path().join(number.to_string()), content(number, *len)).expect("written");
    }
    folder
}

fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number + at / 7) as u8).collect()
}

fn url(folder: &TempDir, name: impl std::fmt::Display) -> String {
    format!("{}/{name}", folder.path().display())
}

fn objects() -> Arc<Objects> {
    let config = StoreConfig { part_bytes: 1 << 16, ..StoreConfig::default() };
    Arc::new(Objects::new(config).expect("started"))
}

fn whole(bytes: Result<Option<FetchBuffer>>) -> FetchBuffer {
    bytes.expect("read").expect("not too large")
}

fn memory(len: usize) -> Result<FetchBuffer> {
    Ok(FetchBuffer::zeroed(len))
}

fn limits(objects: usize) -> ReadLimits {
    ReadLimits { objects, bytes: 64 << 20, object_bytes: None }
}

#[test]
fn objects_arrive_in_the_order_of_their_requests_with_and_without_their_lengths() {
    // Empty, smaller than the first request, and larger.
    let lengths = [0, 1, 5000, (1 << 20) + 1, 300_000, 0, 3 << 20];
    let folder = folder(&lengths);
    let objects = objects();
    for is_known in [true, false] {
        let mut reads = Reads::new(objects.clone(), limits(8), memory);
        for (number, len) in lengths.iter().enumerate() {
            assert!(reads.has_room(None));
            reads.push(&url(&folder, number), is_known.then_some(*len as u64));
        }
        for (number, len) in lengths.iter().enumerate() {
            let read = reads.next(false, LONG).expect("in flight");
            assert_eq!(read.number, number as u64);
            assert_eq!(whole(read.bytes), content(number, *len), "{number}");
        }
        assert!(reads.next(false, LONG).is_none() && reads.is_empty());
    }
}

#[test]
fn any_order_returns_each_object_once() {
    let lengths: Vec<usize> = (0..50).map(|number| number * 1000).collect();
    let folder = folder(&lengths);
    let mut reads = Reads::new(objects(), limits(50), memory);
    (0..50).for_each(|number| reads.push(&url(&folder, number), None));
    let mut numbers: Vec<u64> = std::iter::from_fn(|| reads.next(true, LONG))
        .map(|read| {
            let number = read.number as usize;
            assert_eq!(whole(read.bytes), content(number, lengths[number]));
            read.number
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_window_has_room_until_one_of_its_limits_is_reached() {
    let folder = folder(&[1000; 6]);
    let window = |objects_max, bytes| {
        Reads::new(objects(), ReadLimits { objects: objects_max, bytes, object_bytes: None }, memory)
    };
    for (objects_max, bytes, expected) in [(3, 9000, 3), (6, 2500, 2), (6, 3000, 3)] {
        let mut reads = window(objects_max, bytes);
        let mut count = 0;
        while reads.has_room(Some(1000)) {
            reads.push(&url(&folder, count), Some(1000));
            count += 1;
        }
        assert_eq!((count, reads.len()), (expected, expected));
    }
    let mut alone = window(3, 10);
    assert!(alone.has_room(Some(1000)));
    alone.push(&url(&folder, 0), Some(1000));
    assert!(!alone.has_room(Some(0)));
}

#[test]
fn an_object_beyond_the_limit_of_one_is_not_read() {
    const MAX: u64 = 2 << 20;
    let folder = folder(&[10, (2 << 20) + 1, 2 << 20, 30]);
    let allocate = |len| if len as u64 <= MAX { memory(len) } else { Err(Error::internal("too much memory")) };
    for (is_known, object_bytes) in [(true, MAX), (false, MAX), (true, 20), (false, 20)] {
        let limits = ReadLimits { object_bytes: Some(object_bytes), ..limits(8) };
        let mut reads = Reads::new(objects(), limits, allocate);
        for number in 0..4 {
            let len = std::fs::metadata(folder.path().join(number.to_string())).expect("there").len();
            reads.push(&url(&folder, number), is_known.then_some(len));
        }
        let found: Vec<_> =
            std::iter::from_fn(|| reads.next(false, LONG)).map(|read| read.bytes.expect("read")).collect();
        let is_read: Vec<_> = found.iter().map(Option::is_some).collect();
        assert_eq!(is_read, [true, false, object_bytes == MAX, object_bytes == MAX], "{is_known} {object_bytes}");
    }
}

#[test]
fn lengths_that_are_found_later_keep_the_limit_of_bytes() {
    const LEN: usize = 3 << 20;
    for any in [false, true] {
        let folder = folder(&[LEN; 12]);
        let (allocated, returned) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let gone = returned.clone();
        let allocate = move |len| {
            let held = allocated.fetch_add(1, Ordering::SeqCst) + 1 - gone.load(Ordering::SeqCst);
            // Four objects of 3 MiB, and the first of all in any case.
            if held <= 5 { memory(len) } else { Err(Error::internal(format!("{held} objects in memory"))) }
        };
        let mut reads =
            Reads::new(objects(), ReadLimits { objects: 12, bytes: 12 << 20, object_bytes: None }, allocate);
        (0..12).for_each(|number| reads.push(&url(&folder, number), None));
        let mut numbers = Vec::new();
        while let Some(read) = reads.next(any, LONG) {
            assert_eq!(whole(read.bytes), content(read.number as usize, LEN));
            numbers.push(read.number);
            returned.fetch_add(1, Ordering::SeqCst);
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..12).collect::<Vec<_>>());
    }
}

#[test]
fn one_object_that_fails_does_not_disturb_the_rest() {
    let folder = folder(&[10, 20, 30]);
    let mut reads = Reads::new(objects(), limits(8), memory);
    reads.push(&url(&folder, 0), Some(10));
    reads.push(&url(&folder, "absent"), None);
    reads.push(&url(&folder, 1), Some(21));
    reads.push("s3://bucket/", None);
    reads.push(&url(&folder, 2), Some(30));
    let outcomes: Vec<_> = std::iter::from_fn(|| reads.next(false, LONG)).map(|read| read.bytes).collect();
    let kinds: Vec<_> = outcomes.iter().map(|bytes| bytes.as_ref().err().map(Error::kind)).collect();
    let expected = [None, Some(ErrorKind::NotFound), Some(ErrorKind::Checksum), Some(ErrorKind::Config), None];
    assert_eq!(kinds, expected);
    let absent = outcomes[1].as_ref().expect_err("absent").to_string();
    assert!(absent.contains("absent"), "{absent}");
}

#[test]
fn ranges_belong_to_one_version() {
    let folder = folder(&[200_000]);
    let (objects, url) = (objects(), url(&folder, 0));
    let whole = content(0, 200_000);
    let (sender, receiver) = std::sync::mpsc::channel();
    objects.peek(&url, 100, move |peek| sender.send(peek).expect("received")).expect("started");
    let peek = receiver.recv().expect("called").expect("found");
    assert_eq!((peek.len, &peek.front[..]), (200_000, &whole[..100]));
    let read = |range: std::ops::Range<u64>, version| objects.read_range(&url, range, version);
    assert_eq!(read(70_000..200_000, peek.version.clone()).expect("read"), whole[70_000..]);
    assert_eq!(read(5..5, None).expect("nothing"), b""[..]);
    assert_eq!(read(199_000..200_001, None).expect_err("too long").kind(), ErrorKind::Checksum);
    std::fs::write(folder.path().join("0"), content(1, 200_000)).expect("replaced");
    assert_eq!(read(0..10, peek.version).expect_err("a different version").kind(), ErrorKind::Stale);
}

#[test]
fn folders_that_were_created_for_an_upload_that_is_dropped_are_removed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let config = StoreConfig { upload_part_bytes: 1000, upload_bytes: 1000, ..StoreConfig::default() };
    let objects = Objects::new(config).expect("started");
    let begun = |name: &str| {
        let mut upload = objects.upload(&url(&folder, name), None).expect("started");
        // The last part waits for the first ones, so the file exists by then.
        upload.write(vec![0; 10_000].into()).expect("accepted");
        upload
    };
    let names = || {
        let names = std::fs::read_dir(folder.path()).expect("there");
        names.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>()
    };
    std::fs::create_dir(folder.path().join("kept")).expect("created");
    drop(begun("kept/1"));
    drop(begun("new/deep/1"));
    assert_eq!(names(), ["kept"], "it was there before");
    let (first, second) = (begun("new/deep/1"), begun("new/deep/2"));
    drop(first);
    drop(second);
    assert_eq!(names(), ["kept"]);
    begun("new/deep/1").finish().expect("stored");
    drop(begun("new/deep/2"));
    assert!(folder.path().join("new/deep/1").exists());
    drop(begun("new/deep/more/3"));
    let rest = std::fs::read_dir(folder.path().join("new/deep")).expect("there");
    assert_eq!(rest.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>(), ["1"]);
    assert!(names().len() == 2 && folder.path().join("kept").exists());
}

#[test]
fn objects_are_written_listed_and_removed_by_their_urls() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let objects = objects();
    for name in ["a/1", "a/2", "b"] {
        let mut upload = objects.upload(&url(&folder, name), None).expect("started");
        upload.write(name.as_bytes().to_vec().into()).expect("accepted");
        upload.finish().expect("stored");
    }
    let list = |prefix: &str, is_recursive| -> Vec<String> {
        let listing = objects.list(&url(&folder, prefix), is_recursive).expect("started");
        let start = url(&folder, "");
        listing.map(|entry| entry.expect("listed").url.strip_prefix(&start).expect("within").to_owned()).collect()
    };
    assert_eq!(list("", true), ["a/1", "a/2", "b"]);
    assert_eq!(list("", false), ["a/", "b"]);
    assert_eq!(list("a/", true), ["a/1", "a/2"]);
    assert_eq!(list("c", true), [""; 0]);
    assert_eq!(objects.size(&url(&folder, "a/1")).expect("asked"), Some(3));
    let found = objects.find(&url(&folder, "a/1")).expect("asked").expect("there");
    assert_eq!((found.url.as_str(), found.size), (url(&folder, "a/1").as_str(), 3));
    assert_eq!(objects.find(&url(&folder, "a")).expect("a folder is no object"), None);
    let (first, absent) = (url(&folder, "a/1"), url(&folder, "a/9"));
    objects.remove([first.as_str(), absent.as_str()]).expect("removed");
    assert_eq!(list("a/", true), ["a/2"]);
}

#[test]
fn closing_ends_reads_in_flight() {
    let folder = folder(&[10]);
    let objects = objects();
    let mut reads = Reads::new(objects.clone(), limits(2), memory);
    objects.close();
    reads.push(&url(&folder, 0), None);
    reads.push(&url(&folder, 0), Some(10));
    for _ in 0..2 {
        let read = reads.next(false, LONG).expect("an outcome");
        assert_eq!(read.bytes.expect_err("closed").kind(), ErrorKind::Closed);
    }
}

/// Paths of the objects with paths that start with `prefix`, relative to `folder`.
fn listed(folder: &Path, prefix: &str, is_recursive: bool) -> Result<Vec<(String, u64)>> {
    let start = format!("{}/", folder.display());
    let listing = objects().list(&format!("{start}{prefix}"), is_recursive)?;
    let relative = |url: &str| url.strip_prefix(&start).expect("within").to_owned();
    listing.map(|entry| entry.map(|entry| (relative(&entry.url), entry.size))).collect()
}

#[test]
fn a_local_list_reads_no_folder_above_its_prefix() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path();
    std::fs::create_dir_all(path.join("real/run/a")).expect("made");
    std::fs::write(path.join("real/run/a/1"), "one").expect("written");
    symlink(path.join("real"), path.join("link")).expect("linked");
    // Next to a folder of the prefix, and to names that start with it.
    std::fs::write(path.join(OsStr::from_bytes(b"x\xff")), "").expect("written");
    std::fs::write(path.join(OsStr::from_bytes(b"real/x\xff")), "").expect("written");
    for prefix in ["real/run/", "link/run/", "link/run/a/", "link/r", "link/run/a/1"] {
        let start = &prefix[..4];
        assert_eq!(listed(path, prefix, true).expect("listed"), [(format!("{start}/run/a/1"), 3)], "{prefix}");
    }
    assert_eq!(listed(path, "link/run/", false).expect("listed"), [("link/run/a/".to_owned(), 0)]);
    assert!(listed(path, "", true).expect_err("a name").to_string().contains("UTF-8"));
    for prefix in ["absent/", "absent/a", "real/run/a/1/", "real/run/a/1/2", &"x".repeat(300)] {
        assert!(listed(path, prefix, true).expect("listed").is_empty(), "{prefix}");
    }
    // A folder that only strangers may read; the administrator may read it nevertheless.
    std::fs::set_permissions(path.join("real"), Permissions::from_mode(0o111)).expect("set");
    assert_eq!(listed(path, "link/run/", true).expect("listed"), [("link/run/a/1".to_owned(), 3)]);
    std::fs::set_permissions(path.join("real"), Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn links_in_a_local_list_are_the_files_that_they_lead_to() {
    let (data, folder) =
        (tempfile::tempdir().expect("temporary folder"), tempfile::tempdir().expect("temporary folder"));
    let path = folder.path();
    std::fs::create_dir(data.path().join("inner")).expect("made");
    std::fs::write(data.path().join("inner/1"), "one").expect("written");
    for (target, link) in [("inner", "a"), ("inner", "b"), ("inner/1", "file"), ("none", "broken")] {
        symlink(data.path().join(target), path.join(link)).expect("linked");
    }
    symlink("itself", path.join("itself")).expect("linked");
    let found = [("a/1", 3), ("b/1", 3), ("file", 3)].map(|(name, size)| (name.to_owned(), size));
    assert_eq!(listed(path, "", true).expect("listed"), found);
    let level = [("a/", 0), ("b/", 0), ("file", 3)].map(|(name, size)| (name.to_owned(), size));
    assert_eq!(listed(path, "", false).expect("listed"), level);
    for target in [data.path(), &data.path().join("inner"), path, Path::new("/")] {
        symlink(target, data.path().join("inner/loop")).expect("linked");
        let error = listed(path, "a", true).expect_err("a loop");
        let link = path.join("a/loop");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(link.to_str().expect("UTF-8")) || target == data.path(), "{error}");
        std::fs::remove_file(data.path().join("inner/loop")).expect("removed");
    }
}
