//! Description of a folder without an index, for errors.

use std::path::Path;

use super::INDEX_BYTES_MAX;
use super::shard::{INDEX_BASENAME, Index};
use forebay_core::error::{Context, Error, ErrorKind, Result};

impl Index {
    /// Parses the index of `folder`. `read` returns its file, with the most bytes that it may have.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if there is none, with the data sets that are near; errors of the file; the errors of
    /// [`parse`](Self::parse).
    pub fn of_folder(folder: &Path, read: impl FnOnce(&Path, u64) -> std::io::Result<Vec<u8>>) -> Result<Self> {
        let file = folder.join(INDEX_BASENAME);
        let text = read(&file, INDEX_BYTES_MAX).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                Error::new(ErrorKind::NotFound, format!("there is no index.json: {}", describe_folder(folder)))
            }
            _ => Error::from_io(e, "the data set's index cannot be read"),
        });
        Self::parse(&text.context("file", || file.display())?, &file.display().to_string())
    }
}

/// Upper bound of the data sets in a message.
const NAMED: usize = 5;

/// Returns a clause about a folder without an index: the data sets in it, or next to it if it does not exist.
pub fn describe_folder(dir: &Path) -> String {
    // A path without a parent is in the working directory.
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    // A file has no slash at its end.
    let dir = &std::path::absolute(dir).map_or_else(|_| dir.to_owned(), |dir| dir.components().collect());
    if dir.is_dir() {
        return match data_sets(dir) {
            None => "the folder cannot be read".to_owned(),
            Some(names) if names.is_empty() && has_files(dir) => "the folder has files, but no data set".to_owned(),
            Some(names) if names.is_empty() => "the folder holds no data set; MDSWriter makes one".to_owned(),
            Some(names) => format!("the folder holds data sets in {}: name one with `split`", names.join(", ")),
        };
    }
    if dir.exists() {
        return "this is a file, and not a folder".to_owned();
    }
    match dir.parent().and_then(data_sets) {
        Some(names) if !names.is_empty() => format!("there is no such folder; next to it are {}", names.join(", ")),
        _ => "there is no such folder".to_owned(),
    }
}

/// Returns true if `dir` has a file or a folder, but for hidden ones.
fn has_files(dir: &Path) -> bool {
    let is_shown = |entry: std::fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    std::fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(is_shown))
}

/// Names of folders in `dir` with an index, sorted; `None` if `dir` cannot be read.
fn data_sets(dir: &Path) -> Option<Vec<String>> {
    let is_set = |entry: &std::fs::DirEntry| entry.path().join(INDEX_BASENAME).is_file();
    let sets = std::fs::read_dir(dir).ok()?.filter_map(|entry| entry.ok().filter(is_set));
    let mut names: Vec<String> =
        sets.map(|entry| entry.file_name().to_string_lossy().into_owned()).take(NAMED).collect();
    names.sort();
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_a_parent_is_in_the_working_directory() {
        // Tests run in the crate's folder, which holds no data set.
        assert_eq!(describe_folder(Path::new("")), "the folder has files, but no data set");
        assert_eq!(describe_folder(Path::new("Cargo")), "there is no such folder");
        assert_eq!(describe_folder(Path::new("src")), "the folder has files, but no data set");
    }

    #[test]
    fn data_sets_in_a_folder_or_next_to_a_missing_one_are_listed() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(describe_folder(root.path()), "the folder holds no data set; MDSWriter makes one");
        assert_eq!(describe_folder(&root.path().join("tain")), "there is no such folder");
        for name in ["val", "train"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
            std::fs::write(root.path().join(name).join(INDEX_BASENAME), "{}").unwrap();
        }
        std::fs::create_dir(root.path().join("other")).unwrap();
        std::fs::write(root.path().join("rows.jsonl"), "{}").unwrap();
        assert_eq!(describe_folder(&root.path().join("rows.jsonl")), "this is a file, and not a folder");
        assert_eq!(describe_folder(&root.path().join("rows.jsonl/")), "this is a file, and not a folder");
        assert!(describe_folder(root.path()).contains("data sets in train, val: name one with `split`"));
        assert_eq!(describe_folder(&root.path().join("tain")), "there is no such folder; next to it are train, val");
    }
}
