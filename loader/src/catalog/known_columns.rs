//! Columns of a data set, also those that only some of its samples have.

use crate::error::{Error, Result};
use crate::format::{Column, FIELDS, Layout};
use crate::sync::Arc;

/// Column of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownColumn {
    /// Name, encoding and size.
    pub column: Column,
    /// Some samples may lack it.
    pub is_optional: bool,
}

/// Returns the columns of all `layouts`, the columns of the first one first. The list of a sample's fields is no
/// column.
///
/// # Errors
///
/// `Config` for a column that has two encodings.
pub(super) fn known_columns(layouts: &[Arc<Layout>]) -> Result<Vec<KnownColumn>> {
    let mut known: Vec<KnownColumn> = Vec::new();
    for column in layouts.iter().flat_map(|layout| &layout.columns).filter(|column| column.name != FIELDS) {
        match known.iter().find(|other| other.column.name == column.name) {
            None => {
                let is_optional = layouts.iter().any(|layout| layout.may_lack(&column.name));
                known.push(KnownColumn { column: column.clone(), is_optional });
            }
            Some(other) if other.column == *column => {}
            Some(other) => {
                let message = "a column has different encodings in two shards of the data set";
                return Err(Error::config(message)
                    .with("column", &column.name)
                    .with("encoding", &other.column.encoding)
                    .with("encoding", &column.encoding));
            }
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Encoding;
    use crate::format::tar::FieldCounts;

    fn mds(columns: &[(&str, Encoding)]) -> Arc<Layout> {
        Layout::mds(columns.iter().map(|(name, encoding)| ((*name).to_owned(), encoding.clone()))).unwrap().into()
    }

    fn tar(counts: &[(&str, u64)]) -> Arc<Layout> {
        let fields = counts.iter().map(|(field, count)| ((*field).to_owned(), *count)).collect();
        Layout::tar(&FieldCounts { samples: 10, fields, is_sampled: false }).into()
    }

    fn shown(layouts: &[Arc<Layout>]) -> Vec<(String, bool)> {
        known_columns(layouts).unwrap().into_iter().map(|known| (known.column.name, known.is_optional)).collect()
    }

    #[test]
    fn columns_that_some_samples_or_shards_lack_are_optional() {
        let all = [tar(&[("cls", 10), ("txt", 4)]), tar(&[("cls", 10), ("jpg", 10)])];
        let expected = [("__key__", false), ("cls", false), ("txt", true), ("jpg", true)];
        assert_eq!(shown(&all), expected.map(|(name, is_optional)| (name.to_owned(), is_optional)));
        let listed = mds(&[("a", Encoding::Int), (FIELDS, Encoding::Str)]);
        assert_eq!(shown(&[listed]), [("a".to_owned(), true)]);
    }

    #[test]
    fn a_column_of_two_encodings_is_an_error_that_names_both() {
        let e = known_columns(&[mds(&[("a", Encoding::Int)]), mds(&[("a", Encoding::Str)])]).unwrap_err();
        assert!(e.to_string().contains("column a, encoding int, encoding str"), "{e}");
    }
}
