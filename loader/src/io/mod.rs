//! Placeholder root of `io`.
