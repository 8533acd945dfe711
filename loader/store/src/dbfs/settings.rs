//! Workspace and token of Databricks, from the environment and its configuration file.

use crate::credentials::{check_endpoint, check_sendable, ini_sections, ini_value, read_text, shown, variable};
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
    /// Service principal with a secret that gets tokens; not used with `token`.
    pub client_id: Option<String>,
    /// Secret of the service principal.
    pub client_secret: Option<String>,
}

impl DbfsSettings {
    /// Reads the environment, or the section that `DATABRICKS_CONFIG_PROFILE` names, else `DEFAULT`, of
    /// `~/.databrickscfg`. All values come from one of the two, so that a token goes only to the workspace that it is
    /// written with: the environment if it has both a workspace and its credentials, else the named section, else the
    /// environment if it has any of them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when the workspace or the token is not known.
    pub fn from_env() -> Result<Self> {
        Self::read(&variable)
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let of_environment = Self::of(|name| variable(&format!("DATABRICKS_{}", name.to_uppercase())));
        let named = variable("DATABRICKS_CONFIG_PROFILE");
        let is_partial = of_environment.host.is_some() || of_environment.has_any_credentials();
        if of_environment.validate().is_ok() || is_partial && named.is_none() {
            return of_environment.validate().map(|()| of_environment);
        }
        let in_home = || Some(PathBuf::from(variable("HOME")?).join(".databrickscfg"));
        let file = variable("DATABRICKS_CONFIG_FILE").map(PathBuf::from).or_else(in_home);
        let text = file.map(|file| read_text(&file, "the configuration of Databricks")).transpose()?.flatten();
        let name = named.as_deref().unwrap_or(SECTION);
        let found = text.as_deref().and_then(|text| ini_sections(text).into_iter().find(|(n, _)| *n == name));
        if let (Some(name), None) = (&named, &found) {
            let why = format!("DATABRICKS_CONFIG_PROFILE names {name:?}, which ~/.databrickscfg does not have");
            return Err(Error::config(why));
        }
        let section = found.map(|(_, section)| section).unwrap_or_default();
        let settings = Self::of(|name| ini_value(&section, name));
        settings.validate()?;
        Ok(settings)
    }

    /// Settings of one source.
    fn of(value: impl Fn(&str) -> Option<String>) -> Self {
        let with_scheme = |host: String| if host.contains("://") { host } else { format!("https://{host}") };
        Self {
            host: value("host").map(with_scheme),
            token: value("token"),
            client_id: value("client_id"),
            client_secret: value("client_secret"),
        }
    }

    fn has_any_credentials(&self) -> bool {
        self.token.is_some() || self.client_id.is_some() || self.client_secret.is_some()
    }

    /// Returns scheme, host and port of the workspace. Users copy addresses of pages, which have a path and a query.
    pub(super) fn workspace(&self) -> String {
        let host = self.host.as_deref().unwrap_or_default();
        let address = url::Url::parse(host).map(|url| url[..url::Position::BeforePath].to_owned());
        address.unwrap_or_else(|_| host.to_owned())
    }

    pub(super) fn validate(&self) -> Result<()> {
        check_sendable("Databricks", [&self.token, &self.client_id, &self.client_secret])?;
        check_endpoint("Databricks", self.host.as_deref())?;
        let has_token = self.token.is_some() || self.client_id.is_some() && self.client_secret.is_some();
        if self.host.is_none() || !has_token {
            return Err(Error::config(
                "the workspace of Databricks or its token is not known: set both DATABRICKS_HOST and DATABRICKS_TOKEN \
                 (or DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET), or none of them and run `databricks \
                 configure`",
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
        let both = [("DATABRICKS_HOST", "h3"), ("DATABRICKS_TOKEN", "t"), ("DATABRICKS_CONFIG_PROFILE", "work")];
        let settings = read(&both).expect("the environment");
        assert_eq!((settings.host.as_deref(), settings.token.as_deref()), (Some("https://h3"), Some("t")));
        let error = read(&[("DATABRICKS_CONFIG_PROFILE", "play")]).expect_err("no such profile");
        assert!(error.to_string().contains("play"), "{error}");
    }

    #[test]
    fn a_token_goes_only_to_the_workspace_that_it_is_written_with() {
        let home = tempfile::tempdir().expect("temporary folder");
        let text = "[DEFAULT]\nhost = https://production\ntoken = geheim\n[work]\nhost = h2\ntoken = w\n";
        std::fs::write(home.path().join(".databrickscfg"), text).expect("written");
        let read = |variables: &[(&str, &str)]| {
            let at_home = [("HOME", home.path().to_str().expect("UTF-8"))];
            let all = [&at_home[..], variables].concat();
            DbfsSettings::read(&|name| all.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        let host = ("DATABRICKS_HOST", "https://test");
        for alone in [host, ("DATABRICKS_TOKEN", "t"), ("DATABRICKS_CLIENT_ID", "c")] {
            let error = read(&[alone]).expect_err("half of a source");
            assert!(error.to_string().contains("set both DATABRICKS_HOST and"), "{error}");
        }
        let client = [host, ("DATABRICKS_CLIENT_ID", "c"), ("DATABRICKS_CLIENT_SECRET", "s")];
        let settings = read(&client).expect("a service principal");
        assert_eq!((settings.token, settings.client_id.as_deref()), (None, Some("c")));
        let settings = read(&[host, ("DATABRICKS_CONFIG_PROFILE", "work")]).expect("the section");
        assert_eq!((settings.host.as_deref(), settings.token.as_deref()), (Some("https://h2"), Some("w")));
    }

    #[test]
    fn a_workspace_may_be_the_address_of_a_page() {
        for host in [
            "https://w.cloud.databricks.com",
            "https://w.cloud.databricks.com/?o=12",
            "https://w.cloud.databricks.com/browse/folders",
        ] {
            let settings = DbfsSettings { host: Some(host.to_owned()), ..DbfsSettings::default() };
            assert_eq!(settings.workspace(), "https://w.cloud.databricks.com");
        }
    }
}
