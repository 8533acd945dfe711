//! Placeholder root of `cache`.
