//! Streaming reader of the index's outermost object: only one of its many entries at a time exists as a tree.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};
use std::fmt;

/// Receiver of the entries of the list `shards`.
pub(super) trait ShardEntries {
    /// Starts a list. If there are two lists, the last counts, as for every key in JSON.
    fn begin(&mut self);
    /// Takes the next entry.
    fn take(&mut self, entry: Json);
}

/// Reads an index: passes the entries to `entries`, and returns its other fields that matter.
///
/// # Errors
///
/// Invalid JSON. An error of the kind `is_data` means that the root is not an object, or `shards` not a list.
pub(super) fn read(bytes: &[u8], entries: &mut impl ShardEntries) -> serde_json::Result<Map<String, Json>> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let fields = json.deserialize_map(Root(entries))?;
    json.end()?;
    Ok(fields)
}

struct Root<'a, E>(&'a mut E);

impl<'de, E: ShardEntries> Visitor<'de> for Root<'_, E> {
    type Value = Map<String, Json>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "shards" => map.next_value_seed(Shards(&mut *self.0))?,
                "version" => {
                    fields.insert(key, map.next_value()?);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(fields)
    }
}

struct Shards<'a, E>(&'a mut E);

impl<'de, E: ShardEntries> DeserializeSeed<'de> for Shards<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, E: ShardEntries> Visitor<'de> for Shards<'_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.begin();
        while let Some(entry) = items.next_element::<Json>()? {
            self.0.take(entry);
        }
        Ok(())
    }
}
