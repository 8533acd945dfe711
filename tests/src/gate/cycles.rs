//! Import cycles between the files of a crate.
//!
//! Two files that import each other can only be read together. An edge is a path in one file that names an item of
//! another; `mod` declarations, re-exports and tests are no edges. A path that ends at a re-export counts as an edge to
//! the file that defines the item, so a folder's root may offer the names of its leaves.

use super::Violation;
use super::sources::Source;
use super::syntax::{Mention, mentions, module_of};
use std::collections::{BTreeMap, BTreeSet};

/// Path of a module from its crate's root.
type Module = Vec<String>;

/// Longest chain of re-exports that is followed.
const REEXPORTS_MAX: usize = 8;

/// Returns one violation per import cycle.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<(&Source, Module)>> = BTreeMap::new();
    for source in sources {
        let Some((krate, in_src)) = source.path.split_once("/src/").filter(|(_, file)| file.ends_with(".rs")) else {
            continue;
        };
        let module = module_of(in_src);
        let is_production = !krate.contains('/') && !module.iter().any(|name| name == "tests" || name == "bin");
        if is_production {
            crates.entry(krate).or_default().push((source, module));
        }
    }
    crates.into_values().flat_map(|files| check_crate(&files)).collect()
}

fn check_crate(files: &[(&Source, Module)]) -> Vec<Violation> {
    let graph = Graph::new(files);
    let paths: BTreeMap<&Module, &str> = files.iter().map(|(source, module)| (module, source.path.as_str())).collect();
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
    fn new(files: &[(&Source, Module)]) -> Self {
        // A file that is not Rust is an error of the layering check.
        let read =
            |(source, module): &(&Source, Module)| (module.clone(), mentions(&source.text, module).unwrap_or_default());
        let modules: BTreeMap<Module, _> = files.iter().map(read).collect();
        let is_child = |mention: &Mention, module: &Module| {
            mention.path.get(..=module.len()).is_some_and(|child| modules.contains_key(child))
        };
        let mut reexports = BTreeMap::new();
        let mut uses = Vec::new();
        for (module, found) in &modules {
            let relative = found.relative.iter().filter(|mention| is_child(mention, module));
            for mention in found.paths.iter().chain(relative).filter(|mention| !mention.in_test) {
                match mention.path.split_last() {
                    Some((name, _)) if mention.reexport => {
                        let mut offered = module.clone();
                        offered.push(name.clone());
                        reexports.insert(offered, mention.path.clone());
                    }
                    _ => uses.push((module, &mention.path)),
                }
            }
        }
        let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for module in modules.keys() {
            edges.entry(module.clone()).or_default();
        }
        for (module, path) in uses {
            let file = defining_file(path, &reexports, |path| modules.contains_key(path));
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
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
        check(&files.iter().map(source).collect::<Vec<_>>()).into_iter().map(|v| v.problem).collect()
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
