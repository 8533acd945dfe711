//! Checks of the values of options.

use crate::error::{Error, Result};

/// Returns the error `message` unless `ok`.
pub(super) fn require(ok: bool, message: &str) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::config(message)) }
}

/// True if `seconds` is a duration above 0.
pub(super) fn positive(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0
}
