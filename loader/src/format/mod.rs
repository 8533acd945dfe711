//! Placeholder root of `format`.
