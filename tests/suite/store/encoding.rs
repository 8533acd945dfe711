//! Objects that are sent with a `Content-Encoding`, which was not asked for: their bytes are not the bytes of the file.

use crate::rig::{Rig, content};
use forebay_loader::contents::{Ahead, ContentLimits, Event, LineBatch, Packing, Wanted, lines};
use forebay_loader::format::Compression;
use forebay_loader::objects::{Objects, ReadLimits, Reads};
use forebay_loader::store::{Encoded, FetchBuffer, FetchRequest, StoreConfig};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};
use forebay_tests::server::{Fault, Rule};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn check(error: &Error, key: &str, encoding: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
    assert!(text.contains(&format!("Content-Encoding: {encoding}")) && text.contains(key), "{text}");
}

#[test]
fn an_encoded_object_is_an_error_that_names_it_in_every_form_of_a_request() {
    let rig = Rig::new();
    rig.server.put("a.txt", content(350)).expect("memory");
    for encoding in ["gzip", "br", "zstd", "deflate", "x-gzip, br"] {
        rig.server.script(Rule::once("a.txt", Fault::Encoded(encoding)).times(4));
        let remote = rig.remote();
        check(&remote.get_small("a.txt", 1000).expect_err("encoded"), "a.txt", encoding);
        let (sender, receiver) = std::sync::mpsc::channel();
        remote.peek("a.txt", 100, move |peek| sender.send(peek).expect("received")).expect("started");
        check(&receiver.recv().expect("called").expect_err("encoded"), "a.txt", encoding);
        let whole = FetchRequest::new("a.txt", 90);
        let range = FetchRequest { start: 10, object_len: None, ..FetchRequest::new("a.txt", 90) };
        for request in [whole, range] {
            check(&remote.fetch(request).expect("queued").wait().expect_err("encoded"), "a.txt", encoding);
        }
        assert_eq!(rig.count("store_retries"), 0, "a further attempt would be the same");
        assert_eq!(remote.get_small("a.txt", 1000).expect("without it").0, content(350));
    }
}

#[test]
fn a_file_with_the_encoding_in_its_name_is_read_as_it_is_stored() {
    for (key, encoding) in [("a.jsonl.gz", "gzip"), ("a.tar.GZ", "x-gzip"), ("shard.mds.zstd", "zstd"), ("a", "utf-8")]
    {
        let rig = Rig::new();
        rig.server.put(key, content(350)).expect("memory");
        rig.server.script(Rule::always(key, Fault::Encoded(encoding)));
        let fetched = rig.remote().fetch(FetchRequest::new(key, 350)).expect("queued").wait();
        assert_eq!(*fetched.unwrap_or_else(|e| panic!("{key}: {e}")), *content(350));
        assert_eq!(rig.remote().get_small(key, 1000).expect(key).0, content(350));
    }
}

#[test]
fn a_file_of_the_length_in_its_index_is_the_file_whatever_the_header() {
    let rig = Rig::new();
    rig.server.put("shard", content(350)).expect("memory");
    rig.server.script(Rule::always("shard", Fault::Encoded("gzip")));
    let fetch = |len| {
        let request = FetchRequest { encoded: Encoded::OfFile, ..FetchRequest::new("shard", len) };
        rig.remote().fetch(request).expect("queued").wait()
    };
    assert_eq!(*fetch(350).expect("the file"), *content(350));
    let error = fetch(340).expect_err("a different length");
    assert!(error.kind() == ErrorKind::Checksum && error.to_string().contains("Content-Encoding (gzip)"), "{error}");
}

fn objects() -> Arc<Objects> {
    let backoff_first = Duration::from_millis(1);
    Arc::new(
        Objects::new(StoreConfig { part_bytes: 1 << 16, backoff_first, ..StoreConfig::default() }).expect("threads"),
    )
}

/// Returns the lines of a text.
fn read(ahead: &Ahead<LineBatch>) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        match ahead.next(LONG)?.expect("an event") {
            Event::Begin(_) => {}
            Event::End => return Ok(all),
            Event::Item(batch) => all.extend_from_slice(&batch.bytes),
        }
    }
}

#[test]
fn lines_of_an_encoded_text_are_the_file_s() {
    let text: Vec<u8> = (0..200_000).flat_map(|line| format!("line {line}\n").into_bytes()).collect();
    let stored = |name: &str| Compression::parse(name).expect("known").compress(&text).expect("packed");
    for (encoding, compression) in [("gzip", "gz:1"), ("zstd", "zstd:1"), ("br", "br:1")] {
        for listed in [true, false] {
            let rig = Rig::new();
            let packed = stored(compression);
            let len = listed.then_some(packed.len() as u64);
            rig.server.put("a.txt", packed.clone()).expect("memory");
            rig.server.script(Rule::always("a.txt", Fault::Encoded(encoding)));
            let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
            let wanted = Wanted { url: format!("{}/a.txt", rig.server.url()), len, ..Wanted::default() };
            ahead.push(wanted.clone()).expect("room");
            assert!(read(&ahead).expect("read") == text, "{encoding}");
            // From the middle of the unpacked text.
            ahead.push(Wanted { start: 7 * 8, ..wanted.clone() }).expect("room");
            assert!(read(&ahead).expect("read") == text[7 * 8..], "{encoding}");
            ahead.push(Wanted { packing: Packing::Plain, ..wanted }).expect("room");
            assert!(read(&ahead).expect("read") == packed, "as it is stored");
        }
    }
}

#[test]
fn an_encoding_that_cannot_be_unpacked_is_an_error_and_no_wrong_text() {
    for (key, encoding) in [("a.txt", "deflate"), ("a.txt", "gzip, gzip"), ("a.txt.zst", "gzip")] {
        let rig = Rig::new();
        rig.server.put(key, content(350)).expect("memory");
        rig.server.script(Rule::always(key, Fault::Encoded(encoding)));
        let ahead = lines(objects(), ContentLimits::of_bytes(64 << 20)).expect("started");
        ahead.push(Wanted { url: format!("{}/{key}", rig.server.url()), ..Wanted::default() }).expect("room");
        check(&read(&ahead).expect_err("encoded"), key, encoding);
    }
}

#[test]
fn files_that_are_loaded_whole_are_refused_with_an_encoding() {
    let rig = Rig::new();
    rig.server.put("a.json", content(350)).expect("memory");
    rig.server.script(Rule::always("a.json", Fault::Encoded("gzip")));
    let url = format!("{}/a.json", rig.server.url());
    let limits = ReadLimits { objects: 8, bytes: 64 << 20, object_bytes: None };
    for len in [None, Some(350)] {
        let mut reads = Reads::new(objects(), limits, |len| Ok(FetchBuffer::zeroed(len)));
        reads.push(&url, len);
        check(&reads.next(false, LONG).expect("in flight").bytes.expect_err("encoded"), "a.json", "gzip");
    }
}

#[test]
fn an_object_that_is_unpacked_on_the_way_has_no_length_and_the_error_names_the_cause() {
    let rig = Rig::new();
    rig.server.put("a.txt.gz", content(350)).expect("memory");
    rig.server.script(Rule::always("a.txt.gz", Fault::Unpacked));
    let (sender, receiver) = std::sync::mpsc::channel();
    rig.remote().peek("a.txt.gz", 100, move |peek| sender.send(peek).expect("received")).expect("started");
    let error = receiver.recv().expect("called").expect_err("no length").to_string();
    assert!(error.contains("does not report the length") && error.contains("Content-Encoding (gzip)"), "{error}");
}

#[test]
fn an_encoded_listing_is_an_error_that_names_the_encoding() {
    let (rig, destination) = crate::targets::Store::S3.open();
    let page = Fault::Page("packed".into(), Some(("content-encoding", "gzip".into())));
    rig.server.script(Rule::always("list-type=2", page));
    let error = destination.list_all("").expect_err("encoded");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("Content-Encoding: gzip"), "{error}");
}
