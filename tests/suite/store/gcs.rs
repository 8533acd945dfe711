//! Google Cloud Storage: tokens that a server issues and checks, all sources of credentials.

use crate::rig::{Rig, config, content};
use forebay_loader::ErrorKind;
use forebay_loader::store::{FetchRequest, GcsSettings, Remote, StoreConfig};
use forebay_tests::server::{Fault, Issuer, Keys, ObjectServer, Options, Rule, ServiceAccount};
use serde_json::json;

/// Options of a server that accepts only tokens of `issuer`.
fn options(issuer: Issuer) -> Options {
    Options { bucket: Some("bucket".into()), issuer: Some(issuer), ..Options::default() }
}

/// Creates a rig with a store configured for its own server; `change` edits the settings, for the server's address.
fn rig(options: Options, change: impl FnOnce(&mut GcsSettings, &str)) -> (Rig, Remote) {
    let rig = Rig::of_store(options, |url| {
        let mut gcs = GcsSettings { endpoint: Some(url.to_owned()), no_metadata: true, ..GcsSettings::default() };
        change(&mut gcs, url);
        StoreConfig { gcs: Some(gcs), ..config() }
    });
    let remote = rig.stores.open("gs://bucket/some folder/ü").expect("valid");
    (rig, remote)
}

/// Rig of a service account.
fn service_account() -> (Rig, Remote) {
    let account = ServiceAccount::new("trainer@project.iam.gserviceaccount.com");
    let issuer = Issuer { account: Some(account.clone()), prefix: "ya29.".into(), ..Issuer::default() };
    rig(options(issuer), |gcs, url| gcs.credentials = Some(account.credentials(url)))
}

#[test]
fn a_service_account_gets_one_token_for_all_requests() {
    let (rig, remote) = service_account();
    for key in ["shard.00000.mds", "a+b c&d=e%41~.mds", "tiefer/ordner/ü"] {
        rig.server.put(&format!("some folder/ü/{key}"), content(350)).expect("memory");
        let fetched = remote.fetch(FetchRequest::new(key, 350)).expect("queued").wait();
        assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
    }
    assert_eq!(rig.server.tokens_issued(), 1);
}

#[test]
fn an_expired_token_is_renewed_once() {
    let (rig, remote) = service_account();
    rig.server.put("some folder/ü/shard", content(350)).expect("memory");
    let fetch = || remote.fetch(FetchRequest::new("shard", 350)).expect("queued").wait().expect("fetched");
    assert_eq!(*fetch(), *content(350));
    rig.server.revoke_tokens();
    assert_eq!(*fetch(), *content(350));
    assert_eq!(rig.server.tokens_issued(), 2, "four ranges share the new token");
    assert_eq!(rig.count("store_retries"), 0, "no attempt is lost");
    rig.clock.advance(std::time::Duration::from_secs(3400));
    assert_eq!(*fetch(), *content(350));
    assert_eq!(rig.server.tokens_issued(), 3, "a token is renewed before it expires");
}

#[test]
fn a_token_that_is_rejected_at_once_is_a_final_error() {
    let (rig, remote) = service_account();
    rig.server.script(Rule::always("index", Fault::Status(401, None)));
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    assert_eq!(rig.server.tokens_issued(), 2);
    let requests = rig.server.seen().iter().filter(|seen| seen.path.contains("index")).count();
    assert_eq!(requests, 2);
}

#[test]
fn a_resumed_range_has_its_token() {
    let (rig, remote) = service_account();
    rig.server.put("some folder/ü/a", content(100)).expect("memory");
    rig.server.script(Rule::once("/a", Fault::CutAfter(30)));
    let fetched = remote.fetch(FetchRequest::new("a", 100)).expect("queued").wait().expect("resumed");
    assert_eq!(*fetched, *content(100));
    assert!(rig.server.seen().iter().any(|seen| seen.range.as_deref() == Some("bytes=30-99")));
}

#[test]
fn a_wrong_key_is_rejected_with_the_token_services_code() {
    let right = ServiceAccount::new("trainer@project");
    let wrong = ServiceAccount::new("trainer@project");
    let issuer = Issuer { account: Some(right), ..Issuer::default() };
    let (rig, remote) = rig(options(issuer), |gcs, url| gcs.credentials = Some(wrong.credentials(url)));
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    assert!(
        error.to_string().contains("responds with 400, invalid_grant; check them and this machine's clock"),
        "{error}"
    );
    assert_eq!(rig.server.counters().requests, 1, "not retried");
}

#[test]
fn users_clusters_and_impersonated_accounts_get_tokens() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("identity");
    std::fs::write(&file, r#"{"id_token": "subject"}"#).expect("written");
    let secrets = [("refresh_token", "refresh"), ("subject_token", "subject")];
    let secrets: Vec<_> = secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let user = |url: &str| {
        json!({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "refresh",
            "token_uri": format!("{url}/token")})
    };
    let external = |url: &str| {
        json!({"type": "external_account", "audience": "//iam.googleapis.com/pool",
            "token_url": format!("{url}/v1/token"), "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "credential_source": {"file": file, "format": {"type": "json", "subject_token_field_name": "id_token"}}})
    };
    let with_role = |url: &str, mut document: serde_json::Value| {
        let address = format!("{url}/v1/projects/-/serviceAccounts/trainer@project:generateAccessToken");
        document["service_account_impersonation_url"] = address.into();
        document
    };
    let impersonated = |url: &str| {
        let mut document = with_role(url, json!({"type": "impersonated_service_account"}));
        document["source_credentials"] = user(url);
        document
    };
    let of_role = |url: &str| with_role(url, external(url));
    let documents: [&dyn Fn(&str) -> serde_json::Value; 4] = [&user, &external, &of_role, &impersonated];
    for (document, tokens) in documents.into_iter().zip([1, 1, 2, 2]) {
        let issuer = Issuer { secrets: secrets.clone(), ..Issuer::default() };
        let (rig, remote) = rig(options(issuer), |gcs, url| gcs.credentials = Some(document(url).to_string()));
        rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
        let fetched = remote.get_small("index.json", 10);
        assert_eq!(fetched.unwrap_or_else(|e| panic!("{e}")).0, content(10));
        assert_eq!(rig.server.tokens_issued(), tokens);
    }
}

#[test]
fn delegates_of_an_impersonated_account_and_the_project_of_a_workforce_are_sent() {
    let secrets = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let delegates = vec!["projects/-/serviceAccounts/middle@project".to_owned()];
    for has_delegates in [true, false] {
        let issuer =
            Issuer { secrets: secrets("refresh_token", "r"), delegates: delegates.clone(), ..Issuer::default() };
        let (rig, remote) = rig(options(issuer), |gcs, url| {
            let user = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
                "token_uri": format!("{url}/token")});
            let mut document = json!({"type": "impersonated_service_account", "source_credentials": user,
                "service_account_impersonation_url": format!("{url}/v1/x:generateAccessToken")});
            if has_delegates {
                document["delegates"] = delegates.clone().into();
            }
            gcs.credentials = Some(document.to_string());
        });
        rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
        assert_eq!(remote.get_small("index.json", 10).is_ok(), has_delegates);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("identity");
    std::fs::write(&file, "subject").expect("written");
    for (project, accepted) in [("payer", true), ("stranger", false)] {
        let issuer =
            Issuer { secrets: secrets("options", "%7B%22userProject%22%3A%22payer%22%7D"), ..Issuer::default() };
        let (rig, remote) = rig(options(issuer), |gcs, url| {
            let document = json!({"type": "external_account", "audience": "a", "token_url": format!("{url}/v1/token"),
                "subject_token_type": "urn:ietf:params:oauth:token-type:id_token", "credential_source": {"file": file},
                "workforce_pool_user_project": project});
            gcs.credentials = Some(document.to_string());
        });
        rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
        assert_eq!(remote.get_small("index.json", 10).is_ok(), accepted);
    }
}

#[test]
fn an_object_that_the_store_unpacks_is_whole_or_an_error_that_names_the_cause() {
    let (rig, remote) = service_account();
    rig.server.put("some folder/ü/shard", content(350)).expect("memory");
    let fetch = |len| remote.fetch(FetchRequest::new("shard", len)).expect("queued").wait();
    rig.server.script(Rule::always("shard", Fault::Unpacked));
    // The index may have the length before it was packed, or after.
    assert_eq!(*fetch(350).unwrap_or_else(|e| panic!("{e}")), *content(350));
    for len in [340, 349, 351, 500] {
        let error = fetch(len).expect_err("different bytes");
        assert!(error.to_string().contains("stored with a Content-Encoding"), "{error}");
    }
}

#[test]
fn an_index_that_the_store_sends_packed_is_an_error_that_names_the_cause() {
    let (rig, remote) = service_account();
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    rig.server.script(Rule::always("index", Fault::Encoded("gzip")));
    let error = remote.get_whole("index.json", 10, |bytes| bytes.starts_with(b"{")).expect_err("packed");
    assert!(error.to_string().contains("sent with Content-Encoding: gzip"), "{error}");
}

#[test]
fn an_hmac_key_signs_requests() {
    let keys = Keys::of_google("GOOG1EXAMPLE", "secret");
    let signed = || Options { bucket: Some("bucket".into()), keys: Some(keys.clone()), ..Options::default() };
    let with_secret = |secret: &str| {
        let secret = secret.to_owned();
        rig(signed(), |gcs, _| {
            (gcs.access_key, gcs.secret_key) = (Some("GOOG1EXAMPLE".into()), Some(secret));
            gcs.user_project = Some("payer:x".into());
            // A file that is not used is not parsed.
            gcs.credentials = Some("no document".into());
        })
    };
    let (rig, remote) = with_secret("secret");
    rig.server.put("some folder/ü/shard", content(350)).expect("memory");
    let fetched = remote.fetch(FetchRequest::new("shard", 350)).expect("queued").wait();
    assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
    assert!(
        rig.server.seen().iter().all(|seen| seen.path.ends_with("?userProject=payer%3Ax")),
        "{:?}",
        rig.server.seen()
    );
    let (_rig, remote) = with_secret("wrong");
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::Permission);
    assert!(
        error.to_string().contains("SignatureDoesNotMatch") && error.to_string().contains("check GCS_SECRET"),
        "{error}"
    );
}

#[test]
fn the_machines_account_is_found_once_and_its_loss_is_temporary() {
    let issuer = Issuer { has_metadata: true, lifetime_s: 100, ..Issuer::default() };
    let (rig, remote) = rig(options(issuer), |gcs, url| {
        (gcs.no_metadata, gcs.metadata_host) = (false, Some(url.trim_start_matches("http://").into()));
    });
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    for _ in 0..2 {
        assert_eq!(remote.get_small("index.json", 10).unwrap_or_else(|e| panic!("{e}")).0, content(10));
    }
    assert_eq!(rig.server.tokens_issued(), 1);
    rig.server.revoke_tokens();
    assert_eq!(remote.get_small("index.json", 10).expect("renewed").0, content(10));
    assert_eq!(rig.server.tokens_issued(), 2);
    rig.clock.advance(std::time::Duration::from_secs(60));
    rig.server.script(Rule::always("/token", Fault::Status(503, None)));
    let error = remote.get_small("index.json", 10).expect_err("no token");
    assert!(error.to_string().contains("cannot be renewed") && error.to_string().contains("attempt 3 of 3"), "{error}");
}

#[test]
fn a_failed_response_of_the_metadata_service_is_retried() {
    let issuer = Issuer { has_metadata: true, ..Issuer::default() };
    let (rig, remote) = rig(options(issuer), |gcs, url| {
        (gcs.no_metadata, gcs.metadata_host) = (false, Some(url.trim_start_matches("http://").into()));
    });
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    rig.server.script(Rule::once("/token", Fault::Status(503, None)));
    assert_eq!(remote.get_small("index.json", 10).unwrap_or_else(|e| panic!("{e}")).0, content(10));
}

#[test]
fn without_credentials_a_public_bucket_is_read_with_a_note() {
    let public = Options { bucket: Some("bucket".into()), ..Options::default() };
    let (rig, remote) = rig(public, |_, _| {});
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    assert_eq!(remote.get_small("index.json", 10).expect("public").0, content(10));
    assert!(!rig.server.seen()[0].has_credentials);
    let (_private, remote) = self::rig(options(Issuer::default()), |_, _| {});
    let error = remote.get_small("index.json", 10).expect_err("private");
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    assert!(error.to_string().contains("set GOOGLE_APPLICATION_CREDENTIALS"), "{error}");
}

#[test]
fn a_missing_bucket_is_named() {
    let (rig, remote) = service_account();
    let text = "<Error><Code>NoSuchBucket</Code></Error>".to_owned();
    rig.server.script(Rule::once("index", Fault::Text(404, text)));
    let error = remote.get_small("index.json", 10).expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("there is no bucket bucket"), "{error}");
    let error = remote.get_small("index.json", 10).expect_err("missing");
    assert!(error.to_string().contains("there is no such object (404, NoSuchKey)"), "{error}");
}

#[test]
fn frequent_troubles_have_a_hint() {
    let keys = Keys::of_google("GOOG1EXAMPLE", "secret");
    let options = Options { bucket: Some("bucket".into()), keys: Some(keys), ..Options::default() };
    let (rig, remote) = rig(options, |gcs, _| {
        (gcs.access_key, gcs.secret_key) = (Some("GOOG1EXAMPLE".into()), Some("secret".into()));
    });
    for (status, code, hint) in [
        (403, "RequestTimeTooSkewed", "set this machine's clock"),
        (403, "InvalidAccessKeyId", "check GCS_KEY"),
        (400, "UserProjectMissing", "set GOOGLE_CLOUD_QUOTA_PROJECT"),
        (404, "NoSuchBucket", "there is no bucket bucket"),
    ] {
        rig.server.script(Rule::once("index", Fault::Text(status, format!("<Error><Code>{code}</Code></Error>"))));
        let error = remote.get_small("index.json", 10).expect_err("rejected");
        assert!(
            error.to_string().contains(&format!("({status}, {code})")) && error.to_string().contains(hint),
            "{error}"
        );
    }
}

#[test]
fn tokens_are_not_sent_to_a_second_server() {
    let (rig, remote) = service_account();
    let other = ObjectServer::in_memory(Options::default()).expect("loopback");
    for status in [301, 302, 303, 307, 308] {
        rig.server.script(Rule::once("index", Fault::Redirect(status, format!("{}/x", other.url()))));
        let error = remote.get_small("index.json", 10).expect_err("a different server");
        assert_eq!(error.kind(), ErrorKind::Permission);
        assert!(error.to_string().contains("redirects to a different server, which may not have"), "{error}");
    }
    assert_eq!(other.seen(), [], "it is not asked at all");
}
