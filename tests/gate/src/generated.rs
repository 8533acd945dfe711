//! Committed files that a program writes: the program's output must equal the committed file.
//!
//! A generator is a binary of its crate that prints the file. A generator that needs files which this machine does not
//! have is reported and not an error.

use crate::violation::Violation;
use std::io;
use std::path::Path;
use std::process::Command;

/// Committed file and the binary that prints it.
pub struct Generated {
    /// Path from the repository's root.
    pub path: &'static str,
    /// Source of the generator. Without this file nothing is checked.
    source: &'static str,
    /// Arguments of cargo that run the generator.
    args: &'static [&'static str],
    /// Returns the reason why it cannot run on this machine.
    missing: fn() -> Option<String>,
}

/// All generated files.
pub const GENERATED: &[Generated] = &[
    Generated {
        path: "ffi/include/forebay.h",
        source: "ffi/header/src/main.rs",
        args: &["run", "--quiet", "--locked", "--bin", "header", "--features", "forebay-header/generator"],
        missing: || None,
    },
    Generated {
        path: "gpu/src/nvjpeg/sys.rs",
        source: "gpu/src/bin/bindings.rs",
        args: &bindings("nvjpeg"),
        missing: || missing_for_bindings("NVJPEG_INCLUDE", "nvjpeg.h (pip install nvidia-nvjpeg-cu12)", is_set),
    },
    Generated {
        path: "gpu/src/cufile/sys.rs",
        source: "gpu/src/bin/bindings.rs",
        args: &bindings("cufile"),
        missing: || missing_for_bindings("CUFILE_INCLUDE", "cufile.h (pip install nvidia-cufile-cu12)", is_set),
    },
];

/// Result of a check.
#[derive(Debug)]
pub enum Verdict {
    /// The generator ran.
    Checked(Vec<Violation>),
    /// The generator cannot run on this machine, for this reason.
    Skipped(String),
}

/// Returns the arguments of cargo that print the functions of `library`.
const fn bindings(library: &str) -> [&str; 8] {
    ["run", "--quiet", "--locked", "--bin", "bindings", "--features", "forebay-gpu/bindings", library]
}

/// Returns true if the environment has a value for `name`.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// bindgen loads libclang and reads a header that may not be committed: `header`, in the folder that `variable` names.
fn missing_for_bindings(variable: &str, header: &str, is_set: impl Fn(&str) -> bool) -> Option<String> {
    if !is_set(variable) {
        return Some(format!("{variable} does not name the folder of {header}"));
    }
    let is_installed = || {
        let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        folders.map(|llvm| llvm.path().join("lib/libclang.so")).any(|file| file.exists())
    };
    if !is_set("LIBCLANG_PATH") && !is_installed() {
        return Some("there is no libclang (apt-get install libclang-dev, or LIBCLANG_PATH)".to_owned());
    }
    None
}

impl Generated {
    /// Compares the committed file with the generator's output.
    ///
    /// # Errors
    ///
    /// When cargo cannot be started.
    pub fn check(&self, root: &Path) -> io::Result<Verdict> {
        if !root.join(self.source).exists() {
            return Ok(Verdict::Skipped("it has no generator".to_owned()));
        }
        if let Some(missing) = (self.missing)() {
            return Ok(Verdict::Skipped(missing));
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let made = Command::new(cargo).args(self.args).current_dir(root).output()?;
        let fix = format!("cargo {} > {}", self.args.join(" "), self.path);
        let committed = std::fs::read(root.join(self.path)).unwrap_or_default();
        let problem = if !made.status.success() {
            format!("the generator failed: {}", String::from_utf8_lossy(&made.stderr))
        } else if made.stdout != committed {
            "differs from its generator's output".to_owned()
        } else {
            return Ok(Verdict::Checked(Vec::new()));
        };
        Ok(Verdict::Checked(vec![Violation { place: self.path.to_owned(), problem, fix }]))
    }
}

#[cfg(test)]
mod tests {
    use super::missing_for_bindings;

    #[test]
    fn bindings_are_checked_where_header_and_libclang_are_named() {
        let missing =
            |is_set: fn(&str) -> bool| missing_for_bindings("CUFILE_INCLUDE", "cufile.h (pip install x)", is_set);
        assert_eq!(missing(|_| true), None);
        let without_header = missing(|name| name != "CUFILE_INCLUDE").expect("skipped");
        assert_eq!(without_header, "CUFILE_INCLUDE does not name the folder of cufile.h (pip install x)");
    }
}
