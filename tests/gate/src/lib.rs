//! The gate: every check that runs no test.
//!
//! `cargo gate` runs all checks and prints each violation with its fix. The checks that read this repository's sources
//! ([`layering`], [`cycles`], [`functions`], [`width`], [`words`], [`word_rates`], [`type_names`], [`paths`],
//! [`private`], [`stubs`]) are pure functions over text, so that unit tests feed them bad samples, and so is
//! [`licences`] over cargo's metadata; [`tools`] runs cargo's own checks and [`generated`] the programs that write
//! committed files.
//!
//! ```text
//! git ls-files --> sources: text --> rust_files: syntax, modules --> layering, cycles, functions --> Violation
//!                               \-> prose: comments, strings, names --> words, word_rates       -->
//!                               \-> width, type_names, paths, private, stubs                    -->
//! cargo metadata --> licences                                                                     -->
//! cargo fmt, clippy, doc (tools), header, bindings (generated)                                   -->
//! ```

pub mod cycles;
pub mod functions;
pub mod generated;
pub mod layering;
pub mod licences;
pub mod paths;
pub mod private;
pub mod prose;
pub mod rust_files;
pub mod sources;
pub mod stubs;
pub mod syntax;
pub mod tools;
pub mod type_names;
pub mod violation;
pub mod width;
pub mod word_rates;
pub mod words;
