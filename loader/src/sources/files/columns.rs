//! Samples of several files in different folders, such as `images/0001.jpg` and `masks/0001.png`.
//!
//! Each column has a folder or a pattern, and the files of a sample have the same stem. In a folder it is the path
//! without the extension; with a pattern it is the text that fits the wildcards. So parts of the names that differ,
//! such as `_leftImg8bit`, are parts of the patterns, and are never guessed: a wrong guess would pair wrong files.

use super::check_name;
use super::list::FileList;
use crate::error::{Error, ErrorKind, Result};
use crate::sources::braces::{NAMES_MAX, expand};
use crate::sources::folder_names::{check_splits, is_hidden};
use crate::sources::names::without_match;
use crate::sources::wildcards::{Pattern, is_pattern};
use std::collections::HashMap;

/// Stems that an error shows.
const STEMS_SHOWN: usize = 5;

/// Columns with a file of each sample.
#[derive(Debug)]
pub struct StemColumns<'a> {
    columns: Vec<StemColumn<'a>>,
}

/// Column with the files of a folder or a pattern.
#[derive(Debug)]
struct StemColumn<'a> {
    name: &'a str,
    /// Folder or pattern.
    text: &'a str,
    files: ColumnFiles,
}

#[derive(Debug)]
enum ColumnFiles {
    /// All files below this folder but hidden ones; with a slash at its end.
    Folder(String),
    /// Files by one of these patterns.
    Patterns(Vec<Pattern>),
}

impl ColumnFiles {
    /// Returns the stem of the file at `path`; `None` for a file that is not the column's.
    fn stem(&self, path: &str) -> Option<String> {
        match self {
            Self::Folder(folder) => {
                let path = path.strip_prefix(folder.as_str()).filter(|path| !is_hidden(path))?;
                let name = path.rfind('/').map_or(0, |slash| slash + 1);
                // A name may start with a dot.
                let dot = path[name..].rfind('.').filter(|dot| *dot > 0);
                Some(dot.map_or(path, |dot| &path[..name + dot]).to_owned())
            }
            Self::Patterns(patterns) => patterns.iter().find_map(|pattern| pattern.stem(path)),
        }
    }
}

impl<'a> StemColumns<'a> {
    /// Parses the folder or pattern of each of `columns`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for no columns, for two of one name, and for a path that is not below a folder.
    pub fn new(columns: &'a [(String, String)]) -> Result<Self> {
        if columns.is_empty() {
            return Err(Error::config(
                "`files` has no columns: name the folder of each, such as {\"image\": \"images\"}",
            ));
        }
        let mut parsed: Vec<StemColumn<'_>> = Vec::with_capacity(columns.len());
        for (name, text) in columns {
            if name.is_empty() || parsed.iter().any(|column| column.name == name) {
                let message = "a column of `files` has no name, or the name of an earlier one";
                return Err(Error::config(message).with("column", name));
            }
            let of_column = |e: Error| e.with("column", name);
            let path = text.strip_suffix('/').unwrap_or(text);
            let names = expand(path, NAMES_MAX).map_err(of_column)?;
            names
                .iter()
                .try_for_each(|name| check_name(name))
                .map_err(|e| of_column(e).hinting("the folders and patterns of `files` are below `remote`"))?;
            let files = match &names[..] {
                [folder] if !is_pattern(folder) => ColumnFiles::Folder(format!("{folder}/")),
                names => ColumnFiles::Patterns(names.iter().map(|name| Pattern::new(name)).collect()),
            };
            parsed.push(StemColumn { name, text, files });
        }
        Ok(Self { columns: parsed })
    }

    /// Names of the columns.
    pub fn names(&self) -> Vec<Option<&str>> {
        self.columns.iter().map(|column| Some(column.name)).collect()
    }

    /// Returns the numbers of the files in `list`: the files of the first sample in the order of the columns, then of
    /// the next one. The samples are in the order of their first files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a column without files; [`ErrorKind::Config`] for a stem that a column lacks or has
    /// twice.
    pub fn find(&self, list: &FileList) -> Result<Vec<usize>> {
        let mut samples: HashMap<String, Vec<Option<usize>>> = HashMap::new();
        for (at, column) in self.columns.iter().enumerate() {
            let mut is_empty = true;
            for (number, path) in list.paths.iter().enumerate() {
                let Some(stem) = column.files.stem(path) else { continue };
                is_empty = false;
                let files = samples.entry(stem).or_insert_with(|| vec![None; self.columns.len()]);
                if let Some(first) = files[at].replace(number) {
                    let message = "two files of a column have the same stem: remove one, or write a pattern that \
                                   leaves one out";
                    let error = Error::config(message).with("column", column.name);
                    return Err(error.with("file", list.paths.get(first)).with("file", path));
                }
            }
            if is_empty {
                return Err(column.without_files());
            }
        }
        self.check_splits(samples.keys())?;
        self.check_partners(list, &samples)?;
        let mut firsts: Vec<usize> = samples.values().filter_map(|files| files[0]).collect();
        list.sort(&mut firsts);
        let by_first: HashMap<usize, &Vec<Option<usize>>> =
            samples.values().filter_map(|files| Some((files[0]?, files))).collect();
        Ok(firsts
            .iter()
            .filter_map(|first| by_first.get(first))
            .flat_map(|files| files.iter().flatten().copied())
            .collect())
    }

    /// Checks that no folder has several splits, which would be read as one set.
    fn check_splits<'s>(&self, stems: impl Iterator<Item = &'s String>) -> Result<()> {
        let folder = self.columns.iter().find_map(|column| match &column.files {
            ColumnFiles::Folder(folder) => Some((column.name, folder)),
            ColumnFiles::Patterns(_) => None,
        });
        let Some((column, folder)) = folder else { return Ok(()) };
        check_splits(stems.map(String::as_str)).map_err(|_| {
            let message = "the folder of a column has more than one split: name the folder of one, such as \
                           images/train, or all files by a pattern, such as images/**/*.jpg";
            Error::config(message).with("column", column).with("folder", folder)
        })
    }

    /// Checks that every column has a file of each sample.
    fn check_partners(&self, list: &FileList, samples: &HashMap<String, Vec<Option<usize>>>) -> Result<()> {
        for (at, column) in self.columns.iter().enumerate() {
            let mut missing: Vec<(&str, usize)> = Vec::new();
            for (stem, files) in samples.iter().filter(|(_, files)| files[at].is_none()) {
                missing.push((stem, files.iter().flatten().next().copied().unwrap_or(0)));
            }
            if missing.is_empty() {
                continue;
            }
            missing.sort_unstable();
            let shown: Vec<&str> = missing.iter().take(STEMS_SHOWN).map(|(stem, _)| *stem).collect();
            let more = if missing.len() > shown.len() { ", ..." } else { "" };
            let has_pairs = samples.values().any(|files| files.iter().all(Option::is_some));
            let hint = if has_pairs {
                "add the files, write patterns that leave the rest out, or name the pairs in a `manifest`"
            } else {
                "no stem is in every column: write the parts of the names that differ into patterns, such as \
                 {\"image\": \"images/*_photo.jpg\", \"mask\": \"masks/*_labels.png\"}"
            };
            let message = format!(
                "{} of {} stems have no file in a column: {}{more}",
                missing.len(),
                samples.len(),
                shown.join(", ")
            );
            let error = Error::config(message).with("column", column.name).with("files", column.text);
            return Err(error.with("partner", list.paths.get(missing[0].1)).hinting(hint));
        }
        Ok(())
    }
}

impl StemColumn<'_> {
    fn without_files(&self) -> Error {
        let error = match self.files {
            ColumnFiles::Folder(_) => {
                let message = "there is no file in the folder of a column, which is below `remote`";
                Error::new(ErrorKind::NotFound, message).with("folder", self.text)
            }
            ColumnFiles::Patterns(_) => without_match(self.text),
        };
        error.with("column", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(columns: &[(&str, &str)], paths: &[&str]) -> Result<Vec<String>> {
        let mut list = FileList::default();
        paths.iter().for_each(|path| list.push(path, 1));
        let columns: Vec<_> = columns.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let numbers = StemColumns::new(&columns)?.find(&list)?;
        Ok(numbers.iter().map(|number| paths[*number].to_owned()).collect())
    }

    #[test]
    fn files_in_two_folders_are_paired_by_their_stems() {
        let columns = [("image", "images"), ("mask", "a/masks/")];
        let files = ["a/masks/1.png", "images/0.jpg", "images/1.JPEG", "a/masks/0.png", "x.csv", "images/.DS_Store"];
        let pairs = found(&columns, &files).unwrap();
        assert_eq!(pairs, ["images/0.jpg", "a/masks/0.png", "images/1.JPEG", "a/masks/1.png"]);
        let deep = ["i/x/0.v2.jpg", "m/x/0.v2.png", "i/y/0.v2.jpg", "m/y/0.v2.png"];
        let pairs = found(&[("m", "m"), ("i", "i")], &deep).unwrap();
        assert_eq!(pairs, ["m/x/0.v2.png", "i/x/0.v2.jpg", "m/y/0.v2.png", "i/y/0.v2.jpg"]);
    }

    #[test]
    fn the_parts_of_cityscapes_names_that_differ_are_in_the_patterns() {
        let columns = [
            ("image", "leftImg8bit/{train,val}/*/*_leftImg8bit.png"),
            ("mask", "gtFine/{train,val}/*/*_gtFine_labelIds.png"),
            ("polygons", "gtFine/**/*_gtFine_polygons.json"),
        ];
        let city = |stem: &str| -> Vec<String> {
            let (split, name) = stem.split_once('/').unwrap();
            let name = format!("{name}/{name}_000000_000019");
            vec![
                format!("leftImg8bit/{split}/{name}_leftImg8bit.png"),
                format!("gtFine/{split}/{name}_gtFine_labelIds.png"),
                format!("gtFine/{split}/{name}_gtFine_color.png"),
            ]
        };
        let files: Vec<String> = ["val/ulm", "train/bonn", "train/ulm"].iter().flat_map(|stem| city(stem)).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let e = found(&columns[..2], &files).unwrap_err().to_string();
        assert!(e.contains("two files of a column") && e.contains("leftImg8bit/train/ulm"), "{e}");
        let columns = [("image", "leftImg8bit/**/*_leftImg8bit.png"), ("mask", "gtFine/**/*_gtFine_labelIds.png")];
        let pairs = found(&columns, &files).unwrap();
        assert_eq!(pairs.len(), 6);
        assert_eq!(pairs[0], "leftImg8bit/train/bonn/bonn_000000_000019_leftImg8bit.png");
        assert_eq!(pairs[1], "gtFine/train/bonn/bonn_000000_000019_gtFine_labelIds.png");
    }

    #[test]
    fn stems_without_a_partner_are_named() {
        let columns = [("image", "images"), ("mask", "masks")];
        let e =
            found(&columns, &["images/0.jpg", "masks/0.png", "images/1.jpg", "images/2.jpg"]).unwrap_err().to_string();
        assert!(
            e.contains("2 of 3 stems") && e.contains("1, 2") && e.contains("images/1.jpg") && e.contains("manifest"),
            "{e}"
        );
        let e = found(&columns, &["images/0.jpg", "masks/0_mask.png"]).unwrap_err().to_string();
        assert!(e.contains("0_mask") && e.contains("no stem is in every column"), "{e}");
        let e = found(&columns, &["images/0.jpg", "masks/0.png", "masks/0.PNG"]).unwrap_err().to_string();
        assert!(e.contains("two files") && e.contains("masks/0.PNG"), "{e}");
        for (columns, part) in [
            (&[][..], "no columns"),
            (&[("image", "images"), ("image", "masks")], "earlier one"),
            (&[("image", "/data/images")], "below `remote`"),
            (&[("image", "../images")], "below `remote`"),
            (&[("image", "")], "below `remote`"),
            (&[("image", "other")], "no file in the folder"),
            (&[("image", "images/*.png")], "no file matches"),
            (&[("image", "a")], "more than one split"),
        ] {
            let e =
                found(columns, &["images/0.jpg", "a/training/0.jpg", "a/validation/1.jpg"]).unwrap_err().to_string();
            assert!(e.contains(part), "{e}");
        }
    }
}
