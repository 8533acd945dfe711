//! Arrows between crates, in their Cargo.toml files.

use super::table::{Crate, NOT_IN_LOADER, TABLE};
use crate::violation::Violation;
use std::collections::BTreeSet;

/// Start of the names of the workspace's crates.
const OURS: &str = "forebay-";

/// Fix of a wrong dependency between them.
const ARROWS: &str =
    "arrows point one way: python, ffi, bench, tests -> gpu -> loader -> {format, order, picture, store, text} -> core";

/// Checks the output of `cargo metadata --no-deps`.
pub(super) fn check(crates: &[Crate], metadata: &serde_json::Value) -> Vec<Violation> {
    let engine = engine(crates);
    let packages = packages(metadata);
    let mut violations = Vec::new();
    for (name, dependencies) in &packages {
        let krate = crates.iter().find(|krate| krate.name == *name);
        let allowed = krate.map(|krate| krate.crates);
        let external = krate.map(|krate| krate.external).filter(|external| !external.is_empty());
        if allowed.is_none() {
            violations.push(Violation {
                place: format!("Cargo.toml of {name}"),
                problem: format!("{name} is not in the table of crates"),
                fix: format!("give it a row in {TABLE}"),
            });
        }
        let is_wrong = |on: &&str| {
            if on.starts_with(OURS) {
                return allowed.is_some_and(|allowed| !allowed.contains(on));
            }
            let is_unlisted = external.is_some_and(|external| !external.contains(on));
            is_unlisted || engine.contains(name) && NOT_IN_LOADER.contains(on)
        };
        violations.extend(dependencies.iter().copied().filter(is_wrong).map(|on| Violation {
            place: format!("Cargo.toml of {name}"),
            problem: format!("{name} may not depend on {on}"),
            fix: if on.starts_with(OURS) {
                ARROWS.to_owned()
            } else {
                format!("use a listed crate, or add it in {TABLE}")
            },
        }));
    }
    violations
}

/// Returns the crates of the table that do not exist, and their dependencies that do not.
pub(super) fn unused(crates: &[Crate], metadata: &serde_json::Value) -> Vec<Violation> {
    let packages = packages(metadata);
    let violation = |problem: String| Violation { place: TABLE.to_owned(), problem, fix: "remove it".to_owned() };
    let mut violations = Vec::new();
    for krate in crates {
        let Some((_, dependencies)) = packages.iter().find(|(name, _)| *name == krate.name) else {
            violations.push(violation(format!("there is no crate {}", krate.name)));
            continue;
        };
        let unused = krate.crates.iter().chain(krate.external).filter(|on| !dependencies.contains(*on));
        violations.extend(unused.map(|on| violation(format!("{} may depend on {on}, and does not", krate.name))));
    }
    violations
}

/// Returns the loader and the crates that it may depend on.
fn engine(crates: &[Crate]) -> BTreeSet<&str> {
    let mut engine = BTreeSet::new();
    let mut open = vec!["forebay-loader"];
    while let Some(name) = open.pop() {
        if engine.insert(name) {
            let krate = crates.iter().find(|krate| krate.name == name);
            open.extend(krate.into_iter().flat_map(|krate| krate.crates));
        }
    }
    engine
}

/// Returns the packages with their dependencies, except the dependencies of tests, which do not reach a user.
fn packages(metadata: &serde_json::Value) -> Vec<(&str, BTreeSet<&str>)> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    packages.iter().map(|package| (package["name"].as_str().unwrap_or_default(), needed(package))).collect()
}

/// Returns the names of a package's dependencies.
fn needed(package: &serde_json::Value) -> BTreeSet<&str> {
    let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
    let needed = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
    needed.filter_map(|dependency| dependency["name"].as_str()).collect()
}
