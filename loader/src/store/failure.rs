//! Failed exchanges.

use crate::{Error, ErrorKind};
use std::time::Duration;

/// Error of a failed exchange, and whether to try again.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Another attempt may succeed.
    pub(crate) is_retried: bool,
    /// Pause that the server requested.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn transient(error: Error) -> Self {
        Self { error, is_retried: true, retry_after: None }
    }

    pub(crate) fn permanent(error: Error) -> Self {
        Self { error, is_retried: false, retry_after: None }
    }

    pub(crate) fn network(message: impl Into<String>) -> Self {
        Self::transient(Error::new(ErrorKind::Network, message))
    }
}
