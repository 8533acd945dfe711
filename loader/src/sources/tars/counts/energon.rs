//! Files of Megatron Energon: `.nv-meta/.info.json`, its older form `.info.yaml`, and an index next to each tar.

use super::known::{KnownTar, TarFacts, object, samples};
use crate::error::{Context, Error, Result};
use crate::sources::yaml::{Value, parse};
use serde_json::Value as Json;

/// Parses `.info.json`: paths of tars below the folder of the data set.
pub(super) fn parse_json(bytes: &[u8]) -> Result<Vec<KnownTar>> {
    let info = object(bytes)?;
    let counts = info.get("shard_counts").and_then(Json::as_object);
    let counts = counts.ok_or_else(|| Error::format("an object is expected").with("field", "shard_counts"))?;
    counts.iter().map(|(path, count)| Ok(KnownTar::new(path, samples(count).context("tar", || path)?))).collect()
}

/// Parses `.info.yaml`, which older versions write.
pub(super) fn parse_yaml(bytes: &[u8]) -> Result<Vec<KnownTar>> {
    let text = std::str::from_utf8(bytes).map_err(|e| Error::format("not a text in UTF-8").caused_by(e))?;
    let info = parse(text)?;
    let counts = info.get("shard_counts").and_then(Value::entries);
    let counts = counts.ok_or_else(|| Error::format("a map is expected").with("field", "shard_counts"))?;
    let entry = |(path, count): &(String, Value)| {
        let count = samples(&Json::from(count.text().unwrap_or_default())).context("tar", || path)?;
        Ok(KnownTar::new(path, count))
    };
    counts.iter().map(entry).collect()
}

/// Counts the samples in an index of offsets: 8 bytes, little-endian, for the start of each sample and for the end of
/// the last one.
pub(super) fn parse_offsets(bytes: &[u8]) -> Result<TarFacts> {
    let (offsets, rest) = bytes.as_chunks::<8>();
    if offsets.is_empty() || !rest.is_empty() {
        let bytes = bytes.len();
        return Err(Error::format(format!(
            "{bytes} bytes are not a list of 64-bit offsets: it is cut, or a different kind of file"
        )));
    }
    let mut previous = None;
    for (sample, offset) in offsets.iter().enumerate() {
        let offset = u64::from_le_bytes(*offset);
        // Headers of tars are at multiples of a block.
        if offset % 512 != 0 || previous.is_some_and(|previous| offset <= previous) {
            let message =
                "the offsets are not increasing multiples of 512: make the index again with `energon prepare`";
            return Err(Error::format(message).with("sample", sample));
        }
        previous = Some(offset);
    }
    let samples = offsets.len() - 1;
    let header = |number: usize| offsets[..samples].get(number).map(|offset| u64::from_le_bytes(*offset));
    Ok(TarFacts::new(samples, header, offsets.last().map(|end| u64::from_le_bytes(*end))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn found(entries: &[KnownTar]) -> Vec<(&str, u64)> {
        entries.iter().map(|entry| (entry.path.as_str(), entry.known.samples)).collect()
    }

    #[test]
    fn counts_are_by_the_path_below_the_data_set() {
        let json = br#"{"energon_version": "7.1.0", "shard_counts": {"shards/000.tar": 1223, "shards/001.tar": 1420}}"#;
        let entries = parse_json(json).expect("an info");
        assert_eq!(found(&entries), [("shards/000.tar", 1223), ("shards/001.tar", 1420)]);
        let yaml =
            b"energon_version: 6.0.1\nshard_counts:\n  shards/000.tar: 1223\n  'a: b.tar': 5\n\n  \"c.tar\": 7\nz: 1\n";
        let entries = parse_yaml(yaml).expect("an info");
        assert_eq!(found(&entries), [("shards/000.tar", 1223), ("a: b.tar", 5), ("c.tar", 7)]);
        for yaml in
            ["shard_counts: {a.tar: 1}\n", "shard_counts:\n  ? a.tar\n  : 1\n", "shard_counts:\n  \"a\\x2etar\": 1\n"]
        {
            assert_eq!(found(&parse_yaml(yaml.as_bytes()).expect("an info")), [("a.tar", 1)]);
        }
        assert_eq!(parse_yaml(b"shard_counts: {}\n").expect("an empty block"), []);
    }

    #[test]
    fn a_damaged_info_is_an_error() {
        for (text, part) in [
            ("{\"energon_version\": \"7\"}", "shard_counts"),
            ("{\"shard_counts\": []}", "shard_counts"),
            ("{\"shard_counts\": {\"a.tar\": \"x\"}}", "(tar a.tar)"),
            ("{\"shard_counts\": {\"a.tar\": 1", "not valid JSON"),
        ] {
            let e = parse_json(text.as_bytes()).expect_err(text);
            assert!(e.kind() == ErrorKind::Format && e.to_string().contains(part), "{text}: {e}");
        }
        for (text, part) in [
            (&b"energon_version: 6\n"[..], "shard_counts"),
            (b"shard_counts:\n", "shard_counts"),
            (b"shard_counts: {a.tar: [1]}\n", "tar a.tar"),
            (b"shard_counts:\n  a.tar: one\n", "tar a.tar"),
            (b"shard_counts: {a.tar: 1\n", "YAML"),
            (b"\xff", "UTF-8"),
        ] {
            let e = parse_yaml(text).expect_err(part);
            assert!(e.kind() == ErrorKind::Format && e.to_string().contains(part), "{part}: {e}");
        }
    }

    #[test]
    fn an_index_of_offsets_has_one_more_than_samples() {
        let bytes = |offsets: &[u64]| offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect::<Vec<u8>>();
        let parsed = |offsets: &[u64]| parse_offsets(&bytes(offsets)).expect("offsets");
        assert_eq!(parsed(&[0, 1536, 4096]), TarFacts { samples: 2, headers: vec![1536], end: Some(4096) });
        assert_eq!(parsed(&[0, 512, 1536, 4096]), TarFacts { samples: 3, headers: vec![512, 1536], end: Some(4096) });
        assert_eq!(parsed(&[0]), TarFacts { end: Some(0), ..TarFacts::default() }, "an empty tar");
        for (bytes, part) in [
            (bytes(&[]), "0 bytes"),
            (bytes(&[0, 512])[..15].to_vec(), "15 bytes"),
            (bytes(&[0, 1024, 512]), "(sample 2)"),
            (bytes(&[0, 512, 512]), "(sample 2)"),
            (bytes(&[0, 7]), "(sample 1)"),
        ] {
            let e = parse_offsets(&bytes).expect_err(part);
            assert!(e.kind() == ErrorKind::Format && e.to_string().contains(part), "{part}: {e}");
        }
    }
}
