//! Placeholder root of `store`.
