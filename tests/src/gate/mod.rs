//! The gate: every check that runs no test.
//!
//! `cargo gate` runs them all and says of each failure what is wrong and how to mend it. The checks that read our own
//! sources ([`layering`], [`paths`], [`stubs`]) are pure functions over text, so that bad samples test them;
//! [`tools`] runs cargo's own and [`generated`] the programs that write committed files.
//!
//! ```text
//! git ls-files --> sources: text --> syntax: tokens, paths, modules --> layering: edges, unsafe --> Complaint
//!                                \-> paths, stubs                                              -->
//! cargo fmt, clippy, doc (tools), header, bindings (generated)                                          -->
//! ```

pub mod generated;
pub mod layering;
pub mod paths;
pub mod sources;
pub mod stubs;
pub mod syntax;
pub mod tools;

/// One thing that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Where: a path, with a line if there is one.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// How to mend it.
    pub mend: String,
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}\n    mend: {}", self.place, self.what, self.mend)
    }
}
