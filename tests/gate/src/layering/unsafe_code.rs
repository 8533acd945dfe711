//! Modules that may use `unsafe`.

use super::super::rust_files::RustFile;
use super::table::{Crate, TABLE};
use crate::violation::Violation;

/// Checks that `unsafe` is used only in the listed modules, and in each of them.
pub(super) fn check(crates: &[Crate], files: &[RustFile<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in files {
        let krate = crates.iter().find(|krate| krate.folder == file.folder);
        if krate.is_some_and(|krate| krate.may_be_unsafe.iter().any(|entry| covers(entry, &file.module))) {
            continue;
        }
        violations.extend(file.found.unsafe_lines.iter().map(|line| Violation {
            place: format!("{}:{line}", file.path),
            problem: "unsafe is not allowed in this module".to_owned(),
            fix: "use a safe call, or move the operation into a module that the design lists for unsafe".to_owned(),
        }));
    }
    violations
}

/// Returns the listed modules without `unsafe`.
pub(super) fn unused(crates: &[Crate], files: &[RustFile<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for krate in crates {
        let own = || files.iter().filter(|file| file.folder == krate.folder && !file.found.unsafe_lines.is_empty());
        let is_used = |entry: &&&str| own().any(|file| covers(entry, &file.module));
        violations.extend(krate.may_be_unsafe.iter().filter(|entry| !is_used(entry)).map(|entry| Violation {
            place: TABLE.to_owned(),
            problem: format!("`{entry}` of {} may use unsafe, and does not", krate.name),
            fix: "remove the entry".to_owned(),
        }));
    }
    violations
}

/// True if `module` is the module of the entry or below it.
fn covers(entry: &str, module: &[String]) -> bool {
    let prefix: Vec<&str> = entry.split("::").filter(|name| !name.is_empty()).collect();
    prefix.len() <= module.len() && prefix.iter().zip(module).all(|(name, own)| *name == "*" || name == own)
}
