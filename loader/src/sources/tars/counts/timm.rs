//! `_info.json` of timm's data sets on the Hugging Face hub: the tars of each split and their lengths.

use super::known::{KnownTar, object, samples};
use crate::error::{Context, Error, Result};
use serde_json::Value as Json;

/// Returns the tars of all splits; none if it is the JSON of a different program.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<KnownTar>> {
    let info = object(bytes)?;
    let Some(Json::Object(splits)) = info.get("splits") else { return Ok(Vec::new()) };
    let mut entries = Vec::new();
    for (name, split) in splits {
        // Without both lists it comes from a different program, such as the data set card of Hugging Face.
        let list = |key| split.get(key).and_then(Json::as_array);
        let (Some(files), Some(lengths)) = (list("filenames"), list("shard_lengths")) else { continue };
        if files.len() != lengths.len() {
            let message = format!("{} filenames have {} shard_lengths", files.len(), lengths.len());
            return Err(Error::format(message).with("split", name));
        }
        for (file, length) in files.iter().zip(lengths) {
            let text = file.as_str().ok_or_else(|| Error::format("a file name is expected").with("field", "filenames"));
            let file = text.context("split", || name)?;
            let count = samples(length).context("tar", || file).context("split", || name)?;
            entries.push(KnownTar::new(file, count));
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lengths_of_all_splits_are_read() {
        let text = br#"{
            "name": "imagenet-1k",
            "splits": {
                "train": {
                    "name": "train", "num_samples": 2503,
                    "filenames": ["imagenet1k-train-0000.tar", "imagenet1k-train-0001.tar"], "shard_lengths": [1252, 1251]
                },
                "validation": {
                    "name": "validation", "num_samples": 782,
                    "filenames": ["imagenet1k-validation-00.tar"], "shard_lengths": [782]
                },
                "test": {"name": "test", "num_samples": 0, "shard_lengths": null}
            }
        }"#;
        let entries = parse(text).expect("an info");
        let found: Vec<_> = entries.iter().map(|entry| (entry.path.as_str(), entry.known.samples)).collect();
        let train = [("imagenet1k-train-0000.tar", 1252), ("imagenet1k-train-0001.tar", 1251)];
        assert_eq!(found, [train[0], train[1], ("imagenet1k-validation-00.tar", 782)]);
        assert_eq!(parse(br#"{"description": "a different file of this name"}"#).expect("different"), []);
    }

    #[test]
    fn a_damaged_info_names_the_split() {
        for (text, says) in [
            (
                r#"{"splits": {"train": {"filenames": ["a.tar"], "shard_lengths": []}}}"#,
                "1 filenames have 0 shard_lengths",
            ),
            (r#"{"splits": {"train": {"filenames": ["a.tar"], "shard_lengths": ["x"]}}}"#, "(tar a.tar, split train)"),
            (r#"{"splits": {"train": {"filenames": [7], "shard_lengths": [7]}}}"#, "split train"),
            (r#"{"splits": "#, "not valid JSON"),
        ] {
            let e = parse(text.as_bytes()).expect_err(text);
            assert!(e.kind() == crate::ErrorKind::Format && e.to_string().contains(says), "{text}: {e}");
        }
    }
}
