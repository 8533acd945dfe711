//! Harness for the suites across the crates.
