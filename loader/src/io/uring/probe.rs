//! Whether this process may use io_uring.

use super::ring::Ring;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::OnceLock;

/// What the probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Fine, or the sentence that says why not and what would help.
    pub uring: std::result::Result<(), String>,
}

impl Probe {
    /// The finding as a result.
    pub(super) fn into_result(self) -> Result<()> {
        self.uring.map_err(|reason| Error::new(ErrorKind::Unsupported, reason))
    }
}

/// Tries a small ring for real: set up, one empty operation, closed. Once per process; a forked child asks nobody.
pub fn probe() -> Probe {
    static FOUND: OnceLock<Probe> = OnceLock::new();
    FOUND.get_or_init(|| Probe { uring: attempt().map_err(|e| e.to_string()) }).clone()
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
    fn the_probe_answers_the_same_twice() {
        assert_eq!(probe(), probe());
    }
}
