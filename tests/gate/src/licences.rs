//! Licences of the crates that the extension, the C library and the command are linked with.

use crate::violation::Violation;
use std::collections::{BTreeSet, HashMap};

/// Packages that users get as programs.
const SHIPPED: &[&str] = &["forebay-command", "forebay-ffi", "forebay-python"];

/// Licences that ask for no more than their text with the program.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

/// Crates with a licence that asks for more, which is kept.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("colored", "MPL-2.0"), // asks for its source where that was changed
];

/// Checks the output of `cargo metadata` with the dependencies of the whole workspace.
pub fn check(metadata: &serde_json::Value) -> Vec<Violation> {
    let packages: HashMap<&str, &serde_json::Value> =
        list(&metadata["packages"]).iter().map(|package| (text(&package["id"]), package)).collect();
    let mut linked: Vec<_> = linked(metadata, &packages).into_iter().map(|id| packages[id]).collect();
    linked.sort_by_key(|package| text(&package["name"]));
    let wrong = linked.into_iter().filter(|package| {
        let licence = package["license"].as_str().unwrap_or("none");
        !is_allowed(licence) && !EXCEPTIONS.contains(&(text(&package["name"]), licence))
    });
    let violation = |package: &serde_json::Value| Violation {
        place: format!("{} {}", text(&package["name"]), text(&package["version"])),
        problem: format!("its licence is {}, which is not in the table", package["license"]),
        fix: "use a different crate, or read the licence and add it in tests/gate/src/licences.rs".to_owned(),
    };
    wrong.map(violation).collect()
}

/// Returns the ids of the shipped packages and of all that they depend on, except for build scripts and tests.
fn linked<'a>(metadata: &'a serde_json::Value, packages: &HashMap<&'a str, &serde_json::Value>) -> BTreeSet<&'a str> {
    let nodes: HashMap<&str, &serde_json::Value> =
        list(&metadata["resolve"]["nodes"]).iter().map(|node| (text(&node["id"]), node)).collect();
    let is_shipped = |id: &&str| SHIPPED.contains(&text(&packages[id]["name"]));
    let mut open: Vec<&str> = nodes.keys().copied().filter(is_shipped).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let is_linked = |on: &&serde_json::Value| list(&on["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            open.extend(list(&nodes[id]["deps"]).iter().filter(is_linked).map(|on| text(&on["pkg"])));
        }
    }
    seen
}

/// Returns true if an expression of SPDX leaves a choice of allowed licences; `/` is an old form of `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let allowed = either(&mut words);
    allowed && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words) -> bool {
    let mut allowed = both(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= both(words);
    }
    allowed
}

fn both(words: &mut Words) -> bool {
    let mut allowed = one(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one(words: &mut Words) -> bool {
    let Some(word) = words.next() else { return false };
    if word == "(" {
        return either(words) & (words.next() == Some(")"));
    }
    // An exception only permits more.
    if words.next_if_eq(&"WITH").is_some() {
        words.next();
    }
    ALLOWED.contains(&word)
}

fn list(value: &serde_json::Value) -> &[serde_json::Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_choice_and_a_sum_of_licences_are_understood() {
        for allowed in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "Apache-2.0 WITH LLVM-exception OR GPL-3.0"] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        assert!(is_allowed("ISC AND (Apache-2.0 OR GPL-2.0) AND (MIT)"));
        for wrong in ["", "none", "GPL-3.0", "MIT AND GPL-3.0", "MIT AND (GPL-3.0 OR AGPL-3.0)", "(MIT", "MIT MIT"] {
            assert!(!is_allowed(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_licence_counts_only_where_a_shipped_package_is_linked_with_it() {
        let package = |name: &str, licence| json!({"id": name, "name": name, "version": "1", "license": licence});
        let depends = |on: &str, kind: Option<&str>| json!({"pkg": on, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                package("forebay-python", Some("Apache-2.0")),
                package("linked", Some("GPL-3.0")),
                package("unnamed", None),
                package("generator", Some("GPL-3.0")),
                package("colored", Some("MPL-2.0")),
            ],
            "resolve": {"nodes": [
                {"id": "forebay-python", "deps": [depends("linked", None), depends("generator", Some("build"))]},
                {"id": "linked", "deps": [depends("unnamed", None), depends("colored", None)]},
                {"id": "unnamed", "deps": []},
                {"id": "generator", "deps": []},
                {"id": "colored", "deps": []},
            ]},
        });
        let places: Vec<String> = check(&metadata).into_iter().map(|violation| violation.place).collect();
        assert_eq!(places, ["linked 1", "unnamed 1"]);
    }
}
