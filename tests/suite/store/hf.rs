//! The Hugging Face hub: redirects to another server, tokens, revisions.

use crate::rig::{Rig, config, content};
use forebay_loader::ErrorKind;
use forebay_loader::store::{FetchRequest, HfSettings, Remote, StoreConfig};
use forebay_tests::server::{Fault, Hub, Issuer, ObjectServer, Options, Rule};

/// The hub, the server of its files, and the store that reads from them.
struct Set {
    rig: Rig,
    files: ObjectServer,
}

impl Set {
    /// Creates a data set that needs the token "hf_x", and settings with `token`.
    fn new(token: Option<&str>) -> Self {
        let files = ObjectServer::in_memory(Options::default()).expect("loopback");
        let hub = Hub { repository: "me/set".into(), revision: "v1%2Fa".into(), files: files.url() };
        let issuer = Issuer { tokens: vec!["hf_x".into()], ..Issuer::default() };
        let server = ObjectServer::in_memory(Options { hub: Some(hub), issuer: Some(issuer), ..Options::default() });
        let server = server.expect("loopback");
        let token = token.map(str::to_owned);
        let hf = HfSettings { endpoint: Some(server.url()), token, ..HfSettings::default() };
        let mut rig = Rig::with(Options::default(), StoreConfig { hf: Some(hf), ..config() });
        rig.server = server;
        Self { rig, files }
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        for server in [&self.rig.server, &self.files] {
            server.put(key, bytes.to_vec()).expect("memory");
        }
    }

    fn remote(&self) -> Remote {
        self.rig.stores.open("hf://datasets/me/set@v1%2Fa/some folder/ü").expect("valid")
    }
}

#[test]
fn files_are_fetched_from_another_server_which_gets_no_token() {
    let set = Set::new(Some("hf_x"));
    for key in ["shard.00000.mds", "a+b c&d=e%41~.mds"] {
        set.put(&format!("some folder/ü/{key}"), &content(350));
        let fetched = set.remote().fetch(FetchRequest::new(key, 350)).expect("queued").wait();
        assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
    }
    set.put("some folder/ü/index.json", &content(10));
    assert_eq!(set.remote().get_small("index.json", 10).expect("of the hub").0, content(10));
    assert!(set.files.seen().iter().all(|seen| !seen.has_credentials && seen.if_match.is_none()));
    assert_eq!(set.files.counters().gets, 8, "four ranges of each file");
    assert!(set.rig.server.seen().iter().all(|seen| seen.has_credentials && seen.if_match.is_none()));
}

#[test]
fn the_hub_names_the_version() {
    let set = Set::new(Some("hf_x"));
    set.put("some folder/ü/a", &content(350));
    // The other server may name one version differently.
    set.files.script(Rule::once("/a", Fault::OtherETag));
    let fetch = || set.remote().fetch(FetchRequest::new("a", 350)).expect("queued").wait();
    assert_eq!(*fetch().unwrap_or_else(|e| panic!("{e}")), *content(350));
    set.rig.server.script(Rule::once("/a", Fault::OtherETag).after(1));
    assert_eq!(fetch().expect_err("changed").kind(), ErrorKind::Stale);
}

#[test]
fn a_range_is_resumed_through_the_hub() {
    let set = Set::new(Some("hf_x"));
    set.put("some folder/ü/a", &content(100));
    set.files.script(Rule::once("/a", Fault::CutAfter(30)));
    let fetched = set.remote().fetch(FetchRequest::new("a", 100)).expect("queued").wait().expect("resumed");
    assert_eq!(*fetched, *content(100));
    assert_eq!(set.files.seen()[1].range.as_deref(), Some("bytes=30-99"));
    assert_eq!(set.rig.server.counters().requests, 2);
}

#[test]
fn what_is_missing_or_private_is_an_error_that_names_the_fix() {
    let set = Set::new(Some("hf_x"));
    let small = |remote: &str| set.rig.stores.open(remote).expect("valid").get_small("index.json", 10);
    for (remote, kind, hint) in [
        ("hf://datasets/me/set@v1%2Fa/x", ErrorKind::NotFound, "there is no such object (404, EntryNotFound)"),
        ("hf://datasets/me/set@v2", ErrorKind::NotFound, "data set me/set has no revision v2"),
        (
            "hf://datasets/me/other",
            ErrorKind::Permission,
            "there is no data set me/other, or HF_TOKEN has no access to it",
        ),
    ] {
        let error = small(remote).expect_err(remote);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
    let gated = Fault::Text(403, r#"{"error_code": "GatedRepo"}"#.into());
    set.rig.server.script(Rule::once("index", gated));
    let error = small("hf://datasets/me/set").expect_err("gated");
    assert!(error.to_string().contains("request access on http"), "{error}");
    let expired = Set::new(Some("hf_old"));
    let error = expired.remote().get_small("index.json", 10).expect_err("expired");
    assert!(error.to_string().contains("HF_TOKEN is not valid or has expired"), "{error}");
    let without = Set::new(None);
    let error = without.remote().get_small("index.json", 10).expect_err("private");
    assert!(error.to_string().contains("set HF_TOKEN or run `hf auth login`"), "{error}");
}

#[test]
fn an_offline_hub_is_not_asked() {
    let hf = HfSettings { is_offline: true, ..HfSettings::default() };
    let rig = Rig::with(Options::default(), StoreConfig { hf: Some(hf), ..config() });
    let error = rig.stores.open("hf://datasets/me/set").expect_err("offline");
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("HF_HUB_OFFLINE"), "{error}");
}
