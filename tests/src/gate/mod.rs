//! The gate: every check that runs no test.
//!
//! `cargo gate` runs all checks and prints each violation with its fix. The checks that read this repository's sources
//! ([`layering`], [`cycles`], [`functions`], [`width`], [`words`], [`paths`], [`stubs`], [`options`]) are pure
//! functions over text, so that unit tests feed them bad samples; [`tools`] runs cargo's own checks and [`generated`]
//! the programs that write committed files.
//!
//! ```text
//! git ls-files --> sources: text --> rust_files: syntax, modules --> layering, cycles, functions --> Violation
//!                               \-> prose: comments, strings, names --> words                   -->
//!                               \-> width, paths, stubs, options                                -->
//! cargo fmt, clippy, doc (tools), header, bindings (generated)                                   -->
//! ```

pub mod cycles;
pub mod functions;
pub mod generated;
pub mod layering;
pub mod options;
pub mod paths;
pub mod prose;
pub mod rust_files;
pub mod sources;
pub mod stubs;
pub mod syntax;
pub mod tools;
pub mod width;
pub mod words;

/// One finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path, with a line number if there is one.
    pub place: String,
    /// Rule that is broken, and the text that breaks it.
    pub problem: String,
    /// Change that repairs it.
    pub fix: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}\n    fix: {}", self.place, self.problem, self.fix)
    }
}
