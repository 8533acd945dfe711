//! Harness for the suites across the crates.

pub mod chaos;
pub mod data;
pub mod disk;
pub mod hostile;
pub mod order_cases;
pub mod server;
