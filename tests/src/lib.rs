//! Harness for the suites across the crates.

pub mod gate;
