//! Samples of several files that share the start of their paths, such as `0001.jpg` and `0001.txt`.

use super::list::FileList;
use crate::error::{Error, Result};
use crate::format::Encoding;
use crate::format::tar::encoding_of;
use std::collections::{BTreeSet, HashMap};

/// Files of samples that all have the same fields.
#[derive(Debug)]
pub(super) struct Stems {
    /// Numbers of the files: the files of the first sample in the order of the columns, then of the next one.
    pub(super) numbers: Vec<usize>,
    /// Names and encodings of the columns, as tars have them.
    pub(super) columns: Vec<(String, Encoding)>,
}

/// Divides a path into the stem, up to the first dot of the name, and the field, in lower case.
fn divided(path: &str) -> (&str, String) {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    // A name may start with a dot.
    let dot = path[name..].find('.').filter(|dot| *dot > 0).map_or(path.len(), |dot| name + dot);
    (&path[..dot], path[dot..].trim_start_matches('.').to_lowercase())
}

impl Stems {
    /// Groups the files `numbers` of `list`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a sample that lacks a field of the rest, or has it twice.
    pub(super) fn new(list: &FileList, numbers: &[usize]) -> Result<Self> {
        let fields: BTreeSet<String> = numbers.iter().map(|number| divided(list.paths.get(*number)).1).collect();
        let columns_of: HashMap<&str, usize> = fields.iter().map(String::as_str).zip(0..).collect();
        let mut samples: HashMap<&str, usize> = HashMap::new();
        let mut files: Vec<Option<usize>> = Vec::new();
        for number in numbers {
            let path = list.paths.get(*number);
            let (stem, field) = divided(path);
            let sample = *samples.entry(stem).or_insert_with(|| {
                files.extend(fields.iter().map(|_| None));
                files.len() / fields.len() - 1
            });
            let entry = &mut files[sample * fields.len() + columns_of[field.as_str()]];
            if entry.replace(*number).is_some() {
                let message = "two files of a sample differ only in the case of their extensions: rename one";
                return Err(Error::config(message).with("file", path));
            }
        }
        let whole: Option<Vec<usize>> = files.iter().copied().collect();
        let Some(whole) = whole else {
            let missing = files.iter().position(Option::is_none).unwrap_or(0);
            let sample = &files[missing / fields.len() * fields.len()..][..fields.len()];
            let present = sample.iter().flatten().next().map_or("", |number| list.paths.get(*number));
            let field = fields.iter().nth(missing % fields.len()).map_or("", String::as_str);
            let message = format!(
                "a sample has no .{field} as its neighbours have: add it, or leave one of the two out with a pattern"
            );
            return Err(Error::config(message).with("file", present));
        };
        let columns = fields.into_iter().map(|field| {
            let encoding = encoding_of(&field);
            (if field.is_empty() { "file".to_owned() } else { field }, encoding)
        });
        Ok(Self { numbers: whole, columns: columns.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(paths: &[&str]) -> Result<(Vec<String>, Vec<String>)> {
        let mut list = FileList::default();
        paths.iter().for_each(|path| list.push(path, 1));
        let stems = Stems::new(&list, &(0..paths.len()).collect::<Vec<_>>())?;
        let columns = stems.columns.iter().map(|(name, encoding)| format!("{name}:{encoding}")).collect();
        Ok((columns, stems.numbers.iter().map(|number| paths[*number].to_owned()).collect()))
    }

    #[test]
    fn files_of_one_stem_are_a_sample_with_a_column_for_each_extension() {
        let (columns, files) =
            grouped(&["b/1.txt", "a.d/0.JPG", "b/1.jpg", "a.d/0.txt", "b/1.seg.png", "a.d/0.seg.png"]).unwrap();
        assert_eq!(columns, ["jpg:jpeg", "seg.png:png", "txt:str"]);
        assert_eq!(files, ["b/1.jpg", "b/1.seg.png", "b/1.txt", "a.d/0.JPG", "a.d/0.seg.png", "a.d/0.txt"]);
        assert_eq!(grouped(&["a/README", "b/README"]).unwrap().0, ["file:bytes"]);
    }

    #[test]
    fn a_sample_without_a_field_or_with_two_is_named() {
        let e = grouped(&["0.jpg", "0.txt", "1.jpg"]).unwrap_err();
        assert!(e.to_string().contains("no .txt") && e.to_string().contains("1.jpg"), "{e}");
        let e = grouped(&["0.jpg", "0.JPG"]).unwrap_err();
        assert!(e.to_string().contains("0.JPG"), "{e}");
    }
}
