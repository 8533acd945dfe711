//! Files of Megatron Energon: `.nv-meta/.info.json`, its older form `.info.yaml`, and an index next to each tar.

use super::known::{Entry, object, samples};
use crate::error::{Context, Error, ErrorKind, Result};
use serde_json::Value as Json;

/// Parses `.info.json`: paths of tars below the folder of the data set.
pub(super) fn parse_json(bytes: &[u8]) -> Result<Vec<Entry>> {
    let info = object(bytes)?;
    let counts = info.get("shard_counts").and_then(Json::as_object);
    let counts = counts.ok_or_else(|| Error::format("an object is expected").with("field", "shard_counts"))?;
    counts.iter().map(|(path, count)| Ok(Entry::new(path, samples(count).context("tar", || path)?))).collect()
}

/// Parses `.info.yaml` as Energon writes it: a block with one line per tar.
pub(super) fn parse_yaml(bytes: &[u8]) -> Result<Vec<Entry>> {
    let text = std::str::from_utf8(bytes).map_err(|e| Error::format("not a text in UTF-8").caused_by(e))?;
    let mut lines = text.lines().zip(1_u64..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let Some((first, _)) = lines.find(|(line, _)| line.starts_with("shard_counts:")) else {
        return Err(Error::format("the field is missing").with("field", "shard_counts"));
    };
    if first.trim_end() != "shard_counts:" {
        return Err(other_form());
    }
    let mut entries = Vec::new();
    for (line, number) in lines.take_while(|(line, _)| line.starts_with(' ')) {
        let (path, count) = line.trim().rsplit_once(": ").ok_or_else(other_form).context("line", || number)?;
        let path = plain_key(path).ok_or_else(other_form).context("line", || number)?;
        let count = samples(&Json::from(count)).context("tar", || &path).context("line", || number)?;
        entries.push(Entry::new(&path, count));
    }
    Ok(entries)
}

fn other_form() -> Error {
    let message = "this form of YAML is not read, only lines `  name: number` below shard_counts: run \
                   `energon prepare --tar-index-only`, which writes .info.json";
    Error::new(ErrorKind::Unsupported, message)
}

/// Returns the text of a key; `None` for one that is more than a plain or a quoted text.
fn plain_key(key: &str) -> Option<String> {
    let quoted = |quote| key.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    if let Some(inside) = quoted('\'') {
        return Some(inside.replace("''", "'"));
    }
    if let Some(inside) = quoted('"') {
        return (!inside.contains('\\')).then(|| inside.to_owned());
    }
    let is_plain = !key.starts_with(['?', '\'', '"', '{', '[', '&', '*', '!', '|', '>', '%', '@', '`']);
    is_plain.then(|| key.to_owned())
}

/// Counts the samples in an index of offsets: 8 bytes, little-endian, for the start of each sample and for the end of the
/// last one.
pub(super) fn parse_offsets(bytes: &[u8]) -> Result<u64> {
    let (offsets, rest) = bytes.as_chunks::<8>();
    if offsets.is_empty() || !rest.is_empty() {
        let bytes = bytes.len();
        return Err(Error::format(format!(
            "{bytes} bytes are not a list of 64-bit offsets: it is cut, or another file"
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
    Ok(offsets.len() as u64 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(entries: &[Entry]) -> Vec<(&str, u64)> {
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
        assert_eq!(parse_yaml(b"shard_counts:\n").expect("an empty block"), []);
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
        for (text, kind, part) in [
            (&b"energon_version: 6\n"[..], ErrorKind::Format, "shard_counts"),
            (b"shard_counts: {a.tar: 1}\n", ErrorKind::Unsupported, ".info.json"),
            (b"shard_counts:\n  ? a.tar\n  : 1\n", ErrorKind::Unsupported, "line 2"),
            (b"shard_counts:\n  \"a\\n.tar\": 1\n", ErrorKind::Unsupported, "line 2"),
            (b"shard_counts:\n  a.tar: one\n", ErrorKind::Format, "(tar a.tar, line 2)"),
            (b"\xff", ErrorKind::Format, "UTF-8"),
        ] {
            let e = parse_yaml(text).expect_err(part);
            assert!(e.kind() == kind && e.to_string().contains(part), "{part}: {e}");
        }
    }

    #[test]
    fn an_index_of_offsets_has_one_more_than_samples() {
        let bytes = |offsets: &[u64]| offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(parse_offsets(&bytes(&[0, 1536, 4096])).expect("two samples"), 2);
        assert_eq!(parse_offsets(&bytes(&[0])).expect("an empty tar"), 0);
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
