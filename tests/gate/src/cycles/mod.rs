//! Import cycles between the files of a crate.
//!
//! Two files in a circle of imports can only be read together. An edge is a path in one file that names an item of a
//! second file; `mod` declarations, re-exports and tests are no edges, and neither is the import of a module: its items
//! are edges where they are named. A path that ends at a re-export counts as an edge to the file that defines the item,
//! so a folder's root may offer the names of its leaves: [`definitions`].

mod definitions;

use super::rust_files::{Module, RustFile};
use crate::violation::Violation;
use definitions::Definitions;
use std::collections::{BTreeMap, BTreeSet};

/// Cycle that is accepted for now.
struct Known {
    /// All its files, in the order of the alphabet.
    files: &'static [&'static str],
    /// Change that removes it.
    until: &'static str,
}

/// Cycles of the tree. One that is no longer in it, or that has different files, is a violation.
const KNOWN: &[Known] = &[];

/// Returns one violation per import cycle, and per entry of the known ones that is none.
pub fn check(files: &[RustFile<'_>]) -> Vec<Violation> {
    check_with(KNOWN, files)
}

fn check_with(known: &[Known], files: &[RustFile<'_>]) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<&RustFile<'_>>> = BTreeMap::new();
    // A program in `bin` is a separate crate.
    let is_part = |file: &&RustFile<'_>| !file.is_test && file.module.first().is_none_or(|name| name != "bin");
    for file in files.iter().filter(is_part) {
        crates.entry(file.folder).or_default().push(file);
    }
    let cycles: Vec<Vec<&str>> = crates.into_values().flat_map(|files| cycles_of(&files)).collect();
    let unknown = cycles.iter().filter(|cycle| !known.iter().any(|entry| entry.files == **cycle));
    let mut violations: Vec<Violation> = unknown
        .map(|cycle| Violation {
            place: cycle[0].to_owned(),
            problem: format!("{} files form a circle of imports: {}", cycle.len(), cycle.join(", ")),
            fix: "move the types that both sides need into a file below them".to_owned(),
        })
        .collect();
    let solved = known.iter().filter(|entry| !cycles.iter().any(|cycle| entry.files == *cycle));
    violations.extend(solved.map(|entry| Violation {
        place: "tests/src/gate/cycles/mod.rs".to_owned(),
        problem: format!("there is no such cycle (until {}): {}", entry.until, entry.files.join(", ")),
        fix: "remove it from the known cycles".to_owned(),
    }));
    violations
}

/// Returns the cycles of a crate, with their files in the order of the alphabet.
fn cycles_of<'a>(files: &[&RustFile<'a>]) -> Vec<Vec<&'a str>> {
    let graph = Graph::new(files);
    let paths: BTreeMap<&Module, &'a str> = files.iter().map(|file| (&file.module, file.path)).collect();
    let in_order = |cycle: Vec<&Module>| {
        let mut cycle: Vec<&str> = cycle.into_iter().map(|module| paths[module]).collect();
        cycle.sort_unstable();
        cycle
    };
    graph.cycles().into_iter().map(in_order).collect()
}

/// Import graph of one crate.
struct Graph {
    edges: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    fn new(files: &[&RustFile<'_>]) -> Self {
        let definitions = Definitions::new(files);
        let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for file in files {
            let to = edges.entry(file.module.clone()).or_default();
            let is_glob = |path: &[String]| definitions.is_module(path);
            for mention in file.absolute().filter(|mention| !mention.is_reexport()) {
                to.extend(definitions.of_absolute(&mention.path));
                // All names of a module, if at least one is used.
                if mention.import.as_ref().is_some_and(|import| import.name == "*") && is_glob(&mention.path) {
                    to.insert(mention.path.clone());
                }
            }
            for mention in file.relative().filter(|mention| !mention.is_reexport()) {
                to.extend(definitions.of_relative(mention));
            }
            to.remove(&file.module);
        }
        Self { edges }
    }

    /// Returns every set of modules in a circle of imports, of two modules or more.
    fn cycles(&self) -> Vec<Vec<&Module>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.edges.keys().map(|module| (module, self.reachable(module))).collect();
        let mut assigned = BTreeSet::new();
        let mut cycles = Vec::new();
        for (module, reachable) in &reached {
            if assigned.contains(module) || !reachable.contains(module) {
                continue;
            }
            let cycle: Vec<&Module> =
                reachable.iter().copied().filter(|other| reached[*other].contains(module)).collect();
            assigned.extend(cycle.iter().copied());
            cycles.push(cycle);
        }
        cycles
    }

    /// Returns the modules at the end of any path of one edge or more.
    fn reachable(&self, from: &Module) -> BTreeSet<&Module> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&Module> = self.edges[from].iter().collect();
        while let Some(module) = open.pop() {
            if reached.insert(module) {
                open.extend(&self.edges[module]);
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust_files::read;
    use super::super::sources::Source;
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
        let sources: Vec<_> = files.iter().map(source).collect();
        check_with(&[], &read(&sources).0).into_iter().map(|violation| violation.problem).collect()
    }

    #[test]
    fn two_files_in_a_circle_of_imports_are_a_cycle() {
        let cycle = problems(&[
            ("loader/src/a/x.rs", "use super::y::Y; pub struct X;"),
            ("loader/src/a/y.rs", "fn f() { crate::a::x::make() } pub struct Y;"),
        ]);
        assert_eq!(cycle, ["2 files form a circle of imports: loader/src/a/x.rs, loader/src/a/y.rs"]);
    }

    #[test]
    fn a_root_that_calls_its_leaf_and_defines_the_items_that_the_leaf_imports_is_a_cycle() {
        let root = "mod leaf; pub struct Config; fn f() { leaf::run() }";
        assert_eq!(problems(&[("gpu/src/a/mod.rs", root), ("gpu/src/a/leaf.rs", "use super::Config;")]).len(), 1);
        let root = "mod config; mod leaf; pub use config::Config; fn f() { leaf::run() }";
        let leaf = ("gpu/src/a/leaf.rs", "use super::Config;");
        assert!(
            problems(&[("gpu/src/a/mod.rs", root), leaf, ("gpu/src/a/config.rs", "pub struct Config;")]).is_empty()
        );
    }

    #[test]
    fn reexports_and_tests_are_no_edges() {
        let root = "mod leaf; pub use leaf::Leaf; pub struct Config;";
        let leaf = "use super::Config; #[cfg(test)] mod tests { use crate::b::B; } pub struct Leaf;";
        let other = ("loader/src/b.rs", "use crate::a::Leaf; pub struct B;");
        assert!(problems(&[("loader/src/a/mod.rs", root), ("loader/src/a/leaf.rs", leaf), other]).is_empty());
    }

    #[test]
    fn a_chain_of_reexports_leads_to_the_file_that_defines_the_item() {
        let files = [
            ("loader/src/lib.rs", "mod a; mod b; pub use a::Leaf;"),
            ("loader/src/a/mod.rs", "mod leaf; pub use self::leaf::{Leaf, Other};"),
            ("loader/src/a/leaf.rs", "use crate::b::B; pub struct Leaf;"),
            ("loader/src/b.rs", "use crate::Leaf; pub struct B;"),
        ];
        assert_eq!(problems(&files), ["2 files form a circle of imports: loader/src/a/leaf.rs, loader/src/b.rs"]);
    }

    #[test]
    fn a_name_in_a_module_that_is_imported_is_an_edge_to_the_file_that_defines_it() {
        let root = ("loader/src/format/mod.rs", "mod layout; mod tar; pub use layout::Layout;");
        let layout = "use super::tar; pub struct Layout; fn f() { tar::split() }";
        let tar = ("loader/src/format/tar/mod.rs", "mod split; pub use split::split;");
        let split = ("loader/src/format/tar/split.rs", "use super::super::Layout; pub fn split() {}");
        let cycle = "2 files form a circle of imports: loader/src/format/layout.rs, loader/src/format/tar/split.rs";
        assert_eq!(problems(&[root, ("loader/src/format/layout.rs", layout), tar, split]), [cycle]);
        // The same by a different name, and by a name that the root imports for the modules below it.
        let layout = "use super::tar::{self as archive}; pub struct Layout; fn f() { archive::split() }";
        assert_eq!(problems(&[root, ("loader/src/format/layout.rs", layout), tar, split]), [cycle]);
        let private = ("loader/src/format/mod.rs", "mod layout; mod tar; use layout::Layout; use tar as archive;");
        let layout = "use super::archive; pub struct Layout; fn f() { archive::split() }";
        assert_eq!(problems(&[private, ("loader/src/format/layout.rs", layout), tar, split]), [cycle]);
        // A crate of the name of a module.
        let layout = "use tar::split; pub struct Layout; fn f() { tar::split() }";
        assert!(problems(&[root, ("loader/src/format/layout.rs", layout), tar, split]).is_empty());
    }

    #[test]
    fn names_behind_a_glob_lead_to_their_modules() {
        let root = ("ffi/src/lib.rs", "mod a; mod b; pub use a::*;");
        let a = ("ffi/src/a/mod.rs", "pub mod leaf; pub use leaf::Leaf;");
        let leaf = ("ffi/src/a/leaf.rs", "use crate::b::B; pub struct Leaf;");
        for b in
            ["use crate::Leaf; pub struct B;", "fn f() { crate::leaf::make() }", "use crate::a::leaf::*; struct B;"]
        {
            let found = problems(&[root, a, leaf, ("ffi/src/b.rs", b)]);
            assert_eq!(found, ["2 files form a circle of imports: ffi/src/a/leaf.rs, ffi/src/b.rs"], "{b}");
        }
    }

    #[test]
    fn the_import_of_a_module_is_no_edge_to_its_root() {
        let root = "mod leaf; mod names; pub struct Config; fn f() { leaf::run() }";
        let names = ("loader/src/a/names.rs", "pub fn find() {}");
        let leaf = ("loader/src/a/leaf.rs", "use crate::a; fn run() { a::names::find() }");
        assert!(problems(&[("loader/src/a/mod.rs", root), names, leaf]).is_empty());
        let leaf = ("loader/src/a/leaf.rs", "use crate::a; fn run(of: a::Config) {}");
        assert_eq!(problems(&[("loader/src/a/mod.rs", root), names, leaf]).len(), 1);
    }

    #[test]
    fn a_known_cycle_is_accepted_until_it_changes() {
        let known = [Known { files: &["gpu/src/x.rs", "gpu/src/y.rs"], until: "the split" }];
        let problems = |y: &str| -> Vec<String> {
            let source = |(path, text): (&str, &str)| Source { path: path.to_owned(), text: text.to_owned() };
            let sources =
                [("gpu/src/x.rs", "use crate::y::Y;"), ("gpu/src/y.rs", y), ("gpu/src/z.rs", "use crate::x;")];
            let sources = sources.map(source);
            check_with(&known, &read(&sources).0).into_iter().map(|violation| violation.problem).collect()
        };
        assert!(problems("use crate::x::X;").is_empty());
        assert_eq!(problems(""), ["there is no such cycle (until the split): gpu/src/x.rs, gpu/src/y.rs"]);
        let larger = problems("use crate::{x::X, z::Z}; fn f() { crate::z::g() }");
        assert!(larger.is_empty(), "z imports the module x alone: {larger:?}");
    }
}
