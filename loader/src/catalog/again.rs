//! Repetition of reads of objects whose bytes contradict their format.

use crate::error::{ErrorKind, Result};
use crate::store::Remote;

/// Calls `read`, which fetches and parses the object `name`, until its bytes are those of its format: a proxy or a
/// replica may have damaged them, and the next attempt may get good ones. Bytes of a folder are read once.
///
/// # Errors
///
/// Those of `read`.
pub(super) fn again<T>(remote: &Remote, name: &str, mut read: impl FnMut() -> Result<T>) -> Result<T> {
    let attempts = remote.attempts();
    let mut attempt = 1;
    loop {
        let error = match read() {
            Err(error) if error.kind() == ErrorKind::Format && attempts > 1 => error,
            result => return result,
        };
        if attempt == attempts {
            return Err(error.with("attempt", format!("{attempt} of {attempts}")));
        }
        log::info!("{name} is fetched again: {error}");
        attempt += 1;
    }
}
