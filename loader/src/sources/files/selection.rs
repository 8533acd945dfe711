//! Files of a data set among those below its folder.

use super::list::FileList;
use crate::error::{Error, ErrorKind, Result};
use crate::format::INDEX_BASENAME;
use crate::format::recipe::class_of;
use crate::sources::FileKind;
use crate::sources::folder_names::{check_splits, is_hidden};
use crate::sources::names::{Names, named_twice, without_match};
use crate::sources::tables::splits::split_in;
use crate::sources::wildcards::{Pattern, is_pattern};
use std::collections::HashMap;

/// Rule that selects files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All files of a kind in a folder and in the folders in it, as torchvision's `ImageFolder` finds pictures.
    OfKind(&'static FileKind),
    /// All files, but for hidden ones and the list `index.json`.
    Any,
    /// Files by their names or patterns.
    Named(Names),
}

impl Selection {
    /// Text that differs for different rules.
    pub fn describe(&self) -> String {
        match self {
            Self::OfKind(kind) => format!("{}s", kind.sample_noun()),
            Self::Any => "**".to_owned(),
            Self::Named(names) => names.listed().join("\n"),
        }
    }

    /// Returns the numbers of the selected files of `list`, in the order of the data set.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a name or pattern without a file, and for a folder without a file of the kind;
    /// [`ErrorKind::Config`] for a file that is selected twice, for files of the kind both in the folder and in folders
    /// of it, and for files of several splits.
    pub fn choose(&self, list: &FileList) -> Result<Vec<usize>> {
        match self {
            Self::OfKind(kind) => of_kind(kind, list),
            Self::Any => any(list),
            Self::Named(names) => named(names.listed(), list),
        }
    }
}

fn of_kind(kind: &FileKind, list: &FileList) -> Result<Vec<usize>> {
    let is_of = |number: &usize| matches!((kind.is_of)(list.paths.get(*number)), Ok(true));
    let mut found: Vec<usize> = (0..list.len()).filter(is_of).collect();
    list.sort(&mut found);
    let path = |number: &usize| list.paths.get(*number);
    // Files of one class are neighbours, after the folder's own files.
    let classes: Vec<&[usize]> = found.chunk_by(|a, b| class_of(path(a)) == class_of(path(b))).collect();
    let firsts: Vec<&str> = classes.iter().map(|files| path(&files[0])).collect();
    check_hidden(kind, firsts.iter().filter_map(|first| class_of(first)))?;
    check_splits(firsts.iter().copied())?;
    if let [files] = classes[..] {
        check_class(kind, files.iter().map(path))?;
    }
    if let ([first, _, ..], Some(last)) = (&firsts[..], found.last())
        && class_of(first).is_none()
    {
        let message = format!(
            "some {}s are in the folder itself and some in folders of it, which would be their classes: name those to \
             read with a pattern, such as */* or **/*{}",
            kind.sample_noun(),
            kind.sample_extension()
        );
        return Err(Error::config(message).with("file", first).with("file", path(last)));
    }
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no {} below the folder", kind.sample_noun())));
    }
    Ok(found)
}

/// Checks that no class is a hidden folder. It would move the labels of the classes after it; torchvision's
/// `ImageFolder` counts it.
fn check_hidden<'a>(kind: &FileKind, mut classes: impl Iterator<Item = &'a str>) -> Result<()> {
    match classes.find(|class| is_hidden(class)) {
        Some(class) => {
            let (noun, extension) = (kind.sample_noun(), kind.sample_extension());
            let message = format!(
                "a hidden folder, or one that a program made, has {noun}s and would be a class: remove it, or name the \
                 {noun}s by a list such as folder/{{cats,dogs}}/*{extension}"
            );
            Err(Error::config(message).with("folder", class))
        }
        None => Ok(()),
    }
}

/// Checks that the only class, which has the files `paths`, is not a split with the classes in it.
fn check_class<'a>(kind: &FileKind, mut paths: impl Iterator<Item = &'a str>) -> Result<()> {
    let Some((class, path)) = paths.next().and_then(|path| path.split_once('/')) else { return Ok(()) };
    let Some((inner, _)) = path.split_once('/').filter(|_| split_in(class).is_some()) else { return Ok(()) };
    let inner = format!("{class}/{inner}/");
    let has_classes = paths.any(|path| !path.starts_with(&inner));
    if has_classes {
        return Err(Error::config(format!(
            "all {}s are in the folder {class}, which would be their only class: choose it, as in split=\"{class}\"",
            kind.sample_noun()
        )));
    }
    Ok(())
}

fn any(list: &FileList) -> Result<Vec<usize>> {
    // A list of the files, which may be next to them, is no sample.
    let is_shown = |path: &str| path != INDEX_BASENAME && !is_hidden(path);
    let mut found: Vec<usize> = (0..list.len()).filter(|number| is_shown(list.paths.get(*number))).collect();
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "there is no file below the folder"));
    }
    list.sort(&mut found);
    Ok(found)
}

fn named(names: &[String], list: &FileList) -> Result<Vec<usize>> {
    // Patterns are compared with every file.
    let has_names = !names.iter().all(|name| is_pattern(name));
    let numbers: HashMap<&str, usize> = list.paths.iter().zip(0..).filter(|_| has_names).collect();
    let (mut chosen, mut is_chosen) = (Vec::new(), vec![false; list.len()]);
    for name in names {
        let mut found: Vec<usize> = if is_pattern(name) {
            let pattern = Pattern::new(name);
            (0..list.len()).filter(|number| pattern.fits(list.paths.get(*number))).collect()
        } else {
            numbers.get(name.as_str()).copied().into_iter().collect()
        };
        if found.is_empty() {
            let message = "a file of the list does not exist";
            let absent = || Error::new(ErrorKind::NotFound, message).with("file", name);
            return Err(if is_pattern(name) { without_match(name) } else { absent() });
        }
        list.sort(&mut found);
        if let Some(twice) = found.iter().find(|number| std::mem::replace(&mut is_chosen[**number], true)) {
            return Err(named_twice(list.paths.get(*twice)));
        }
        chosen.append(&mut found);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::files::FILE;

    fn list(paths: &[&str]) -> FileList {
        let mut list = FileList::default();
        paths.iter().for_each(|path| list.push(path, 1));
        list
    }

    fn chosen(selection: &Selection, list: &FileList) -> Result<Vec<String>> {
        let numbers = selection.choose(list)?;
        Ok(numbers.into_iter().map(|number| list.paths.get(number).to_owned()).collect())
    }

    fn patterns(all: &[&str]) -> Selection {
        Selection::Named(Names::Patterns(all.iter().map(|name| (*name).to_owned()).collect()))
    }

    #[test]
    fn the_pictures_of_a_folder_are_sorted_and_further_files_left_out() {
        let found =
            chosen(&Selection::OfKind(&FILE), &list(&["b/1.JPG", "labels.csv", "b/0.png", "a/c/2.webp", "a/x.txt"]));
        assert_eq!(found.unwrap(), ["a/c/2.webp", "b/0.png", "b/1.JPG"]);
        assert_eq!(chosen(&Selection::OfKind(&FILE), &list(&["1.jpg", "0.jpg"])).unwrap(), ["0.jpg", "1.jpg"]);
        let e = chosen(&Selection::OfKind(&FILE), &list(&["a/0.jpg", "0.jpg"])).unwrap_err();
        assert!(e.to_string().contains("a/0.jpg") && e.to_string().contains("*/*"), "{e}");
        assert_eq!(chosen(&Selection::OfKind(&FILE), &list(&["a.txt"])).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn splits_are_no_classes() {
        for paths in [&["train/a/0.jpg", "val/a/0.jpg"][..], &["train/a/0.jpg", "train/b/0.jpg"]] {
            let e = chosen(&Selection::OfKind(&FILE), &list(paths)).unwrap_err();
            assert!(e.kind() == ErrorKind::Config && e.to_string().contains("split=\"train\""), "{e}");
        }
        for paths in
            [&["train/0.jpg", "train/1.jpg"][..], &["bus/0.jpg", "train/0.jpg"], &["train/a/0.jpg", "train/a/1.jpg"]]
        {
            assert_eq!(chosen(&Selection::OfKind(&FILE), &list(paths)).unwrap(), paths);
        }
        let all = ["train/a/0.jpg", "val/a/0.jpg"];
        assert_eq!(chosen(&patterns(&["**/*.jpg"]), &list(&all)).unwrap(), all);
    }

    #[test]
    fn a_hidden_folder_of_pictures_is_an_error() {
        for folder in [".ipynb_checkpoints", "__MACOSX"] {
            let e = chosen(&Selection::OfKind(&FILE), &list(&[&format!("{folder}/0.jpg"), "a/0.jpg"])).unwrap_err();
            assert!(e.kind() == ErrorKind::Config && e.to_string().contains(folder), "{e}");
        }
        assert_eq!(chosen(&Selection::OfKind(&FILE), &list(&["a/.b.jpg"])).unwrap(), ["a/.b.jpg"]);
    }

    #[test]
    fn hidden_files_are_samples_only_by_their_names() {
        let list = list(&["b.flac", ".git/x", "a/.DS_Store", "a/c.txt", "index.json", "a/index.json"]);
        assert_eq!(chosen(&Selection::Any, &list).unwrap(), ["b.flac", "a/c.txt", "a/index.json"]);
        assert_eq!(chosen(&patterns(&["a/.DS_Store"]), &list).unwrap(), ["a/.DS_Store"]);
    }

    #[test]
    fn names_and_patterns_are_in_the_order_of_the_list() {
        let list = list(&["a/2.jpg", "a/1.jpg", "a/b/3.jpg", "x.jpg", "a.jpg"]);
        let found = |names: &[&str]| chosen(&patterns(names), &list);
        assert_eq!(found(&["x.jpg", "a/*.jpg"]).unwrap(), ["x.jpg", "a/1.jpg", "a/2.jpg"]);
        assert_eq!(found(&["**/*.jpg"]).unwrap(), ["a.jpg", "x.jpg", "a/1.jpg", "a/2.jpg", "a/b/3.jpg"]);
        assert_eq!(found(&["a/**"]).unwrap(), ["a/1.jpg", "a/2.jpg", "a/b/3.jpg"]);
        for (names, kind) in [(["y.jpg", "x.jpg"], ErrorKind::NotFound), (["x.jpg", "b/*"], ErrorKind::NotFound)] {
            assert_eq!(found(&names).unwrap_err().kind(), kind);
        }
        let e = found(&["a/*", "a/1.jpg"]).unwrap_err();
        assert!(e.to_string().contains("twice") && e.to_string().contains("a/1.jpg"), "{e}");
    }
}
