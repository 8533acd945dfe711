//! Imports that the rows of the table do not allow, and entries of the rows that no import uses.

use super::super::rust_files::RustFile;
use super::names::{Item, Names, is_under};
use super::table::{Crate, Layer, OTHERS, TABLE};
use crate::violation::Violation;
use std::collections::BTreeSet;

/// Files of production in a crate with rows. The crate's root is the map and may name every module.
fn checked_files<'a>(
    crates: &'a [Crate],
    files: &'a [RustFile<'a>],
) -> impl Iterator<Item = (&'a Crate, &'a RustFile<'a>)> {
    let with_rows = crates.iter().filter(|krate| !krate.layers.is_empty());
    with_rows.flat_map(|krate| {
        let own = files.iter().filter(|file| file.folder == krate.folder && !file.is_test && !file.module.is_empty());
        own.map(move |file| (krate, file))
    })
}

/// Returns the row of a module, or else the row of the remaining modules.
fn row_of<'a>(krate: &'a Crate, module: &str) -> Option<&'a Layer> {
    let longest = |row: &&Layer| {
        let fitting = row.modules.iter().filter(|name| is_under(module, name));
        fitting.map(|name| name.len()).max()
    };
    let own = krate.layers.iter().filter(|row| longest(row).is_some()).max_by_key(longest);
    own.or_else(|| krate.layers.iter().find(|row| row.modules == [OTHERS]))
}

/// Returns true if `entry` of a row of `krate` covers `item`.
fn covers(krate: &Crate, names: &Names<'_>, entry: &str, item: &Item) -> bool {
    if entry != OTHERS {
        return item.is_under(&names.of_entry(krate, entry));
    }
    let is_other = |row: &Layer| row.modules == [OTHERS];
    item.folder == krate.folder && row_of(krate, &item.path.join("::")).is_some_and(is_other)
}

/// Returns the items that `file` uses outside its own module of the top level.
fn used_items(names: &Names<'_>, krate: &Crate, file: &RustFile<'_>) -> Vec<(Item, usize)> {
    let is_own = |item: &Item| item.folder == krate.folder && item.path.first() == file.module.first();
    names.mentioned(krate, file).into_iter().filter(|(item, _)| !is_own(item)).collect()
}

/// Returns the imports that no row allows.
pub(super) fn forbidden(crates: &[Crate], files: &[RustFile<'_>]) -> Vec<Violation> {
    let names = Names::new(crates, files);
    let mut violations = Vec::new();
    for (krate, file) in checked_files(crates, files) {
        let from = &file.module[0];
        let Some(row) = row_of(krate, &file.module.join("::")) else {
            violations.push(Violation {
                place: file.path.to_owned(),
                problem: format!("`{from}` is not in the table of layers"),
                fix: format!("give it a row in {TABLE}, or put the code into a module that has one"),
            });
            continue;
        };
        for (item, line) in used_items(&names, krate, file) {
            if !row.may_use.iter().any(|entry| covers(krate, &names, entry, &item)) {
                let list = if row.may_use.is_empty() { "nothing".to_owned() } else { row.may_use.join(", ") };
                violations.push(Violation {
                    place: format!("{}:{line}", file.path),
                    problem: format!("`{from}` may not use `{}`", item.text(crates, krate.folder)),
                    fix: format!("it may use {list}: pass the value in from above, or move the code down"),
                });
            }
        }
    }
    violations
}

/// Returns the modules of the rows that have no file, and the entries that no module of their row uses.
pub(super) fn unused(crates: &[Crate], files: &[RustFile<'_>]) -> Vec<Violation> {
    let names = Names::new(crates, files);
    let mut violations = Vec::new();
    for krate in crates {
        for row in krate.layers {
            let fits = |file: &RustFile<'_>| {
                row_of(krate, &file.module.join("::")).is_some_and(|own| own.modules == row.modules)
            };
            let own: Vec<_> =
                checked_files(crates, files).filter(|(of, file)| of.folder == krate.folder && fits(file)).collect();
            let is_file =
                |name: &str| own.iter().any(|(_, file)| name == OTHERS || is_under(&file.module.join("::"), name));
            violations.extend(row.modules.iter().filter(|name| !is_file(name)).map(|name| Violation {
                place: TABLE.to_owned(),
                problem: format!("{} has no module `{name}`", krate.name),
                fix: "remove it from its row".to_owned(),
            }));
            let used: BTreeSet<Item> =
                own.iter().flat_map(|(_, file)| used_items(&names, krate, file)).map(|(item, _)| item).collect();
            let is_used = |entry: &str| used.iter().any(|item| covers(krate, &names, entry, item));
            violations.extend(row.may_use.iter().filter(|entry| !is_used(entry)).map(|entry| Violation {
                place: TABLE.to_owned(),
                problem: format!("`{}` of {} may use `{entry}`, and does not", row.modules.join(", "), krate.name),
                fix: "remove the entry from the row".to_owned(),
            }));
        }
    }
    violations
}
