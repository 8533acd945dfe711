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

/// Adds the stored file and position of sample `index` of `shard` to `error`.
fn with_position(error: Error, shard: &Shard, index: u32) -> Error {
    match &shard.recipe {
        Some(recipe) => recipe.facts_of(index).into_iter().fold(error, |error, (name, value)| error.with(name, value)),
        None => match shard.line_of(index.into()) {
            Some(line) => error.with("file", line.file).with("line", line.line),
            None => error.with("shard", stored_name(shard)).with("sample in shard", index),
        },
    }
}

/// Files without a table of their samples come from different programs, which know the compressed files alone.
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
        with_position(error, &stream.index.shards[local as usize], index).with("stream", &stream.name)
    }
}
