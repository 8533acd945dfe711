//! Reasons to leave a picture to libjpeg-turbo.

use std::fmt;

/// Reason why the native decoder leaves a picture to libjpeg-turbo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fallback(pub &'static str);

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
