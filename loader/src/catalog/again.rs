//! Repetition of reads of bytes that contradict their format or hash.

use crate::error::{Error, ErrorKind, Result};
use crate::store::Remote;

/// Calls `read`, which fetches and parses the object `name`, until its bytes are in its format. It is called with
/// true in the last attempt. Bytes of a folder are read once.
///
/// # Errors
///
/// The errors of `read`.
pub(super) fn again<T>(remote: &Remote, name: &str, read: impl FnMut(bool) -> Result<T>) -> Result<T> {
    let attempts = remote.attempts();
    let is_damage = |error: &Error| error.kind() == ErrorKind::Format && attempts > 1;
    repeated(attempts, is_damage, |error| log::info!("{name} is fetched again: {error}"), read)
}

/// Calls `fetch` up to `attempts` times, until its result has no error, or one that `is_damage` does not accept: a
/// proxy or a replica may have damaged the bytes, and the next attempt may get good ones. `fetch` is called with true
/// in the last attempt, and `failed` before each further one.
///
/// # Errors
///
/// The errors of `fetch`.
pub(crate) fn repeated<T>(
    attempts: u32,
    is_damage: impl Fn(&Error) -> bool,
    failed: impl Fn(&Error),
    mut fetch: impl FnMut(bool) -> Result<T>,
) -> Result<T> {
    let mut attempt = 1;
    loop {
        let error = match fetch(attempt >= attempts) {
            Err(error) if is_damage(&error) => error.with("attempt", format!("{attempt} of {attempts}")),
            result => return result,
        };
        if attempt >= attempts {
            return Err(error);
        }
        failed(&error);
        attempt += 1;
    }
}
