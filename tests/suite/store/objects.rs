//! Objects by their URLs, on a server that checks signatures.

use crate::rig::{config, content};
use forebay_loader::ErrorKind;
use forebay_loader::objects::{Objects, ReadLimits, Reads};
use forebay_loader::store::{FetchBuffer, S3Settings, StoreConfig};
use forebay_loader::sync::Arc;
use forebay_tests::server::{Fault, Keys, ObjectServer, Options, Rule};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn rig() -> (ObjectServer, Arc<Objects>) {
    let keys = Some(Keys::new("key", "secret"));
    let options = Options { keys, bucket: Some("bucket".into()), list_page: 3, ..Options::default() };
    let server = ObjectServer::in_memory(options).expect("loopback");
    let s3 = S3Settings {
        endpoint: Some(server.url()),
        access_key: Some("key".into()),
        secret_key: Some("secret".into()),
        no_metadata: true,
        ..S3Settings::default()
    };
    // The pauses between attempts are short, because this clock is the system's.
    let backoff_first = Duration::from_millis(1);
    let config = StoreConfig { s3: Some(s3), part_bytes: 1 << 16, backoff_first, ..config() };
    (server, Arc::new(Objects::new(config).expect("threads")))
}

#[test]
fn objects_are_listed_and_read_in_order_through_faults() {
    let (server, objects) = rig();
    // Empty, smaller than the first request, larger than it.
    let lengths = [0, 1, 70_000, (1 << 20) + 5, 3];
    for (number, len) in lengths.iter().enumerate() {
        server.put(&format!("a b/{number}"), content(*len)).expect("memory");
    }
    for (key, fault) in [("b/2", Fault::CutAfter(10)), ("b/3", Fault::Status(503, None)), ("b/4", Fault::Reset)] {
        server.script(Rule::once(key, fault));
    }
    let found: Vec<_> = objects.list("s3://bucket/a b/", true).expect("started").map(|e| e.expect("listed")).collect();
    let urls: Vec<_> = (0..lengths.len()).map(|number| format!("s3://bucket/a b/{number}")).collect();
    assert_eq!(found.iter().map(|entry| &entry.url).collect::<Vec<_>>(), urls.iter().collect::<Vec<_>>());
    let limits = ReadLimits { objects: 8, bytes: 64 << 20, object_bytes: None };
    for is_known in [true, false] {
        let mut reads = Reads::new(objects.clone(), limits, |len| Ok(FetchBuffer::zeroed(len)));
        found.iter().for_each(|entry| reads.push(&entry.url, is_known.then_some(entry.size)));
        for len in lengths {
            let bytes = reads.next(false, LONG).expect("in flight").bytes.expect("read").expect("not too large");
            assert_eq!(bytes, content(len), "{len}");
        }
    }
}

#[test]
fn an_object_that_is_replaced_between_two_ranges_is_not_mixed() {
    let (server, objects) = rig();
    let url = "s3://bucket/shard";
    server.put("shard", content(200_000)).expect("memory");
    let (sender, receiver) = std::sync::mpsc::channel();
    objects.peek(url, 1000, move |peek| sender.send(peek).expect("received")).expect("started");
    let peek = receiver.recv().expect("called").expect("found");
    assert_eq!((peek.len, &peek.front[..]), (200_000, &content(200_000)[..1000]));
    let range = objects.read_range(url, 70_000..200_000, peek.version.clone()).expect("the same");
    assert_eq!(range, content(200_000)[70_000..]);
    server.put("shard", vec![1; 200_000]).expect("memory");
    assert_eq!(objects.read_range(url, 0..10, peek.version).expect_err("stale").kind(), ErrorKind::Stale);
    let beyond = objects.read_range(url, 199_990..200_010, None).expect_err("too long");
    assert_eq!(beyond.kind(), ErrorKind::Checksum);
}

#[test]
fn an_object_that_was_replaced_after_it_was_listed_is_stale_after_one_request() {
    let (server, objects) = rig();
    server.put("a", content(100)).expect("memory");
    let listed = objects.list("s3://bucket/a", true).expect("started").next().expect("one").expect("listed");
    let limits = ReadLimits { objects: 8, bytes: 64 << 20, object_bytes: None };
    let mut reads = Reads::new(objects, limits, |len| Ok(FetchBuffer::zeroed(len)));
    for other in [content(99), content(101), vec![1; 100]] {
        server.put("a", other).expect("memory");
        let before = server.counters().gets;
        reads.push_listed(&listed.url, listed.size, listed.etag.clone().expect("a tag"));
        let error = reads.next(false, LONG).expect("in flight").bytes.expect_err("replaced");
        assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
        assert_eq!(server.counters().gets, before + 1);
    }
    reads.push(&listed.url, Some(100));
    let read = reads.next(false, LONG).expect("in flight").bytes.expect("read").expect("not too large");
    assert_eq!(read, vec![1; 100], "without the list's tag");
}

#[test]
fn a_page_of_an_error_is_not_compared_with_the_listed_tag() {
    let (server, objects) = rig();
    server.put("a", content(100)).expect("memory");
    let listed = objects.list("s3://bucket/a", true).expect("started").next().expect("one").expect("listed");
    let limits = ReadLimits { objects: 8, bytes: 64 << 20, object_bytes: None };
    let mut reads = Reads::new(objects, limits, |len| Ok(FetchBuffer::zeroed(len)));
    for (status, kind) in
        [(503, None), (429, None), (404, Some(ErrorKind::NotFound)), (403, Some(ErrorKind::Permission))]
    {
        server.script(Rule::once("GET", Fault::Text(status, "a page".into())));
        reads.push_listed(&listed.url, listed.size, listed.etag.clone().expect("a tag"));
        let read = reads.next(false, LONG).expect("in flight").bytes;
        match kind {
            None => assert_eq!(read.expect("read").expect("not too large"), content(100), "{status}"),
            Some(kind) => assert_eq!(read.expect_err("rejected").kind(), kind, "{status}"),
        }
    }
}

#[test]
fn objects_are_written_and_removed() {
    let (server, objects) = rig();
    for number in 0..5 {
        let mut upload = objects.upload(&format!("s3://bucket/out/{number}"), None).expect("started");
        upload.write(content(1000 + number).into()).expect("accepted");
        upload.finish().expect("stored");
    }
    assert_eq!(objects.size("s3://bucket/out/4").expect("asked"), Some(1004));
    let urls: Vec<_> = (0..4).map(|number| format!("s3://bucket/out/{number}")).collect();
    objects.remove(urls.iter().map(String::as_str)).expect("removed");
    assert_eq!(objects.size("s3://bucket/out/0").expect("asked"), None);
    assert_eq!(server.objects().get("out/4"), Some(&content(1004)));
    let left: Vec<_> = objects.list("s3://bucket/", true).expect("started").map(|e| e.expect("listed").url).collect();
    assert_eq!(left, ["s3://bucket/out/4"]);
}
