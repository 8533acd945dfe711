//! Placeholder root of `decode`.
