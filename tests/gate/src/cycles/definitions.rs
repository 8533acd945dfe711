//! The file that defines an item, found from any path that names it.
//!
//! A path may start at an import of its file (`use super::tar;` and `tar::split()`), and lead through imports of
//! further modules (`pub use split::split;` in `tar/mod.rs`). Private imports count: modules below see them. Limits:
//! the items behind a glob re-export count as defined in the file that has the glob, unless a module or an import has
//! the name.

use super::super::rust_files::{Module, RustFile};
use super::super::syntax::Mention;
use std::collections::{BTreeMap, BTreeSet};
use std::slice;

/// Longest chain of imports that is followed. A name that leads back to itself is one of a separate crate.
const IMPORTS_MAX: usize = 8;

/// Modules of one crate and the names that they import.
pub(super) struct Definitions {
    /// Modules with their own file.
    modules: BTreeSet<Module>,
    /// Module and name, and the paths that it is imported from: several where each is for one platform.
    imports: BTreeMap<Module, Vec<Module>>,
    /// Imports that a glob of the module has too.
    reexports: BTreeSet<Module>,
    /// Modules and the modules from which they import all names.
    globs: BTreeMap<Module, Vec<Module>>,
}

impl Definitions {
    pub(super) fn new(files: &[&RustFile<'_>]) -> Self {
        let modules = files.iter().map(|file| file.module.clone()).collect();
        let (imports, reexports, globs) = Default::default();
        let mut definitions = Self { modules, imports, reexports, globs };
        for file in files {
            let absolute = file.absolute().map(|mention| (mention, mention.path.clone()));
            let relative = file.relative().map(|mention| (mention, below(mention)));
            for (mention, path) in absolute.chain(relative) {
                match &mention.import {
                    Some(import) if import.name == "*" => {
                        definitions.globs.entry(mention.scope.clone()).or_default().push(path);
                    }
                    Some(import) => {
                        let name = [&mention.scope[..], slice::from_ref(&import.name)].concat();
                        if import.reexport {
                            definitions.reexports.insert(name.clone());
                        }
                        definitions.imports.entry(name).or_default().push(path);
                    }
                    None => {}
                }
            }
        }
        definitions
    }

    /// Returns the files that define the item of a path from the crate's root: none for a module, or for an item of a
    /// separate crate.
    pub(super) fn of_absolute(&self, path: &[String]) -> BTreeSet<Module> {
        let mut found = BTreeSet::new();
        self.follow(path, IMPORTS_MAX, &mut found);
        found
    }

    /// Returns the files that define the item of a path that starts at a name of its module.
    pub(super) fn of_relative(&self, mention: &Mention) -> BTreeSet<Module> {
        let path = below(mention);
        let name = &path[..=mention.scope.len()];
        let is_known = self.modules.contains(name) || self.imports.contains_key(name);
        if is_known || self.glob_with(name).is_some() { self.of_absolute(&path) } else { BTreeSet::new() }
    }

    /// Returns true if the file of a glob import's module is in this crate.
    pub(super) fn is_module(&self, path: &[String]) -> bool {
        self.modules.contains(path)
    }

    /// Returns the module behind a glob import that offers the name at the end of `path`.
    fn glob_with(&self, path: &[String]) -> Option<&Module> {
        let (name, module) = path.split_last()?;
        let mut globs = self.globs.get(module).into_iter().flatten();
        globs.find(|glob| {
            let offered = [&glob[..], slice::from_ref(name)].concat();
            self.modules.contains(*glob) && (self.modules.contains(&offered) || self.reexports.contains(&offered))
        })
    }

    fn follow(&self, path: &[String], imports_max: usize, found: &mut BTreeSet<Module>) {
        let Some(imports_max) = imports_max.checked_sub(1) else { return };
        let Some(len) = (0..=path.len()).rev().find(|len| self.modules.contains(&path[..*len])) else { return };
        // A module and a function may have one name, and only an import of the latter leads to a file.
        let name_len = path.len().min(len + 1);
        if let Some(targets) = self.imports.get(&path[..name_len]) {
            for target in targets {
                self.follow(&[&target[..], &path[name_len..]].concat(), imports_max, found);
            }
            return;
        }
        if len == path.len() {
            return;
        }
        match self.glob_with(&path[..=len]) {
            Some(glob) => self.follow(&[&glob[..], &path[len..]].concat(), imports_max, found),
            None => {
                found.insert(path[..len].to_vec());
            }
        }
    }
}

/// Returns the path as if its first name were in the module of the mention.
fn below(mention: &Mention) -> Module {
    [&mention.scope[..], &mention.path[..]].concat()
}
