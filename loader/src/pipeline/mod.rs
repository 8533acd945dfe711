//! Placeholder root of `pipeline`.
