//! Splits by the paths of files, by the rules of the hub's library `datasets`.

use std::collections::BTreeMap;

/// Splits, and the words in paths that mean them.
const WORDS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// Nouns that a word for a split may end with in the name of a folder.
const NOUNS: [&str; 5] = ["set", "sets", "data", "images", "imgs"];

/// Returns the files of each split; none if no path has one. Files without a split are then left out.
pub(super) fn by_split<'a>(files: &[&'a str]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let rules: [fn(&str) -> Option<&str>; 3] = [by_shard_name, by_folder, by_name];
    for rule in rules {
        let mut splits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for file in files {
            if let Some(split) = rule(file) {
                splits.entry(split).or_default().push(file);
            }
        }
        if !splits.is_empty() {
            return splits;
        }
    }
    BTreeMap::new()
}

/// Split of a file such as `data/train-00000-of-00010.parquet`.
fn by_shard_name(path: &str) -> Option<&str> {
    let name = path.strip_prefix("data/")?;
    let (at, _) = name.match_indices("-of-").find(|(at, found)| {
        let is_number = |text: Option<&str>| text.is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let has_dash = at.checked_sub(6).and_then(|start| name.get(start..start + 1)) == Some("-");
        let end = at + found.len();
        has_dash && is_number(name.get(at - 5..*at)) && is_number(name.get(end..end + 5))
    })?;
    Some(&name[..at - 6]).filter(|split| !split.is_empty() && !split.contains('/'))
}

fn by_name(path: &str) -> Option<&str> {
    word(path.rsplit_once('/').map_or(path, |(_, name)| name))
}

fn by_folder(path: &str) -> Option<&str> {
    path.rsplit('/').skip(1).find_map(word)
}

/// Returns true if the last part of `path` has a word for a split.
pub(super) fn is_split(path: &str) -> bool {
    path.rsplit('/').next().and_then(word).is_some()
}

/// Returns true for a word that means a split.
pub(in crate::sources) fn is_word(name: &str) -> bool {
    WORDS.iter().any(|(_, words)| words.contains(&name))
}

/// Returns the split that a folder's `name` means, as people write it: `Training`, `test_set`, `val2017`,
/// `TrainImages`.
pub(in crate::sources) fn split_in(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphabetic());
    let without_noun = |word| NOUNS.iter().find_map(|noun| str::strip_suffix(word, noun)).unwrap_or(word);
    words.map(without_noun).find_map(word)
}

/// Returns the split of the first word for one in `name`, between signs and digits.
pub(in crate::sources) fn word(name: &str) -> Option<&'static str> {
    let words = name.split(|c: char| c.is_ascii_digit() || "-._ ".contains(c));
    words
        .filter(|word| !word.is_empty())
        .find_map(|word| WORDS.iter().find(|(_, words)| words.contains(&word)).map(|(split, _)| *split))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_split_as_people_write_it() {
        for (name, split) in [
            ("Training", Some("train")),
            ("test_set", Some("test")),
            ("val2017", Some("validation")),
            ("TrainImages", Some("train")),
            ("ILSVRC2012_img_val", Some("validation")),
            ("testset", Some("test")),
            ("trainer", None),
            ("contest", None),
            ("devil", None),
        ] {
            assert_eq!(split_in(name), split, "{name}");
        }
    }

    #[test]
    fn a_path_has_a_split() {
        for (path, split) in [
            ("data/train-00000-of-00002.parquet", Some("train")),
            ("data/train_sft-00000-of-00002-0123.parquet", Some("train_sft")),
            ("train.parquet", Some("train")),
            ("my_train_file_00.parquet", Some("train")),
            ("training.parquet", Some("train")),
            ("x/dev.parquet", Some("validation")),
            ("x/val1/0.parquet", Some("validation")),
            ("evaluation/0.parquet", Some("test")),
            ("trains.parquet", None),
            ("contest.parquet", None),
        ] {
            let found = by_split(&[path]);
            assert_eq!(found.keys().copied().next(), split, "{path}");
        }
    }
}
