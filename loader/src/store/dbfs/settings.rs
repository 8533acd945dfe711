//! Workspace and token of Databricks, from the environment and its configuration file.

use crate::store::credentials::{check_endpoint, check_sendable, ini_sections, ini_value, read_text, shown, variable};
use crate::{Error, Result};
use std::fmt;
use std::path::PathBuf;

/// Section of the configuration file if the environment names none.
const SECTION: &str = "DEFAULT";

/// Settings of `dbfs:/Volumes` remotes.
#[derive(Clone, Default)]
pub struct DbfsSettings {
    /// Address of the workspace.
    pub host: Option<String>,
    /// Access token.
    pub token: Option<String>,
    /// Service principal, whose secret gets tokens; not used with `token`.
    pub client_id: Option<String>,
    /// Secret of the service principal.
    pub client_secret: Option<String>,
}

impl DbfsSettings {
    /// Reads the environment, and the section that `DATABRICKS_CONFIG_PROFILE` names, else `DEFAULT`, of
    /// `~/.databrickscfg`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when the workspace or the token is not known.
    pub fn from_env() -> Result<Self> {
        Self::read(&variable)
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let in_home = || Some(PathBuf::from(variable("HOME")?).join(".databrickscfg"));
        let file = variable("DATABRICKS_CONFIG_FILE").map(PathBuf::from).or_else(in_home);
        let text = file.map(|file| read_text(&file, "the configuration of Databricks")).transpose()?.flatten();
        let named = variable("DATABRICKS_CONFIG_PROFILE");
        let name = named.as_deref().unwrap_or(SECTION);
        let found = text.as_deref().and_then(|text| ini_sections(text).into_iter().find(|(n, _)| *n == name));
        if let (Some(name), None) = (&named, &found) {
            let why = format!("DATABRICKS_CONFIG_PROFILE names {name:?}, which ~/.databrickscfg does not have");
            return Err(Error::config(why));
        }
        let section = found.map(|(_, section)| section).unwrap_or_default();
        let value = |name| ini_value(&section, name);
        let with_scheme = |host: String| if host.contains("://") { host } else { format!("https://{host}") };
        let settings = Self {
            host: variable("DATABRICKS_HOST").or_else(|| value("host")).map(with_scheme),
            token: variable("DATABRICKS_TOKEN").or_else(|| value("token")),
            client_id: variable("DATABRICKS_CLIENT_ID").or_else(|| value("client_id")),
            client_secret: variable("DATABRICKS_CLIENT_SECRET").or_else(|| value("client_secret")),
        };
        settings.validate()?;
        Ok(settings)
    }

    pub(super) fn validate(&self) -> Result<()> {
        check_sendable("Databricks", [&self.token, &self.client_id, &self.client_secret])?;
        check_endpoint("Databricks", self.host.as_deref())?;
        let has_token = self.token.is_some() || self.client_id.is_some() && self.client_secret.is_some();
        if self.host.is_none() || !has_token {
            return Err(Error::config(
                "the workspace of Databricks or its token is not known: set DATABRICKS_HOST and DATABRICKS_TOKEN (or \
                 DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET), or run `databricks configure`",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for DbfsSettings {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DbfsSettings")
            .field("host", &self.host.as_deref().map(shown))
            .field("has_token", &self.token.is_some())
            .field("has_client", &self.client_id.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_takes_precedence_over_the_configuration_file() {
        let home = tempfile::tempdir().expect("temporary folder");
        let read = |variables: &[(&str, &str)]| {
            let at_home = [("HOME", home.path().to_str().expect("UTF-8"))];
            let all = [&at_home[..], variables].concat();
            DbfsSettings::read(&|name| all.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        let error = read(&[("DATABRICKS_HOST", "h")]).expect_err("no token");
        assert!(error.to_string().contains("DATABRICKS_TOKEN"), "{error}");
        let text = "[DEFAULT]\nhost = https://h1\ntoken = geheim\n[work]\nhost = h2\nclient_id=c\nclient_secret=s\n";
        std::fs::write(home.path().join(".databrickscfg"), text).expect("written");
        let settings = read(&[]).expect("default");
        assert_eq!((settings.host.as_deref(), settings.token.as_deref()), (Some("https://h1"), Some("geheim")));
        assert!(!format!("{settings:?}").contains("geheim"));
        let settings = read(&[("DATABRICKS_CONFIG_PROFILE", "work")]).expect("work");
        assert_eq!((settings.host.as_deref(), settings.client_id.as_deref()), (Some("https://h2"), Some("c")));
        let settings = read(&[("DATABRICKS_TOKEN", "t")]).expect("both");
        assert_eq!(settings.token.as_deref(), Some("t"));
        let error = read(&[("DATABRICKS_CONFIG_PROFILE", "play")]).expect_err("no such profile");
        assert!(error.to_string().contains("play"), "{error}");
    }
}
