//! Endpoint and credentials of Google Cloud Storage, from the environment and the files of Google's tools.

use crate::credentials::{check_endpoint, check_sendable, is_true, read_text, shown, variable};
use crate::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// File that `gcloud auth application-default login` writes, in the folder of gcloud's settings.
const DEFAULT_FILE: &str = "application_default_credentials.json";

/// Settings of `gs://` remotes. Missing credentials come from the machine's metadata service. Without any, requests are
/// not signed, which public buckets accept.
#[derive(Clone, Default)]
pub struct GcsSettings {
    /// Server to use instead of Google's, such as `https://storage-site.p.googleapis.com` or `http://127.0.0.1:4443`.
    pub endpoint: Option<String>,
    /// Access identifier of an HMAC key; set together with `secret_key`. It takes precedence over `credentials`.
    pub access_key: Option<String>,
    /// Secret of the HMAC key.
    pub secret_key: Option<String>,
    /// Content of a credentials file: a service account, a user, a workload identity or an impersonated account.
    pub credentials: Option<String>,
    /// Never sign requests.
    pub anonymous: bool,
    /// Do not use the machine's metadata service.
    pub no_metadata: bool,
    /// Host of the metadata service, instead of `metadata.google.internal`.
    pub metadata_host: Option<String>,
    /// Project that pays for requests, where the requester pays.
    pub user_project: Option<String>,
}

impl GcsSettings {
    /// Reads the environment, and the credentials file that it names (`GOOGLE_APPLICATION_CREDENTIALS`) or that gcloud
    /// has written. Requests to an emulator (`STORAGE_EMULATOR_HOST`) are not signed, as with Google's libraries.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when one of `GCS_KEY` and `GCS_SECRET` is missing or the file
    /// cannot be read.
    pub fn from_env() -> Result<Self> {
        Self::read(&variable)
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        // Google's libraries accept a host without a scheme.
        let with_scheme = |host: String| if host.contains("://") { host } else { format!("http://{host}") };
        let emulator = variable("STORAGE_EMULATOR_HOST").map(with_scheme);
        if let Some(endpoint) = emulator {
            // It may be any server, and has no use for the credentials of a real account.
            let settings = Self { endpoint: Some(endpoint), anonymous: true, no_metadata: true, ..Self::default() };
            return settings.validate().map(|()| settings);
        }
        let of_interface = |address: String| {
            let address = address.trim_end_matches('/');
            // gcloud's setting is the address of the interface in JSON.
            let server = ["/storage/v1", "/v1", "/storage"].iter().find_map(|path| address.strip_suffix(path));
            server.unwrap_or(address).to_owned()
        };
        let mut settings = Self {
            endpoint: variable("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE").map(of_interface),
            access_key: variable("GCS_KEY"),
            secret_key: variable("GCS_SECRET"),
            credentials: None,
            anonymous: is_true(variable("GOOGLE_SKIP_SIGNATURE").as_deref()),
            no_metadata: is_true(variable("NO_GCE_CHECK").as_deref()),
            metadata_host: variable("GCE_METADATA_HOST"),
            user_project: variable("GOOGLE_CLOUD_QUOTA_PROJECT"),
        };
        if settings.anonymous || settings.access_key.is_some() {
            // No file is used, so a broken one is no error.
        } else if let Some(path) = variable("GOOGLE_APPLICATION_CREDENTIALS") {
            settings.credentials = read_text(Path::new(&path), "the Google credentials")?;
            if settings.credentials.is_none() {
                let why = "GOOGLE_APPLICATION_CREDENTIALS names a file that is missing or cannot be read";
                return Err(Error::config(why).with("path", path));
            }
        } else {
            let in_home = || Some(PathBuf::from(variable("HOME")?).join(".config/gcloud"));
            let folder = variable("CLOUDSDK_CONFIG").map(PathBuf::from).or_else(in_home);
            let file = folder.map(|folder| folder.join(DEFAULT_FILE));
            settings.credentials = file.map(|file| read_text(&file, "the Google credentials")).transpose()?.flatten();
        }
        settings.validate()?;
        Ok(settings)
    }

    /// Returns true for an emulator, which has no signatures.
    pub(crate) fn is_emulator(&self) -> bool {
        self.endpoint.is_some() && self.anonymous
    }

    pub(super) fn validate(&self) -> Result<()> {
        if self.access_key.is_some() != self.secret_key.is_some() {
            return Err(Error::config(
                "an HMAC key of Google Cloud Storage has two parts: set both GCS_KEY and GCS_SECRET, or neither",
            ));
        }
        let texts = [&self.access_key, &self.secret_key, &self.metadata_host, &self.user_project];
        check_sendable("Google Cloud Storage", texts)?;
        check_endpoint("Google Cloud Storage", self.endpoint.as_deref())
    }
}

impl fmt::Debug for GcsSettings {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcsSettings")
            .field("endpoint", &self.endpoint.as_deref().map(shown))
            .field("has_keys", &self.access_key.is_some())
            .field("has_credentials", &self.credentials.is_some())
            .field("anonymous", &self.anonymous)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<GcsSettings> {
        GcsSettings::read(&|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn the_named_file_takes_precedence_over_gclouds() {
        let home = tempfile::tempdir().expect("temporary folder");
        let folder = home.path().join(".config/gcloud");
        std::fs::create_dir_all(&folder).expect("made");
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let at_home = [("HOME", &*text(home.path()))];
        assert_eq!(read(&at_home).expect("nothing").credentials, None);
        std::fs::write(folder.join(DEFAULT_FILE), "default").expect("written");
        assert_eq!(read(&at_home).expect("gcloud's").credentials.as_deref(), Some("default"));
        let moved = [("CLOUDSDK_CONFIG", &*text(&folder))];
        assert_eq!(read(&moved).expect("gcloud's").credentials.as_deref(), Some("default"));
        let named = home.path().join("key.json");
        let with_named = [at_home[0], ("GOOGLE_APPLICATION_CREDENTIALS", &*text(&named))];
        let error = read(&with_named).expect_err("no such file");
        assert!(error.to_string().contains("key.json"), "{error}");
        std::fs::write(&named, "named").expect("written");
        assert_eq!(read(&with_named).expect("named").credentials.as_deref(), Some("named"));
    }

    #[test]
    fn an_emulator_gets_no_credentials_of_a_real_account() {
        let emulator = ("STORAGE_EMULATOR_HOST", "localhost:4443");
        let credentials = [("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere"), ("GCS_KEY", "k"), ("GCS_SECRET", "s")];
        let settings = read(&[&[emulator, ("HOME", "/nowhere")][..], &credentials].concat()).expect("no file is read");
        assert_eq!(settings.endpoint.as_deref(), Some("http://localhost:4443"));
        assert!(settings.anonymous && settings.no_metadata);
        assert!(settings.credentials.is_none() && settings.access_key.is_none());
    }

    #[test]
    fn an_endpoint_of_gcloud_is_a_second_server_of_google() {
        for (value, endpoint) in [
            ("https://storage-site.p.googleapis.com/", "https://storage-site.p.googleapis.com"),
            ("https://storage-site.p.googleapis.com/storage/v1/", "https://storage-site.p.googleapis.com"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ] {
            let settings =
                read(&[("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", value), ("GCS_KEY", "k"), ("GCS_SECRET", "s")]);
            let settings = settings.expect("fine");
            assert_eq!((settings.endpoint.as_deref(), settings.anonymous), (Some(endpoint), false));
            assert!(settings.access_key.is_some());
        }
    }

    #[test]
    fn a_file_that_is_not_used_is_not_read() {
        let file = ("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere");
        assert!(read(&[file]).is_err());
        read(&[file, ("GCS_KEY", "k"), ("GCS_SECRET", "s")]).expect("an HMAC key");
        read(&[file, ("GOOGLE_SKIP_SIGNATURE", "true")]).expect("unsigned");
    }

    #[test]
    fn half_an_hmac_key_is_rejected_and_secrets_are_never_shown() {
        let error = read(&[("GCS_KEY", "GOOG1E")]).expect_err("half");
        assert!(error.to_string().contains("GCS_SECRET"), "{error}");
        let error = read(&[("GCS_KEY", "GOOG1E"), ("GCS_SECRET", "geheim\n")]).expect_err("line end");
        assert!(!error.to_string().contains("geheim"), "{error}");
        let mut good = read(&[("GCS_KEY", "geheim"), ("GCS_SECRET", "geheim")]).expect("pair");
        good.credentials = Some("geheim".into());
        assert!(!format!("{good:?}").contains("geheim"));
    }
}
