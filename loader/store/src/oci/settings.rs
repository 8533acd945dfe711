//! Region and key of Oracle's cloud, from its configuration file and the environment.

use crate::credentials::{
    Section, check_endpoint, check_sendable, ini_sections, ini_value, read_text, shown, variable,
};
use crate::{Error, Result};
use std::fmt;
use std::path::PathBuf;

/// Section of the file that Oracle's library uses.
const SECTION: &str = "DEFAULT";

/// Settings of `oci://` remotes. Without a key requests are not signed, which public buckets accept.
#[derive(Clone, Default)]
pub struct OciSettings {
    /// Address of the object storage, instead of `https://objectstorage.REGION.oraclecloud.com`.
    pub endpoint: Option<String>,
    /// Region, such as `eu-frankfurt-1` or `fra`.
    pub region: Option<String>,
    /// Identifier of the tenancy.
    pub tenancy: Option<String>,
    /// Identifier of the user; not needed with a session.
    pub user: Option<String>,
    /// Fingerprint of the key.
    pub fingerprint: Option<String>,
    /// Private key, in PEM.
    pub key: Option<String>,
    /// File of the key, which is read again for each new session.
    pub key_file: Option<PathBuf>,
    /// File with the token of a session, as `oci session authenticate` writes it.
    pub security_token_file: Option<PathBuf>,
}

impl OciSettings {
    /// Reads the section `DEFAULT` of `~/.oci/config`, of the file in `OCI_CONFIG_FILE` or of `~/.oraclebmc/config`:
    /// the first of them that exists.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when the key's file cannot be read or a part is missing.
    pub fn from_env() -> Result<Self> {
        Self::read(&variable)
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let home = variable("HOME").map(PathBuf::from);
        let expand = |path: &str| match (path.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(path),
        };
        let files =
            [Some("~/.oci/config".to_owned()), variable("OCI_CONFIG_FILE"), Some("~/.oraclebmc/config".to_owned())];
        let mut section = Section::new();
        for path in files.into_iter().flatten().map(|path| expand(&path)) {
            if let Some(text) = read_text(&path, "the configuration of Oracle's cloud")? {
                let found = ini_sections(&text).into_iter().find(|(name, _)| *name == SECTION);
                section = found.map(|(_, section)| section).unwrap_or_default();
                break;
            }
        }
        let value = |name: &str| ini_value(&section, name);
        let key_file = value("key_file").map(|path| expand(&path));
        let key = match &key_file {
            None => None,
            Some(path) => Some(read_text(path, "the key of Oracle's cloud")?.ok_or_else(|| {
                let why = "key_file in the configuration of Oracle's cloud is missing or cannot be read";
                Error::config(why).with("path", path.display())
            })?),
        };
        let settings = Self {
            endpoint: variable("OCI_CLI_ENDPOINT"),
            region: value("region").or_else(|| variable("OCI_REGION")),
            tenancy: value("tenancy"),
            user: value("user"),
            fingerprint: value("fingerprint"),
            key,
            key_file,
            security_token_file: value("security_token_file").map(|path| expand(&path)),
        };
        settings.validate()?;
        Ok(settings)
    }

    pub(super) fn validate(&self) -> Result<()> {
        check_sendable("Oracle's cloud", [&self.region, &self.tenancy, &self.user, &self.fingerprint])?;
        check_endpoint("Oracle's cloud", self.endpoint.as_deref())?;
        let is_known = |names: &[&Option<String>]| names.iter().all(|name| name.is_some());
        let has_name = self.security_token_file.is_some() || is_known(&[&self.tenancy, &self.user, &self.fingerprint]);
        if self.key.is_some() && !has_name {
            return Err(Error::config(
                "a key of Oracle's cloud needs its tenancy, user and fingerprint, or a security_token_file: add them \
                 to ~/.oci/config or run `oci setup config`",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for OciSettings {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OciSettings")
            .field("endpoint", &self.endpoint.as_deref().map(shown))
            .field("region", &self.region)
            .field("has_key", &self.key.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_file_names_the_key() {
        let home = tempfile::tempdir().expect("temporary folder");
        let read = |variables: &[(&str, &str)]| {
            let at_home = [("HOME", home.path().to_str().expect("UTF-8"))];
            let all = [&at_home[..], variables].concat();
            OciSettings::read(&|name| all.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert!(read(&[("OCI_REGION", "r-1")]).expect("nothing").key.is_none());
        std::fs::create_dir(home.path().join(".oci")).expect("made");
        let config = home.path().join(".oci/config");
        let write = |text: &str| std::fs::write(&config, text).expect("written");
        write("[DEFAULT]\nuser=u\ntenancy = t\nfingerprint=f\nregion=eu-1\nkey_file=~/.oci/key.pem\n[B]\nuser=v\n");
        let error = read(&[]).expect_err("no key");
        assert!(error.to_string().contains("key.pem"), "{error}");
        std::fs::write(home.path().join(".oci/key.pem"), "geheim").expect("written");
        let settings = read(&[]).expect("fine");
        assert_eq!((settings.user.as_deref(), settings.region.as_deref()), (Some("u"), Some("eu-1")));
        assert!(settings.key.as_deref() == Some("geheim") && !format!("{settings:?}").contains("geheim"));
        write("[DEFAULT]\nuser=u\nkey_file=~/.oci/key.pem\n");
        let error = read(&[]).expect_err("half");
        assert!(error.to_string().contains("fingerprint"), "{error}");
    }
}
