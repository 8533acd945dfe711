//! Errors for a process that may not use io_uring.

use crate::error::{Error, ErrorKind};
use std::io;

/// Returns the error for a kernel without the features in use.
pub(super) fn unknown_to_kernel() -> Error {
    setup_error(io::Error::from_raw_os_error(libc::EINVAL))
}

/// Returns the error for a ring that cannot be set up, with its likely cause by the error number and the fix.
pub(super) fn setup_error(error: io::Error) -> Error {
    let text = match error.raw_os_error() {
        Some(libc::ENOSYS) => "io_uring is not available: a sandbox (gVisor, seccomp) or a kernel before 5.1",
        Some(libc::EPERM) => {
            "io_uring is blocked: by the container's seccomp profile, or by the sysctl kernel.io_uring_disabled"
        }
        Some(libc::ENOMEM) => "io_uring gets no memory: raise RLIMIT_MEMLOCK (ulimit -l) or the cgroup's limit",
        Some(libc::EINVAL) => "the kernel does not know the io_uring features in use: they came with Linux 5.11",
        Some(libc::EMFILE | libc::ENFILE) => "io_uring gets no file descriptor: raise the limit (ulimit -n)",
        Some(libc::EACCES) => "io_uring is blocked by a security module",
        _ => "io_uring cannot be set up",
    };
    Error::new(ErrorKind::Unsupported, text).caused_by(error)
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
            let e = setup_error(io::Error::from_raw_os_error(errno));
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.to_string().contains(words), "{e}");
        }
    }
}
