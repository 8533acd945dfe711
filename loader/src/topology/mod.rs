//! Placeholder root of `topology`.
