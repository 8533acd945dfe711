use super::pieces::FlightWindow;
use super::*;
use crate::format::Compression;
use crate::objects::Objects;
use crate::store::StoreConfig;
use crate::sync::Arc;
use crate::{ErrorKind, Result};
use std::time::Duration;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

/// Windows by their bytes and rate: none, so that only the object that is read has pieces in flight; some that later
/// objects fill before the first one is read; with the smallest ranges and with the largest ones.
const WINDOWS: [(u64, u64); 8] = [
    (1000, 0),
    (1 << 20, 0),
    (2 << 20, 0),
    (5 << 20, 0),
    (64 << 20, 0),
    (9 << 20, FAST),
    (33 << 20, FAST),
    (64 << 20, FAST),
];

/// Rate at which the window has all of its bytes, whatever a request takes.
const FAST: u64 = u64::MAX;

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("written");
    }
    folder
}

fn objects() -> Arc<Objects> {
    Arc::new(Objects::new(StoreConfig { part_bytes: 1 << 20, ..StoreConfig::default() }).expect("started"))
}

fn wanted(folder: &TempDir, name: &str) -> Wanted {
    let url = format!("{}/{name}", folder.path().display());
    Wanted { url, ..Wanted::default() }
}

fn next<T: Send + 'static>(ahead: &Ahead<T>) -> Result<Event<T>> {
    ahead.next(LONG).map(|event| event.expect("an event"))
}

#[test]
fn stored_bytes_are_a_whole_object_or_its_rest() {
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let folder = folder(&[("a.gz", &content), ("empty", b"")]);
    for (bytes, rate) in WINDOWS {
        let ahead = stored(objects(), ContentLimits::of_bytes(bytes.max(rate.min(1 << 20)))).expect("started");
        for (name, start) in [("a.gz", 0), ("a.gz", 1_048_577), ("empty", 0), ("a.gz", 3_000_000)] {
            ahead.push(Wanted { packing: Packing::Plain, start, ..wanted(&folder, name) }).expect("room");
            let mut found = Vec::new();
            loop {
                match next(&ahead).expect("read") {
                    Event::Begin(_) => {}
                    Event::Item(piece) => found.extend_from_slice(&piece),
                    Event::End => break,
                }
            }
            let whole: &[u8] = if name == "empty" { b"" } else { &content };
            assert!(found == whole[start as usize..], "{name} from {start}");
        }
    }
}

/// Lines of the next object, and the offsets after them.
fn next_lines(ahead: &Ahead<LineBatch>) -> Result<Vec<(Vec<u8>, u64)>> {
    let mut lines = Vec::new();
    loop {
        match next(ahead)? {
            Event::Begin(_) => {}
            Event::End => return Ok(lines),
            Event::Item(LineBatch { start, bytes, ends }) => {
                let mut from = 0;
                for end in ends.into_iter().map(|end| end as usize) {
                    lines.push((bytes[from..end].to_vec(), start + end as u64));
                    from = end;
                }
                assert_eq!(from, bytes.len(), "lines are all of their bytes");
            }
        }
    }
}

fn read_lines(folder: &TempDir, names: &[&str], (most, rate): (u64, u64)) -> Vec<Vec<(Vec<u8>, u64)>> {
    let ahead = Ahead::start(objects(), FlightWindow::of_rate(most, rate), None, lines::divide).expect("started");
    names.iter().for_each(|name| ahead.push(wanted(folder, name)).expect("room"));
    names.iter().map(|_| next_lines(&ahead).expect("read")).collect()
}

/// Lines as their definition has them.
fn expected_lines(content: &[u8]) -> Vec<(Vec<u8>, u64)> {
    let mut end = 0;
    let pieces = content.split_inclusive(|byte| *byte == b'\n');
    pieces
        .map(|line| {
            end += line.len() as u64;
            (line.to_vec(), end)
        })
        .collect()
}

/// Lines of all lengths, `len` bytes in all.
fn text(len: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut text = Vec::with_capacity(len);
    while text.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let line = (state >> 40) as usize % 5000;
        text.extend(std::iter::repeat_n(b'a' + (state >> 60) as u8, line).chain([b'\n']));
    }
    text.truncate(len);
    text
}

#[test]
fn lines_are_the_lines_of_the_text_for_any_pieces() {
    // Within the first request, at its end, over several blocks, with and without an end of the last line, and one line
    // over several blocks.
    let mut long = vec![b'x'; (2 * BLOCK_BYTES) + 5];
    long.extend_from_slice(b"\nlast");
    let big = text(3 * BLOCK_BYTES + 12_345);
    let mut exact = text((1 << 20) - 1);
    exact.push(b'\n');
    let files: [(&str, &[u8]); 8] = [
        ("empty", b""),
        ("end", b"\n"),
        ("ends", b"\n\n\r\n"),
        ("short", b"a\nbc\r\nd"),
        ("exact", &exact),
        ("big", &big),
        ("long", &long),
        ("again", b"a\n"),
    ];
    let folder = folder(&files);
    let names = files.map(|(name, _)| name);
    for window in WINDOWS {
        let found = read_lines(&folder, &names, window);
        for ((name, content), lines) in files.iter().zip(found) {
            assert!(lines == expected_lines(content), "{name} with {window:?}");
        }
    }
}

#[test]
fn compressed_texts_have_the_lines_of_their_contents() {
    let content = text(3 << 20);
    let packed = |name: &str| Compression::parse(name).expect("known").compress(&content).expect("packed");
    let gz = packed("gz:1");
    // Several streams in one file, as many programs append them.
    let twice = [&gz[..], &gz[..]].concat();
    let (zst, bz2, br) = (packed("zstd:1"), packed("bz2:1"), packed("br:1"));
    let files =
        [("a.gz", &gz[..]), ("b.jsonl.zst", &zst), ("c.BZ2", &bz2), ("d.br", &br), ("e.gz", &twice), ("f.gz", b"")];
    let folder = folder(&files);
    let found = read_lines(&folder, &files.map(|(name, _)| name), WINDOWS[0]);
    for (at, lines) in found.iter().take(4).enumerate() {
        assert!(*lines == expected_lines(&content), "{}", files[at].0);
    }
    assert!(found[4] == expected_lines(&[&content[..], &content[..]].concat()));
    assert!(found[5].is_empty(), "an empty file has no stream");
}

#[test]
fn a_compressed_text_that_is_damaged_is_an_error_of_its_format() {
    let gz = Compression::parse("gz").expect("known").compress(&text(200_000)).expect("packed");
    let folder = folder(&[("cut.gz", &gz[..gz.len() / 2]), ("none.zst", b"no zstd"), ("x.xz", b""), ("text", b"a\n")]);
    for name in ["cut.gz", "none.zst"] {
        let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
        ahead.push(wanted(&folder, name)).expect("room");
        let error = next_lines(&ahead).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Format, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
    ["text", "x.xz"].iter().for_each(|name| ahead.push(wanted(&folder, name)).expect("room"));
    assert_eq!(next_lines(&ahead).expect("in its turn"), expected_lines(b"a\n"));
    let error = next_lines(&ahead).expect_err("unknown");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("x.xz") && error.to_string().contains("none"), "{error}");
    assert!(Packing::ByName.compression("a.gz/b").expect("known").is_none());
    assert!(Packing::Plain.compression("a.gz").expect("known").is_none());
}

#[test]
fn the_lines_before_a_damaged_byte_are_returned() {
    let content = text(3 << 20);
    let gz = Compression::parse("gz:1").expect("known").compress(&content).expect("packed");
    let folder = folder(&[("a.gz", &gz[..gz.len() - 8])]);
    let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
    ahead.push(wanted(&folder, "a.gz")).expect("room");
    let mut bytes = 0;
    let error = loop {
        match next(&ahead) {
            Ok(Event::Item(batch)) => bytes += batch.bytes.len(),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Format);
    // All of them but the last one: its end is missing.
    assert!(content.len() - bytes < 5000, "{bytes} of {}", content.len());
}

#[test]
fn reading_continues_in_the_middle_of_an_object_of_the_same_version() {
    let content = text(2 * BLOCK_BYTES);
    let gz = Compression::parse("gz:1").expect("known").compress(&content).expect("packed");
    let folder = folder(&[("text", &content), ("text.gz", &gz), ("second", b"a\n")]);
    let all = expected_lines(&content);
    for name in ["text", "text.gz"] {
        let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
        ahead.push(wanted(&folder, name)).expect("room");
        let Event::Begin(version) = next(&ahead).expect("open") else { panic!("not open") };
        assert!(version.is_some());
        drop(ahead);
        for returned in [1, 100, all.len() - 1, all.len()] {
            let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
            ahead
                .push(Wanted { start: all[returned - 1].1, version: version.clone(), ..wanted(&folder, name) })
                .expect("room");
            ahead.push(wanted(&folder, "second")).expect("room");
            assert!(next_lines(&ahead).expect("read") == all[returned..], "{name} after {returned}");
            assert_eq!(next_lines(&ahead).expect("read"), expected_lines(b"a\n"));
        }
        let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
        let version = Some("entity tag of a second object".to_owned());
        ahead.push(Wanted { start: 10, version, ..wanted(&folder, name) }).expect("room");
        assert_eq!(next_lines(&ahead).expect_err("changed").kind(), ErrorKind::Stale);
        // Also without a version, if the object has become shorter.
        let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
        ahead.push(Wanted { start: content.len() as u64 + 1, ..wanted(&folder, name) }).expect("room");
        assert_eq!(next_lines(&ahead).expect_err("shorter").kind(), ErrorKind::Stale);
    }
}

#[test]
fn an_object_that_cannot_be_read_ends_the_objects_after_it_and_none_before() {
    let folder = folder(&[("a", b"1\n2\n"), ("b", b"3\n")]);
    let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
    ["a", "absent", "b"].iter().for_each(|name| ahead.push(wanted(&folder, name)).expect("room"));
    assert_eq!(next_lines(&ahead).expect("read"), expected_lines(b"1\n2\n"));
    let error = next_lines(&ahead).expect_err("absent");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("absent"), "{error}");
    ahead.push(wanted(&folder, "a")).expect("room");
    assert_eq!(next_lines(&ahead).expect_err("ended").kind(), ErrorKind::Closed);
}

/// Tar with a folder, files of the lengths, a link, and a file with a long name. Returns it with its files.
fn archive(lens: &[usize]) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    tar.append_data(&mut header, "folder/", &[][..]).expect("added");
    let mut files = Vec::new();
    for (number, len) in lens.iter().enumerate() {
        let name = format!("folder/{}{number}.bin", "long".repeat(number * 20));
        let content: Vec<u8> = (0..*len).map(|at| (at / 3 + number) as u8).collect();
        let mut header = tar::Header::new_gnu();
        header.set_size(*len as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, &name, &content[..]).expect("added");
        files.push((name, content));
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, format!("link{number}"), "folder").expect("added");
    }
    (tar.into_inner().expect("finished"), files)
}

type Found = (String, Vec<u8>, u64);

/// Files of the next tar, and the offsets after them.
fn next_files(ahead: &Ahead<Vec<TarPart>>) -> Result<Vec<Found>> {
    let mut files = Vec::new();
    add_files(ahead, &mut files).map(|()| files)
}

/// Adds the files of the next tar, also those before an error.
fn add_files(ahead: &Ahead<Vec<TarPart>>, files: &mut Vec<Found>) -> Result<()> {
    let mut missing = 0;
    loop {
        match next(ahead)? {
            Event::Begin(_) => {}
            Event::End => {
                assert_eq!(missing, 0, "the last file is whole");
                return Ok(());
            }
            Event::Item(parts) => {
                for part in parts {
                    match part {
                        TarPart::File { name, bytes, end, content } => {
                            assert_eq!(missing, 0, "the file before is whole");
                            let content = content.concat();
                            missing = bytes - content.len() as u64;
                            files.push((String::from_utf8(name).expect("UTF-8"), content, end));
                        }
                        TarPart::More(piece) => {
                            missing -= piece.len() as u64;
                            files.last_mut().expect("of a file").1.extend_from_slice(&piece);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_files_of_tars_are_returned_whatever_the_pieces() {
    let (small, small_files) = archive(&[0, 1, 511, 512, 513, 0, 100_000]);
    let (big, big_files) = archive(&[BLOCK_BYTES - 2048, 5000, 2 * BLOCK_BYTES + 1, 7, BLOCK_BYTES]);
    let gz = Compression::parse("gz:1").expect("known").compress(&big).expect("packed");
    let folder = folder(&[("small.tar", &small), ("big.tar", &big), ("big.tgz", &gz)]);
    for (most, rate) in WINDOWS {
        let ahead = Ahead::start(objects(), FlightWindow::of_rate(most, rate), None, tars::divide).expect("started");
        let expected = [("small.tar", &small_files), ("big.tar", &big_files), ("big.tgz", &big_files)];
        expected.iter().for_each(|(name, _)| ahead.push(wanted(&folder, name)).expect("room"));
        for (name, files) in expected {
            let found = next_files(&ahead).expect(name);
            assert_eq!(found.len(), files.len(), "{name}");
            for ((name, content, _), (expected, bytes)) in found.iter().zip(files) {
                assert!(name == expected && content == bytes, "{name}");
            }
        }
    }
}

#[test]
fn a_tar_is_continued_after_any_of_its_files() {
    let (tar, files) = archive(&[100, 0, 2_000_000, 5]);
    let gz = Compression::parse("gz:1").expect("known").compress(&tar).expect("packed");
    let folder = folder(&[("a.tar", &tar), ("a.tar.gz", &gz)]);
    for name in ["a.tar", "a.tar.gz"] {
        let read = |start| {
            let ahead = tar_files(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
            ahead.push(Wanted { start, ..wanted(&folder, name) }).expect("room");
            next_files(&ahead).expect("read")
        };
        let all = read(0);
        assert_eq!(all.len(), files.len());
        for returned in 0..all.len() {
            assert_eq!(read(all[returned].2), all[returned + 1..], "{name} after {returned}");
        }
    }
}

#[test]
fn a_tar_that_is_cut_off_or_damaged_is_an_error_after_its_whole_files() {
    let (tar, _) = archive(&[1000, 3_000_000]);
    let mut damaged = tar.clone();
    // In the header of the second file's link.
    let at = damaged.len() - 1024 - 512 + 20;
    damaged[at] ^= 1;
    let gz = |bytes: &[u8]| Compression::parse("gz:1").expect("known").compress(bytes).expect("packed");
    let cut = &tar[..2_000_000];
    let (cut_gz, endless) = (gz(cut), &tar[..tar.len() - 1024]);
    let endless_gz = gz(endless);
    let mut followed = tar.clone();
    followed.extend_from_slice(&tar);
    let followed_gz = gz(&followed);
    // A size of 64 bits, and the end of the file would need 65.
    let mut huge = tar::Header::new_gnu();
    huge.set_path("a").expect("short");
    huge.as_gnu_mut().expect("GNU").size = [0x80, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
    huge.set_cksum();
    let huge = [&huge.as_bytes()[..], &vec![7; 200_000]].concat();
    let huge_gz = gz(&huge);
    let files: [(&str, &[u8]); 10] = [
        ("huge.tar", &huge),
        ("huge.tar.gz", &huge_gz),
        ("cut.tar", cut),
        ("cut.tar.gz", &cut_gz),
        ("damaged.tar", &damaged),
        ("endless.tar", endless),
        ("endless.tar.gz", &endless_gz),
        ("followed.tar", &followed),
        ("followed.tar.gz", &followed_gz),
        ("none.tar", &[1; 5000]),
    ];
    let folder = folder(&files);
    for (name, _) in files {
        let ahead = tar_files(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
        ahead.push(wanted(&folder, name)).expect("room");
        let mut files = Vec::new();
        let error = add_files(&ahead, &mut files).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Format, "{name}: {error}");
        let has_files = !name.starts_with("none") && !name.starts_with("huge");
        assert!(files.first().is_some_and(|file| file.1.len() == 1000) == has_files, "{name}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_tar_without_padding_and_one_with_much_are_whole() {
    let (tar, files) = archive(&[700]);
    let unpadded = &tar[..tar.len() - 512];
    let mut padded = tar.clone();
    padded.resize(tar.len() + (200 << 10), 0);
    let gz = |bytes: &[u8]| Compression::parse("gz:1").expect("known").compress(bytes).expect("packed");
    let (unpadded_gz, padded_gz) = (gz(unpadded), gz(&padded));
    let all = [("a.tar", unpadded), ("b.tar", &padded), ("a.tar.gz", &unpadded_gz), ("b.tar.gz", &padded_gz)];
    let folder = folder(&all);
    for (name, _) in all {
        let ahead = tar_files(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
        ahead.push(wanted(&folder, name)).expect("room");
        assert_eq!(next_files(&ahead).expect(name).len(), files.len(), "{name}");
    }
}

#[test]
fn dropping_the_consumer_ends_the_thread() {
    let content = text(4 * BLOCK_BYTES);
    let folder = folder(&[("text", &content)]);
    let objects = objects();
    let ahead = lines(objects.clone(), ContentLimits::of_bytes(64 << 20)).expect("started");
    ahead.push(wanted(&folder, "text")).expect("room");
    assert!(matches!(next(&ahead), Ok(Event::Begin(_))));
    drop(ahead);
    // The thread has the only further reference. It ends without a limit of time; a hang would fail the whole run.
    while Arc::strong_count(&objects) > 1 {
        std::thread::yield_now();
    }
}

#[test]
fn a_zstd_window_above_the_bound_is_an_error_with_the_object() {
    // Magic number, no size, a window of 256 MiB; a last block without bytes.
    let packed = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (28 - 10) << 3, 1, 0, 0];
    let folder = folder(&[("a.zst", &packed)]);
    for (window_bytes, is_read) in [(None, true), (Some(1 << 28), true), (Some(1 << 27), false)] {
        let limits = ContentLimits { window_bytes, ..ContentLimits::of_bytes(64 << 20) };
        let ahead = lines(objects(), limits).expect("started");
        ahead.push(wanted(&folder, "a.zst")).expect("room");
        match next_lines(&ahead) {
            Ok(lines) => assert!(is_read && lines.is_empty()),
            Err(e) => {
                assert_eq!((is_read, e.kind()), (false, ErrorKind::Unsupported));
                assert!(e.to_string().contains("a.zst"), "{e}");
            }
        }
    }
}
