//! What there is where an index is missed.

use std::path::Path;

use super::shard::INDEX_BASENAME;

/// How many data sets are named.
const NAMED: usize = 5;

/// A clause about a folder without an index, for an error: the data sets in it, or beside it where there is no such folder.
pub fn describe_folder(dir: &Path) -> String {
    // A path of one name, or of none, lies in the working folder.
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let dir = &std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    if dir.is_dir() {
        return match data_sets(dir) {
            None => "the folder cannot be read".to_owned(),
            Some(names) if names.is_empty() => "the folder holds no data set; MDSWriter makes one".to_owned(),
            Some(names) => format!("the folder holds data sets in {}: name one with `split`", names.join(", ")),
        };
    }
    match dir.parent().and_then(data_sets) {
        Some(names) if !names.is_empty() => format!("there is no such folder; beside it are {}", names.join(", ")),
        _ => "there is no such folder".to_owned(),
    }
}

/// Names of folders in `dir` that have an index, in order; `None` where it cannot be read.
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
    fn a_path_without_a_folder_lies_in_the_working_one() {
        // Tests run in the crate's folder, which holds no data set.
        assert_eq!(describe_folder(Path::new("")), "the folder holds no data set; MDSWriter makes one");
        assert_eq!(describe_folder(Path::new("Cargo")), "there is no such folder");
        assert_eq!(describe_folder(Path::new("src")), "the folder holds no data set; MDSWriter makes one");
    }

    #[test]
    fn data_sets_in_a_folder_and_beside_a_missing_one_are_named() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(describe_folder(root.path()), "the folder holds no data set; MDSWriter makes one");
        assert_eq!(describe_folder(&root.path().join("tain")), "there is no such folder");
        for name in ["val", "train"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
            std::fs::write(root.path().join(name).join(INDEX_BASENAME), "{}").unwrap();
        }
        std::fs::create_dir(root.path().join("other")).unwrap();
        assert!(describe_folder(root.path()).contains("data sets in train, val: name one with `split`"));
        assert_eq!(describe_folder(&root.path().join("tain")), "there is no such folder; beside it are train, val");
    }
}
