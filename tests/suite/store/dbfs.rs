//! Volumes of Databricks: tokens of users and service principals.

use crate::rig::{Rig, config, content};
use forebay_loader::ErrorKind;
use forebay_loader::store::{DbfsSettings, FetchRequest, Remote, StoreConfig};
use forebay_tests::server::{Fault, Issuer, ObjectServer, Options, Rule};

/// Creates a rig with a store configured for its own server, which accepts "dapi" and issues tokens; `change` edits
/// the settings.
fn rig(change: impl FnOnce(&mut DbfsSettings)) -> (Rig, Remote) {
    let issuer = Issuer {
        tokens: vec!["dapi".into()],
        // "id:secret", which the service principal sends in a header.
        basic: Some("aWQ6c2VjcmV0".into()),
        ..Issuer::default()
    };
    let bucket = Some("api/2.0/fs/files/Volumes/main".into());
    let rig = Rig::of_store(Options { bucket, issuer: Some(issuer), ..Options::default() }, |url| {
        let mut dbfs = DbfsSettings { host: Some(url.to_owned()), ..DbfsSettings::default() };
        change(&mut dbfs);
        StoreConfig { dbfs: Some(dbfs), ..config() }
    });
    let remote = rig.stores.open("dbfs:/Volumes/main/some folder/ü").expect("valid");
    (rig, remote)
}

#[test]
fn a_users_token_is_sent_with_each_range() {
    let (rig, remote) = rig(|dbfs| dbfs.token = Some("dapi".into()));
    for key in ["shard.00000.mds", "a+b c&d=e%41~.mds"] {
        rig.server.put(&format!("some folder/ü/{key}"), content(350)).expect("memory");
        rig.server.script(Rule::once(".mds", Fault::CutAfter(30)));
        let fetched = remote.fetch(FetchRequest::new(key, 350)).expect("queued").wait();
        assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
    }
}

#[test]
fn a_service_principal_gets_a_token_which_is_renewed_once() {
    let (rig, remote) = rig(|dbfs| (dbfs.client_id, dbfs.client_secret) = (Some("id".into()), Some("secret".into())));
    rig.server.put("some folder/ü/a", content(350)).expect("memory");
    let fetch = || remote.fetch(FetchRequest::new("a", 350)).expect("queued").wait();
    assert_eq!(*fetch().unwrap_or_else(|e| panic!("{e}")), *content(350));
    assert_eq!(rig.server.tokens_issued(), 1);
    rig.server.revoke_tokens();
    assert_eq!(*fetch().expect("renewed"), *content(350));
    assert_eq!(rig.server.tokens_issued(), 2);
    assert_eq!(rig.count("store_retries"), 0, "no attempt is lost");
}

#[test]
fn wrong_tokens_and_missing_files_are_errors_that_name_the_fix() {
    let (private, remote) = rig(|dbfs| dbfs.token = Some("old".into()));
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::Permission);
    assert!(error.to_string().contains("check DATABRICKS_TOKEN"), "{error}");
    assert_eq!(private.server.counters().requests, 1, "not retried");
    let (_private, remote) = rig(|dbfs| (dbfs.client_id, dbfs.client_secret) = (Some("id".into()), Some("x".into())));
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert!(error.to_string().contains("responds with 400, invalid_grant"), "{error}");
    let (rig, remote) = rig(|dbfs| dbfs.token = Some("dapi".into()));
    rig.server.script(Rule::once("index", Fault::Text(403, r#"{"error_code": "PERMISSION_DENIED"}"#.into())));
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert!(error.to_string().contains("(403, PERMISSION_DENIED)"), "{error}");
    assert!(error.to_string().contains("needs READ VOLUME"), "{error}");
    let error = remote.get_small("index.json", 10).expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_redirect_to_storage_gets_no_token() {
    let (rig, remote) = rig(|dbfs| dbfs.token = Some("dapi".into()));
    let storage = ObjectServer::in_memory(Options::default()).expect("loopback");
    storage.put("x", content(10)).expect("memory");
    rig.server.script(Rule::once("index", Fault::Redirect(307, format!("{}/x", storage.url()))));
    assert_eq!(remote.get_small("index.json", 10).expect("redirected").0, content(10));
    assert!(!storage.seen()[0].has_credentials);
}
