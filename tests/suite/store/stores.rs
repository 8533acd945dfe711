//! The most frequent troubles with a remote, on each store: a message that names the necessary change.

use crate::rig::{Rig, config};
use crate::troubles::{NO_HOST, check, closed_port};
use forebay_loader::ErrorKind::{self, Config, Network, NotFound, Permission};
use forebay_loader::store::{
    AzureSettings, DbfsSettings, GcsSettings, HfSettings, OciSettings, S3Settings, StoreConfig,
};
use forebay_loader::sync::OnceLock;
use forebay_tests::server::{Fault, Options, Rule, ServiceAccount};

/// Store with settings that send all requests to one server.
struct Store {
    remote: &'static str,
    /// Settings for the server at an address, with credentials or without.
    config: fn(&str, bool) -> StoreConfig,
    /// Text of a response with a code.
    text: fn(&str) -> String,
    /// Responses to requests with credentials: status, code (empty: a page that is not the store's), and the error.
    responses: &'static [(u16, &'static str, ErrorKind, &'static str)],
    /// Response to a request without credentials: status, code, advice. The advice alone is for an error without a
    /// request.
    unsigned: (u16, &'static str, &'static str),
}

fn xml(code: &str) -> String {
    format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>no</Message></Error>")
}

fn json(code: &str) -> String {
    format!(r#"{{"code": "{code}", "message": "no"}}"#)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn s3(url: &str, is_signed: bool) -> StoreConfig {
    let (access_key, secret_key) = is_signed.then(|| ("key".to_owned(), "secret".to_owned())).unzip();
    let s3 = S3Settings { endpoint: some(url), access_key, secret_key, no_metadata: true, ..S3Settings::default() };
    StoreConfig { s3: Some(s3), ..config() }
}

fn google(url: &str, is_signed: bool) -> StoreConfig {
    let (access_key, secret_key) = is_signed.then(|| ("key".to_owned(), "secret".to_owned())).unzip();
    let gcs = GcsSettings { endpoint: some(url), access_key, secret_key, no_metadata: true, ..GcsSettings::default() };
    StoreConfig { gcs: Some(gcs), ..config() }
}

fn azure(url: &str, is_signed: bool) -> StoreConfig {
    let (endpoint, account_key) = (Some(format!("{url}/store")), is_signed.then(|| "a2V5".to_owned()));
    StoreConfig {
        azure: Some(AzureSettings { endpoint, account_key, no_metadata: true, ..AzureSettings::default() }),
        ..config()
    }
}

fn oracle(url: &str, is_signed: bool) -> StoreConfig {
    static KEY: OnceLock<ServiceAccount> = OnceLock::new();
    let key = KEY.get_or_init(|| ServiceAccount::new("u")).private_key.clone();
    let oci = OciSettings {
        endpoint: some(url),
        tenancy: some("t"),
        user: some("u"),
        fingerprint: some("f:0"),
        key: is_signed.then_some(key),
        ..OciSettings::default()
    };
    StoreConfig { oci: Some(oci), ..config() }
}

fn hub(url: &str, is_signed: bool) -> StoreConfig {
    let token = is_signed.then(|| "hf_x".to_owned());
    StoreConfig { hf: Some(HfSettings { endpoint: some(url), token, ..HfSettings::default() }), ..config() }
}

fn databricks(url: &str, is_signed: bool) -> StoreConfig {
    let token = is_signed.then(|| "dapi".to_owned());
    StoreConfig { dbfs: Some(DbfsSettings { host: some(url), token, ..DbfsSettings::default() }), ..config() }
}

/// Absent object in an existing bucket, container or repository: only its key can be checked.
const ABSENT: &str = "there is no such object";

const STORES: [Store; 6] = [
    Store {
        remote: "s3://bucket/set",
        config: s3,
        text: xml,
        responses: &[
            (400, "ExpiredToken", Permission, "get new ones, such as with `aws sso login`"),
            (403, "SignatureDoesNotMatch", Permission, "check AWS_SECRET_ACCESS_KEY"),
            (403, "AccessDenied", Permission, "the right to read bucket bucket"),
            (403, "RequestTimeTooSkewed", Permission, "set this machine's clock"),
            (301, "PermanentRedirect", Config, "set AWS_REGION to its region"),
            (404, "NoSuchBucket", NotFound, "there is no bucket bucket"),
            (404, "NoSuchKey", NotFound, ABSENT),
            (404, "", NotFound, "the server may not be S3: check the endpoint"),
        ],
        unsigned: (403, "AccessDenied", "set AWS_ACCESS_KEY_ID or AWS_PROFILE"),
    },
    Store {
        remote: "gs://bucket/set",
        config: google,
        text: xml,
        responses: &[
            (403, "InvalidAccessKeyId", Permission, "check GCS_KEY"),
            (403, "SignatureDoesNotMatch", Permission, "check GCS_SECRET"),
            (403, "AccessDenied", Permission, "Storage Object Viewer for bucket bucket"),
            (403, "RequestTimeTooSkewed", Permission, "set this machine's clock"),
            (400, "UserProjectMissing", Config, "set GOOGLE_CLOUD_QUOTA_PROJECT"),
            (404, "NoSuchBucket", NotFound, "there is no bucket bucket"),
            (404, "NoSuchKey", NotFound, ABSENT),
            (404, "", NotFound, "check STORAGE_EMULATOR_HOST and CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"),
        ],
        unsigned: (401, "AuthenticationRequired", "set GOOGLE_APPLICATION_CREDENTIALS"),
    },
    Store {
        remote: "azure://store/box/set",
        config: azure,
        text: xml,
        responses: &[
            (403, "AuthenticationFailed", Permission, "the SAS token with its end, and this machine's clock"),
            (401, "InvalidAuthenticationInfo", Permission, "log in again with `az login`"),
            (403, "AuthorizationPermissionMismatch", Permission, "Storage Blob Data Reader"),
            (403, "AuthorizationFailure", Permission, "network rules"),
            (404, "ContainerNotFound", NotFound, "account store has no container box"),
            (404, "BlobNotFound", NotFound, ABSENT),
            (400, "", Config, "check AZURE_STORAGE_SERVICE_ENDPOINT"),
        ],
        unsigned: (409, "PublicAccessNotPermitted", "set AZURE_ACCOUNT_ACCESS_KEY"),
    },
    Store {
        remote: "oci://bucket@space/set",
        config: oracle,
        text: json,
        responses: &[
            (401, "NotAuthenticated", Permission, "that the session has not ended, and this machine's clock"),
            (404, "BucketNotFound", NotFound, "no bucket bucket in this region and namespace, or the user may not"),
            (404, "NamespaceNotFound", NotFound, "`oci os ns get` prints the namespace"),
            (404, "ObjectNotFound", NotFound, ABSENT),
            (404, "", NotFound, "check OCI_CLI_ENDPOINT and the region"),
        ],
        unsigned: (404, "BucketNotFound", "run `oci setup config`"),
    },
    Store {
        remote: "hf://datasets/me/set",
        config: hub,
        text: |code| format!(r#"{{"error_code": "{code}"}}"#),
        responses: &[
            (401, "Unauthorized", Permission, "HF_TOKEN is not valid or has expired"),
            (403, "GatedRepo", Permission, "request access on http"),
            (404, "RepoNotFound", NotFound, "there is no data set me/set, or HF_TOKEN has no access"),
            (404, "RevisionNotFound", NotFound, "data set me/set has no revision main"),
            (404, "EntryNotFound", NotFound, ABSENT),
            (429, "TooMany", Network, "use larger shards"),
            (404, "", NotFound, "check HF_ENDPOINT"),
        ],
        unsigned: (401, "RepoNotFound", "set HF_TOKEN or run `hf auth login`"),
    },
    Store {
        remote: "dbfs:/Volumes/main/s/v/set",
        config: databricks,
        text: |code| format!(r#"{{"error_code": "{code}"}}"#),
        responses: &[
            (401, "UNAUTHENTICATED", Permission, "check DATABRICKS_TOKEN"),
            (
                403,
                "PERMISSION_DENIED",
                Permission,
                "READ VOLUME on the volume, and USE on its catalog and schema; a token",
            ),
            (404, "NOT_FOUND", NotFound, "check the volume and the path"),
            (404, "", NotFound, "check DATABRICKS_HOST"),
        ],
        unsigned: (0, "", "set both DATABRICKS_HOST and DATABRICKS_TOKEN"),
    },
];

/// Error of a request for an index, to a server that always gives this response.
fn error(store: &Store, is_signed: bool, status: u16, code: &str) -> forebay_loader::Error {
    let rig = Rig::of_store(Options::default(), |url| (store.config)(url, is_signed));
    let text = if code.is_empty() { "<html>not found</html>".to_owned() } else { (store.text)(code) };
    rig.server.script(Rule::always("", Fault::Text(status, text)));
    error_of(store, &rig)
}

/// Error of a request for an index, or of its remote.
fn error_of(store: &Store, rig: &Rig) -> forebay_loader::Error {
    match rig.stores.open(store.remote) {
        Ok(remote) => remote.get_small("index.json", 10).expect_err("a trouble"),
        Err(error) => error,
    }
}

#[test]
fn each_response_of_each_store_has_advice() {
    for store in &STORES {
        for &(status, code, kind, advice) in store.responses {
            check(&error(store, true, status, code), kind, advice);
        }
    }
}

#[test]
fn an_absent_object_has_no_advice_about_a_loader() {
    for store in &STORES {
        for &(status, code, ..) in store.responses.iter().filter(|(_, _, kind, _)| *kind == NotFound) {
            let error = error(store, true, status, code).to_string();
            assert!(!error.contains("`remote`") && !error.contains("`split`"), "{error}");
        }
    }
}

#[test]
fn missing_credentials_of_each_store_have_advice() {
    for store in &STORES {
        let (status, code, advice) = store.unsigned;
        let error = error(store, false, status, code);
        assert!(error.to_string().contains(advice), "{advice:?} is missing: {error}");
    }
}

#[test]
fn servers_that_cannot_be_reached_have_advice_on_each_store() {
    let probe = Rig::new();
    let plain = probe.server.url().replace("http://", "https://");
    let tls = Rig::with(Options { tls: true, ..Options::default() }, config());
    for store in &STORES {
        for (address, kind, advice) in [
            (closed_port(&probe), Network, "cannot connect: check the address and the port"),
            (format!("http://{NO_HOST}"), Network, "the host name cannot be resolved: check the address"),
            (plain.clone(), Network, "the TLS handshake failed: check that the server speaks https at this port"),
            (tls.server.url(), Permission, "set SSL_CERT_FILE or ca_file to a file with its authority"),
        ] {
            let rig = Rig::of_store(Options::default(), |_| (store.config)(&address, true));
            check(&error_of(store, &rig), kind, advice);
        }
    }
}
