//! Names of folders that are no part of the data, or are splits of it.

use super::tables::splits::{is_word, split_in, word};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Folders that archive programs and file servers make.
const OF_PROGRAMS: [&str; 3] = ["__MACOSX", "@eaDir", "lost+found"];

/// Returns true for the path of a file that is hidden or in a hidden folder, such as `.ipynb_checkpoints`.
pub fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.') || OF_PROGRAMS.contains(&part))
}

/// Returns true for the path of a table that is hidden. Programs that write tables also start the names of files that
/// are no data with an underscore, such as `_delta_log/0.parquet`.
pub fn is_hidden_table(path: &str) -> bool {
    is_hidden(path) || path.split('/').any(|part| part.starts_with('_'))
}

/// Checks that the files `paths` below a folder, all of one kind, are not the files of several splits.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] with the splits: the user has to name one.
pub fn check_splits<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let folders = paths.into_iter().filter_map(|path| path.split_once('/'));
    let splits: BTreeMap<&str, &str> = folders.filter(|(folder, _)| split_in(folder).is_some()).collect();
    // Two classes may have the word: `train` and `train_station`.
    let meant: BTreeSet<&str> = splits.keys().filter_map(|folder| split_in(folder)).collect();
    let are_several = meant.len() > 1 || splits.keys().filter(|folder| is_word(folder)).count() > 1;
    let Some((first, file)) = splits.first_key_value().filter(|_| are_several) else { return Ok(()) };
    let names = splits.keys().copied().collect::<Vec<_>>().join(", ");
    Err(Error::config(format!(
        "the folder has more than one split ({names}): choose one, as in split=\"{}\", or name all files by a list \
         such as **/*.{}",
        if splits.contains_key("train") { "train" } else { first },
        file.rsplit('.').next().unwrap_or_default()
    )))
}

/// Checks that the names of the files `paths` of one folder, all shards of one kind, are not the names of several
/// splits, such as `set-train-000.tar` and `set-val-000.tar`. Folders are not looked at.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] with a file of two splits: the user has to name the files of one.
pub fn check_split_names<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut known: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for path in paths {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Some(split) = word(name) else { continue };
        let splits = known.entry(folder).or_default();
        splits.entry(split).or_insert(path);
        if let [a, b, ..] = splits.values().collect::<Vec<_>>()[..] {
            let pattern = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let extension = name.rsplit('.').next().unwrap_or_default();
            let message = format!(
                "the folder has files of more than one split: name the files of one by a list, such as \
                 {pattern}*train*.{extension}, or all by *.{extension}"
            );
            return Err(Error::config(message).with("file", a).with("file", b));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_several_splits_need_the_name_of_one() {
        let e = check_splits(["val/0.tar", "train/0.tar", "extra/0.tar"]).unwrap_err();
        assert_eq!(
            e.to_string(),
            "the folder has more than one split (train, val): choose one, as in split=\"train\", or name all files by \
             a list such as **/*.tar"
        );
        let e = check_splits(["Testing/a/0.jpg", "Training/a/0.jpg"]).unwrap_err().to_string();
        assert!(e.contains("(Testing, Training): choose one, as in split=\"Testing\""), "{e}");
        assert!(check_splits(["test2017/0.jpg", "val2017/0.jpg"]).is_err());
        for paths in [
            &["train/0.tar", "train_station/0.tar"][..],
            &["train/0.tar", "0.tar"],
            &["a/0.tar", "b/0.tar"],
            &["train-0.tar", "val-0.tar"],
            &["a/val/0.tar"],
        ] {
            assert!(check_splits(paths.iter().copied()).is_ok(), "{paths:?}");
        }
    }

    #[test]
    fn files_of_several_splits_in_one_folder_need_a_list_of_one() {
        let e = check_split_names(["a/set-train-000.tar", "a/set-train-001.tar", "a/set-val-000.tar"]).unwrap_err();
        let e = e.to_string();
        assert!(e.contains("a/*train*.tar, or all by *.tar (file a/set-train-000.tar, file a/set-val-000.tar)"), "{e}");
        assert!(check_split_names(["test.tar", "dev.tar"]).is_err());
        for paths in [
            &["train-0.tar", "training-1.tar", "extra.tar"][..],
            &["a/train-0.tar", "b/val-0.tar"],
            &["train/0.tar", "val/0.tar"],
            &["contest-0.tar", "value-0.tar", "trains.tar"],
        ] {
            assert!(check_split_names(paths.iter().copied()).is_ok(), "{paths:?}");
        }
    }

    #[test]
    fn hidden_folders_and_folders_of_programs_are_known() {
        for path in [".ipynb_checkpoints/0-checkpoint.jpg", "a/.b/0.jpg", "__MACOSX/a/0.jpg", "a/._0.tar"] {
            assert!(is_hidden(path), "{path}");
        }
        assert!(!is_hidden("a.b/_c/0.jpg"));
        for path in ["_temporary/0.parquet", "a/_metadata.parquet", "lost+found/0.parquet", ".0.parquet.crc"] {
            assert!(is_hidden_table(path), "{path}");
        }
        assert!(!is_hidden_table("a_b/0_.parquet"));
    }
}
