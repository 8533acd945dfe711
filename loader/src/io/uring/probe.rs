//! Check that this process may use io_uring.

use super::ring::Ring;
use crate::error::Result;
use crate::sync::OnceLock;

/// Tries a small ring: set-up, one empty operation, close. Done once per process, and not again in its forked children.
///
/// # Errors
///
/// The reason why this process may not use io_uring, and the fix.
pub fn probe() -> std::result::Result<(), String> {
    static FOUND: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    FOUND.get_or_init(|| attempt().map_err(|e| e.to_string())).clone()
}

pub(super) fn attempt() -> Result<()> {
    let mut ring = Ring::new(2, Vec::new())?;
    ring.check_operations()?;
    ring.ping()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_returns_the_same_result_twice() {
        assert_eq!(probe(), probe());
    }
}
