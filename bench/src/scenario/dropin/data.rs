//! Data sets of the scenario, made once in a folder from a seed.

use crate::folder::{has_index, remove_unfinished};
use forebay_loader::format::encoding::{Array, DType};
use forebay_loader::format::layout::Layout;
use forebay_loader::format::writer::{LocalDir, Options, Writer};
use forebay_loader::format::{Encoding, INDEX_BASENAME, Value};
use forebay_loader::{Error, Result};
use forebay_tests::data::{Draws, token_sample};
use std::fs;
use std::path::{Path, PathBuf};

const SEED: u64 = 9176;
/// Tokens per sample: 4 kB.
const LENGTH: usize = 2048;
/// Bytes per file, and per text of a record.
const FILE_BYTES: usize = 100_000;
const TEXT_BYTES: usize = 92;
/// Size limit of raw shards, in bytes.
const SHARD_BYTES_MAX: u64 = 8 << 20;
/// Samples per shard of the data set of many shards.
const FEW_SAMPLES: u64 = 10;
/// Names per file: ext4 allows 65,000.
const LINKS_MAX: u64 = 50_000;

/// Kind of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    /// Array of 2,048 uint16.
    Tokens,
    /// File of 100 kB as bytes, and a class: JPEGs that are delivered as stored.
    Files,
    /// Number and text, together 100 bytes.
    Records,
    /// Records, ten in each of very many shards.
    Shards,
}

impl Content {
    /// Returns the name for the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens 4 kB",
            Self::Files => "JPEG bytes 100 kB",
            Self::Records => "records 100 B",
            Self::Shards => "many shards",
        }
    }

    fn layout(self) -> Result<Layout> {
        let columns: &[(&str, &str)] = match self {
            Self::Tokens => &[("tokens", "ndarray:uint16:2048")],
            Self::Files => &[("class", "int"), ("image", "bytes")],
            Self::Records | Self::Shards => &[("number", "int"), ("text", "str")],
        };
        let parsed = |(name, encoding): &(&str, &str)| Ok(((*name).to_owned(), Encoding::parse(encoding)?));
        Layout::mds(columns.iter().map(parsed).collect::<Result<Vec<_>>>()?)
    }

    /// Returns sample `index`, in the order of the columns.
    fn sample(self, index: u64) -> Vec<Value<'static>> {
        let number = Value::Int(index as i64);
        match self {
            Self::Tokens => {
                let data: Vec<u8> = token_sample(LENGTH, SEED, index).into_iter().flat_map(u16::to_le_bytes).collect();
                vec![Value::Array(Array { dtype: DType::UInt16, shape: vec![LENGTH], data: data.into() })]
            }
            Self::Files => {
                let mut draws = Draws::new(SEED, index);
                let file: Vec<u8> = (0..FILE_BYTES / 8).flat_map(|_| draws.next().to_le_bytes()).collect();
                vec![number, Value::Bytes(file.into())]
            }
            Self::Records | Self::Shards => {
                vec![number, Value::Str(format!("{index:0TEXT_BYTES$}").into())]
            }
        }
    }
}

/// Makes `samples` samples below `root` unless they exist, and returns the folder of their shards.
///
/// # Errors
///
/// Errors of the file system.
pub(super) fn make(root: &Path, content: Content, samples: u64) -> Result<PathBuf> {
    let kind = format!("{content:?}").to_lowercase();
    let folder = root.join(format!("{kind}-{samples}"));
    if has_index(&folder) {
        return Ok(folder);
    }
    remove_unfinished(&folder)?;
    match content {
        Content::Shards => many_shards(&folder, samples / FEW_SAMPLES)?,
        _ => write(&folder, content, samples)?,
    }
    Ok(folder)
}

fn write(folder: &Path, content: Content, samples: u64) -> Result<()> {
    let options = Options { size_limit: Some(SHARD_BYTES_MAX), ..Options::default() };
    let mut writer = Writer::new(content.layout()?, Box::new(LocalDir::create(folder, false)?), options)?;
    for index in 0..samples {
        writer.write(&content.sample(index))?;
    }
    writer.finish().map(|_| ())
}

/// Makes `shards` shards that are one file under many names, and an index that lists them all.
fn many_shards(folder: &Path, shards: u64) -> Result<()> {
    write(folder, Content::Shards, FEW_SAMPLES)?;
    let failed = |e| Error::from_io(e, "a data set of many shards cannot be made").with("folder", folder.display());
    let index = fs::read_to_string(folder.join(INDEX_BASENAME)).map_err(failed)?;
    // The index is removed first and written last, when all files that it lists exist.
    fs::remove_file(folder.join(INDEX_BASENAME)).map_err(failed)?;
    let (head, rest) = index.split_once('[').expect("an index lists its shards");
    let (entry, tail) = rest.rsplit_once(']').expect("an index lists its shards");
    let name = |shard: u64| format!("shard.{shard:05}.mds");
    let mut source = folder.join(name(0));
    let mut entries = vec![entry.to_owned()];
    for shard in 1..shards {
        let path = folder.join(name(shard));
        if shard % LINKS_MAX == 0 {
            fs::copy(&source, &path).map_err(failed)?;
            source = path;
        } else {
            fs::hard_link(&source, &path).map_err(failed)?;
        }
        entries.push(entry.replace(&name(0), &name(shard)));
    }
    let text = format!("{head}[{}]{tail}", entries.join(", "));
    fs::write(folder.join(INDEX_BASENAME), text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::format::Index;

    #[test]
    fn many_shards_exist_and_are_listed() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = make(root.path(), Content::Shards, 30).expect("made");
        let index = Index::parse(&fs::read(folder.join(INDEX_BASENAME)).expect("an index"), "index").expect("valid");
        assert_eq!(index.samples(), 30);
        for number in 0..3 {
            assert!(folder.join(format!("shard.{number:05}.mds")).is_file());
        }
        assert_eq!(make(root.path(), Content::Shards, 30).expect("found"), folder);
    }

    #[test]
    fn samples_have_the_sizes_in_the_table() {
        let root = tempfile::tempdir().expect("a folder");
        for (content, bytes) in [(Content::Tokens, 4096), (Content::Files, 100_012), (Content::Records, 104)] {
            let folder = make(root.path(), content, 4).expect("made");
            let index =
                Index::parse(&fs::read(folder.join(INDEX_BASENAME)).expect("an index"), "index").expect("valid");
            let shard = fs::read(folder.join("shard.00000.mds")).expect("a shard");
            let offsets = index.shards[0].offsets(&shard).expect("offsets");
            // With the length of the variable part in front.
            assert_eq!(offsets.range(2).expect("a sample").1, bytes, "{content:?}");
        }
    }
}
