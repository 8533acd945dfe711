//! Options of the samples that an epoch leaves out.

use super::options::{OptionInfo, options};
use serde::{Deserialize, Serialize};

options! {
    /// Samples that an epoch leaves out instead of failing. By default it leaves out none.
    ///
    /// A sample that counts in `errors` makes its batch one row shorter. A batch that loses every row is not delivered
    /// if this is the only rank. If more ranks wait for it, it is delivered with one row: a sample of a different
    /// batch of this rank, marked as a repeat if repeats are marked, and the same one in every run. If no such sample
    /// can be read, it is an error.
    #[derive(Copy, PartialEq, Eq)]
    pub struct SkipConfig {
        /// Samples per epoch and rank that are left out if they cannot be read or decoded; one more is an error.
        pub errors: u64 = 0,
        /// Plan without the samples that lack a field without a default.
        pub missing: bool = false,
    }
}

impl SkipConfig {
    /// True if samples that cannot be read or decoded are left out.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }
}
