//! Several indexes into one, for the directory above their directories.

use serde_json::{Map, Value as Json};

use super::shard::{INDEX_BASENAME, Index, VERSION};
use crate::error::{Context, Error, Result};
use crate::format::json;

/// One index to merge.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Name of the directory that holds it, put before each of its file names; one level.
    pub directory: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The merged index, as the reference's `merge_index` writes it: shards in the order of the parts, each part's names
/// behind its directory, and every key where the part had it, since keys are not sorted here.
///
/// # Errors
///
/// As [`Index::parse`] for each part, with its directory; [`crate::ErrorKind::Format`] when two parts give the same
/// name, which the reference lets pass and then reads one shard as the other.
pub fn merge(parts: &[Part<'_>]) -> Result<String> {
    let mut shards = Vec::new();
    for part in parts {
        let file = format!("{}/{}", part.directory, INDEX_BASENAME);
        Index::parse(part.bytes, &file)?;
        let Json::Object(mut root) = json::parse(part.bytes)? else { continue };
        let Some(Json::Array(entries)) = root.swap_remove("shards") else { continue };
        shards.extend(entries.into_iter().map(|entry| prefixed(entry, part.directory)));
    }
    let mut root = Map::new();
    root.insert("version".into(), VERSION.into());
    root.insert("shards".into(), shards.into());
    let mut out = String::new();
    json::write(&Json::Object(root), false, &mut out);
    Index::parse(out.as_bytes(), INDEX_BASENAME)
        .map_err(|e| Error::format("the indexes do not merge").caused_by(e))
        .context("parts", || parts.len())?;
    Ok(out)
}

fn prefixed(mut entry: Json, directory: &str) -> Json {
    for key in ["raw_data", "zip_data", "raw_meta", "zip_meta"] {
        if let Some(Json::String(basename)) = entry.get_mut(key).and_then(|file| file.get_mut("basename")) {
            basename.insert_str(0, &format!("{directory}/"));
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(bytes: u64) -> String {
        let file = format!("{{\"basename\": \"shard.00000.mds\", \"bytes\": {bytes}, \"hashes\": {{}}}}");
        format!(
            "{{\"version\": 2, \"shards\": [{{\"samples\": 1, \"raw_data\": {file}, \"zip_data\": null, \"version\": 2, \
             \"format\": \"mds\", \"compression\": null, \"hashes\": [], \"size_limit\": null, \"column_names\": [\"a\"], \
             \"column_encodings\": [\"int\"], \"column_sizes\": [8]}}]}}"
        )
    }

    #[test]
    fn parts_follow_each_other_under_their_directories() {
        let (a, b) = (index(100), index(200));
        let parts = [Part { directory: "0", bytes: a.as_bytes() }, Part { directory: "1", bytes: b.as_bytes() }];
        let merged = merge(&parts).unwrap();
        let shards = Index::parse(merged.as_bytes(), "merged").unwrap().shards;
        let files: Vec<_> = shards.iter().map(|s| (&*s.raw_data.basename, s.raw_data.bytes)).collect();
        assert_eq!(files, [("0/shard.00000.mds", 100), ("1/shard.00000.mds", 200)]);
        assert!(merged.starts_with("{\"version\": 2, \"shards\": [{\"samples\": 1, \"raw_data\""), "{merged}");
    }

    #[test]
    fn two_parts_of_one_directory_name_are_refused() {
        let a = index(100);
        let part = Part { directory: "same", bytes: a.as_bytes() };
        assert!(merge(&[part, part]).unwrap_err().to_string().contains("used twice"));
        assert!(merge(&[Part { directory: "..", bytes: a.as_bytes() }]).is_err());
    }
}
