//! Rejections of uploads: which are retried, which name the necessary change, and the objects that remain after them.

use crate::rig::{Rig, content};
use crate::targets::{Store, put, small, stored};
use forebay_loader::ErrorKind;
use forebay_loader::store::{S3Settings, StoreConfig};
use forebay_tests::server::{Fault, Keys, Options, Rule};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// End of an upload in parts.
const END: &str = "POST /bucket/some%20folder/%C3%BC/k?uploadId";

#[test]
fn conflicts_and_bodies_that_did_not_arrive_are_sent_again() {
    for (store, status, code) in [
        (Store::S3, 409, "OperationAborted"),
        (Store::S3, 409, "ConditionalRequestConflict"),
        (Store::S3, 400, "IncompleteBody"),
        (Store::S3, 400, "RequestTimeout"),
        (Store::Gcs, 409, "OperationAborted"),
        (Store::Oci, 409, "ConcurrentObjectUpdate"),
        (Store::Dbfs, 409, "RESOURCE_CONFLICT"),
    ] {
        let (rig, destination) = store.open();
        rig.server.script(Rule::once("PUT", Fault::Text(status, store.rejection(code))));
        put(&destination, "k", content(50)).unwrap_or_else(|e| panic!("{store:?}, {code}: {e}"));
        assert_eq!(stored(&rig)["k"], content(50), "{store:?}, {code}");
        assert_eq!(rig.count("store_retries"), 1, "{store:?}, {code}");
        rig.server.script(Rule::always("PUT", Fault::Text(status, store.rejection(code))));
        let error = put(&destination, "k", content(50)).expect_err("three attempts");
        assert!(error.to_string().contains(code) && error.to_string().contains("attempt 3 of 3"), "{error}");
    }
}

#[test]
fn blocks_of_a_second_program_are_explained() {
    for (status, code) in [(400, "InvalidBlobOrBlock"), (409, "BlockCountExceedsLimit")] {
        let (rig, destination) = Store::Azure.open();
        rig.server.script(Rule::always("comp=block&", Fault::Text(status, Store::Azure.rejection(code))));
        let error = put(&destination, "k", content(350)).expect_err("rejected");
        assert!(error.to_string().contains("blocks at this key that are not committed"), "{error}");
    }
}

#[test]
fn a_missing_right_to_look_up_uploads_is_reported_once() {
    for (store, list, right) in [
        (Store::S3, "GET /bucket/?uploads", "s3:ListBucketMultipartUploads"),
        (Store::GcsHmac, "GET /bucket/?uploads", "storage.multipartUploads.list"),
        (Store::Oci, "GET /n/space/b/bucket/u", "BUCKET_READ"),
    ] {
        let (rig, destination) = store.open();
        let code = if store == Store::Oci { "NotAuthorizedOrNotFound" } else { "AccessDenied" };
        rig.server.script(Rule::always(list, Fault::Text(403, store.rejection(code))));
        for key in ["a", "b"] {
            rig.server.script(Rule::once("POST", Fault::LoseAnswer));
            put(&destination, key, content(350)).unwrap_or_else(|e| panic!("{store:?}: {e}"));
        }
        let notes = rig.stats.snapshot().notes;
        let of_right: Vec<_> = notes.iter().filter(|note| note.contains(right)).collect();
        assert_eq!(of_right.len(), 1, "{store:?}: {notes:?}");
        assert!(of_right[0].contains("may remain in the store"), "{of_right:?}");
    }
}

#[test]
fn a_response_that_begins_before_the_parts_are_joined_is_read_to_its_end() {
    let joined = "  \n <?xml version=\"1.0\"?>\n\
                  <CompleteMultipartUploadResult><ETag>\"x\"</ETag></CompleteMultipartUploadResult>";
    let (rig, destination) = Store::S3.open();
    rig.server.script(Rule::once(END, Fault::Text(200, joined.to_owned())));
    let upload = destination.put("k", vec![content(350).into()]).expect("queued");
    assert_eq!(upload.wait().expect("joined").as_deref(), Some("x"));

    let failed = |code: &str| format!("  \n<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code></Error>");
    for (code, kind, retries) in [
        ("AccessDenied", ErrorKind::Permission, 0),
        ("InvalidPart", ErrorKind::Checksum, 0),
        ("SlowDown", ErrorKind::Network, 2),
    ] {
        let (rig, destination) = Store::S3.open();
        rig.server.script(Rule::always(END, Fault::Text(200, failed(code))));
        let error = put(&destination, "k", content(350)).expect_err("not joined");
        assert!(error.to_string().contains(code), "{error}");
        assert_eq!((error.kind(), rig.count("store_retries")), (kind, retries), "{error}");
        assert_eq!(rig.server.unfinished_uploads(), 0);
    }
}

fn with_checksums(config: StoreConfig) -> StoreConfig {
    StoreConfig { s3: config.s3.map(|s3| S3Settings { checksums: true, ..s3 }), ..config }
}

#[test]
fn a_bucket_with_object_lock_gets_checksums() {
    let locked = |options| Options { needs_checksum: true, ..options };
    let (rig, destination) = Store::S3.open_with(locked, with_checksums);
    for (key, len) in [("none", 0), ("one", 50), ("more", 350)] {
        put(&destination, key, content(len)).unwrap_or_else(|e| panic!("{key}: {e}"));
        assert_eq!(stored(&rig)[key], content(len));
    }
    let (_rig, destination) = Store::S3.open_with(locked, |config| config);
    for len in [50, 350] {
        let error = put(&destination, "k", content(len)).expect_err("no checksum");
        assert!(error.to_string().contains("AWS_REQUEST_CHECKSUM_CALCULATION=when_supported"), "{error}");
    }
}

#[test]
fn a_checksum_shows_the_success_of_a_lost_response_where_the_entity_tag_does_not() {
    let opaque = |options| Options { has_opaque_tags: true, ..options };
    let (rig, destination) = Store::S3.open_with(opaque, with_checksums);
    rig.server.script(Rule::once(END, Fault::LoseAnswer));
    put(&destination, "k", content(350)).expect("joined");
    assert_eq!(stored(&rig)["k"], content(350));
    rig.server.script(Rule::once(END, Fault::Overwrite("", content(350))));
    put(&destination, "k", content(350)).expect_err("an object of a different program, of one part");
}

#[test]
fn parallel_uploads_find_the_region_of_a_bucket_each() {
    let elsewhere = |options| {
        let keys = Some(Keys { region: "eu-west-1".into(), ..Keys::new("key", "secret") });
        Options { keys, ..options }
    };
    let (rig, destination) =
        Store::S3.open_with(elsewhere, |config| StoreConfig { uploads_in_flight: 8, download_retry: 1, ..config });
    let uploads = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|key| (key, vec![content(30).into()]));
    let uploads = uploads.map(|(key, pieces)| destination.put(key, pieces).expect("queued"));
    for upload in uploads {
        upload.wait().unwrap_or_else(|e| panic!("{e}"));
    }
    assert_eq!(stored(&rig).len(), 8);
}

/// Reads the head of a request, and returns its length in bytes of the body.
fn read_head(stream: &mut TcpStream) -> usize {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.extend(byte);
    }
    let head = String::from_utf8(head).expect("ASCII").to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    length.and_then(|length| length.parse().ok()).expect("a length")
}

#[test]
fn a_connection_with_an_unread_rest_of_a_request_is_not_used_again() {
    // More than the buffers of two sockets.
    const BYTES: usize = 48 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let endpoint = Some(format!("http://{}", listener.local_addr().expect("bound")));
    let (access_key, secret_key) = (Some("key".to_owned()), Some("secret".to_owned()));
    let s3 = S3Settings { endpoint, access_key, secret_key, no_metadata: true, ..S3Settings::default() };
    let config = StoreConfig { upload_part_bytes: BYTES, upload_bytes: BYTES, s3: Some(s3), ..small() };
    let rig = Rig::with(Options::default(), config);
    let destination = rig.stores.open_destination("s3://bucket/folder").expect("valid");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut refused, _) = listener.accept().expect("a connection");
            read_head(&mut refused);
            refused.write_all(b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n").expect("sent");
            let (mut stream, _) = listener.accept().expect("a second connection");
            let length = read_head(&mut stream) as u64;
            std::io::copy(&mut (&mut stream).take(length), &mut std::io::sink()).expect("a body");
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("sent");
        });
        destination.put("k", vec![vec![0; BYTES].into()]).expect("queued").wait().expect("stored");
    });
    assert_eq!(rig.count("store_retries"), 1);
}
