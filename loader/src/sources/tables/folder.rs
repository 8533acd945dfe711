//! Folders of tables without an index: the files of a data set by their names, as on the Hugging Face hub.
//!
//! ```text
//!   paths of a folder, split --card, or names--> FolderFiles { kind: PARQUET, names: ["train-0-of-2.parquet", ..] }
//! ```

use super::card::{self, SplitFiles};
use super::splits;
use crate::error::{Error, Result};
use crate::format::INDEX_BASENAME;
use crate::sources::choice::{chosen, or_train};
use crate::sources::folder_names::{is_hidden, is_hidden_table};
use crate::sources::kind::{FileKind, InFolder};
use crate::sources::kinds::kind_of;
use crate::sources::lines;
use crate::sources::tars::TAR;
use std::collections::{BTreeMap, HashSet};

/// Name of the card.
pub const CARD: &str = "README.md";

/// Longest card that is read.
pub const CARD_BYTES_MAX: usize = 4 << 20;

/// Ends of the names of files that are no data, and next to it.
const NO_DATA: [&str; 6] = [".md", ".txt", ".py", ".yaml", ".yml", "license"];

/// Names of files that describe a data set.
const DESCRIPTIONS: [&str; 6] =
    [INDEX_BASENAME, "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "config.json"];

/// File that `save_to_disk` writes for a `DatasetDict`.
const SPLITS_OF_A_DICT: &str = "dataset_dict.json";

/// Start of the folder of a split if the hub has converted only its first files.
const PARTIAL: &str = "partial-";

/// Files of a data set in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderFiles {
    /// Kind of all files.
    pub kind: &'static FileKind,
    /// Paths below the folder, in order.
    pub names: Vec<String>,
}

/// Returns the files of `split`, which may be a folder, in a folder with the files `paths`; `None` if there
/// are none that a list could name, or there is an index. `split` can be empty, and `CONFIGURATION/SPLIT`. `card`
/// returns the content of [`CARD`], and is called if there is one.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] if there are several kinds of files, configurations or splits to choose from, or none
/// of the name; the errors of `card`.
pub fn files_of(paths: &[String], split: &str, card: impl FnOnce() -> Result<String>) -> Result<Option<FolderFiles>> {
    choose(paths, data_files(paths), split, card)
}

/// As [`files_of`], for a folder of texts, such as CSV files, without files of different kinds.
///
/// # Errors
///
/// As [`files_of`].
pub fn texts_of(paths: &[String], split: &str, card: impl FnOnce() -> Result<String>) -> Result<Option<FolderFiles>> {
    choose(paths, text_files(paths), split, card)
}

/// Returns the files of `split` among `files`, which are some of `paths`.
fn choose(
    paths: &[String],
    mut files: Vec<&str>,
    split: &str,
    card: impl FnOnce() -> Result<String>,
) -> Result<Option<FolderFiles>> {
    let split = split.trim_matches('/');
    let index = if split.is_empty() { INDEX_BASENAME.to_owned() } else { format!("{split}/{INDEX_BASENAME}") };
    if files.is_empty() || paths.contains(&index) {
        return Ok(None);
    }
    files.sort_unstable();
    if paths.iter().any(|path| path == CARD)
        && let Some(found) = card::files_of(&card()?, &files, split)?
    {
        return match found {
            SplitFiles::Listed(names) => one_kind(names),
            SplitFiles::Below { folder, split } => below(&files, &folder, split),
        }
        .map(Some);
    }
    if paths.iter().any(|path| path == SPLITS_OF_A_DICT) {
        return of_dict(&files, split).map(Some);
    }
    let found = by_names(&files, split)?;
    check_tars(paths, &found)?;
    Ok(Some(found))
}

/// Returns the files of `split` of a `DatasetDict` that `save_to_disk` has written: a folder for each split, whatever
/// its name.
fn of_dict(files: &[&str], split: &str) -> Result<FolderFiles> {
    let mut splits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files {
        if let Some((split, _)) = file.split_once('/') {
            splits.entry(split).or_default().push(file);
        }
    }
    one_kind(chosen(&splits, split, "split", &|split| split.to_owned())?.iter().copied())
}

/// Rejects tables that are next to tars which they do not describe: one of the two would not be read.
fn check_tars(paths: &[String], found: &FolderFiles) -> Result<()> {
    let folders: HashSet<&str> = found.names.iter().map(|name| folder_of(name)).collect();
    let is_tar = |path: &&String| {
        folders.contains(folder_of(path)) && !is_hidden(path) && matches!(kind_of(path), Ok(Some(kind)) if *kind == TAR)
    };
    match paths.iter().find(is_tar) {
        Some(tar) => {
            let message =
                "the folder has tables and tars: name those to read, such as folder/*.tar or folder/*.parquet";
            Err(Error::config(message).with("file", &found.names[0]).with("file", tar))
        }
        None => Ok(()),
    }
}

/// Returns the first text with records among `paths` that is next to the tables of `found`, and not read for that.
pub fn unread_text<'a>(paths: &'a [String], found: &FolderFiles) -> Option<&'a str> {
    let folders: HashSet<&str> = found.names.iter().map(|name| folder_of(name)).collect();
    let is_text = |path: &&str| is_in(path, InFolder::Texts) && !lines::may_describe(path);
    paths.iter().map(String::as_str).filter(is_text).find(|path| folders.contains(folder_of(path)))
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the files of `split` below `folder` by their paths in it.
fn below(files: &[&str], folder: &str, split: &str) -> Result<FolderFiles> {
    if folder.is_empty() {
        return by_names(files, split);
    }
    let inside = |file: &&str| Some(file.strip_prefix(folder)?.strip_prefix('/')?.to_owned());
    let paths: Vec<String> = files.iter().filter_map(inside).collect();
    if paths.is_empty() {
        let message = "the `data_dir` in the card of the data set has no tables";
        return Err(Error::config(message).with("folder", folder));
    }
    let found = by_names(&paths.iter().map(String::as_str).collect::<Vec<_>>(), split)?;
    let names = found.names.iter().map(|name| format!("{folder}/{name}")).collect();
    Ok(FolderFiles { names, ..found })
}

/// Returns the files of `split` on the hub's branch of converted data sets, which has a folder for each configuration,
/// and in it one for each split.
///
/// # Errors
///
/// As [`files_of`].
pub fn converted_files_of(paths: &[String], split: &str) -> Result<Option<FolderFiles>> {
    let mut files = data_files(paths);
    files.sort_unstable();
    let mut configs: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for file in files {
        if let Some((config, rest)) = file.split_once('/')
            && let Some((split, _)) = rest.split_once('/')
        {
            configs.entry(config).or_default().entry(split).or_default().push(file);
        }
    }
    if configs.is_empty() {
        return Ok(None);
    }
    let split = split.trim_matches('/');
    let (config, split) = match split.split_once('/') {
        Some((config, split)) => (config, split),
        None if configs.contains_key(split) => (split, ""),
        None => ("", split),
    };
    let splits = chosen(&configs, config, "configuration", &|config| format!("{config}/{}", or_train(split)))?;
    if let Some(part) =
        splits.keys().find(|known| known.strip_prefix(PARTIAL).is_some_and(|whole| split.is_empty() || whole == split))
        && !splits.contains_key(split)
    {
        let message = format!(
            "the hub has converted only a part of the data set to Parquet: write split=\"{part}\" to read that part"
        );
        return Err(Error::config(message));
    }
    let names = chosen(splits, split, "split", &|split| split.to_owned())?;
    one_kind(names.iter().copied()).map(Some)
}

/// Returns the address of the converted form of a data set on the hub, `root`; `None` for addresses outside the hub,
/// folders and revisions.
pub fn converted(root: &str) -> Option<String> {
    let root = root.trim_end_matches('/');
    let (_, name) = root.strip_prefix("hf://datasets/")?.split_once('/')?;
    (!name.contains(['/', '@'])).then(|| format!("{root}@refs/convert/parquet"))
}

/// Returns the tables among `paths` that are not hidden. A table with the name of a tar describes its samples, as the
/// tables of img2dataset do.
fn data_files(paths: &[String]) -> Vec<&str> {
    let tars: HashSet<&str> = paths.iter().filter_map(|path| path.strip_suffix(".tar")).collect();
    let is_of_tar = |path: &str| path.rsplit_once('.').is_some_and(|(name, _)| tars.contains(name));
    paths.iter().map(String::as_str).filter(|path| is_in(path, InFolder::Tables) && !is_of_tar(path)).collect()
}

/// Returns the texts among `paths`. A `.json` may describe files: it is a text if the folder has only such
/// files.
fn text_files(paths: &[String]) -> Vec<&str> {
    if paths.iter().any(|path| is_shard(path)) {
        return Vec::new();
    }
    let texts = paths.iter().map(String::as_str).filter(|path| is_in(path, InFolder::Texts));
    let (may_describe, named): (Vec<&str>, Vec<&str>) = texts.partition(|path| lines::may_describe(path));
    let is_other =
        |path: &&String| !is_hidden(path) && !NO_DATA.iter().any(|end| path.to_ascii_lowercase().ends_with(end));
    if !named.is_empty() {
        return named;
    }
    let descriptions = |path: &&str| DESCRIPTIONS.contains(&path.rsplit('/').next().unwrap_or(path));
    let has_others = paths.iter().filter(is_other).any(|path| !may_describe.contains(&path.as_str()));
    if has_others || may_describe.iter().any(descriptions) { Vec::new() } else { may_describe }
}

/// Returns true for a shard of a data set, which has lost its index.
fn is_shard(path: &str) -> bool {
    path.ends_with(".mds") || path.contains(".mds.")
}

/// Returns true if some of `paths` are texts that are a data set, unless the folder has files of different kinds.
pub fn has_texts(paths: &[String]) -> bool {
    !text_files(paths).is_empty()
}

/// Returns true if some of `paths` are tables.
pub fn has_tables(paths: &[String]) -> bool {
    !data_files(paths).is_empty()
}

/// Returns the kind of the tables of a folder with `first` among its files; `None` without tables.
pub fn kind_of_tables(first: &[String]) -> Option<&'static FileKind> {
    data_files(first).first().and_then(|file| kind_of(file).ok().flatten())
}

/// Returns the tables of `kind` among `paths`, in order.
pub fn tables_of(paths: &[String], kind: &FileKind) -> Vec<String> {
    let is_of_kind = |file: &&str| matches!(kind_of(file), Ok(Some(found)) if found == kind);
    let mut names: Vec<String> = data_files(paths).into_iter().filter(is_of_kind).map(str::to_owned).collect();
    names.sort_unstable();
    names
}

fn is_in(path: &str, in_folder: InFolder) -> bool {
    let is_of_kind = |kind: &FileKind| kind.in_folder == in_folder;
    matches!(kind_of(path), Ok(Some(kind)) if is_of_kind(kind)) && !is_hidden_table(path)
}

/// Returns the files of `split` by their paths.
fn by_names(files: &[&str], split: &str) -> Result<FolderFiles> {
    if let Some(found) = splits::by_split(files).get(split) {
        return one_kind(found.iter().copied());
    }
    // Folders of the name, or of the start of it.
    let mut ends: Vec<usize> = split.match_indices('/').map(|(at, _)| at).collect();
    ends.push(split.len());
    for end in ends.into_iter().rev().filter(|end| *end > 0) {
        let (folder, rest) = (&split[..end], split[end..].trim_start_matches('/'));
        let inside = |file: &&&str| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let below: Vec<&str> = files.iter().filter(inside).copied().collect();
        if !below.is_empty() && rest.is_empty() && splits::is_split(folder) {
            return one_kind(below);
        }
        if !below.is_empty() {
            let paths: Vec<&str> = below.iter().map(|file| &file[end + 1..]).collect();
            let found = of_split(&paths, rest)?;
            return one_kind(found.iter().map(|path| below[paths.iter().position(|p| p == path).unwrap_or(0)]));
        }
    }
    one_kind(of_split(files, split)?)
}

/// Returns the files of `split`, which is no folder; all files if there are no splits.
fn of_split<'a>(files: &[&'a str], split: &str) -> Result<Vec<&'a str>> {
    let splits = splits::by_split(files);
    if splits.is_empty() && (split.is_empty() || split == "train") {
        return Ok(files.to_vec());
    }
    if splits.is_empty() {
        let message = "no folder and no file has the name of the split, and there are no splits: leave `split` out";
        return Err(Error::config(message).with("split", split));
    }
    Ok(chosen(&splits, split, "split", &|split| split.to_owned())?.clone())
}

/// Checks that all files have one kind.
fn one_kind<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<FolderFiles> {
    let mut found: Option<FolderFiles> = None;
    for name in names {
        let Some(kind) = kind_of(name)? else { continue };
        let files = found.get_or_insert_with(|| FolderFiles { kind, names: Vec::new() });
        if files.kind != kind {
            let message = "the folder has files of several kinds: write which are meant, such as folder/*.parquet";
            return Err(Error::config(message).with("file", &files.names[0]).with("file", name));
        }
        files.names.push(name.to_owned());
    }
    found.ok_or_else(|| Error::config("no file of the data set belongs to the split"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tables::PARQUET;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn found(names: &[&str], split: &str) -> Result<Option<FolderFiles>> {
        files_of(&texts(names), split, || Ok(String::new()))
    }

    fn names(found: Result<Option<FolderFiles>>) -> Vec<String> {
        found.unwrap().unwrap().names
    }

    #[test]
    fn tables_next_to_tars_are_read_only_by_their_names() {
        let e = found(&["a.parquet", "0.tar"], "").unwrap_err();
        assert!(e.to_string().contains("a.parquet") && e.to_string().contains("0.tar"), "{e}");
        let found = found(&["train/a.parquet", "val/0.tar", ".cache/0.tar"], "train");
        assert_eq!(names(found), ["train/a.parquet"]);
        assert!(files_of(&texts(&["0.tar", "0.parquet"]), "", || Ok(String::new())).unwrap().is_none());
    }

    #[test]
    fn the_folders_of_a_dict_are_its_splits_whatever_their_names() {
        let dict = ["dataset_dict.json", "train_sft/0.arrow", "train_gen/0.arrow", "train_gen/state.json"];
        assert_eq!(names(found(&dict, "train_sft")), [dict[1]]);
        let e = found(&dict, "").unwrap_err();
        assert!(e.to_string().contains("(train_gen, train_sft): choose one, as in split=\"train_gen\""), "{e}");
        assert!(found(&dict, "train").unwrap_err().to_string().contains("no split train"));
        assert_eq!(names(found(&dict[..2], "")), [dict[1]]);
    }

    #[test]
    fn the_files_of_a_folder_are_the_data_set() {
        let files = found(&["b.parquet", "a.parquet", "_x.parquet", ".c/d.parquet", "LICENSE"], "").unwrap().unwrap();
        assert_eq!(files, FolderFiles { kind: &PARQUET, names: texts(&["a.parquet", "b.parquet"]) });
        assert_eq!(names(found(&["b.parquet", "a.parquet"], "train")), ["a.parquet", "b.parquet"]);
    }

    #[test]
    fn a_folder_with_an_index_or_without_data_is_left_to_the_index() {
        for (files, split) in [
            (&["index.json", "a.parquet"][..], ""),
            (&["train/index.json", "a.parquet"], "train"),
            (&["a.mds", "notes.txt", "a.png"], ""),
            (&[], ""),
        ] {
            assert_eq!(found(files, split).unwrap(), None, "{files:?}");
        }
    }

    #[test]
    fn a_table_with_the_name_of_a_tar_is_not_the_data_set() {
        let files = ["a/00000.tar", "a/00000.parquet", "a/00000_stats.json", "a/00001.parquet"];
        assert_eq!(found(&files[..3], "").unwrap(), None);
        assert!(!has_tables(&texts(&files[..3])) && has_tables(&texts(&files)));
        assert!(found(&files, "").unwrap_err().to_string().contains("tables and tars"));
        assert_eq!(names(found(&files[3..], "")), [files[3]]);
    }

    #[test]
    fn a_text_next_to_tables_is_named_and_one_for_people_is_not() {
        let paths = texts(&["a.parquet", "README.md", "dataset_info.json", "b/c.jsonl", "x.csv"]);
        let tables = found(&["a.parquet"], "").unwrap().unwrap();
        assert_eq!(unread_text(&paths, &tables), Some("x.csv"));
        assert_eq!(unread_text(&paths[..4], &tables), None);
    }

    #[test]
    fn splits_are_found_by_names() {
        let files = ["data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet", "README.md"];
        assert_eq!(names(found(&files, "train")), [files[0]]);
        assert_eq!(names(found(&files, "test")), [files[1]]);
        let e = found(&files, "").unwrap_err();
        assert!(e.to_string().contains("more than one split (test, train): choose one, as in split=\"test\""), "{e}");
        let e = found(&files, "dev").unwrap_err();
        assert!(e.to_string().contains("no split dev; there are test, train"), "{e}");
    }

    #[test]
    fn a_split_may_be_a_folder_and_begin_with_one() {
        let files = ["en/train/0.parquet", "en/test/0.parquet", "fr/train/0.parquet"];
        assert_eq!(names(found(&files, "en/train")), ["en/train/0.parquet"]);
        let named = ["test/b/0.parquet", "test/train.parquet", "x/test/train.parquet", "x/test/0.parquet"];
        assert_eq!(names(found(&named[..2], "test")), named[..2]);
        assert_eq!(names(found(&named, "x/test")), [named[3], named[2]]);
        assert_eq!(names(found(&files, "fr")), ["fr/train/0.parquet"]);
        assert_eq!(names(found(&files, "train")), ["en/train/0.parquet", "fr/train/0.parquet"]);
        let files = ["en/train-0.parquet", "en/test-0.parquet"];
        assert_eq!(names(found(&files, "en/train")), ["en/train-0.parquet"]);
        assert!(found(&files, "en").unwrap_err().to_string().contains("(test, train)"));
    }

    #[test]
    fn texts_are_a_data_set_by_their_splits_as_tables_are() {
        let found = |names: &[&str], split: &str| texts_of(&texts(names), split, || Ok(String::new()));
        let files = ["train.jsonl", "test.jsonl", "README.md", "dataset_info.json"];
        assert_eq!(names(found(&files, "test")), ["test.jsonl"]);
        assert!(found(&files, "").unwrap_err().to_string().contains("more than one split (test, train)"));
        assert_eq!(names(found(&["b.csv", "a.tsv.gz", ".c.csv", "x.json"], "")), ["a.tsv.gz", "b.csv"]);
        assert_eq!(names(found(&["b.json", "a.json", "LICENSE"], "")), ["a.json", "b.json"]);
        let e = found(&["a.csv", "b.jsonl"], "").unwrap_err();
        assert!(e.to_string().contains("a.csv") && e.to_string().contains("b.jsonl"), "{e}");
        for files in [
            &["README.txt", "dataset_info.json"][..],
            &["a.json", "weights.bin"],
            &["0.mds", "a.csv"],
            &["0.mds.zstd", "stats.json"],
            &["index.json", "a.jsonl"],
        ] {
            assert_eq!(found(files, "").unwrap(), None, "{files:?}");
        }
    }

    #[test]
    fn several_kinds_of_files_are_an_error_with_one_of_each() {
        let e = found(&["a.parquet", "b.arrow", "c.png"], "").unwrap_err();
        assert!(e.to_string().contains("a.parquet") && e.to_string().contains("b.arrow"), "{e}");
    }

    #[test]
    fn the_card_lists_the_files() {
        let card = "---\nlicense: mit\nconfigs:\n- config_name: en\n  data_files:\n  - split: train\n    path: en/*\n  \
                    - split: test\n    path:\n    - x/0.parquet\n    - \"x/[12].parquet\"\n- config_name: fr\n  \
                    default: true\n  data_files: fr/**\n---\ntext\n";
        let files =
            texts(&["README.md", "en/0.parquet", "x/2.parquet", "x/0.parquet", "x/3.parquet", "fr/a/b.parquet"]);
        let found = |split: &str| names(files_of(&files, split, || Ok(card.to_owned())));
        assert_eq!(found("en/train"), ["en/0.parquet"]);
        assert_eq!(found("en/test"), ["x/0.parquet", "x/2.parquet"]);
        assert_eq!(found(""), ["fr/a/b.parquet"]);
        assert_eq!(found("train"), ["fr/a/b.parquet"]);
        let e = files_of(&files, "en", || Ok(card.to_owned())).unwrap_err();
        assert!(e.to_string().contains("split=\"en/test\""), "{e}");
    }

    #[test]
    fn a_folder_in_the_card_has_the_files_of_a_configuration() {
        let card = "---\nconfigs:\n- config_name: en\n  data_dir: en\n- config_name: fr\n  data_dir: x/fr/\n\
                    - config_name: de\n  data_dir: de\n---\n";
        let names_of = ["en/0.parquet", "en/1.parquet", "x/fr/test.parquet", "x/fr/train.parquet", "x/train.parquet"];
        let files = texts(&[&["README.md"][..], &names_of].concat());
        let found = |split: &str| files_of(&files, split, || Ok(card.to_owned()));
        assert_eq!(names(found("en")), names_of[..2]);
        assert_eq!(names(found("en/train")), names_of[..2]);
        assert_eq!(names(found("fr/test")), [names_of[2]]);
        assert!(found("fr").unwrap_err().to_string().contains("(test, train)"));
        assert!(found("de").unwrap_err().to_string().contains("folder de"));
    }

    #[test]
    fn a_converted_data_set_has_folders_of_configurations_and_splits() {
        let files = texts(&["en/train/0000.parquet", "en/test/0000.parquet", "fr/partial-train/0000.parquet"]);
        let found = |split: &str| converted_files_of(&files, split);
        assert_eq!(names(found("en/train")), ["en/train/0000.parquet"]);
        assert_eq!(names(found("fr/partial-train")), ["fr/partial-train/0000.parquet"]);
        for (split, message) in [
            ("", "more than one configuration (en, fr): choose one, as in split=\"en/train\""),
            ("en", "more than one split (test, train)"),
            ("fr/train", "only a part"),
            ("fr", "only a part"),
            ("de/train", "no configuration de"),
        ] {
            let e = found(split).unwrap_err();
            assert!(e.to_string().contains(message), "{split}: {e}");
        }
        assert_eq!(converted_files_of(&texts(&["x"]), "").unwrap(), None);
    }
}
