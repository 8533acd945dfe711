//! Whole epochs from the stores of clouds, with settings from the environment.

use super::*;
use forebay_tests::server::{
    AzureAccount, Hub, Issuer, Keys, ObjectServer, OciKey, Options as ServerOptions, Root, ServiceAccount,
};
use std::process::Command;

/// Variables of the process that a test starts, which has the environment of one store: the remote, and the folder with
/// the same data set.
const REMOTE: &str = "FOREBAY_TEST_REMOTE";
const FOLDER: &str = "FOREBAY_TEST_FOLDER";

/// Compares an epoch from the remote with one from the folder, in the process that [`compare`] started.
fn epoch_of_child() -> bool {
    let (Ok(remote), Ok(folder)) = (std::env::var(REMOTE), std::env::var(FOLDER)) else { return false };
    let cache = tempfile::tempdir().expect("a folder");
    let of_folder = Loader::new(config(stream(None, Some(&folder)))).expect("a loader");
    let of_remote = Loader::new(config(stream(Some(cache.path()), Some(&remote)))).expect("a loader");
    let rows_of_folder = rows(&epoch(&of_folder));
    assert_eq!(rows_of_folder.len(), 1000);
    assert_eq!(rows(&epoch(&of_remote)), rows_of_folder);
    true
}

/// Starts a server and runs `test` again in a process with `variables`, which get the server's address.
fn compare(
    test: &str,
    remote: &str,
    options: ServerOptions,
    variables: impl FnOnce(&str) -> Vec<(&'static str, String)>,
) {
    let (data, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    tokens(data.path(), 1000, None);
    let server = ObjectServer::start(Root::folder(data.path()), options).expect("a server");
    let mut process = Command::new(std::env::current_exe().expect("a path"));
    process.args(["--exact", test]).env("HOME", home.path()).env(REMOTE, remote).env(FOLDER, data.path());
    let output = process.envs(variables(&server.url())).output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}{:?}", server.seen());
    assert!(server.counters().requests > 1);
}

/// Variable of gcloud for a different server of Google.
const GOOGLE: &str = "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE";

#[test]
fn an_epoch_from_google_cloud_storage_is_the_folders() {
    let test = "clouds::an_epoch_from_google_cloud_storage_is_the_folders";
    if epoch_of_child() {
        return;
    }
    let bucket = Some("bucket".to_owned());
    let account = ServiceAccount::new("trainer@project.iam.gserviceaccount.com");
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("key.json");
    let issuer = Issuer { account: Some(account.clone()), ..Issuer::default() };
    let options = ServerOptions { bucket: bucket.clone(), issuer: Some(issuer), ..ServerOptions::default() };
    compare(test, "gs://bucket", options, |url| {
        std::fs::write(&file, account.credentials(url)).unwrap();
        let file = file.to_str().unwrap().to_owned();
        vec![(GOOGLE, url.to_owned()), ("GOOGLE_APPLICATION_CREDENTIALS", file)]
    });
    let keys = Keys::of_google("GOOG1EXAMPLE", "secret");
    let options = ServerOptions { bucket, keys: Some(keys), ..ServerOptions::default() };
    compare(test, "gs://bucket", options, |url| {
        let pairs = [(GOOGLE, url), ("GCS_KEY", "GOOG1EXAMPLE"), ("GCS_SECRET", "secret")];
        pairs.map(|(name, value)| (name, value.to_owned())).to_vec()
    });
    // An emulator, which gets no credentials.
    let options = ServerOptions { bucket: Some("bucket".into()), ..ServerOptions::default() };
    compare(test, "gs://bucket", options, |url| {
        let pairs = [("STORAGE_EMULATOR_HOST", url), ("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")];
        pairs.map(|(name, value)| (name, value.to_owned())).to_vec()
    });
}

#[test]
fn an_epoch_from_azure_is_the_folders() {
    let test = "clouds::an_epoch_from_azure_is_the_folders";
    if epoch_of_child() {
        return;
    }
    let options = || ServerOptions { bucket: Some("store/box".into()), ..ServerOptions::default() };
    let account = AzureAccount { name: "store".into(), key: "a2V5".into(), sas_token: Some("sp=r&sig=a%2Bb".into()) };
    let signed = || ServerOptions { azure: Some(account.clone()), ..options() };
    let named = |pairs: &[(&'static str, &str)]| pairs.iter().map(|(n, v)| (*n, (*v).to_owned())).collect::<Vec<_>>();
    compare(test, "azure://store.blob.core.windows.net/box", signed(), |url| {
        let endpoint = format!("{url}/store");
        named(&[("AZURE_STORAGE_SERVICE_ENDPOINT", &endpoint), ("AZURE_ACCOUNT_ACCESS_KEY", "a2V5")])
    });
    compare(test, "azure-dl://box", signed(), |url| {
        let parts = format!("AccountName=store;BlobEndpoint={url}/store;SharedAccessSignature=sp=r&sig=a%2Bb");
        named(&[("AZURE_STORAGE_CONNECTION_STRING", &parts)])
    });
    // The login of the command line, which a script replaces.
    let bin = tempfile::tempdir().unwrap();
    std::fs::write(bin.path().join("azureProfile.json"), "{}").unwrap();
    let script = bin.path().join("az");
    let answer = r#"{"accessToken": "cli", "expires_on": 4102444800, "tokenType": "Bearer"}"#;
    std::fs::write(&script, format!("#!/bin/sh\n[ \"$*\" = '{AZ}' ] && echo '{answer}'\n")).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let issuer = Issuer { tokens: vec!["cli".into()], ..Issuer::default() };
    compare(test, "azure://box@store", ServerOptions { issuer: Some(issuer), ..options() }, |url| {
        let (endpoint, bin) = (format!("{url}/store"), bin.path().to_str().unwrap());
        let path = format!("{bin}:/usr/bin:/bin");
        named(&[("AZURE_STORAGE_SERVICE_ENDPOINT", &endpoint), ("AZURE_CONFIG_DIR", bin), ("PATH", &path)])
    });
}

#[test]
fn an_epoch_from_oracles_object_storage_is_the_folders() {
    let test = "clouds::an_epoch_from_oracles_object_storage_is_the_folders";
    if epoch_of_child() {
        return;
    }
    let key = ServiceAccount::new("u");
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("key.pem"), &key.private_key).unwrap();
    let text = format!("[DEFAULT]\nuser=u\ntenancy=t\nfingerprint=f:0\nkey_file={}\n", path("key.pem"));
    std::fs::write(path("config"), text).unwrap();
    let oci = Some(OciKey { id: "t/u/f:0".into(), key });
    let options = ServerOptions { bucket: Some("n/space/b/bucket/o".into()), oci, ..ServerOptions::default() };
    compare(test, "oci://bucket@space", options, |url| {
        vec![("OCI_CLI_ENDPOINT", url.to_owned()), ("OCI_CONFIG_FILE", path("config"))]
    });
}

#[test]
fn an_epoch_from_a_volume_of_databricks_is_the_folders() {
    let test = "clouds::an_epoch_from_a_volume_of_databricks_is_the_folders";
    if epoch_of_child() {
        return;
    }
    let issuer = Issuer { tokens: vec!["dapi".into()], ..Issuer::default() };
    let bucket = Some("api/2.0/fs/files/Volumes/main/s/v".into());
    let options = ServerOptions { bucket, issuer: Some(issuer), ..ServerOptions::default() };
    compare(test, "dbfs:/Volumes/main/s/v", options, |url| {
        [("DATABRICKS_HOST", url), ("DATABRICKS_TOKEN", "dapi")].map(|(name, value)| (name, value.to_owned())).to_vec()
    });
}

/// Arguments with which the command line of Azure prints a token.
const AZ: &str = "account get-access-token --output json --resource https://storage.azure.com";

#[test]
fn an_epoch_from_the_hugging_face_hub_is_the_folders() {
    let test = "clouds::an_epoch_from_the_hugging_face_hub_is_the_folders";
    if epoch_of_child() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    tokens(data.path(), 1000, None);
    let files = ObjectServer::start(Root::folder(data.path()), ServerOptions::default()).unwrap();
    let hub = Hub { repository: "me/set".into(), revision: "main".into(), files: files.url(), ..Hub::default() };
    let issuer = Issuer { tokens: vec!["hf_x".into()], ..Issuer::default() };
    let options = ServerOptions { hub: Some(hub), issuer: Some(issuer), ..ServerOptions::default() };
    compare(test, "hf://datasets/me/set", options, |url| {
        [("HF_ENDPOINT", url), ("HF_TOKEN", "hf_x")].map(|(name, value)| (name, value.to_owned())).to_vec()
    });
    assert!(files.seen().iter().all(|seen| !seen.has_credentials));
}
