//! Stores that are written to, with servers that check signatures and digests.

use crate::rig::{Rig, config};
use forebay_loader::store::{
    AzureSettings, DbfsSettings, Destination, GcsSettings, OciSettings, S3Settings, StoreConfig, UploadBuffer,
};
use forebay_tests::server::{AzureAccount, Interface, Issuer, Keys, ObjectServer, OciKey, Options, ServiceAccount};
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) const FOLDER: &str = "some folder/ü";

pub(crate) static ACCOUNT: LazyLock<ServiceAccount> = LazyLock::new(|| ServiceAccount::new("writer@project"));

/// Stores with a server that checks signatures and digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    S3,
    Gcs,
    GcsHmac,
    Azure,
    Oci,
    Dbfs,
}

pub(crate) const STORES: [Store; 6] = [Store::S3, Store::Gcs, Store::GcsHmac, Store::Azure, Store::Oci, Store::Dbfs];

/// Stores with objects that may have several parts.
pub(crate) const IN_PARTS: [Store; 5] = [Store::S3, Store::Gcs, Store::GcsHmac, Store::Azure, Store::Oci];

pub(crate) fn small() -> StoreConfig {
    StoreConfig { upload_part_bytes: 100, upload_bytes: 400, uploads_in_flight: 3, ..config() }
}

impl Store {
    pub(crate) fn options(self) -> Options {
        let keys = Some(Keys { region: "auto".into(), ..Keys::new("key", "secret") });
        let bucket = Some("bucket".into());
        let options = match self {
            Self::S3 => Options { keys: Some(Keys::new("key", "secret")), bucket, ..Options::default() },
            Self::Gcs => {
                let issuer = Issuer { account: Some(ACCOUNT.clone()), ..Issuer::default() };
                Options { issuer: Some(issuer), bucket, ..Options::default() }
            }
            Self::GcsHmac => Options { keys, bucket, ..Options::default() },
            Self::Azure => {
                let account = AzureAccount { name: "store".into(), key: "a2V5".into(), sas_token: None };
                let bucket = Some("store/box".into());
                Options { azure: Some(account), bucket, interface: Interface::Azure, ..Options::default() }
            }
            Self::Oci => {
                let oci = Some(OciKey { id: "t/u/f".into(), key: ACCOUNT.clone() });
                let bucket = Some("n/space/b/bucket/o".into());
                Options { oci, bucket, interface: Interface::Oci, ..Options::default() }
            }
            Self::Dbfs => {
                let issuer = Some(Issuer { tokens: vec!["dapi".into()], ..Issuer::default() });
                let bucket = Some("api/2.0/fs/files/Volumes/main/default/volume".into());
                Options { issuer, bucket, interface: Interface::Dbfs, ..Options::default() }
            }
        };
        Options { needs_digest: self != Self::Dbfs, list_page: 3, ..options }
    }

    pub(crate) fn configure(self, server: &ObjectServer, config: StoreConfig) -> StoreConfig {
        let text = |text: &str| Some(text.to_owned());
        let endpoint = Some(server.url());
        let (access_key, secret_key) = (text("key"), text("secret"));
        match self {
            Self::S3 => {
                let s3 = S3Settings { endpoint, access_key, secret_key, no_metadata: true, ..S3Settings::default() };
                StoreConfig { s3: Some(s3), ..config }
            }
            Self::Gcs => {
                let credentials = Some(ACCOUNT.credentials(&server.url()));
                let gcs = GcsSettings { endpoint, credentials, no_metadata: true, ..GcsSettings::default() };
                StoreConfig { gcs: Some(gcs), ..config }
            }
            Self::GcsHmac => {
                let gcs = GcsSettings { endpoint, access_key, secret_key, no_metadata: true, ..GcsSettings::default() };
                StoreConfig { gcs: Some(gcs), ..config }
            }
            Self::Azure => {
                let endpoint = Some(format!("{}/store", server.url()));
                let account_key = text("a2V5");
                let azure = AzureSettings { endpoint, account_key, no_metadata: true, ..AzureSettings::default() };
                StoreConfig { azure: Some(azure), ..config }
            }
            Self::Oci => {
                let (tenancy, user, fingerprint) = (text("t"), text("u"), text("f"));
                let key = Some(ACCOUNT.private_key.clone());
                let oci = OciSettings { endpoint, tenancy, user, fingerprint, key, ..OciSettings::default() };
                StoreConfig { oci: Some(oci), ..config }
            }
            Self::Dbfs => {
                let dbfs = DbfsSettings { host: endpoint, token: text("dapi"), ..DbfsSettings::default() };
                StoreConfig { dbfs: Some(dbfs), ..config }
            }
        }
    }

    pub(crate) fn address(self) -> String {
        let root = match self {
            Self::S3 => "s3://bucket",
            Self::Gcs | Self::GcsHmac => "gs://bucket",
            Self::Azure => "azure://store.blob.core.windows.net/box",
            Self::Oci => "oci://bucket@space",
            Self::Dbfs => "dbfs:/Volumes/main/default/volume",
        };
        format!("{root}/{FOLDER}")
    }

    /// Returns the document of a rejection with this code.
    pub(crate) fn rejection(self, code: &str) -> String {
        match self {
            Self::Dbfs => format!(r#"{{"error_code": "{code}"}}"#),
            Self::Oci => format!(r#"{{"code": "{code}"}}"#),
            _ => format!("<Error><Code>{code}</Code></Error>"),
        }
    }

    pub(crate) fn open(self) -> (Rig, Destination) {
        self.open_with(|options| options, |config| config)
    }

    pub(crate) fn open_with(
        self,
        options: impl FnOnce(Options) -> Options,
        change: impl FnOnce(StoreConfig) -> StoreConfig,
    ) -> (Rig, Destination) {
        let server = ObjectServer::in_memory(options(self.options())).expect("loopback");
        let config = change(self.configure(&server, small()));
        let mut rig = Rig::with(Options::default(), config);
        rig.server = server;
        let destination = rig.stores.open_destination(&self.address()).expect("valid");
        (rig, destination)
    }
}

/// Returns the objects of a server in the destination's folder, by their keys relative to it.
pub(crate) fn stored(rig: &Rig) -> BTreeMap<String, Vec<u8>> {
    let objects = rig.server.objects().into_iter();
    objects.filter_map(|(key, bytes)| Some((key.strip_prefix(FOLDER)?.strip_prefix('/')?.to_owned(), bytes))).collect()
}

pub(crate) fn put(destination: &Destination, key: &str, bytes: Vec<u8>) -> forebay_loader::Result<()> {
    // In two pieces, so that parts and pieces have different bounds.
    let mut rest = UploadBuffer::from(bytes);
    let first = rest.split_to(rest.len() / 3);
    destination.put(key, vec![first, rest])?.wait().map(drop)
}
