//! Finding of a check of the gate.

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
