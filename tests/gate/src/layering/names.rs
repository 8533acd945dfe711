//! The module that a path names, whichever way it is written.

use super::super::rust_files::RustFile;
use super::super::syntax::Mention;
use super::table::Crate;
use std::collections::{BTreeMap, BTreeSet};

/// Longest chain of re-exports that is followed.
const REEXPORTS_MAX: usize = 8;

/// Item of one of the workspace's crates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    /// Folder of the crate.
    pub(super) folder: &'static str,
    /// From the crate's root; empty for the root itself.
    pub(super) path: Vec<String>,
}

impl Item {
    /// True if it is `other` or below it.
    pub(super) fn is_under(&self, other: &Self) -> bool {
        self.folder == other.folder && self.path.starts_with(&other.path)
    }

    /// Returns the path as a file of the crate in `folder` may write it.
    pub(super) fn text(&self, crates: &[Crate], folder: &str) -> String {
        let own = crates.iter().find(|krate| krate.folder == self.folder && krate.folder != folder);
        let prefix = own.map(|krate| library(krate.name));
        prefix.iter().chain(&self.path).map(String::as_str).collect::<Vec<_>>().join("::")
    }
}

/// Names of the crates' roots.
pub(super) struct Names<'a> {
    crates: &'a [Crate],
    /// Public imports of the roots.
    reexports: BTreeMap<Item, Item>,
    /// Modules directly below the roots.
    modules: BTreeSet<Item>,
}

impl<'a> Names<'a> {
    pub(super) fn new(crates: &'a [Crate], files: &[RustFile<'_>]) -> Self {
        let mut names = Self { crates, reexports: BTreeMap::new(), modules: BTreeSet::new() };
        for file in files {
            let Some(krate) = crates.iter().find(|krate| krate.folder == file.folder) else { continue };
            let folder = krate.folder;
            if let Some(first) = file.module.first() {
                names.modules.insert(Item { folder, path: vec![first.clone()] });
                continue;
            }
            // In a root, `pub use error::Error` names a module of the crate as `pub use crate::error::Error` does.
            let targets = file.absolute().map(|mention| (mention, Item { folder, path: mention.path.clone() }));
            let relative = |mention: &'_ Mention| {
                names.of_crate(&mention.path).unwrap_or_else(|| Item { folder, path: mention.path.clone() })
            };
            let targets: Vec<_> = targets.chain(file.relative().map(|mention| (mention, relative(mention)))).collect();
            for (mention, target) in targets {
                if let Some(import) = mention.import.as_ref().filter(|import| import.reexport) {
                    names.reexports.insert(Item { folder, path: vec![import.name.clone()] }, target);
                }
            }
        }
        names
    }

    /// Returns the item of a path that starts at the name of a crate: `forebay_loader::io`.
    fn of_crate(&self, path: &[String]) -> Option<Item> {
        let (first, rest) = path.split_first()?;
        let krate = self.crates.iter().find(|krate| library(krate.name) == *first)?;
        Some(Item { folder: krate.folder, path: rest.to_vec() })
    }

    /// Follows the re-exports of the roots.
    fn resolve(&self, mut item: Item) -> Item {
        for _ in 0..REEXPORTS_MAX {
            let Some(first) = item.path.first() else { break };
            let name = Item { folder: item.folder, path: vec![first.clone()] };
            let Some(target) = self.reexports.get(&name).filter(|_| !self.modules.contains(&name)) else { break };
            item = Item { folder: target.folder, path: [&target.path[..], &item.path[1..]].concat() };
        }
        item
    }

    /// Returns the item at a path of the table that is in a row of `krate`.
    pub(super) fn of_entry(&self, krate: &Crate, entry: &str) -> Item {
        let path: Vec<String> = entry.split("::").map(str::to_owned).collect();
        self.resolve(self.of_crate(&path).unwrap_or(Item { folder: krate.folder, path }))
    }

    /// Returns the items of the workspace's crates that production code of `file` mentions, with their lines.
    ///
    /// A name of a root that is no module is left out: the compiler checks that it exists.
    pub(super) fn mentioned(&self, krate: &Crate, file: &RustFile<'_>) -> Vec<(Item, usize)> {
        let absolute = file.absolute().map(|mention| {
            let path = mention.path.clone();
            (Item { folder: krate.folder, path }, mention.line)
        });
        let relative = file.relative().filter_map(|mention| Some((self.of_crate(&mention.path)?, mention.line)));
        let is_module = |item: &Item| {
            item.path.first().is_none_or(|first| {
                let is_listed = |krate: &Crate| {
                    krate.folder == item.folder && krate.layers.iter().any(|row| row.modules.contains(&first.as_str()))
                };
                let top = Item { folder: item.folder, path: vec![first.clone()] };
                self.modules.contains(&top) || self.crates.iter().any(is_listed)
            })
        };
        let resolved = absolute.chain(relative).map(|(item, line)| (self.resolve(item), line));
        resolved.filter(|(item, _)| is_module(item)).collect()
    }
}

/// Returns true if the path `text` is `prefix` or a path below it.
pub(super) fn is_under(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Name of a crate in paths.
fn library(name: &str) -> String {
    name.replace('-', "_")
}
