//! One of several configurations or splits, by its name.

use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Returns the value of `name`, or the only one for an empty name. `shown` returns the text to write as `split` for a
/// name.
///
/// # Errors
///
/// [`ErrorKind::Config`] with the names that there are.
pub(super) fn chosen<'a, T>(
    all: &'a BTreeMap<&str, T>,
    name: &str,
    noun: &str,
    shown: &dyn Fn(&str) -> String,
) -> Result<&'a T> {
    if let Some(found) = all.get(name) {
        return Ok(found);
    }
    if name.is_empty()
        && let (Some(only), 1) = (all.values().next(), all.len())
    {
        return Ok(only);
    }
    if name.is_empty()
        && noun == "configuration"
        && let Some(default) = all.get("default")
    {
        return Ok(default);
    }
    let names: Vec<&str> = all.keys().copied().take(40).collect();
    let example = shown(names.first().copied().unwrap_or_default());
    let known = names.join(", ");
    let message = if name.is_empty() {
        format!("the data set has more than one {noun} ({known}): choose one, as in split=\"{example}\"")
    } else {
        format!("the data set has no {noun} {name}; there are {known}")
    };
    Err(Error::new(ErrorKind::Config, message))
}

/// Returns `split`, or for none the usual name, for an example.
pub(super) fn or_train(split: &str) -> &str {
    if split.is_empty() { "train" } else { split }
}
