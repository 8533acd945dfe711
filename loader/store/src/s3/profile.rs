//! Profiles of `~/.aws/credentials` and `~/.aws/config`.

use crate::credentials::{Section, ini_sections, ini_value, read_text};
use crate::{Error, Result};
use std::path::Path;

/// Settings of one profile, by name.
#[derive(Debug, Default)]
pub(super) struct Profile(Section);

impl Profile {
    /// Reads the profile `name` (`None`: `default`, which need not exist) from both files. The credentials file takes
    /// precedence.
    pub(super) fn load(name: Option<&str>, credentials: Option<&Path>, config: Option<&Path>) -> Result<Self> {
        let section_name = name.unwrap_or("default");
        let mut found = false;
        let mut settings = Section::new();
        for path in [credentials, config].into_iter().flatten() {
            let Some(text) = read_text(path, "the AWS settings")? else { continue };
            for (section, values) in ini_sections(&text) {
                // `[profile name]` in the config file, `[name]` in the credentials file.
                if section.strip_prefix("profile ").unwrap_or(section).trim() == section_name {
                    found = true;
                    settings.extend(values);
                }
            }
        }
        match name {
            Some(name) if !found => Err(Error::config(format!(
                "AWS_PROFILE names profile {name:?}, which neither the credentials nor the config file has"
            ))),
            _ => Ok(Self(settings)),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<String> {
        ini_value(&self.0, key)
    }
}
