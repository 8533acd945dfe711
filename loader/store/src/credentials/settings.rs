//! Checks and representations that all settings of stores have in common.

use crate::address::redact;
use crate::{Error, Result};
use std::path::Path;

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns an environment variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads a small file with settings, which messages call `subject`. One that is missing, or in a home directory that
/// this user cannot read, is `None`.
pub(crate) fn read_text(path: &Path, subject: &str) -> Result<Option<String>> {
    let problem = |e: std::io::Error| Error::from_io(e, format!("cannot read {subject}")).with("path", path.display());
    match std::fs::metadata(path) {
        Ok(meta) if meta.len() > FILE_BYTES_MAX => {
            Err(Error::config(format!("{subject} should not be larger than 1 MiB")).with("path", path.display()))
        }
        Ok(_) => std::fs::read_to_string(path).map(Some).map_err(problem),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied) => Ok(None),
        Err(e) => Err(problem(e)),
    }
}

/// Returns true for a variable's `1`, `true` or `yes`.
pub(crate) fn is_true(value: Option<&str>) -> bool {
    value.is_some_and(|value| matches!(&*value.to_lowercase(), "1" | "true" | "yes"))
}

/// Checks that texts of `store` can be part of a header.
pub(crate) fn check_sendable<const N: usize>(store: &str, texts: [&Option<String>; N]) -> Result<()> {
    if texts.into_iter().flatten().all(|text| text.bytes().all(|b| (0x21..0x7f).contains(&b))) {
        return Ok(());
    }
    Err(Error::config(format!(
        "a key, token or name for {store} has blanks or control characters that cannot be sent: look for a stray line \
         end"
    )))
}

/// Checks the address of a server of `store`.
pub(crate) fn check_endpoint(store: &str, endpoint: Option<&str>) -> Result<()> {
    let is_valid = |endpoint: &str| {
        url::Url::parse(endpoint).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    };
    match endpoint {
        Some(endpoint) if !is_valid(endpoint) => {
            let why = format!("the endpoint of {store} must be an http:// or https:// address");
            Err(Error::config(why).with("endpoint", shown(endpoint)))
        }
        _ => Ok(()),
    }
}

/// Returns an endpoint for messages. It may lack its scheme.
pub(crate) fn shown(endpoint: &str) -> String {
    if endpoint.contains("://") {
        redact(endpoint).into_owned()
    } else {
        redact(&format!("http://{endpoint}")).trim_start_matches("http://").to_owned()
    }
}
