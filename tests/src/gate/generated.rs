//! Committed files that a program writes: what it would write now must be what is committed.
//!
//! A generator is a binary of its crate that prints the file. One that does not exist yet is said and not an error.

use super::Complaint;
use std::io;
use std::path::Path;
use std::process::Command;

/// A committed file and the binary that prints it.
pub struct Generated {
    /// From the repository's root.
    pub path: &'static str,
    /// The generator's source: where this is missing there is nothing to check.
    source: &'static str,
    /// cargo's arguments that run the generator.
    args: &'static [&'static str],
}

/// All of them.
pub const GENERATED: &[Generated] = &[Generated {
    path: "ffi/include/forebay.h",
    source: "ffi/src/bin/header.rs",
    args: &["run", "--quiet", "--locked", "-p", "forebay-ffi", "--features", "header", "--bin", "header"],
}];

impl Generated {
    /// Compares; `None` where there is no generator.
    ///
    /// # Errors
    ///
    /// When cargo cannot be started.
    pub fn check(&self, root: &Path) -> io::Result<Option<Vec<Complaint>>> {
        if !root.join(self.source).exists() {
            return Ok(None);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let made = Command::new(cargo).args(self.args).current_dir(root).output()?;
        let mend = format!("cargo {} > {}", self.args.join(" "), self.path);
        let committed = std::fs::read(root.join(self.path)).unwrap_or_default();
        let what = if !made.status.success() {
            format!("the generator failed: {}", String::from_utf8_lossy(&made.stderr))
        } else if made.stdout != committed {
            "is not what its generator writes".to_owned()
        } else {
            return Ok(Some(Vec::new()));
        };
        Ok(Some(vec![Complaint { place: self.path.to_owned(), what, mend }]))
    }
}
