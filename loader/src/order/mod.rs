//! Placeholder root of `order`.
