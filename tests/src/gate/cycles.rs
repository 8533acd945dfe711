//! Import cycles between the files of a crate.
//!
//! Two files that import each other can only be read together. An edge is a path in one file that names an item of
//! another; `mod` declarations, re-exports and tests are no edges. A path that ends at a re-export counts as an edge to
//! the file that defines the item, so a folder's root may offer the names of its leaves.

use super::Violation;
use super::rust_files::{Module, RustFile};
use super::syntax::Mention;
use std::collections::{BTreeMap, BTreeSet};

/// Longest chain of re-exports that is followed.
const REEXPORTS_MAX: usize = 8;

/// Returns one violation per import cycle.
pub fn check(files: &[RustFile<'_>]) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<&RustFile<'_>>> = BTreeMap::new();
    // A program in `bin` is a separate crate.
    let is_part = |file: &&RustFile<'_>| !file.is_test && file.module.first().is_none_or(|name| name != "bin");
    for file in files.iter().filter(is_part) {
        crates.entry(file.folder).or_default().push(file);
    }
    crates.into_values().flat_map(|files| check_crate(&files)).collect()
}

fn check_crate(files: &[&RustFile<'_>]) -> Vec<Violation> {
    let graph = Graph::new(files);
    let paths: BTreeMap<&Module, &str> = files.iter().map(|file| (&file.module, file.path)).collect();
    let violation = |cycle: Vec<&Module>| Violation {
        place: paths[cycle[0]].to_owned(),
        problem: format!(
            "{} files import each other: {}",
            cycle.len(),
            cycle.iter().map(|module| paths[*module]).collect::<Vec<_>>().join(", ")
        ),
        fix: "move the types that both sides need into a file below them".to_owned(),
    };
    graph.cycles().into_iter().map(violation).collect()
}

/// Import graph of one crate.
struct Graph {
    edges: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    fn new(files: &[&RustFile<'_>]) -> Self {
        let modules: BTreeMap<Module, &RustFile<'_>> = files.iter().map(|file| (file.module.clone(), *file)).collect();
        let below = |mention: &Mention| [&mention.scope[..], &mention.path[..]].concat();
        let is_child = |mention: &&Mention| modules.contains_key(&below(mention)[..=mention.scope.len()]);
        let mut reexports = BTreeMap::new();
        let mut uses = Vec::new();
        for (module, file) in &modules {
            let absolute = file.absolute().map(|mention| (mention, mention.path.clone()));
            let relative = file.relative().filter(is_child).map(|mention| (mention, below(mention)));
            for (mention, path) in absolute.chain(relative) {
                match &mention.import {
                    Some(import) if import.reexport => {
                        let mut offered = module.clone();
                        offered.push(import.name.clone());
                        reexports.insert(offered, path);
                    }
                    _ => uses.push((module, path)),
                }
            }
        }
        let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for module in modules.keys() {
            edges.entry(module.clone()).or_default();
        }
        for (module, path) in uses {
            let file = defining_file(&path, &reexports, |path| modules.contains_key(path));
            if let Some(file) = file.filter(|file| file != module) {
                edges.entry(module.clone()).or_default().insert(file);
            }
        }
        Self { edges }
    }

    /// Returns every set of modules that reach each other, of two modules or more.
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

/// Returns the module whose file defines the item at `path`, through re-exports.
fn defining_file(
    path: &[String],
    reexports: &BTreeMap<Module, Module>,
    is_file: impl Fn(&[String]) -> bool,
) -> Option<Module> {
    let mut path = path.to_vec();
    for _ in 0..REEXPORTS_MAX {
        let len = (0..=path.len()).rev().find(|len| is_file(&path[..*len]))?;
        let offered = path.get(..=len).and_then(|name| reexports.get(name));
        match offered {
            Some(target) if target[..] != path[..=len] => path = [&target[..], &path[len + 1..]].concat(),
            _ => return Some(path[..len].to_vec()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::rust_files::read;
    use super::super::sources::Source;
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
        let sources: Vec<_> = files.iter().map(source).collect();
        check(&read(&sources).0).into_iter().map(|violation| violation.problem).collect()
    }

    #[test]
    fn two_files_that_import_each_other_are_a_cycle() {
        let cycle = problems(&[
            ("loader/src/a/x.rs", "use super::y::Y; pub struct X;"),
            ("loader/src/a/y.rs", "fn f() { crate::a::x::make() } pub struct Y;"),
        ]);
        assert_eq!(cycle, ["2 files import each other: loader/src/a/x.rs, loader/src/a/y.rs"]);
    }

    #[test]
    fn a_root_that_calls_its_leaf_and_defines_what_the_leaf_imports_is_a_cycle() {
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
        assert_eq!(problems(&files), ["2 files import each other: loader/src/a/leaf.rs, loader/src/b.rs"]);
    }
}
