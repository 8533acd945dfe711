//! Reasons to leave a picture to libjpeg-turbo.

/// Reason why the native decoder leaves a picture to libjpeg-turbo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Fallback(pub &'static str);
