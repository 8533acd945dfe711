//! Profiles of `~/.aws/credentials` and `~/.aws/config`, and the sources of credentials that they describe.

use super::source::{Base, CredentialSource, Identity, ProfileFiles, Role, Services, Sso};
use crate::credentials::{Section, ini_sections, ini_value, read_text};
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Settings of all profiles and sessions, by their names.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    profiles: HashMap<String, Section>,
    sessions: HashMap<String, Section>,
}

impl Profiles {
    /// Reads both files. The credentials file takes precedence.
    pub(super) fn load(files: &ProfileFiles) -> Result<Self> {
        let mut all = Self::default();
        for path in [&files.credentials, &files.config].into_iter().flatten() {
            let Some(text) = read_text(path, "the AWS settings")? else { continue };
            for (section, values) in ini_sections(&text) {
                // `[profile name]` in the config file, `[name]` in the credentials file.
                let (table, name) = match section.strip_prefix("sso-session ") {
                    Some(name) => (&mut all.sessions, name),
                    None => (&mut all.profiles, section.strip_prefix("profile ").unwrap_or(section)),
                };
                table.entry(name.trim().to_owned()).or_default().extend(values);
            }
        }
        Ok(all)
    }

    /// Checks that there is a profile that `AWS_PROFILE` names.
    pub(super) fn check(&self, name: Option<&str>) -> Result<()> {
        match name.filter(|name| !self.profiles.contains_key(*name)) {
            Some(name) => Err(Error::config(format!(
                "AWS_PROFILE names profile {name:?}, which neither the credentials nor the config file has"
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn get(&self, profile: &str, key: &str) -> Option<String> {
        ini_value(self.profiles.get(profile)?, key)
    }

    /// Returns the endpoint of `service` that a profile has in its section of services; `None` if it has none.
    pub(super) fn endpoint(&self, profile: &str, service: &str) -> Option<String> {
        self.get(&format!("services {}", self.get(profile, "services")?), &format!("{service}.endpoint_url"))
    }

    /// Returns the source of credentials of a profile, in the order of the AWS command line; `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for settings that do not fit together, and [`ErrorKind::Unsupported`] for a second factor,
    /// with the names of the settings.
    pub(super) fn source(
        &self,
        profile: &str,
        files: &ProfileFiles,
        services: Services,
    ) -> Result<Option<CredentialSource>> {
        let (mut name, mut seen, mut roles) = (profile.to_owned(), Vec::new(), Vec::new());
        let mut described = None;
        let base = loop {
            let get = |key: &str| self.get(&name, key);
            let wrong = |why: String| Error::config(format!("AWS profile {name}: {why}"));
            let keys = get("aws_access_key_id").map(|_| Base::File { files: files.clone(), profile: name.clone() });
            let (Some(arn), false) = (get("role_arn"), !roles.is_empty() && keys.is_some()) else {
                let found =
                    if roles.is_empty() { self.sso(&name, files)?.or(keys) } else { keys.or(self.sso(&name, files)?) };
                let found = found.or_else(|| get("credential_process").map(Base::Process));
                match found {
                    Some(base) => break base,
                    None if roles.is_empty() => return Ok(None),
                    None => return Err(wrong("source_profile names it, and it has no credentials".to_owned())),
                }
            };
            if seen.contains(&name) {
                return Err(wrong("role_arn and source_profile lead back to it".to_owned()));
            }
            if get("mfa_serial").is_some() {
                let why = format!("AWS profile {name} has mfa_serial, and forebay cannot ask for a code");
                return Err(Error::new(ErrorKind::Unsupported, why)
                    .hinting(format!("run `aws configure export-credentials --profile {name} --format env`")));
            }
            let role = Role {
                arn,
                session: get("role_session_name"),
                external_id: get("external_id"),
                seconds: get("duration_seconds"),
            };
            let (token, source, machine) =
                (get("web_identity_token_file"), get("source_profile"), get("credential_source"));
            let text = match (&token, &source) {
                (Some(_), _) => "role_arn with web_identity_token_file",
                (None, Some(_)) => "role_arn with source_profile",
                (None, None) => "role_arn with credential_source",
            };
            described.get_or_insert(text);
            match (token, source, machine.as_deref()) {
                (Some(file), _, _) => break Base::Identity(Identity { role, token_file: file.into() }),
                (None, Some(source), _) => {
                    roles.push(role);
                    if source == name {
                        break keys
                            .ok_or_else(|| wrong("source_profile names it itself, and it has no keys".to_owned()))?;
                    }
                    if !self.profiles.contains_key(&source) {
                        return Err(wrong(format!("source_profile names profile {source}, which no file has")));
                    }
                    seen.push(std::mem::replace(&mut name, source));
                }
                // Keys of the environment are used before any profile.
                (None, None, Some("Environment")) => {
                    return Err(wrong("credential_source is Environment, and AWS_ACCESS_KEY_ID is not set".to_owned()));
                }
                (None, None, Some("Ec2InstanceMetadata" | "EcsContainer")) => {
                    roles.push(role);
                    break Base::Machine;
                }
                (None, None, Some(source)) => return Err(wrong(format!("credential_source {source} is not known"))),
                (None, None, None) => {
                    let why = "role_arn needs source_profile, credential_source or web_identity_token_file";
                    return Err(wrong(why.to_owned()));
                }
            }
        };
        roles.reverse();
        let described = described.unwrap_or_else(|| base.setting());
        Ok(Some(CredentialSource::new(base, roles, services, format!("{described} of AWS profile {profile}"))))
    }

    /// Returns the session of single sign-on of a profile.
    fn sso(&self, profile: &str, files: &ProfileFiles) -> Result<Option<Base>> {
        let session = self.get(profile, "sso_session");
        let key = session.clone().or_else(|| self.get(profile, "sso_start_url"));
        let Some(key) = key else { return Ok(None) };
        let lacks = |name: &str| Error::config(format!("AWS profile {profile} has sso settings without {name}"));
        let of_session = |name: &str| match &session {
            Some(session) => self.sessions.get(session).and_then(|section| ini_value(section, name)),
            None => self.get(profile, name),
        };
        let needed = |name: &str| self.get(profile, name).ok_or_else(|| lacks(name));
        Ok(Some(Base::Sso(Sso {
            key,
            profile: profile.to_owned(),
            region: of_session("sso_region")
                .ok_or_else(|| lacks(if session.is_some() { "sso_region in [sso-session]" } else { "sso_region" }))?,
            account: needed("sso_account_id")?,
            role: needed("sso_role_name")?,
            cache: files.sso_cache.clone(),
        })))
    }
}

/// Returns the path of a file in `~/.aws`.
pub(super) fn in_home(home: Option<&Path>, name: &str) -> Option<PathBuf> {
    home.map(|home| home.join(".aws").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Result<Option<CredentialSource>> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        std::fs::write(&path, text).expect("written");
        let files = ProfileFiles { config: Some(path), ..ProfileFiles::default() };
        Profiles::load(&files)?.source("mine", &files, Services::default())
    }

    #[test]
    fn each_kind_of_source_is_found_and_described() {
        for (text, expected) in [
            ("aws_access_key_id = a\naws_secret_access_key = b", Some("keys")),
            ("credential_process = run it", Some("credential_process")),
            (
                "sso_session = s\nsso_account_id = 1\nsso_role_name = r\n[sso-session s]\nsso_region = eu-1",
                Some("sso_session"),
            ),
            ("sso_start_url = u\nsso_region = x\nsso_account_id = 1\nsso_role_name = r", Some("sso_session")),
            ("role_arn = a\nweb_identity_token_file = f", Some("role_arn with web_identity_token_file")),
            ("role_arn = a\ncredential_source = Ec2InstanceMetadata", Some("role_arn with credential_source")),
            (
                "role_arn = a\nsource_profile = base\n[profile base]\naws_access_key_id = k\naws_secret_access_key = s",
                Some("role_arn with source_profile"),
            ),
            (
                "role_arn = a\nsource_profile = b\n[profile b]\nrole_arn = c\nsource_profile = d\n[profile \
                 d]\ncredential_process = p",
                Some("role_arn with source_profile"),
            ),
            ("role_arn = a\nsource_profile = mine\naws_access_key_id = k", Some("role_arn with source_profile")),
            ("region = x", None),
        ] {
            let found = source(&format!("[profile mine]\n{text}\n")).unwrap_or_else(|e| panic!("{text}: {e}"));
            let described = found.map(|source| source.described().to_owned());
            assert_eq!(described, expected.map(|text| format!("{text} of AWS profile mine")), "{text}");
        }
    }

    #[test]
    fn settings_that_do_not_fit_together_are_named() {
        for (text, hint) in [
            ("role_arn = a", "role_arn needs source_profile"),
            ("role_arn = a\nsource_profile = none", "names profile none"),
            ("role_arn = a\nsource_profile = mine", "names it itself"),
            ("role_arn = a\nsource_profile = b\n[profile b]\nrole_arn = c\nsource_profile = mine", "lead back"),
            ("role_arn = a\nsource_profile = b\n[profile b]\nregion = x", "has no credentials"),
            ("role_arn = a\nsource_profile = b\nmfa_serial = m", "mfa_serial"),
            ("role_arn = a\ncredential_source = Moon", "credential_source Moon"),
            ("role_arn = a\ncredential_source = Environment", "AWS_ACCESS_KEY_ID is not set"),
            ("sso_session = s\nsso_account_id = 1\nsso_role_name = r", "sso_region in [sso-session]"),
            ("sso_start_url = u\nsso_region = r", "sso_account_id"),
        ] {
            let error = source(&format!("[profile mine]\n{text}\n")).map(|_| ()).expect_err(text);
            assert!(error.to_string().contains(hint), "{text}: {error}");
        }
    }
}
