//! Writing of the index in the reference's form: keys sorted, one line, ASCII.

use serde_json::{Map, Value as Json, json};

use super::shard::{FileInfo, Index, Shard, VERSION};
use crate::json;
use crate::layout::Layout;
use crate::{Compression, HashAlgo};

/// Settings of a writer, which are in every shard's entry of the index and in every shard's header.
pub(crate) struct ShardSettings<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) compression: Option<Compression>,
    pub(crate) hashes: &'a [HashAlgo],
    pub(crate) size_limit: Option<u64>,
}

/// Returns the settings as the JSON in shard headers.
pub(crate) fn config(settings: &ShardSettings<'_>) -> String {
    let mut out = String::new();
    json::write(&Json::Object(config_map(settings)), &mut out);
    out
}

fn config_map(settings: &ShardSettings<'_>) -> Map<String, Json> {
    let mut map = Map::new();
    let mut put = |key: &str, value: Json| map.insert(key.to_owned(), value);
    put("compression", settings.compression.map(|c| c.to_string()).into());
    put("format", settings.layout.format.name().into());
    put("hashes", settings.hashes.iter().map(|algo| algo.name()).collect());
    put("size_limit", settings.size_limit.into());
    put("version", VERSION.into());
    settings.layout.format.describe(&settings.layout.columns, &mut |key, value| drop(put(key, value)));
    if settings.layout.is_sampled() {
        put("column_sampled", true.into());
    }
    map
}

fn file(info: &FileInfo) -> Json {
    let hashes: Map<_, _> = info.hashes.iter().map(|(algo, hex)| (algo.name().to_owned(), Json::from(hex))).collect();
    json!({"basename": *info.basename, "bytes": info.bytes, "hashes": hashes})
}

fn shard(shard: &Shard) -> Json {
    let mut map = config_map(&ShardSettings {
        layout: &shard.layout,
        compression: shard.compression,
        hashes: &shard.hashes,
        size_limit: shard.size_limit,
    });
    let mut put = |key: &str, value: Json| map.insert(key.to_owned(), value);
    put("samples", shard.samples.into());
    put("raw_data", file(&shard.raw_data));
    put("zip_data", shard.zip_data.as_ref().map_or(Json::Null, file));
    if let Some(raw_meta) = &shard.raw_meta {
        put("raw_meta", file(raw_meta));
        put("zip_meta", shard.zip_meta.as_deref().map_or(Json::Null, file));
    }
    Json::Object(map)
}

impl Index {
    /// Returns the same text that the reference's writer produces for this index.
    pub fn to_json(&self) -> String {
        // One shard at a time, so that the tree of a large index never exists as a whole.
        let mut out = String::from("{\"shards\": [");
        for (i, entry) in self.shards.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            json::write(&shard(entry), &mut out);
        }
        out.push_str("], \"version\": 2}");
        out
    }
}
