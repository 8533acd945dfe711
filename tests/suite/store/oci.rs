//! Oracle's object storage: signatures that a server checks.

use crate::rig::{Rig, config, content};
use forebay_loader::ErrorKind;
use forebay_loader::store::{FetchRequest, OciSettings, Remote, StoreConfig};
use forebay_tests::server::{Fault, ObjectServer, OciKey, Options, Rule, ServiceAccount};

/// Options of a server with a bucket; requests must be signed with `key` under the name `id`.
fn options(id: &str, key: &ServiceAccount) -> Options {
    let oci = Some(OciKey { id: id.into(), key: key.clone() });
    Options { bucket: Some("n/space/b/bucket/o".into()), oci, ..Options::default() }
}

/// Creates a rig with a store configured for its own server; `change` edits the settings.
fn rig(options: Options, key: &ServiceAccount, change: impl FnOnce(&mut OciSettings)) -> (Rig, Remote) {
    let name = |text: &str| Some(text.to_owned());
    let rig = Rig::of_store(options, |url| {
        let mut oci = OciSettings {
            endpoint: name(url),
            tenancy: name("t"),
            user: name("u"),
            fingerprint: name("f:0"),
            key: Some(key.private_key.clone()),
            ..OciSettings::default()
        };
        change(&mut oci);
        StoreConfig { oci: Some(oci), ..config() }
    });
    let remote = rig.stores.open("oci://bucket@space/some folder/ü").expect("valid");
    (rig, remote)
}

#[test]
fn signed_requests_pass_a_server_that_checks_them() {
    let key = ServiceAccount::new("u");
    let (rig, remote) = rig(options("t/u/f:0", &key), &key, |_| {});
    for key in ["shard.00000.mds", "a+b c&d=e%41~.mds", "tiefer/ordner/ü"] {
        rig.server.put(&format!("some folder/ü/{key}"), content(350)).expect("memory");
        rig.server.script(Rule::once(".mds", Fault::CutAfter(30)));
        let fetched = remote.fetch(FetchRequest::new(key, 350)).expect("queued").wait();
        assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
    }
}

#[test]
fn a_session_is_read_again_for_each_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "old\n").expect("written");
    let key = ServiceAccount::new("u");
    let (rig, remote) = rig(options("ST$new", &key), &key, |oci| oci.security_token_file = Some(file.clone()));
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    let error = remote.get_small("index.json", 10).expect_err("ended");
    assert!(error.to_string().contains("that the session has not ended"), "{error}");
    std::fs::write(&file, "new\n").expect("written");
    assert_eq!(remote.get_small("index.json", 10).expect("renewed").0, content(10));
}

#[test]
fn a_new_session_has_a_new_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let (token, file) = (folder.path().join("token"), folder.path().join("key.pem"));
    let (old, new) = (ServiceAccount::new("u"), ServiceAccount::new("u"));
    let write = |text: &str, key: &ServiceAccount| {
        std::fs::write(&file, &key.private_key).expect("written");
        std::fs::write(&token, text).expect("written");
    };
    write("old", &old);
    let (rig, remote) = rig(options("ST$new", &new), &old, |oci| {
        (oci.security_token_file, oci.key_file) = (Some(token.clone()), Some(file.clone()));
    });
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    remote.get_small("index.json", 10).expect_err("ended");
    write("new", &new);
    assert_eq!(remote.get_small("index.json", 10).unwrap_or_else(|e| panic!("{e}")).0, content(10));
}

#[test]
fn wrong_and_missing_keys_and_buckets_are_errors_that_name_the_fix() {
    let (right, wrong) = (ServiceAccount::new("u"), ServiceAccount::new("u"));
    let (private, remote) = rig(options("t/u/f:0", &right), &wrong, |_| {});
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::Permission);
    assert!(error.to_string().contains("(401, NotAuthenticated)") && error.to_string().contains("clock"), "{error}");
    assert_eq!(private.server.counters().requests, 1, "not retried");
    let (_private, remote) = rig(options("t/u/f:0", &right), &right, |oci| oci.key = None);
    let error = remote.get_small("index.json", 10).expect_err("private");
    assert!(error.to_string().contains("run `oci setup config`"), "{error}");
    let (rig, remote) = rig(options("t/u/f:0", &right), &right, |_| {});
    rig.server.script(Rule::once("index", Fault::Text(404, r#"{"code": "BucketNotFound"}"#.into())));
    let error = remote.get_small("index.json", 10).expect_err("missing");
    assert!(error.to_string().contains("there is no bucket bucket"), "{error}");
    let other = Rig::with(Options::default(), StoreConfig { oci: Some(OciSettings::default()), ..config() });
    let error = other.stores.open("oci://bucket@space").expect_err("no region");
    assert!(error.to_string().contains("set OCI_REGION"), "{error}");
}

#[test]
fn signatures_are_not_sent_to_a_second_server() {
    let key = ServiceAccount::new("u");
    let (rig, remote) = rig(options("t/u/f:0", &key), &key, |_| {});
    let other = ObjectServer::in_memory(Options::default()).expect("loopback");
    rig.server.script(Rule::once("index", Fault::Redirect(302, format!("{}/x", other.url()))));
    let error = remote.get_small("index.json", 10).expect_err("a different server");
    assert_eq!(error.kind(), ErrorKind::Permission);
    assert_eq!(other.seen(), [], "it is not asked at all");
}
