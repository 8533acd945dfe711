//! The shard index of wids, as `widsindex create` writes it.

use super::known::{KnownTar, object, samples};
use crate::error::{Context, Error, ErrorKind, Result};
use serde_json::{Map, Value as Json};

/// Returns the tars of all lists in the file; none if it is the JSON of a different program.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<KnownTar>> {
    let index = object(bytes)?;
    let Some(version) = index.get("wids_version") else { return Ok(Vec::new()) };
    if version.as_u64() != Some(1) {
        let message = "a version of wids that is not 1 wrote it: make it again with `widsindex create`";
        return Err(Error::new(ErrorKind::Unsupported, message).with("field", "wids_version"));
    }
    let mut entries = Vec::new();
    read_list(&index, &mut entries)?;
    if let Some(parts) = index.get("datasets") {
        let parts = parts.as_array().ok_or_else(|| Error::format("a list is expected").with("field", "datasets"))?;
        // A part may be the address of a second file, which is not read.
        parts.iter().filter_map(Json::as_object).try_for_each(|part| read_list(part, &mut entries))?;
    }
    Ok(entries)
}

fn read_list(index: &Map<String, Json>, entries: &mut Vec<KnownTar>) -> Result<()> {
    let Some(list) = index.get("shardlist") else { return Ok(()) };
    let wrong = || Error::format("a list of objects with url and nsamples is expected").with("field", "shardlist");
    for shard in list.as_array().ok_or_else(wrong)? {
        let url = shard.get("url").and_then(Json::as_str).ok_or_else(wrong)?;
        let samples = samples(shard.get("nsamples").ok_or_else(wrong)?).context("tar", || url)?;
        let mut entry = KnownTar::new(url, samples);
        entry.known.bytes = shard.get("filesize").and_then(Json::as_u64);
        entries.push(entry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_widsindex_has_counts_and_sizes() {
        let text = br#"{
            "__kind__": "wids-shard-index-v1",
            "wids_version": 1,
            "shardlist": [
              {"url": "s3://b/train-000000.tar", "md5sum": "8d4e", "nsamples": 1282, "filesize": 147456000},
              {"url": "train-000001.tar", "nsamples": 7}
            ],
            "name": "train",
            "datasets": [
              {"source_url": "https://h/more.json"},
              {"name": "b", "shardlist": [{"url": "b.tar", "nsamples": 3}]}
            ]
        }"#;
        let entries = parse(text).expect("an index");
        let found: Vec<_> = entries.iter().map(|e| (e.path.as_str(), e.known.samples, e.known.bytes)).collect();
        let first = ("s3://b/train-000000.tar", 1282, Some(147_456_000));
        assert_eq!(found, [first, ("train-000001.tar", 7, None), ("b.tar", 3, None)]);
    }

    #[test]
    fn a_foreign_index_has_none_and_a_damaged_one_is_an_error() {
        assert_eq!(parse(br#"{"version": 2, "shards": []}"#).expect("an index of MDS"), []);
        for (text, kind, says) in [
            ("{\"wids_version\": 1, \"shardlist\": [", ErrorKind::Format, "not valid JSON"),
            ("[]", ErrorKind::Format, "a JSON object"),
            ("{\"wids_version\": 2}", ErrorKind::Unsupported, "widsindex create"),
            ("{\"wids_version\": 1, \"shardlist\": {}}", ErrorKind::Format, "shardlist"),
            ("{\"wids_version\": 1, \"datasets\": 1}", ErrorKind::Format, "datasets"),
            ("{\"wids_version\": 1, \"shardlist\": [{\"url\": \"a.tar\"}]}", ErrorKind::Format, "url and nsamples"),
            (
                "{\"wids_version\": 1, \"shardlist\": [{\"url\": \"a.tar\", \"nsamples\": -1}]}",
                ErrorKind::Format,
                "a.tar",
            ),
        ] {
            let e = parse(text.as_bytes()).expect_err(text);
            assert!(e.kind() == kind && e.to_string().contains(says), "{text}: {e}");
        }
    }
}
