//! Description of a data set, and the arguments for making one.

use clap::{Args, ValueEnum};
use forebay_loader::{Error, Result};
use forebay_tests::data::Draws;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Kind of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SampleKind {
    /// A JPEG and a class.
    Images,
    /// A fixed number of uint16.
    Tokens,
}

impl SampleKind {
    /// Returns the name for use in a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Images => "JPEGs",
            Self::Tokens => "samples of tokens",
        }
    }
}

/// Form of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Form {
    /// Class folders with one file per sample
    Files,
    /// Tar files, for WebDataset
    Tar,
    /// Shards and an index, for forebay and MosaicML streaming
    Mds,
    /// MDS with row indexes, progressive JPEGs rewritten as baseline; needs mds
    MdsIndexed,
}

/// Source of photographs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Photos {
    /// Photographs in the packages scikit-image and scikit-learn
    Packaged,
    /// Debian's wallpaper packages (about 220 MB, fetched once by apt-get)
    Debian,
    /// Every JPEG and PNG under --photo-dir
    Folder,
}

/// Arguments of `synth`.
#[derive(Debug, Args)]
pub(crate) struct SynthArgs {
    /// Folder of the data set
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Kind of samples
    #[arg(long, value_enum, default_value = "images")]
    pub(super) kind: SampleKind,
    /// Number of samples
    #[arg(long, default_value_t = 6000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) samples: u64,
    /// The same seed makes the same samples
    #[arg(long, default_value_t = 7)]
    pub(super) seed: u64,
    /// Forms to make
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["files", "tar", "mds"])]
    pub(super) forms: Vec<Form>,
    /// Source of photographs
    #[arg(long, value_enum, default_value = "packaged")]
    pub(super) photos: Photos,
    /// Folder of photographs to cut from, or to keep Debian's in [default: `photos` next to the data set]
    #[arg(long, value_name = "DIR")]
    pub(super) photo_dir: Option<PathBuf>,
    /// Interpreter with pillow and numpy, and scikit-image and scikit-learn for packaged photographs
    #[arg(long, value_name = "PATH", default_value = "python3")]
    pub(super) python: PathBuf,
    /// Tokens per sample
    #[arg(long, default_value_t = 2048)]
    pub(super) length: usize,
    /// Largest tar file and largest raw MDS shard, bytes
    #[arg(long, default_value_t = 64 << 20)]
    pub(super) shard_bytes_max: u64,
    /// Compression of MDS shards, such as zstd:3 [default: none]
    #[arg(long, value_name = "NAME")]
    pub(super) compression: Option<String>,
    /// Hashes that the MDS index lists, such as xxh3_64 [default: none]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(super) hashes: Vec<String>,
}

/// Existing data set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DataSet {
    /// Kind of samples.
    pub(crate) kind: SampleKind,
    /// Number of samples.
    pub(crate) samples: u64,
    /// Bytes of all samples, without the overhead of any form.
    pub(crate) bytes: u64,
    /// Tokens per sample; 0 for images.
    pub(crate) length: usize,
    /// Seed of the samples.
    pub(crate) seed: u64,
    #[serde(skip)]
    pub(super) root: PathBuf,
}

impl DataSet {
    /// Reads `dataset.json` in `root`.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let file = root.join("dataset.json");
        let text = fs::read(&file).map_err(|e| {
            Error::from_io(e, "no data set here; make one with forebay-bench synth").with("file", file.display())
        })?;
        let mut set: Self = serde_json::from_slice(&text)
            .map_err(|e| Error::format("not a data set's description").with("file", file.display()).caused_by(e))?;
        // Absolute, since children may run in different folders.
        set.root = fs::canonicalize(root).map_err(|e| Error::from_io(e, "the data set's folder"))?;
        Ok(set)
    }

    /// Returns the folder of a form, which need not exist.
    pub(crate) fn form(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the folders of the form `files`, in the order of class numbers.
    ///
    /// # Errors
    ///
    /// If the data set does not have this form.
    pub(crate) fn classes(&self) -> Result<Vec<String>> {
        let files = self.form("files");
        let failed = |e| Error::from_io(e, "the class folders cannot be listed").with("folder", files.display());
        let entries = fs::read_dir(&files).map_err(failed)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        names.sort();
        Ok(names)
    }

    pub(super) fn save(&self, root: &Path) -> Result<()> {
        let failed = |e| Error::from_io(e, "the data set's description cannot be written");
        let text = serde_json::to_string_pretty(self).expect("plain fields") + "\n";
        fs::write(root.join("dataset.json"), text).map_err(failed)
    }
}

/// Returns all plain files below `path`, sorted, or `path` itself if it is a file.
pub(crate) fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| Error::from_io(e, "the data cannot be listed").with("path", path.display());
    if !path.metadata().map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(failed)?;
    let mut paths = entries.map(|e| e.map(|e| e.path())).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    paths.sort();
    let below = paths.iter().map(|p| files_below(p)).collect::<Result<Vec<_>>>()?;
    Ok(below.into_iter().flatten().collect())
}

/// Reads everything below `path` into the page cache, so that measurements start from memory.
pub(crate) fn read_through(path: &Path) -> Result<()> {
    for path in files_below(path)? {
        let failed = |e| Error::from_io(e, "the data cannot be read").with("path", path.display());
        let mut file = fs::File::open(&path).map_err(failed)?;
        std::io::copy(&mut file, &mut std::io::sink()).map_err(failed)?;
    }
    Ok(())
}

/// Shuffles by Fisher and Yates, equally on every machine.
pub(super) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut draws = Draws::new(seed, 0);
    for i in (1..items.len()).rev() {
        items.swap(i, draws.below(i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_every_item_and_depends_on_the_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_ne!(shuffled(7), shuffled(8));
        assert_eq!(shuffled(7), shuffled(7));
        let mut back = shuffled(7);
        back.sort_unstable();
        assert_eq!(back, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_error_for_a_folder_without_a_data_set_names_the_command_that_makes_one() {
        let empty = tempfile::tempdir().expect("a folder");
        let e = DataSet::open(empty.path()).expect_err("nothing there");
        assert!(e.to_string().contains("forebay-bench synth"), "{e}");
    }
}
