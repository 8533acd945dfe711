//! Allowed imports between modules and between crates, and the modules that may use `unsafe`.
//!
//! [`table`] is the design's. An edge that it does not allow is a mistake of the design or of the code, so the gate
//! fails until one of them is changed. An entry that the code does not use permits the next such mistake, so it is one
//! as well.
//!
//! ```text
//! rust_files --> names: item behind a path --> imports: rows of a crate's modules
//!           \-> part_users: parts of a module that few may use
//!           \-> unsafe_code
//! cargo metadata --> manifests: arrows between crates
//! ```

mod imports;
mod manifests;
mod names;
mod part_users;
pub mod table;
mod unsafe_code;

use super::rust_files::RustFile;
use crate::violation::Violation;
use table::CRATES;

/// Checks every Rust file.
pub fn check(files: &[RustFile<'_>]) -> Vec<Violation> {
    let checks = [unsafe_code::check, imports::forbidden, imports::unused, unsafe_code::unused, part_users::check];
    checks.into_iter().flat_map(|check| check(CRATES, files)).collect()
}

/// Checks the arrows between crates in the output of `cargo metadata --no-deps`.
pub fn check_crates(metadata: &serde_json::Value) -> Vec<Violation> {
    [manifests::check, manifests::unused].into_iter().flat_map(|check| check(CRATES, metadata)).collect()
}

#[cfg(test)]
mod tests;
