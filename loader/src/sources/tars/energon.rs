//! Folders of tars that Megatron Energon has prepared: the tars of each split.
//!
//! ```text
//!   .nv-meta/split.yaml    split_parts:            exclude:
//!                            train:                - shards/0003.tar
//!                            - shards/{0000..0099}.tar
//! ```
//!
//! `.nv-meta/.info.json` has the numbers of samples; see [`counts`](super::counts).

use super::TAR;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::index::check_basename;
use crate::sources::braces::{NAMES_MAX, expand};
use crate::sources::choice::chosen;
use crate::sources::kinds::kind_of;
use crate::sources::names::unique;
use crate::sources::yaml::{Value, parse};
use std::collections::{BTreeMap, HashSet};

/// Folder of Energon's files in the folder of a data set.
pub const PREPARED: &str = ".nv-meta";

/// Files with the splits: a data set has one of them.
pub const SPLIT_FILES: [&str; 2] = [".nv-meta/split.yaml", ".nv-meta/split.json"];

/// Most bytes of such a file: the names of a million tars.
pub const SPLIT_BYTES_MAX: usize = 64 << 20;

/// Returns the tars of `split`, or of the only split for an empty text, by the document of a [`SPLIT_FILES`], in its
/// order.
///
/// # Errors
///
/// [`ErrorKind::Format`] for a damaged document; [`ErrorKind::Config`] with the splits that there are, and for one
/// without tars; [`ErrorKind::Unsupported`] for shards that are no tars, and for samples that are left out one by one.
pub fn tars_of(document: &[u8], split: &str) -> Result<Vec<String>> {
    let text = std::str::from_utf8(document).map_err(|e| Error::format("not a text in UTF-8").caused_by(e))?;
    let document = parse(text)?;
    let parts = document.get("split_parts").and_then(Value::entries);
    let parts = parts.ok_or_else(|| Error::format("a map is expected").with("field", "split_parts"))?;
    let parts: BTreeMap<&str, &Value> = parts.iter().map(|(name, part)| (name.as_str(), part)).collect();
    let part = chosen(&parts, split.trim_matches('/'), "split", &|split| split.to_owned())?;
    let excluded: HashSet<String> = match document.get("exclude") {
        Some(excluded) => expanded(excluded).context("field", || "exclude")?.into_iter().collect(),
        None => HashSet::new(),
    };
    let all = expanded(part).context("field", || "split_parts").context("split", || split)?;
    let mut names: Vec<String> = Vec::with_capacity(all.len());
    for name in all.iter().filter(|name| !excluded.contains(*name)) {
        check(name).context("tar", || name)?;
        names.push(name.clone());
    }
    if names.is_empty() {
        return Err(Error::config("the split has no tars").with("split", split));
    }
    let known: HashSet<&str> = all.iter().map(String::as_str).collect();
    // A tar that is excluded is no sample.
    let sample = excluded.iter().filter(|name| kind_of(name).is_ok_and(|kind| kind.is_none())).min();
    if let Some(sample) = sample.filter(|sample| sample.rsplit_once('/').is_some_and(|(tar, _)| known.contains(tar))) {
        let key = sample.rsplit_once('/').map_or("", |(_, key)| key);
        let message = format!(
            "`exclude` leaves out single samples, which is not read from it: remove it there, and write it as \
             filter=\"__key__ != '{key}'\""
        );
        return Err(Error::new(ErrorKind::Unsupported, message).with("sample", sample));
    }
    unique(names)
}

/// Returns the names in a list, with their braces expanded.
fn expanded(list: &Value) -> Result<Vec<String>> {
    let names = list.list().ok_or_else(|| Error::format("a list of names is expected"))?;
    let mut all = Vec::new();
    for name in names {
        all.append(&mut expand(name, NAMES_MAX - all.len()).context("name", || name)?);
    }
    Ok(all)
}

fn check(name: &str) -> Result<()> {
    if kind_of(name)? != Some(&TAR) {
        let message = "a shard is not a tar: of data sets that Energon has prepared, only WebDataset's tars are read";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    check_basename(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPLITS: &str = "exclude:\n- 'shards/{2..3}.tar'\n- skipped.tar\nsplit_parts:\n  train:\n  - \
                          shards/{0..4}.tar\n  - a.tar\n  val: [b.tar]\n  test: []\n";

    #[test]
    fn the_tars_of_a_split_are_its_list_without_the_excluded() {
        let train = ["shards/0.tar", "shards/1.tar", "shards/4.tar", "a.tar"];
        assert_eq!(tars_of(SPLITS.as_bytes(), "train").expect("split"), train);
        assert_eq!(tars_of(SPLITS.as_bytes(), "/val/").expect("split"), ["b.tar"]);
        let json = br#"{"split_parts": {"train": ["x.tar"]}, "exclude": []}"#;
        assert_eq!(tars_of(json, "").expect("the only one"), ["x.tar"]);
    }

    #[test]
    fn foreign_documents_are_errors_that_name_the_part() {
        for (text, split, kind, part) in [
            (SPLITS, "", ErrorKind::Config, "more than one split (test, train, val)"),
            (SPLITS, "dev", ErrorKind::Config, "no split dev; there are test, train, val"),
            (SPLITS, "test", ErrorKind::Config, "no tars"),
            ("split_parts: {train: [a.tar, b.tar, a.tar]}", "", ErrorKind::Config, "twice"),
            ("{}", "", ErrorKind::Format, "split_parts"),
            ("split_parts: {train: a.tar}", "", ErrorKind::Format, "a list of names"),
            ("split_parts: {train: ['{a.tar']}", "", ErrorKind::Config, "name {a.tar"),
            ("split_parts: {train: [a.jsonl]}", "", ErrorKind::Unsupported, "tar a.jsonl"),
            ("split_parts: {train: [../a.tar]}", "", ErrorKind::Format, "../a.tar"),
            ("split_parts: {train: [a.tar]}\nexclude: [a.tar/key1]", "", ErrorKind::Unsupported, "__key__ != 'key1'"),
            ("split_parts: [", "", ErrorKind::Format, "YAML"),
            ("split_parts: {train: [a.tar]}\nexclude: 5", "", ErrorKind::Format, "exclude"),
        ] {
            let e = tars_of(text.as_bytes(), split).expect_err(text);
            assert!(e.kind() == kind && e.to_string().contains(part), "{text}: {e}");
        }
        assert!(tars_of(b"\xff", "").is_err());
    }
}
