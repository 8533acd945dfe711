//! Files that are a sample each, such as the pictures of a folder: groups of them are the shards of a stream.
//!
//! Their index is made of a listing of the folder, and stays in the stream's folder on local disk.

use super::index_origin::IndexOrigin;
use crate::cache::CachedIndex;
use crate::error::{Error, ErrorKind, Result};
use crate::format::recipe::FileGroup;
use crate::format::{Digests, FileInfo, Index, Recipe, Shard};
use crate::sources::Names;
use crate::store::{Entry, Remote};
use crate::sync::Arc;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Bytes and files of a shard: as many bytes as usual shards have, so that few requests are wasted when one is fetched for a
/// few of its samples.
const SHARD_BYTES: u64 = 32 << 20;
const SHARD_FILES_MAX: usize = 1024;

/// Files by their names.
pub(super) struct SampleFiles<'a> {
    pub(super) names: Names,
    /// Lists all files below the folder.
    pub(super) list: &'a dyn Fn() -> Result<Vec<Entry>>,
}

/// Index as it is kept: path and bytes of each file, in order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileList {
    files: Vec<(String, u64)>,
}

impl IndexOrigin for SampleFiles<'_> {
    fn cached(&self) -> CachedIndex {
        CachedIndex::OfRemote
    }

    fn reads_in_place(&self) -> bool {
        false
    }

    fn fetch(&self, _: &Remote, _: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        let entries = (self.list)()?;
        let sizes: HashMap<&str, u64> = entries.iter().map(|entry| (entry.key.as_str(), entry.size)).collect();
        let names = self.names.clone().found(|| Ok(entries.iter().map(|entry| entry.key.clone()).collect()))?;
        let sized = |name: String| match sizes.get(name.as_str()) {
            Some(bytes) => Ok((name, *bytes)),
            None => Err(Error::new(ErrorKind::NotFound, "a file of the list does not exist").with("file", name)),
        };
        let list = FileList { files: names.into_iter().map(sized).collect::<Result<_>>()? };
        serde_json::to_vec(&list).map_err(|e| Error::internal("a list of files cannot be written").caused_by(e))
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let list: FileList = serde_json::from_slice(bytes)
            .map_err(|e| Error::format("the file is no list of files").with("remote", name).caused_by(e))?;
        let layout = Arc::new(FileGroup::layout()?);
        let shard = |(number, files): (usize, &[(String, u64)])| {
            let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str().into(), *bytes)).collect();
            let (samples, group) = (files.len() as u64, FileGroup { files });
            let bytes = group.file_bytes(&layout);
            let basename = format!("files.{number:05}.mds").into();
            let raw_data = FileInfo { basename, bytes, hashes: Digests::default() };
            let shard = Shard::new(layout.clone(), samples, raw_data);
            Shard { recipe: Some(Box::new(Recipe::Files(group))), ..shard }
        };
        Ok(Index { shards: groups(&list.files).into_iter().enumerate().map(shard).collect() })
    }
}

/// Returns the files of each shard.
fn groups(files: &[(String, u64)]) -> Vec<&[(String, u64)]> {
    let (mut groups, mut start, mut bytes) = (Vec::new(), 0, 0_u64);
    for (at, (_, size)) in files.iter().enumerate() {
        if at > start && (bytes.saturating_add(*size) > SHARD_BYTES || at - start == SHARD_FILES_MAX) {
            groups.push(&files[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(*size);
    }
    if start < files.len() {
        groups.push(&files[start..]);
    }
    groups
}
