//! Placeholder root of `memory`.
