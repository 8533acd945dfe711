//! Profiles of `~/.aws/credentials` and `~/.aws/config`.

use crate::{Error, Result};
use std::path::Path;

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Settings of one profile, by name.
#[derive(Debug, Default)]
pub(super) struct Profile(Vec<(String, String)>);

impl Profile {
    /// Reads the profile `name` (`None`: `default`, which need not exist) from both files. The credentials file takes
    /// precedence.
    pub(super) fn load(name: Option<&str>, credentials: Option<&Path>, config: Option<&Path>) -> Result<Self> {
        let section_name = name.unwrap_or("default");
        let mut found = false;
        let mut settings = Vec::new();
        for path in [credentials, config].into_iter().flatten() {
            let Some(text) = read(path)? else { continue };
            let mut is_inside = false;
            for line in text.lines() {
                if let Some(section) = line.trim().strip_prefix('[').and_then(|l| l.split(']').next()) {
                    // `[profile name]` in the config file, `[name]` in the credentials file.
                    let section = section.trim();
                    is_inside = section.strip_prefix("profile ").unwrap_or(section).trim() == section_name;
                    found |= is_inside;
                } else if is_inside
                    // Indented lines belong to a nested setting.
                    && !line.starts_with([' ', '\t', '#', ';'])
                    && let Some((key, value)) = line.split_once('=')
                {
                    settings.push((key.trim().to_lowercase(), value.trim().to_owned()));
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
        self.0.iter().find(|(k, v)| k == key && !v.is_empty()).map(|(_, v)| v.clone())
    }
}

fn read(path: &Path) -> Result<Option<String>> {
    let problem = |e: std::io::Error| Error::from_io(e, "cannot read the AWS settings").with("path", path.display());
    match std::fs::metadata(path) {
        Ok(meta) if meta.len() > FILE_BYTES_MAX => {
            Err(Error::config("the AWS settings are larger than 1 MiB").with("path", path.display()))
        }
        Ok(_) => std::fs::read_to_string(path).map(Some).map_err(problem),
        // A home directory that this user cannot read has no settings for it.
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied) => Ok(None),
        Err(e) => Err(problem(e)),
    }
}
