//! cargo's own checks.

use crate::violation::Violation;
use std::io;
use std::path::Path;
use std::process::Command;

/// One of cargo's checks.
pub struct Tool {
    /// Name of the check.
    pub name: &'static str,
    /// cargo's arguments.
    args: &'static [&'static str],
    /// Added to the environment.
    env: &'static [(&'static str, &'static str)],
    /// Change that repairs its findings.
    fix: &'static str,
}

/// In the order they run: the quickest first.
pub const TOOLS: &[Tool] = &[
    Tool { name: "format", args: &["fmt", "--all", "--check"], env: &[], fix: "cargo fmt --all" },
    Tool {
        name: "lints",
        args: &["clippy", "--quiet", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
        env: &[],
        fix: "see the messages above; a lint that is wrong here gets #[expect(..., reason = \"...\")]",
    },
    Tool {
        name: "docs",
        args: &["doc", "--quiet", "--workspace", "--no-deps", "--locked"],
        // Module maps link to private modules: such a link works for readers of the source.
        env: &[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")],
        fix: "see the messages above; cargo doc --open shows the page",
    },
];

impl Tool {
    /// Runs it with its output on ours.
    ///
    /// # Errors
    ///
    /// When cargo cannot be started.
    pub fn run(&self, root: &Path) -> io::Result<Vec<Violation>> {
        // cargo sets CARGO for programs that it runs.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo).args(self.args).envs(self.env.iter().copied()).current_dir(root).status()?;
        if status.success() {
            return Ok(Vec::new());
        }
        Ok(vec![Violation {
            place: format!("cargo {}", self.args.join(" ")),
            problem: "failed, see above".to_owned(),
            fix: self.fix.to_owned(),
        }])
    }
}

/// `cargo metadata` of our own packages and of all that a build for Linux on a machine like this one needs.
///
/// # Errors
///
/// When cargo cannot be started or its answer is no JSON.
pub fn metadata_of_dependencies(root: &Path) -> io::Result<serde_json::Value> {
    cargo_metadata(root, &["--locked", "--filter-platform", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
}

/// `cargo metadata` of our own packages.
///
/// # Errors
///
/// When cargo cannot be started or its answer is no JSON.
pub fn metadata(root: &Path) -> io::Result<serde_json::Value> {
    cargo_metadata(root, &["--no-deps"])
}

fn cargo_metadata(root: &Path, arguments: &[&str]) -> io::Result<serde_json::Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(arguments)
        .current_dir(root)
        .output()?;
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}
