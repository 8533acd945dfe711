//! Columns that are parts of the paths of tables, as Hive and Spark write them: `year=2024/lang=en/0.parquet`.
//!
//! Their types are those that `pyarrow.dataset` infers for the same files.

use crate::format::Encoding;
use crate::format::arrow::{Partition, TableColumn};
use crate::format::encoding::DType;
use std::borrow::Cow;

/// Value that means none.
const NONE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Columns in the paths of the files of a data set, each with its type, in the order in which they are found.
#[derive(Debug, Default)]
pub struct Partitions(Vec<(String, Encoding)>);

impl Partitions {
    /// Returns the columns of the files `paths`. A column of integers of 32 bits in all of them has integers.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut columns: Vec<(String, bool)> = Vec::new();
        // Neighbouring files have the same folder.
        let mut last = "";
        for path in paths {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            if folder == std::mem::replace(&mut last, folder) {
                continue;
            }
            for (name, value) in parts(folder) {
                let is_number = value.is_none_or(|value| integer(&value).is_some());
                match columns.iter_mut().find(|(known, _)| *known == *name) {
                    Some((_, are_numbers)) => *are_numbers &= is_number,
                    None => columns.push((name.into_owned(), is_number)),
                }
            }
        }
        let encoding = |is_number| if is_number { Encoding::Scalar(DType::Int32) } else { Encoding::Str };
        Self(columns.into_iter().map(|(name, is_number)| (name, encoding(is_number))).collect())
    }

    /// Returns the columns with their values in the file `path`. One that its path does not have is null.
    pub fn columns_of(&self, path: &str) -> Vec<TableColumn> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let column = |(name, encoding): &(String, Encoding)| {
            // The last one counts, as it does for pyarrow.
            let value = parts(folder).filter(|(known, _)| known == name).last().and_then(|(_, value)| value);
            let partition: Partition = value.map(|value| match (encoding, integer(&value)) {
                (Encoding::Scalar(_), Some(number)) => number.to_le_bytes().into(),
                _ => value.as_bytes().into(),
            });
            TableColumn { name: name.clone(), path: Vec::new(), encoding: encoding.clone(), partition: Some(partition) }
        };
        self.0.iter().map(column).collect()
    }
}

/// Returns the names and values in the path of a folder; no value for one that means none.
fn parts(folder: &str) -> impl Iterator<Item = (Cow<'_, str>, Option<Cow<'_, str>>)> {
    let named = |part| {
        let (name, value): (&str, &str) = str::split_once(part, '=')?;
        (!name.is_empty()).then(|| (decoded(name), (value != NONE).then(|| decoded(value))))
    };
    folder.split('/').filter_map(named)
}

fn integer(value: &str) -> Option<i32> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| is_number)
}

/// Returns `text` with its escapes, such as `%2F`, replaced. Text with an escape that is none stays as it is.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else { return text.into() };
        bytes.push(byte);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_or(text.into(), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(paths: &[&str]) -> Vec<(String, String, Vec<Option<String>>)> {
        let partitions = Partitions::of(paths.iter().copied());
        let shown = |column: TableColumn| {
            let value = column.partition.unwrap()?;
            Some(match (&column.encoding, <[u8; 4]>::try_from(&*value)) {
                (Encoding::Scalar(_), Ok(bytes)) => i32::from_le_bytes(bytes).to_string(),
                _ => String::from_utf8(value.to_vec()).unwrap(),
            })
        };
        let values = |number: usize| {
            let of = |path: &&str| shown(partitions.columns_of(path).swap_remove(number));
            paths.iter().map(of).collect()
        };
        let columns = partitions.0.iter().enumerate();
        columns.map(|(number, (name, kind))| (name.clone(), kind.to_string(), values(number))).collect()
    }

    #[test]
    fn names_and_values_in_a_path_are_columns_of_the_types_of_pyarrow() {
        for (values, kind, expected) in [
            (&["01", "2"][..], "int32", &["1", "2"][..]),
            (&["-3", "-0"], "int32", &["-3", "0"]),
            (&["3000000000"], "str", &["3000000000"]),
            (&["1", "x"], "str", &["1", "x"]),
            (&["+1"], "str", &["+1"]),
            (&["1.5"], "str", &["1.5"]),
            (&[""], "str", &[""]),
            (&["a%20b", "1%2F2", "100%", "%zz"], "str", &["a b", "1/2", "100%", "%zz"]),
        ] {
            let paths: Vec<String> = values.iter().map(|value| format!("k={value}/0.parquet")).collect();
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let expected = expected.iter().map(|value| Some((*value).to_owned())).collect();
            assert_eq!(found(&paths), [("k".to_owned(), kind.to_owned(), expected)]);
        }
    }

    #[test]
    fn a_file_without_a_value_has_a_null() {
        let paths = ["year=2024/lang=en/0.parquet", "year=__HIVE_DEFAULT_PARTITION__/1.parquet", "a=b.parquet"];
        let text = |text: &str| Some(text.to_owned());
        let year = ("year".to_owned(), "int32".to_owned(), vec![text("2024"), None, None]);
        let lang = ("lang".to_owned(), "str".to_owned(), vec![text("en"), None, None]);
        assert_eq!(found(&paths), [year, lang]);
        assert!(found(&["a/0.parquet", "=b/0.parquet"]).is_empty());
    }
}
