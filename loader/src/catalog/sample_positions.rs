//! Files and positions of shards and samples, for errors: no file is a shard of pictures or of rows.

use super::Catalog;
use crate::error::Error;
use crate::format::Shard;
use crate::order::ShardId;

/// Returns the name of the stored file of `shard`, or of its first one.
pub(crate) fn name_of_shard(shard: &Shard) -> String {
    let Some(recipe) = &shard.recipe else { return stored_name(shard).to_owned() };
    let file = recipe.facts_of(0).into_iter().find(|(name, _)| *name == "file").map(|(_, file)| file);
    match file {
        Some(file) if recipe.as_files().is_some() => format!("{} samples from {file} on", shard.samples),
        Some(file) => file,
        None => stored_name(shard).to_owned(),
    }
}

/// Returns the stored file and position of sample `index` of `shard`, as named facts. The first one is the file.
pub(crate) fn position_in(shard: &Shard, index: u32) -> Vec<(&'static str, String)> {
    match &shard.recipe {
        Some(recipe) => recipe.facts_of(index),
        None => match shard.line_of(index.into()) {
            Some(line) => vec![("file", line.file.to_string()), ("line", line.line.to_string())],
            None => vec![("shard", stored_name(shard).to_owned()), ("sample in shard", index.to_string())],
        },
    }
}

/// Files without a table of their samples come from different programs, which know only the compressed files.
fn stored_name(shard: &Shard) -> &str {
    let zip = shard.zip_data.as_ref().filter(|_| !shard.layout.format.has_table());
    &zip.unwrap_or(&shard.raw_data).basename
}

impl Catalog {
    /// Adds file and stream of `shard` to `error`.
    pub(crate) fn describe(&self, error: Error, shard: ShardId) -> Error {
        let (stream, local) = self.locate(shard);
        error.with("shard", name_of_shard(&stream.index.shards[local as usize])).with("stream", &stream.name)
    }

    /// Adds the stored file and position of sample `index` of `shard`, and its stream, to `error`.
    pub(crate) fn describe_sample(&self, error: Error, shard: ShardId, index: u32) -> Error {
        let (stream, local) = self.locate(shard);
        let position = position_in(&stream.index.shards[local as usize], index);
        position.into_iter().fold(error, |error, (name, fact)| error.with(name, fact)).with("stream", &stream.name)
    }
}
