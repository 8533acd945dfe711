//! The Hugging Face hub: redirects to a second server, tokens, revisions.

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
        Self::with_commit(token, "")
    }

    fn with_commit(token: Option<&str>, commit: &str) -> Self {
        let issuer = Issuer { tokens: vec!["hf_x".into()], ..Issuer::default() };
        Self::with(token, commit, Some(issuer))
    }

    /// Creates a data set that needs no token.
    fn public(token: Option<&str>) -> Self {
        Self::with(token, "", None)
    }

    fn with(token: Option<&str>, commit: &str, issuer: Option<Issuer>) -> Self {
        let files = ObjectServer::in_memory(Options::default()).expect("loopback");
        let hub =
            Hub { repository: "me/set".into(), revision: "v1%2Fa".into(), files: files.url(), commit: commit.into() };
        let rig = Rig::of_store(Options { hub: Some(hub), issuer, ..Options::default() }, |url| {
            let (endpoint, token) = (Some(url.to_owned()), token.map(str::to_owned));
            StoreConfig { hf: Some(HfSettings { endpoint, token, ..HfSettings::default() }), ..config() }
        });
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
fn files_are_fetched_from_a_second_server_which_gets_no_token() {
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
    // The second server may name one version differently.
    set.files.script(Rule::once("/a", Fault::OtherETag));
    let fetched = set.remote().fetch(FetchRequest::new("a", 350)).expect("queued").wait();
    assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
    // The hub is asked again because the address has ended, and has a different version now.
    set.files.script(Rule::once("/a", Fault::Status(403, None)).after(1));
    set.rig.server.script(Rule::once("/a", Fault::OtherETag).after(1));
    let fetched = set.remote().fetch(FetchRequest::new("a", 350)).expect("queued").wait();
    assert_eq!(fetched.expect_err("changed").kind(), ErrorKind::Stale);
}

#[test]
fn the_hub_is_asked_once_for_an_object_with_parts_that_are_resumed_elsewhere() {
    let set = Set::new(Some("hf_x"));
    let remote = set.remote();
    for key in ["a", "b"] {
        set.put(&format!("some folder/ü/{key}"), &content(350));
        set.files.script(Rule::once(format!("/{key}"), Fault::CutAfter(30)));
        let fetched = remote.fetch(FetchRequest::new(key, 350)).expect("queued").wait().expect("resumed");
        assert_eq!(*fetched, *content(350));
    }
    assert_eq!((set.rig.server.counters().requests, set.files.counters().gets), (2, 10));
}

#[test]
fn an_address_that_has_ended_is_renewed_without_a_lost_attempt() {
    let set = Set::new(Some("hf_x"));
    let remote = set.remote();
    set.put("some folder/ü/a", &content(350));
    let fetch = || remote.fetch(FetchRequest::new("a", 350)).expect("queued").wait().expect("fetched");
    assert_eq!(*fetch(), *content(350));
    set.files.script(Rule::once("/a", Fault::Status(403, None)));
    assert_eq!(*fetch(), *content(350));
    assert_eq!((set.rig.server.counters().requests, set.rig.count("store_retries")), (2, 0));
    // A rejection of a new address is final.
    set.files.script(Rule::always("/a", Fault::Status(403, None)));
    let error = remote.fetch(FetchRequest::new("a", 350)).expect("queued").wait().expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::Permission);
}

#[test]
fn all_requests_are_for_the_commit_of_the_first_one() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let set = Set::with_commit(Some("hf_x"), commit);
    let remote = set.remote();
    for key in ["index.json", "a"] {
        set.put(&format!("some folder/ü/{key}"), &content(10));
        assert_eq!(remote.get_small(key, 10).unwrap_or_else(|e| panic!("{e}")).0, content(10));
    }
    let seen = set.rig.server.seen();
    let revisions: Vec<_> = seen.iter().map(|seen| seen.path.split('/').nth(5).expect("a revision")).collect();
    assert_eq!(revisions, ["v1%2Fa", commit]);
    let removed = Fault::Text(404, r#"{"error_code": "RevisionNotFound"}"#.into());
    set.rig.server.script(Rule::once("/b", removed));
    let error = remote.get_small("b", 10).expect_err("removed");
    assert!(error.to_string().contains("was removed: start again"), "{error}");
}

#[test]
fn a_limit_of_requests_has_a_hint() {
    for (token, hint) in [(Some("hf_x"), "use larger shards"), (None, "set HF_TOKEN")] {
        let set = Set::public(token);
        set.rig.server.script(Rule::always("index", Fault::Status(429, None)));
        let error = set.remote().get_small("index.json", 10).expect_err("busy");
        assert!(error.to_string().contains(hint) && error.to_string().contains("3 of 3"), "{error}");
    }
}

#[test]
fn a_missing_or_private_data_set_is_an_error_that_names_the_fix() {
    let set = Set::new(Some("hf_x"));
    let small = |remote: &str| set.rig.stores.open(remote).expect("valid").get_small("index.json", 10);
    for (remote, kind, hint) in [
        ("hf://datasets/me/set@v1%2Fa/x", ErrorKind::NotFound, "there is no such object (404, EntryNotFound)"),
        ("hf://datasets/me/set@v2", ErrorKind::NotFound, "data set me/set has no revision v2"),
        (
            "hf://datasets/me/absent",
            ErrorKind::Permission,
            "there is no data set me/absent, or HF_TOKEN has no access to it",
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
