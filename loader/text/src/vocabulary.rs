//! Ids of tokens by their bytes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) type Vocabulary = HashMap<Vec<u8>, u32, BuildHasherDefault<BytesHasher>>;

/// Hasher of the bytes of a token.
#[derive(Default)]
pub(crate) struct BytesHasher(u64);

impl Hasher for BytesHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    /// The length is a part of the hash of the bytes.
    fn write_usize(&mut self, _: usize) {}
}

/// Returns the tokens of a vocabulary with their ids.
pub(crate) fn read(vocab: &Value) -> Option<Vocabulary> {
    let id_of = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let tokens = vocab.as_object()?.iter();
    tokens.map(|(token, id)| Some((token.clone().into_bytes(), id_of(id)?))).collect()
}
