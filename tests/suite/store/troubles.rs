//! The most frequent troubles with a remote: each has a message that names the necessary change.

use crate::rig::{Rig, config, content};
use forebay_loader::objects::settings_from_json;
use forebay_loader::store::{S3Settings, StoreConfig};
use forebay_loader::{Error, ErrorKind};
use forebay_tests::server::{Fault, Keys, Options, Rule, TEST_KEYS};

/// Host name that no resolver accepts, so none is asked: its label is too long.
pub(crate) const NO_HOST: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid";

/// Error of a request for the index of a bucket. `change` receives the keys that the server demands, the settings of
/// the client and the rules of the server.
fn s3_error(bucket: &str, change: impl FnOnce(&mut Keys, &mut S3Settings, &Rig) -> Option<Fault>) -> Error {
    let mut keys = Keys::new(TEST_KEYS.0, TEST_KEYS.1);
    let probe = Rig::new();
    let mut settings = S3Settings {
        access_key: Some(TEST_KEYS.0.into()),
        secret_key: Some(TEST_KEYS.1.into()),
        no_metadata: true,
        ..S3Settings::default()
    };
    let fault = change(&mut keys, &mut settings, &probe);
    let options = Options { bucket: Some("bucket".into()), keys: Some(keys), ..Options::default() };
    let server = forebay_tests::server::ObjectServer::in_memory(options).expect("loopback");
    fault.into_iter().for_each(|fault| server.script(Rule::always("", fault)));
    settings.endpoint.get_or_insert_with(|| server.url());
    let rig = Rig::with(Options::default(), StoreConfig { s3: Some(settings), ..config() });
    rig.stores.open(&format!("s3://{bucket}/set")).expect("valid").get_small("index.json", 10).expect_err("a trouble")
}

/// Response of S3 with a status and a code.
fn response(status: u16, code: &str) -> Option<Fault> {
    Some(Fault::Text(
        status,
        format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>no</Message></Error>"),
    ))
}

pub(crate) fn check(error: &Error, kind: ErrorKind, advice: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(advice), "{advice:?} is missing: {error}");
}

#[test]
fn credentials_of_s3() {
    let missing = s3_error("bucket", |_, settings, _| {
        (settings.access_key, settings.secret_key) = (None, None);
        None
    });
    check(&missing, ErrorKind::Permission, "set AWS_ACCESS_KEY_ID or AWS_PROFILE");
    for (status, code, advice) in [
        (400, "ExpiredToken", "get new ones, such as with `aws sso login`"),
        (403, "ExpiredToken", "get new ones, such as with `aws sso login`"),
        (400, "InvalidToken", "check AWS_SESSION_TOKEN"),
        (403, "InvalidAccessKeyId", "check AWS_ACCESS_KEY_ID, AWS_PROFILE and the endpoint"),
        (403, "SignatureDoesNotMatch", "check AWS_SECRET_ACCESS_KEY"),
        (403, "RequestTimeTooSkewed", "set this machine's clock"),
        (403, "AccessDenied", "the right to read bucket bucket (s3:GetObject)"),
    ] {
        check(&s3_error("bucket", |_, _, _| response(status, code)), ErrorKind::Permission, advice);
    }
    let wrong = s3_error("bucket", |_, settings, _| {
        settings.secret_key = Some("wrong".into());
        None
    });
    check(&wrong, ErrorKind::Permission, "check AWS_SECRET_ACCESS_KEY");
}

#[test]
fn addresses_of_s3() {
    for (status, code) in [(400, "AuthorizationHeaderMalformed"), (301, "PermanentRedirect")] {
        let region = s3_error("bucket", |keys, settings, _| {
            keys.region = "eu-west-1".into();
            settings.region = Some("eu-west-1".into());
            response(status, code)
        });
        check(&region, ErrorKind::Config, "bucket bucket is not in eu-west-1: set AWS_REGION to its region");
    }
    let bucket = s3_error("bucket", |_, _, _| response(404, "NoSuchBucket"));
    check(&bucket, ErrorKind::NotFound, "there is no bucket bucket: check its name and the endpoint");
    check(&s3_error("bucket", |_, _, _| None), ErrorKind::NotFound, "there is no such object (404, NoSuchKey)");
    let page = "<html>not found</html>".to_owned();
    for (status, kind) in [(404, ErrorKind::NotFound), (405, ErrorKind::Config)] {
        let endpoint = s3_error("bucket", |_, _, _| Some(Fault::Text(status, page.clone())));
        check(&endpoint, kind, "the server may not be S3: check the endpoint (S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3)");
    }
    let refused = s3_error("bucket", |_, settings, probe| {
        settings.endpoint = Some(closed_port(probe));
        None
    });
    check(&refused, ErrorKind::Network, "cannot connect: check the address and the port, and that the server runs");
    assert!(refused.to_string().contains("Connection refused"), "{refused}");
    let unknown = s3_error("bucket", |_, settings, _| {
        settings.endpoint = Some(format!("http://{NO_HOST}"));
        None
    });
    check(
        &unknown,
        ErrorKind::Network,
        "the host name cannot be resolved: check the address, and this machine's network",
    );
    let plain = s3_error("bucket", |_, settings, probe| {
        settings.endpoint = Some(probe.server.url().replace("http://", "https://"));
        None
    });
    check(&plain, ErrorKind::Network, "the TLS handshake failed: check that the server speaks https at this port");
}

#[test]
fn addresses_of_http() {
    let error = |address: &str| {
        let rig = Rig::new();
        rig.stores.open(address).expect("valid").get_small("index.json", 10).expect_err("a trouble")
    };
    let rig = Rig::new();
    rig.server.put("index.json", content(10)).expect("memory");
    check(&error(&format!("{}/nowhere", rig.server.url())), ErrorKind::NotFound, "there is no such object (404");
    for status in [401, 403] {
        rig.server.script(Rule::once("index.json", Fault::Status(status, None)));
        check(&error(&rig.server.url()), ErrorKind::Permission, "use an address with a signature that has not expired");
    }
    check(&error(&closed_port(&rig)), ErrorKind::Network, "cannot connect: check the address and the port");
    check(
        &error(&format!("http://{NO_HOST}")),
        ErrorKind::Network,
        "the host name cannot be resolved: check the address",
    );
    let plain = rig.server.url().replace("http://", "https://");
    check(
        &error(&plain),
        ErrorKind::Network,
        "the TLS handshake failed: check that the server speaks https at this port",
    );
    let tls = Rig::with(Options { tls: true, ..Options::default() }, config());
    check(
        &error(&tls.server.url()),
        ErrorKind::Permission,
        "set SSL_CERT_FILE or ca_file to a file with its authority",
    );
}

#[test]
fn a_server_that_was_never_reached_gets_fewer_attempts_than_one_that_is_gone() {
    let settings = StoreConfig { download_retry: 9, first_contact_retry: 4, ..config() };
    let Rig { server, stores, .. } = Rig::with(Options::default(), settings);
    server.put("index.json", content(10)).expect("memory");
    let get = |address: &str| stores.open(address).expect("valid").get_small("index.json", 10);
    let url = server.url();
    assert_eq!(attempts(get(&format!("http://{NO_HOST}")).expect_err("no host")), "4 of 4");
    get(&url).expect("there");
    drop(server);
    assert_eq!(attempts(get(&url).expect_err("gone")), "9 of 9");
}

#[test]
fn attempts_that_a_caller_names_count_for_a_server_that_was_never_reached() {
    for (json, made) in [
        ("{}", "5 of 5"),
        (r#"{"attempts": 20}"#, "20 of 20"),
        (r#"{"attempts": 2}"#, "2 of 2"),
        (r#"{"attempts": 10, "first_contact_attempts": 5}"#, "5 of 5"),
    ] {
        let Rig { stores, .. } = Rig::with(Options::default(), settings_from_json(json).expect("valid"));
        let remote = stores.open(&format!("http://{NO_HOST}")).expect("valid");
        assert_eq!(attempts(remote.get_small("index.json", 10).expect_err("no host")), made, "{json}");
    }
}

/// Returns the number of the attempt that failed last, and the number of all attempts, of a failure to reach a server.
fn attempts(error: Error) -> String {
    assert_eq!(error.kind(), ErrorKind::Network, "{error}");
    error.context().iter().find(|(name, _)| *name == "attempt").expect("a number").1.clone()
}

/// Address of a port that nothing listens on.
pub(crate) fn closed_port(rig: &Rig) -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = free.local_addr().expect("an address").port();
    assert_ne!(port, rig.server.address().port());
    format!("http://127.0.0.1:{port}")
}
