//! Secrets, which no message, representation, statistic or log shows.

use crate::rig::{Rig, config, content};
use forebay_loader::Error;
use forebay_loader::store::{
    AzureSettings, DbfsSettings, FetchRequest, GcsSettings, HfSettings, OciSettings, S3Settings, StoreConfig,
};
use forebay_loader::sync::Mutex;
use forebay_tests::server::{AzureAccount, Fault, Hub, Issuer, ObjectServer, OciKey, Options, Rule, ServiceAccount};
use std::fmt::Write as _;

/// Part of every secret in here, and of no text without a secret.
const SECRET: &str = "gEhEiM";

/// Log of this process, at all levels.
struct Log(Mutex<String>);

static LOG: Log = Log(Mutex::new(String::new()));

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let _ = writeln!(self.0.lock(), "{}: {}", record.target(), record.args());
    }

    fn flush(&self) {}
}

fn keep_log() {
    // Fails after the first call.
    let _ = log::set_logger(&LOG);
    log::set_max_level(log::LevelFilter::Trace);
}

#[track_caller]
fn hidden(text: &str) {
    assert!(!text.contains(SECRET), "{text}");
}

#[track_caller]
fn hidden_in_error(error: &Error) {
    hidden(&format!("{error} {error:?}"));
}

/// Checks statistics and log.
#[track_caller]
fn hidden_in_rig(rig: &Rig) {
    hidden(&format!("{:?}", rig.stats.snapshot()));
    hidden(&LOG.0.lock());
}

/// Texts of a server that repeats parts of a request, and the code that each has.
fn texts() -> [(String, &'static str); 5] {
    [
        (format!("<Error><Code>InvalidToken</Code><Message>{SECRET} is none</Message></Error>"), ", InvalidToken"),
        (format!("<Error><Code>ExpiredToken</Code><Token-0>{SECRET}</Token-0></Error>"), ", ExpiredToken"),
        (format!("<Error><Code>{SECRET}=1</Code></Error>"), ""),
        (format!("<Code>{}</Code>", SECRET.repeat(20)), ""),
        (format!("no such key: {SECRET}"), ""),
    ]
}

#[test]
fn an_address_is_shown_without_its_secrets() {
    keep_log();
    let rig = Rig::new();
    for address in [
        "http://127.0.0.1:1/x?X-Amz-Signature={}",
        "http://127.0.0.1:1/x#{}",
        "http://me:{}@127.0.0.1:1/x",
        "http://me:a/{}@127.0.0.1:1/x",
        "http://me:a@{}@127.0.0.1:1/x",
        "https:/me:a/{}@h/x",
        "HTTP://me:a/{}@h/x",
        "ftp://me:{}?@h/x",
        "wasbs://box@account/x?sig={}",
        "file:///nowhere?sig={}",
        "//me:{}@h/x",
        "me:{}@h:/x",
        "/nowhere?token={}",
        "nowhere?X-Amz-Signature={}",
    ] {
        hidden_in_error(&rig.stores.open(&address.replace("{}", SECRET)).expect_err("not supported"));
    }
    hidden_in_rig(&rig);
}

#[test]
fn a_parameter_of_a_remotes_path_is_not_shown_when_its_objects_fail() {
    keep_log();
    for parameter in [";jsessionid={}", "&sig={}"] {
        let rig = Rig::new();
        let address = format!("{}/x{}", rig.server.url(), parameter.replace("{}", SECRET));
        let remote = rig.stores.open(&address).expect("a folder with a strange name");
        hidden(&format!("{remote:?}"));
        hidden_in_error(&remote.get_small("index.json", 10).expect_err("no such object"));
        let ticket = remote.fetch(FetchRequest::new("shard", 300)).expect("queued");
        hidden(&format!("{ticket:?}"));
        hidden_in_error(&ticket.wait().expect_err("no such object"));
        hidden_in_rig(&rig);
    }
}

#[test]
fn a_servers_text_is_cut_to_its_code() {
    keep_log();
    for status in [400, 403, 404, 503] {
        for (text, code) in texts() {
            let rig = Rig::new();
            rig.server.script(Rule::always("shard", Fault::Text(status, text)));
            let error = rig.remote().get_small("shard", 10).expect_err("rejected");
            hidden_in_error(&error);
            assert!(error.to_string().contains(&format!("({status}{code})")), "{error}");
            hidden_in_rig(&rig);
        }
    }
}

#[test]
fn settings_of_s3_are_shown_without_their_secrets() {
    keep_log();
    let settings = |endpoint: &str| S3Settings {
        endpoint: Some(endpoint.replace("{}", SECRET)),
        access_key: Some(SECRET.into()),
        secret_key: Some(SECRET.into()),
        token: Some(SECRET.into()),
        no_metadata: true,
        ..S3Settings::default()
    };
    for endpoint in ["ftp://me:{}@h", "me:a/{}@h", "localhost:9000?{}", "http://?{}", "http://me:a/{}@h:x"] {
        hidden(&format!("{:?}", settings(endpoint)));
        let rig = Rig::with(Options::default(), StoreConfig { s3: Some(settings(endpoint)), ..config() });
        hidden_in_error(&rig.stores.open("s3://bucket/x").expect_err("no such endpoint"));
    }
    let server = ObjectServer::in_memory(Options::default()).expect("loopback");
    server.put("bucket/x/shard", content(300)).expect("memory");
    server.script(Rule::once("shard", Fault::CutAfter(30)));
    let s3 = settings(&server.url().replace("//", "//me:{}@"));
    let rig = Rig::with(Options::default(), StoreConfig { s3: Some(s3), ..config() });
    let remote = rig.stores.open("s3://bucket/x").expect("valid");
    hidden(&format!("{remote:?}"));
    let ticket = remote.fetch(FetchRequest::new("shard", 300)).expect("queued");
    hidden(&format!("{ticket:?}"));
    ticket.wait().expect("resumed");
    for (text, code) in texts() {
        server.script(Rule::once("none", Fault::Text(403, text)));
        let error = remote.get_small("none", 10).expect_err("rejected");
        hidden_in_error(&error);
        assert!(error.to_string().contains(&format!("(403{code})")), "{error}");
    }
    hidden_in_rig(&rig);
}

#[test]
fn a_failed_search_for_credentials_shows_neither_addresses_nor_answers() {
    keep_log();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, SECRET).expect("written");
    let wrong = [
        format!("{SECRET} is no document"),
        format!(r#"{{"AccessKeyId": ["{SECRET}"]}}"#),
        format!(r#"{{"AccessKeyId":"A","SecretAccessKey":"{SECRET}","Token":"t","Expiration":"{SECRET}"}}"#),
    ];
    let rejected = texts().map(|(text, code)| (403, text, format!("responds with 403{code}")));
    let accepted = wrong.map(|text| (200, text, "cannot be used".to_owned()));
    for (status, text, shown) in rejected.into_iter().chain(accepted) {
        let provider = ObjectServer::in_memory(Options::default()).expect("loopback");
        provider.script(Rule::always("", Fault::Text(status, text)));
        let address = format!("{}/c?key={SECRET}", provider.url());
        let s3 = S3Settings {
            endpoint: Some(provider.url()),
            providers: vec![
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI".into(), address),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE".into(), file.to_str().expect("text").into()),
            ],
            ..S3Settings::default()
        };
        let rig = Rig::with(Options::default(), StoreConfig { s3: Some(s3), ..config() });
        let error = rig.stores.open("s3://bucket/x").expect("valid").get_small("index.json", 10).expect_err("no keys");
        assert!(error.to_string().contains("cannot be loaded") && error.to_string().contains(&shown), "{error}");
        hidden_in_error(&error);
        hidden_in_rig(&rig);
    }
}

#[test]
fn settings_and_tokens_of_google_are_not_shown() {
    keep_log();
    let account = ServiceAccount::new(&format!("{SECRET}@project"));
    let documents: [&dyn Fn(&str) -> String; 4] = [
        &|url| account.credentials(url),
        &|url| ServiceAccount::new(&format!("{SECRET}@project")).credentials(url),
        &|url| {
            let text = r#"{"type":"authorized_user","client_id":"c","client_secret":"S","refresh_token":"S","token_uri":"U/token"}"#;
            text.replace('S', SECRET).replace('U', url)
        },
        &|_| format!(r#"{{"type":"{SECRET}"}}"#),
    ];
    for document in documents {
        let issuer = Issuer { account: Some(account.clone()), prefix: SECRET.into(), ..Issuer::default() };
        let options = Options { bucket: Some("bucket".into()), issuer: Some(issuer), ..Options::default() };
        let server = ObjectServer::in_memory(options).expect("loopback");
        server.put("x/shard", content(300)).expect("memory");
        server.script(Rule::once("shard", Fault::CutAfter(30)));
        for (text, _) in texts() {
            server.script(Rule::once("none", Fault::Text(403, text)));
        }
        let gcs = GcsSettings {
            endpoint: Some(server.url().replace("//", &format!("//me:{SECRET}@"))),
            credentials: Some(document(&server.url())),
            ..GcsSettings::default()
        };
        hidden(&format!("{gcs:?}"));
        let rig = Rig::with(Options::default(), StoreConfig { gcs: Some(gcs), ..config() });
        match rig.stores.open("gs://bucket/x") {
            Ok(remote) => {
                hidden(&format!("{remote:?}"));
                let fetched = remote.fetch(FetchRequest::new("shard", 300)).expect("queued").wait();
                fetched.map_or_else(|error| hidden_in_error(&error), |bytes| assert_eq!(*bytes, *content(300)));
                for _ in texts() {
                    hidden_in_error(&remote.get_small("none", 10).expect_err("rejected"));
                }
            }
            Err(error) => hidden_in_error(&error),
        }
        hidden_in_rig(&rig);
    }
}

#[test]
fn settings_and_tokens_of_azure_are_not_shown() {
    keep_log();
    let (key, sas) = (SECRET.repeat(2), format!("sp=r&sig={SECRET}"));
    let secret = ["AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET"].map(|name| (name, SECRET.to_owned()));
    let sources = [
        (Some(key.clone()), None, Vec::new()),
        (Some(format!("{SECRET}=")), None, Vec::new()),
        (None, Some(sas.clone()), Vec::new()),
        (None, Some(format!("{SECRET}&")), Vec::new()),
        (None, None, secret.to_vec()),
    ];
    for (number, (account_key, sas_token, providers)) in sources.into_iter().enumerate() {
        for prefix in [SECRET, "wrong"] {
            let account = AzureAccount { name: "store".into(), key: key.clone(), sas_token: Some(sas.clone()) };
            let secrets = vec![("client_secret".to_owned(), prefix.to_owned())];
            let issuer = Issuer { secrets, prefix: SECRET.into(), ..Issuer::default() };
            let mut options = Options { bucket: Some("store/box".into()), ..Options::default() };
            if providers.is_empty() {
                options.azure = Some(account)
            } else {
                options.issuer = Some(issuer)
            };
            let server = ObjectServer::in_memory(options).expect("loopback");
            server.put("x/shard", content(300)).expect("memory");
            server.script(Rule::once("shard", Fault::CutAfter(30)));
            for (text, _) in texts() {
                server.script(Rule::once("none", Fault::Text(403, text)));
            }
            let mut providers: Vec<_> = providers.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
            providers.push(("AZURE_AUTHORITY_HOST".into(), server.url()));
            let azure = AzureSettings {
                endpoint: Some(format!("{}/store", server.url().replace("//", &format!("//me:{SECRET}@")))),
                account_key: account_key.clone(),
                sas_token: sas_token.clone(),
                no_metadata: true,
                providers,
                ..AzureSettings::default()
            };
            hidden(&format!("{azure:?}"));
            let rig = Rig::with(Options::default(), StoreConfig { azure: Some(azure), ..config() });
            match rig.stores.open("azure://store/box/x") {
                Ok(remote) => {
                    hidden(&format!("{remote:?}"));
                    let fetched = remote.fetch(FetchRequest::new("shard", 300)).expect("queued").wait();
                    let is_right = [0, 2].contains(&number) || number == 4 && prefix == SECRET;
                    assert_eq!(fetched.is_ok(), is_right, "{number}: {:?}", fetched.err());
                    fetched.map_or_else(|error| hidden_in_error(&error), |bytes| assert_eq!(*bytes, *content(300)));
                    for _ in texts() {
                        hidden_in_error(&remote.get_small("none", 10).expect_err("rejected"));
                    }
                }
                Err(error) => hidden_in_error(&error),
            }
            hidden_in_rig(&rig);
        }
    }
}

#[test]
fn the_token_of_the_hub_and_the_addresses_that_it_signs_are_not_shown() {
    keep_log();
    let files = ObjectServer::in_memory(Options::default()).expect("loopback");
    for token in [SECRET, "wrong"] {
        let signed = format!("{}/{SECRET}", files.url());
        let hub = Hub { repository: "me/set".into(), revision: "main".into(), files: signed, ..Hub::default() };
        let issuer = Issuer { tokens: vec![SECRET.into()], ..Issuer::default() };
        let options = Options { hub: Some(hub), issuer: Some(issuer), ..Options::default() };
        let server = ObjectServer::in_memory(options).expect("loopback");
        server.put("shard", content(300)).expect("memory");
        for (text, _) in texts() {
            server.script(Rule::once("none", Fault::Text(403, text)));
        }
        let endpoint = Some(server.url().replace("//", &format!("//me:{SECRET}@")));
        let hf = HfSettings { endpoint, token: Some(token.into()), ..HfSettings::default() };
        hidden(&format!("{hf:?}"));
        let rig = Rig::with(Options::default(), StoreConfig { hf: Some(hf), ..config() });
        let remote = rig.stores.open("hf://datasets/me/set").expect("valid");
        hidden(&format!("{remote:?}"));
        // The second server does not have the file.
        let fetched = remote.fetch(FetchRequest::new("shard", 300)).expect("queued").wait();
        hidden_in_error(&fetched.expect_err("missing"));
        for _ in texts() {
            hidden_in_error(&remote.get_small("none", 10).expect_err("rejected"));
        }
        hidden_in_rig(&rig);
    }
    assert!(!files.seen().is_empty());
}

#[test]
fn keys_and_sessions_of_oracle_are_not_shown() {
    keep_log();
    let folder = tempfile::tempdir().expect("a folder");
    let session = folder.path().join("token");
    std::fs::write(&session, SECRET).expect("written");
    let key = ServiceAccount::new("u");
    for (pem, id) in
        [(&*key.private_key, format!("ST${SECRET}")), (&*key.private_key, "wrong".into()), (SECRET, "x".into())]
    {
        let oci = Some(OciKey { id: id.clone(), key: key.clone() });
        let options = Options { bucket: Some("n/space/b/bucket/o".into()), oci, ..Options::default() };
        let server = ObjectServer::in_memory(options).expect("loopback");
        server.put("x/shard", content(300)).expect("memory");
        server.script(Rule::once("shard", Fault::CutAfter(30)));
        let oci = OciSettings {
            endpoint: Some(server.url().replace("//", &format!("//me:{SECRET}@"))),
            key: Some(pem.into()),
            security_token_file: Some(session.clone()),
            ..OciSettings::default()
        };
        hidden(&format!("{oci:?}"));
        let rig = Rig::with(Options::default(), StoreConfig { oci: Some(oci), ..config() });
        match rig.stores.open("oci://bucket@space/x") {
            Ok(remote) => {
                let fetched = remote.fetch(FetchRequest::new("shard", 300)).expect("queued").wait();
                assert_eq!(fetched.is_ok(), id.starts_with("ST$"));
                if let Err(error) = fetched {
                    hidden_in_error(&error);
                }
            }
            Err(error) => hidden_in_error(&error),
        }
        hidden_in_rig(&rig);
    }
}

#[test]
fn tokens_of_databricks_are_not_shown() {
    keep_log();
    for (token, valid) in [(SECRET, SECRET), (SECRET, "wrong")] {
        let issuer = Issuer { tokens: vec![valid.into()], ..Issuer::default() };
        let bucket = Some("api/2.0/fs/files/Volumes/main".into());
        let server = ObjectServer::in_memory(Options { bucket, issuer: Some(issuer), ..Options::default() });
        let server = server.expect("loopback");
        for (text, _) in texts() {
            server.script(Rule::once("none", Fault::Text(403, text)));
        }
        let host = Some(server.url().replace("//", &format!("//me:{SECRET}@")));
        let client = Some(SECRET.to_owned());
        for token in [Some(token.to_owned()), None] {
            let dbfs =
                DbfsSettings { host: host.clone(), token, client_id: client.clone(), client_secret: client.clone() };
            hidden(&format!("{dbfs:?}"));
            let rig = Rig::with(Options::default(), StoreConfig { dbfs: Some(dbfs), ..config() });
            let remote = rig.stores.open("dbfs:/Volumes/main/x").expect("valid");
            for _ in texts() {
                hidden_in_error(&remote.get_small("none", 10).expect_err("rejected"));
            }
            hidden_in_rig(&rig);
        }
    }
}
