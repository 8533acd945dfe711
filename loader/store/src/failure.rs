//! Failed exchanges, and whether they are tried again.

use crate::{Error, ErrorKind};
use std::time::Duration;

/// Error of a failed exchange, and whether to try again.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// A further attempt may succeed.
    pub(crate) is_retried: bool,
    /// Pause that the server requested.
    pub(crate) retry_after: Option<Duration>,
    /// The server has too many requests (429, 503).
    pub(crate) is_throttled: bool,
    /// There is no such server or service: its name, its port or any response is missing.
    pub(crate) is_absent: bool,
    /// No connection to this server was ever made.
    pub(crate) is_unreached: bool,
}

impl Failure {
    pub(crate) fn new(error: Error, is_retried: bool) -> Self {
        Self { error, is_retried, retry_after: None, is_throttled: false, is_absent: false, is_unreached: false }
    }

    pub(crate) fn transient(error: Error) -> Self {
        Self::new(error, true)
    }

    pub(crate) fn permanent(error: Error) -> Self {
        Self::new(error, false)
    }

    /// Returns true if the bytes of a response are not those that were expected, or too few.
    pub(crate) fn is_of_content(&self) -> bool {
        matches!(self.error.kind(), ErrorKind::Checksum | ErrorKind::Format | ErrorKind::Network)
    }

    /// Marks the failure of a server or service that does not exist.
    pub(crate) fn absent(self) -> Self {
        Self { is_absent: true, ..self }
    }

    pub(crate) fn network(message: impl Into<String>) -> Self {
        Self::transient(Error::new(ErrorKind::Network, message))
    }
}
