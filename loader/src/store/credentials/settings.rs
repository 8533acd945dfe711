//! Checks and representations that all settings of stores have in common.

use crate::store::url::redact;
use crate::{Error, Result};

/// Returns an environment variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
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
        "a key, token or name for {store} has blanks or other characters that cannot be sent: look for a stray line end"
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
