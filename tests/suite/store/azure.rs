//! Azure: signatures that a server checks, tokens, all sources of credentials.

use crate::rig::{Rig, config, content};
use forebay_loader::ErrorKind;
use forebay_loader::store::{AzureSettings, FetchRequest, Remote, StoreConfig};
use forebay_tests::server::{AzureAccount, Fault, Issuer, ObjectServer, Options, Rule};

/// The key "key" in base 64.
const KEY: &str = "a2V5";

const SAS_TOKEN: &str = "sv=2023-11-03&sp=r&sig=a%2Bb%2Fc%3D%3D";

/// Options of a server with the account `store` and the container `box`.
fn options() -> Options {
    Options { bucket: Some("store/box".into()), ..Options::default() }
}

fn signed() -> Options {
    let account = AzureAccount { name: "store".into(), key: KEY.into(), sas_token: Some(SAS_TOKEN.into()) };
    Options { azure: Some(account), ..options() }
}

/// Creates a rig with a store configured for its own server; `change` edits the settings, for the server's address.
fn rig(options: Options, change: impl FnOnce(&mut AzureSettings, &str)) -> (Rig, Remote) {
    let rig = Rig::of_store(options, |url| {
        let endpoint = Some(format!("{url}/store"));
        let mut azure = AzureSettings { endpoint, no_metadata: true, ..AzureSettings::default() };
        change(&mut azure, url);
        StoreConfig { azure: Some(azure), ..config() }
    });
    let remote = rig.stores.open("azure://store.blob.core.windows.net/box/some folder/ü").expect("valid");
    (rig, remote)
}

fn with_key(azure: &mut AzureSettings, _: &str) {
    azure.account_key = Some(KEY.into());
}

#[test]
fn requests_signed_with_the_accounts_key_pass_a_server_that_checks_them() {
    let (rig, remote) = rig(signed(), with_key);
    for key in ["shard.00000.mds", "a+b c&d=e%41~.mds", "tiefer/ordner/ü"] {
        rig.server.put(&format!("some folder/ü/{key}"), content(350)).expect("memory");
        let fetched = remote.fetch(FetchRequest::new(key, 350)).expect("queued").wait();
        assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
    }
    assert_eq!(rig.server.counters().bytes, 3 * 350);
}

#[test]
fn a_host_that_is_not_azures_gets_no_request() {
    let azure = AzureSettings { account_key: Some(KEY.into()), no_metadata: true, ..AzureSettings::default() };
    let rig = Rig::with(Options::default(), StoreConfig { azure: Some(azure), ..config() });
    for remote in ["azure://evil.localhost/box/x", "azure-dl://box@store.core.windows.net.evil.example/x"] {
        let error = rig.stores.open(remote).expect_err("refused");
        assert!(error.to_string().contains("not one of Azure's"), "{error}");
    }
}

#[test]
fn a_file_system_of_data_lake_is_read_with_the_same_signatures() {
    let (rig, _) = rig(signed(), |azure, url| {
        with_key(azure, url);
        azure.account = Some("store".into());
    });
    rig.server.put("set/index.json", content(10)).expect("memory");
    for remote in ["azure-dl://box/set", "azure-dl://box@store.dfs.core.windows.net/set"] {
        let remote = rig.stores.open(remote).expect("valid");
        assert_eq!(remote.get_small("index.json", 10).unwrap_or_else(|e| panic!("{e}")).0, content(10));
    }
}

#[test]
fn a_shared_access_signature_is_sent_with_each_range() {
    let (rig, remote) = rig(signed(), |azure, _| azure.sas_token = Some(format!("?{SAS_TOKEN}")));
    rig.server.put("some folder/ü/a", content(350)).expect("memory");
    rig.server.script(Rule::once("/a", Fault::CutAfter(30)));
    let fetched = remote.fetch(FetchRequest::new("a", 350)).expect("queued").wait();
    assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
}

#[test]
fn a_resumed_range_is_signed_again() {
    let (rig, remote) = rig(signed(), with_key);
    rig.server.put("some folder/ü/a", content(100)).expect("memory");
    rig.server.script(Rule::once("/a", Fault::CutAfter(30)));
    let fetched = remote.fetch(FetchRequest::new("a", 100)).expect("queued").wait().expect("resumed");
    assert_eq!(*fetched, *content(100));
    let seen = rig.server.seen();
    assert!(seen[1].range.as_deref() == Some("bytes=30-99") && seen[1].if_match.is_some(), "{seen:?}");
}

#[test]
fn a_wrong_key_is_rejected_with_a_hint() {
    let (rig, remote) = rig(signed(), |azure, _| azure.account_key = Some("b3RoZXI=".into()));
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::Permission);
    assert!(error.to_string().contains("(403, AuthenticationFailed)"), "{error}");
    assert!(error.to_string().contains("check the account's name and key"), "{error}");
    assert_eq!(rig.server.counters().requests, 1, "not retried");
    let azure = AzureSettings { account_key: Some("not base 64".replace(' ', "")), ..AzureSettings::default() };
    let rig = Rig::with(Options::default(), StoreConfig { azure: Some(azure), ..config() });
    let error = rig.stores.open("azure://store/box").expect_err("no key");
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("must be in base 64"), "{error}");
}

#[test]
fn applications_clusters_and_machines_get_tokens_which_are_renewed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("identity");
    std::fs::write(&file, "subject").expect("written");
    let file = file.to_str().expect("text");
    let secrets = [("client_secret", "secret"), ("client_assertion", "subject")];
    let secrets: Vec<_> = secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let application = [("AZURE_CLIENT_ID", "id"), ("AZURE_TENANT_ID", "tenant"), ("AZURE_AUTHORITY_HOST", "{}/")];
    let sources = [
        [&application[..], &[("AZURE_CLIENT_SECRET", "secret")]].concat(),
        [&application[..], &[("AZURE_FEDERATED_TOKEN_FILE", file)]].concat(),
        vec![("IDENTITY_ENDPOINT", "{}/metadata/identity/oauth2/token")],
    ];
    for source in sources {
        let issuer = Issuer { secrets: secrets.clone(), has_metadata: true, ..Issuer::default() };
        let (rig, remote) = rig(Options { issuer: Some(issuer), ..options() }, |azure, url| {
            let of_server = |(name, value): &(&str, &str)| ((*name).to_owned(), value.replace("{}", url));
            azure.providers = source.iter().map(of_server).collect();
        });
        rig.server.put("some folder/ü/shard", content(350)).expect("memory");
        let fetch = || remote.fetch(FetchRequest::new("shard", 350)).expect("queued").wait();
        assert_eq!(*fetch().unwrap_or_else(|e| panic!("{source:?}: {e}")), *content(350));
        assert_eq!(*fetch().expect("fetched"), *content(350));
        assert_eq!(rig.server.tokens_issued(), 1, "{source:?}");
        rig.server.revoke_tokens();
        assert_eq!(*fetch().expect("fetched"), *content(350));
        assert_eq!(rig.server.tokens_issued(), 2, "{source:?}");
        assert_eq!(rig.count("store_retries"), 0, "no attempt is lost");
    }
}

#[test]
fn a_wrong_secret_is_rejected_with_the_token_services_code() {
    let (_rig, remote) = rig(Options { issuer: Some(Issuer::default()), ..options() }, |azure, url| {
        let pairs = [("AZURE_CLIENT_ID", "id"), ("AZURE_TENANT_ID", "tenant"), ("AZURE_CLIENT_SECRET", "wrong")];
        let pairs = [&pairs[..], &[("AZURE_AUTHORITY_HOST", url)]].concat();
        azure.providers = pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    });
    let error = remote.get_small("index.json", 10).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains("cannot be loaded") && text.contains("responds with 400, invalid_grant"), "{text}");
}

#[test]
fn without_credentials_a_public_container_is_read_with_a_note() {
    let (rig, remote) = rig(options(), |_, _| {});
    rig.server.put("some folder/ü/index.json", content(10)).expect("memory");
    assert_eq!(remote.get_small("index.json", 10).expect("public").0, content(10));
    assert!(!rig.server.seen()[0].has_credentials);
    let (_private, remote) = self::rig(signed(), |_, _| {});
    let error = remote.get_small("index.json", 10).expect_err("private");
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    assert!(error.to_string().contains("set AZURE_ACCOUNT_ACCESS_KEY"), "{error}");
}

#[test]
fn a_missing_container_and_a_missing_account_are_named() {
    let (rig, remote) = rig(signed(), with_key);
    rig.server.script(Rule::once("index", Fault::Text(404, "<Error><Code>ContainerNotFound</Code></Error>".into())));
    let error = remote.get_small("index.json", 10).expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("account store has no container box"), "{error}");
    let error = remote.get_small("index.json", 10).expect_err("missing");
    assert!(error.to_string().contains("there is no such object (404"), "{error}");
    let error = rig.stores.open("azure-dl://box/x").expect_err("no account");
    assert!(error.to_string().contains("set AZURE_ACCOUNT_NAME"), "{error}");
}

#[test]
fn frequent_troubles_have_a_hint() {
    let (rig, remote) = rig(signed(), with_key);
    for (status, code, hint) in [
        (403, "AuthenticationFailed", "this machine's clock"),
        (403, "AuthorizationPermissionMismatch", "Storage Blob Data Reader"),
        (403, "AuthorizationFailure", "network rules"),
        (404, "FilesystemNotFound", "account store has no container box"),
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
fn signatures_are_not_sent_to_a_second_server() {
    let (rig, remote) = rig(signed(), |azure, _| azure.sas_token = Some(SAS_TOKEN.into()));
    let other = ObjectServer::in_memory(Options::default()).expect("loopback");
    for status in [301, 302, 303, 307, 308] {
        rig.server.script(Rule::once("index", Fault::Redirect(status, format!("{}/x", other.url()))));
        let error = remote.get_small("index.json", 10).expect_err("a different server");
        assert_eq!(error.kind(), ErrorKind::Permission);
        assert!(error.to_string().contains("redirects to a different server, which may not have"), "{error}");
    }
    assert_eq!(other.seen(), [], "it is not asked at all");
}

/// Folder with a script instead of Azure's command line, which notes that it runs in the file `runs`.
fn command(script: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, runs) = (folder.path().join("az"), folder.path().join("runs"));
    std::fs::write(&path, format!("#!/bin/sh\necho run >> {}\n{script}\n", runs.display())).expect("written");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    (folder, path)
}

/// Number of times that the script of [`command`] has run.
fn runs(folder: &tempfile::TempDir) -> usize {
    std::fs::read_to_string(folder.path().join("runs")).map_or(0, |text| text.lines().count())
}

/// Uses the command line at `path` and the metadata service at `url`.
fn with_login(azure: &mut AzureSettings, path: &std::path::Path, url: &str) {
    azure.no_metadata = false;
    azure.login_command = Some(path.to_owned());
    azure.providers = vec![("msi_endpoint".into(), format!("{url}/metadata/identity/oauth2/token"))];
}

const CLI_TOKEN: &str = r#"echo '{"accessToken": "cli", "expires_on": 4102444800}'"#;

#[test]
fn the_machines_identity_takes_precedence_over_the_command_lines_login() {
    for has_metadata in [true, false] {
        let (folder, path) = command(CLI_TOKEN);
        let issuer = Issuer { has_metadata, tokens: vec!["cli".into()], ..Issuer::default() };
        let (rig, remote) =
            rig(Options { issuer: Some(issuer), ..options() }, |azure, url| with_login(azure, &path, url));
        rig.server.put("some folder/ü/shard", content(350)).expect("memory");
        for _ in 0..2 {
            let fetched = remote.fetch(FetchRequest::new("shard", 350)).expect("queued").wait();
            assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(350));
        }
        assert_eq!((rig.server.tokens_issued(), runs(&folder)), if has_metadata { (1, 0) } else { (0, 1) });
        let identity = rig.server.seen().iter().filter(|seen| seen.path.contains("/metadata/")).count();
        assert_eq!(identity, 1, "the source is remembered");
    }
}

#[test]
fn a_login_that_has_ended_is_not_tried_for_each_request() {
    let (folder, path) = command("exit 1");
    let (rig, remote) = rig(options(), |azure, url| with_login(azure, &path, url));
    rig.server.put("some folder/ü/shard", content(350)).expect("memory");
    let fetch = || remote.fetch(FetchRequest::new("shard", 350)).expect("queued").wait();
    for _ in 0..2 {
        assert_eq!(*fetch().expect("public"), *content(350));
    }
    assert_eq!(runs(&folder), 1);
    rig.clock.advance(std::time::Duration::from_secs(61));
    assert_eq!(*fetch().expect("public"), *content(350));
    assert_eq!(runs(&folder), 2, "the user may have logged in again");
}

#[test]
fn a_command_line_that_does_not_respond_is_killed_with_its_children() {
    let pipe_folder = tempfile::tempdir().expect("a folder");
    let pipe = pipe_folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // The pipe ends with the last process that has it.
    let (_folder, path) =
        command(&format!("exec 3> {}\necho started >&3\nsleep 30\necho survived >&3", pipe.display()));
    let server = ObjectServer::in_memory(options()).expect("loopback");
    server.put("x/shard", content(50)).expect("memory");
    let mut azure = AzureSettings { endpoint: Some(format!("{}/store", server.url())), ..AzureSettings::default() };
    with_login(&mut azure, &path, &server.url());
    let download_timeout = std::time::Duration::from_secs(10_000);
    let rig = Rig::with(Options::default(), StoreConfig { azure: Some(azure), download_timeout, ..config() });
    let remote = rig.stores.open("azure://store/box/x").expect("valid");
    let mut ticket = remote.fetch(FetchRequest::new("shard", 50)).expect("queued");
    let mut lines = std::io::BufReader::new(std::fs::File::open(pipe).expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut lines, &mut line).expect("text");
    assert_eq!(line, "started\n");
    let fetched = loop {
        rig.clock.advance(std::time::Duration::from_secs(61));
        match ticket.wait_timeout(std::time::Duration::from_millis(5)) {
            Ok(fetched) => break fetched,
            Err(waiting) => ticket = waiting,
        }
    };
    assert_eq!(*fetched.unwrap_or_else(|e| panic!("{e}")), *content(50), "public");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut lines, &mut text).expect("text");
    assert_eq!(text, "", "all of its processes have ended");
}
