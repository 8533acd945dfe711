//! S3: signatures that a server checks, all sources of credentials.

use crate::rig::{Rig, config, content};
use forebay_loader::ErrorKind;
use forebay_loader::store::{FetchRequest, Remote, S3Settings, StoreConfig};
use forebay_tests::server::{Fault, Keys, ObjectServer, Options, Rule, TEST_KEYS};

/// Options of a server with a bucket that accepts only signed requests.
fn options() -> Options {
    Options { bucket: Some("bucket".into()), keys: Some(Keys::new(TEST_KEYS.0, TEST_KEYS.1)), ..Options::default() }
}

/// Creates a rig with a store configured for its own server, with the keys and without the machine's credentials;
/// `change` edits the settings.
fn rig(options: Options, change: impl FnOnce(&mut S3Settings)) -> (Rig, Remote) {
    let rig = Rig::of_store(options, |url| {
        let mut s3 = S3Settings {
            endpoint: Some(url.to_owned()),
            access_key: Some(TEST_KEYS.0.into()),
            secret_key: Some(TEST_KEYS.1.into()),
            no_metadata: true,
            ..S3Settings::default()
        };
        change(&mut s3);
        StoreConfig { s3: Some(s3), ..config() }
    });
    let remote = rig.stores.open("s3://bucket/some folder/ü").expect("valid");
    (rig, remote)
}

#[test]
fn signed_requests_pass_a_server_that_checks_them() {
    let (rig, remote) = rig(options(), |_| {});
    for key in ["shard.00000.mds", "a+b c&d=e%41~.mds", "tiefer/ordner/ü"] {
        rig.server.put(&format!("some folder/ü/{key}"), content(350)).expect("memory");
        let fetched = remote.fetch(FetchRequest::new(key, 350)).expect("queued").wait();
        assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
    }
    assert_eq!(rig.server.counters().bytes, 3 * 350);
}

#[test]
fn a_resumed_range_is_signed_again() {
    let (rig, remote) = rig(options(), |_| {});
    rig.server.put("some folder/ü/a", content(100)).expect("memory");
    rig.server.script(Rule::once("a", Fault::CutAfter(30)));
    let fetched = remote.fetch(FetchRequest::new("a", 100)).expect("queued").wait().expect("resumed");
    assert_eq!(*fetched, *content(100));
    let seen = rig.server.seen();
    assert!(seen[1].range.as_deref() == Some("bytes=30-99") && seen[1].if_match.is_some(), "{seen:?}");
}

#[test]
fn a_wrong_key_is_rejected_with_the_server_s_explanation() {
    let (rig, remote) = rig(options(), |s3| s3.secret_key = Some("wrong".into()));
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::Permission);
    assert!(error.to_string().contains("SignatureDoesNotMatch"), "{error}");
    assert_eq!(rig.server.counters().requests, 1, "not retried");
}

#[test]
fn temporary_keys_have_their_token() {
    let keys = Keys { token: Some("session/token==".into()), ..Keys::new(TEST_KEYS.0, TEST_KEYS.1) };
    let signed = Options { keys: Some(keys), ..options() };
    let (rig, remote) = rig(signed, |s3| s3.token = Some("session/token==".into()));
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    assert_eq!(remote.get_small("index.json", 10).expect("signed").0, content(10));
}

#[test]
fn without_credentials_a_public_bucket_is_read_unsigned_with_a_note() {
    let public = Options { keys: None, ..options() };
    let (rig, remote) = rig(public, |s3| (s3.access_key, s3.secret_key) = (None, None));
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    assert_eq!(remote.get_small("index.json", 10).expect("public").0, content(10));
    let (private, remote) = self::rig(options(), |s3| (s3.access_key, s3.secret_key) = (None, None));
    let error = remote.get_small("index.json", 10).expect_err("private");
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    assert!(error.to_string().contains("no credentials were found"), "{error}");
    drop(private);
}

/// Server with the metadata service of a machine with a role that has temporary keys.
fn metadata() -> ObjectServer {
    let metadata = ObjectServer::in_memory(Options::default()).expect("loopback");
    let role = "latest/meta-data/iam/security-credentials/";
    metadata.put("latest/api/token", "token").expect("memory");
    metadata.put(role, "trainer").expect("memory");
    let document = format!(
        r#"{{"Code":"Success","AccessKeyId":"{}","SecretAccessKey":"{}","Token":"session","Expiration":"2099-01-01T00:00:00Z"}}"#,
        TEST_KEYS.0, TEST_KEYS.1
    );
    metadata.put(&format!("{role}trainer"), document).expect("memory");
    metadata
}

/// Rig that uses a metadata service.
fn rig_of_machine(metadata: &ObjectServer, keys: Option<Keys>) -> (Rig, Remote) {
    rig(Options { keys, ..options() }, |s3| {
        (s3.access_key, s3.secret_key, s3.no_metadata) = (None, None, false);
        s3.providers = vec![("AWS_METADATA_ENDPOINT".into(), metadata.url())];
    })
}

/// Keys of the machine's role.
fn keys_of_role() -> Keys {
    Keys { token: Some("session".into()), ..Keys::new(TEST_KEYS.0, TEST_KEYS.1) }
}

#[test]
fn a_failure_of_the_metadata_service_is_retried_and_only_its_absence_is_final() {
    for fault in [Fault::Status(503, None), Fault::Status(429, None), Fault::CutAfter(2)] {
        let metadata = metadata();
        metadata.script(Rule::once("latest", fault.clone()));
        let (rig, remote) = rig_of_machine(&metadata, Some(keys_of_role()));
        rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
        let fetched = remote.get_small("index.json", 10);
        assert_eq!(fetched.unwrap_or_else(|e| panic!("{fault:?}: {e}")).0, content(10));
        assert!(rig.server.seen().iter().all(|seen| seen.has_credentials), "{fault:?}");
    }
    for status in [403, 404, 501] {
        let metadata = metadata();
        metadata.script(Rule::always("latest", Fault::Status(status, None)));
        let (rig, remote) = rig_of_machine(&metadata, None);
        rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
        assert_eq!(remote.get_small("index.json", 10).expect("public").0, content(10));
        assert_eq!(metadata.counters().requests, 1);
    }
    let metadata = metadata();
    metadata.script(Rule::always("latest", Fault::Status(500, None)));
    let (_rig, remote) = rig_of_machine(&metadata, None);
    let error = remote.get_small("index.json", 10).expect_err("no keys");
    assert!(error.to_string().contains("credentials for S3 cannot be fetched"), "{error}");
    assert!(error.to_string().contains("responds with 500") && error.to_string().contains("3 of 3"), "{error}");
}

#[test]
fn credentials_come_from_the_metadata_service_if_there_is_one() {
    let metadata = metadata();
    let (rig, remote) = rig_of_machine(&metadata, Some(keys_of_role()));
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    assert_eq!(
        remote.get_small("index.json", 10).unwrap_or_else(|e| panic!("{e}\n{:?}", metadata.seen())).0,
        content(10)
    );
    let requests = metadata.counters().requests;
    assert_eq!(remote.get_small("index.json", 10).expect("signed").0, content(10));
    assert_eq!(metadata.counters().requests, requests, "credentials are kept until they expire");
}

#[test]
fn the_region_is_learned_from_the_server() {
    let keys = Keys { region: "eu-central-1".into(), ..Keys::new(TEST_KEYS.0, TEST_KEYS.1) };
    let (rig, remote) = rig(Options { keys: Some(keys), ..options() }, |_| {});
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    for _ in 0..2 {
        assert_eq!(remote.get_small("index.json", 10).expect("right region").0, content(10));
    }
    assert_eq!(rig.server.counters().requests, 3, "the region is learned once");
}

#[test]
fn credentials_are_not_sent_to_a_second_server() {
    let keys = Keys { token: Some("session/token==".into()), ..Keys::new(TEST_KEYS.0, TEST_KEYS.1) };
    let (rig, remote) = rig(Options { keys: Some(keys), ..options() }, |s3| s3.token = Some("session/token==".into()));
    let other = ObjectServer::in_memory(Options::default()).expect("loopback");
    other.put("x", content(10)).expect("memory");
    rig.server.put("x", content(10)).expect("memory");
    rig.server.script(Rule::once("index", Fault::Redirect(307, format!("{}/bucket/x", rig.server.url()))));
    assert_eq!(remote.get_small("index.json", 10).expect("the same server").0, content(10));
    for status in [301, 302, 303, 307, 308] {
        rig.server.script(Rule::once("index", Fault::Redirect(status, format!("{}/x", other.url()))));
        let error = remote.get_small("index.json", 10).expect_err("a different server");
        assert_eq!(error.kind(), ErrorKind::Permission);
        assert!(error.to_string().contains("redirects to a different server, which may not have"), "{error}");
    }
    assert_eq!(other.seen(), [], "it is not asked at all");
}

#[test]
fn unsigned_requests_follow_a_redirect_to_a_second_server() {
    let (rig, remote) = rig(Options { keys: None, ..options() }, |s3| s3.anonymous = true);
    let other = ObjectServer::in_memory(Options::default()).expect("loopback");
    other.put("x", content(10)).expect("memory");
    rig.server.script(Rule::once("index", Fault::Redirect(307, format!("{}/x", other.url()))));
    assert_eq!(remote.get_small("index.json", 10).expect("public").0, content(10));
    assert!(!other.seen()[0].has_credentials);
}

#[test]
fn a_disabled_metadata_service_is_not_asked_where_half_of_a_second_source_is_named() {
    for half in ["AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE"] {
        let metadata = ObjectServer::in_memory(Options::default()).expect("loopback");
        let (rig, remote) = rig(Options { keys: None, ..options() }, |s3| {
            (s3.access_key, s3.secret_key) = (None, None);
            s3.providers = vec![("AWS_METADATA_ENDPOINT".into(), metadata.url()), (half.into(), metadata.url())];
        });
        rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
        let fetched = remote.get_small("index.json", 10);
        assert_eq!(metadata.counters().requests, 0, "{half}");
        assert_eq!(fetched.expect("public").0, content(10));
    }
}
