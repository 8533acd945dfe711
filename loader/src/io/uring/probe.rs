//! Whether this process may use io_uring.

use super::ring::{self, Ring};
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

/// Why a ring cannot be had, by the error number of its set-up.
pub(super) fn refused(error: &std::io::Error) -> Error {
    let text = match error.raw_os_error() {
        Some(libc::ENOSYS) => "io_uring is not there: a sandbox (gVisor, seccomp) or a kernel before 5.1",
        Some(libc::EPERM) => {
            "io_uring is refused: by the container's seccomp profile, or by the sysctl kernel.io_uring_disabled"
        }
        Some(libc::ENOMEM) => "io_uring gets no memory: raise RLIMIT_MEMLOCK (ulimit -l) or the cgroup's limit",
        Some(libc::EINVAL) => "the kernel does not know the io_uring features in use: they came with Linux 5.11",
        Some(libc::EMFILE | libc::ENFILE) => "io_uring gets no file descriptor: raise the limit (ulimit -n)",
        Some(libc::EACCES) => "io_uring is refused by a security module",
        _ => "io_uring cannot be set up",
    };
    Error::new(ErrorKind::Unsupported, text).caused_by(ring::copy(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_names_its_likely_cause() {
        for (errno, words) in [
            (libc::ENOSYS, "gVisor"),
            (libc::EPERM, "seccomp"),
            (libc::ENOMEM, "RLIMIT_MEMLOCK"),
            (libc::EINVAL, "5.11"),
            (libc::EMFILE, "ulimit -n"),
            (libc::EIO, "cannot be set up"),
        ] {
            let e = refused(&std::io::Error::from_raw_os_error(errno));
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.to_string().contains(words), "{e}");
        }
    }

    #[test]
    fn the_probe_answers_the_same_twice() {
        assert_eq!(probe(), probe());
    }
}
