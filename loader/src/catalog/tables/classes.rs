//! Comparison of the names of classes in the files of a stream: a label means one class in all of them.

use super::index::TableIndex;
use super::table::{Projection, Table};
use crate::error::{Error, Result};
use crate::format::arrow::TableColumn;
use crate::format::recipe::Texts;
use std::collections::BTreeMap;

/// Compares the names of the classes of the columns that are read. `tables` are the schemas of `index`.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] with the column, both files and the first class that differs.
pub(super) fn check(index: &TableIndex, tables: &[(&Table, Projection)]) -> Result<()> {
    let mut known = BTreeMap::new();
    for (number, (table, projection)) in tables.iter().enumerate() {
        let Some(file) = index.file_with_rows(number) else { continue };
        let names = table.class_names();
        let roots = projection.columns.iter().filter_map(|column| column.path.first());
        for (root, lists) in roots.filter_map(|root| names.get_key_value(root)) {
            let (first, known_lists) = known.entry(root.clone()).or_insert_with(|| (file, lists.clone()));
            if known_lists != lists {
                return Err(different_classes(root, (first, known_lists), (file, lists)));
            }
        }
    }
    Ok(())
}

/// Returns the names of the classes of the labels in `table`: of its only column with one list of classes, of the only
/// one among the columns that are read, or of `label`.
pub(super) fn of_labels(table: &Table, columns: &[TableColumn]) -> Option<Texts> {
    let names = table.class_names();
    let labels = || names.iter().filter(|(_, lists)| lists.len() == 1);
    let is_read = |root: &String| columns.iter().any(|column| column.path.first() == Some(root));
    let of_all = only(labels().map(|(_, lists)| lists));
    let of_read = || only(labels().filter(|(root, _)| is_read(root)).map(|(_, lists)| lists));
    let named = || labels().find(|(root, _)| *root == "label").map(|(_, lists)| lists);
    let lists = of_all.or_else(of_read).or_else(named)?;
    Some(lists[0].iter().map(String::as_str).collect())
}

/// Returns the item of an iterator of one.
fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    found.next().filter(|_| found.next().is_none())
}

type Lists = [Vec<String>];

fn different_classes(column: &str, (first, a): (&str, &Lists), (second, b): (&str, &Lists)) -> Error {
    let (a, b): (Vec<&String>, Vec<&String>) = (a.iter().flatten().collect(), b.iter().flatten().collect());
    let differs = (0..).find(|n| a.get(*n) != b.get(*n) || *n == a.len()).unwrap_or(0);
    let shown = |names: &[&String]| names.get(differs).map_or("none", |name| name).to_owned();
    let message = format!(
        "two files have different lists of classes: class number {differs} is the first that differs. Write the files \
         with one list, or leave the column out of `fields`"
    );
    Error::config(message)
        .with("column", column)
        .with("class", shown(&a))
        .with("file", first)
        .with("class", shown(&b))
        .with("file", second)
}
