//! Data sets to measure on: JPEGs cut from photographs, or tokens.
//!
//! A [`DataSet`] is a folder with `dataset.json` and one folder per form: `files` (class folders, as torchvision's
//! ImageFolder reads them), `tar` (WebDataset), `mds` (forebay and MosaicML streaming) and `mds-indexed` (the same with row
//! indexes). All forms hold the same samples,
//! tar and mds in the same order, which is a shuffle of the files' by the seed.

mod files;
mod images;
mod mds;
mod tar;

use clap::{Args, ValueEnum};
use forebay_loader::{Error, Result};
use forebay_tests::data::{self, Draws};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// What the samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A JPEG and a class.
    Images,
    /// A fixed number of uint16.
    Tokens,
}

impl Kind {
    /// In a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Images => "JPEGs",
            Self::Tokens => "samples of tokens",
        }
    }
}

/// A form of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Form {
    /// Class folders with one file per sample
    Files,
    /// Tar files, for WebDataset
    Tar,
    /// Shards and an index, for forebay and MosaicML streaming
    Mds,
    /// The same with row indexes, progressive JPEGs rewritten as baseline; takes mds
    MdsIndexed,
}

/// Where photographs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Photos {
    /// Those that scikit-image and scikit-learn carry
    Packaged,
    /// Debian's wallpaper packages (about 220 MB, fetched once by apt-get)
    Debian,
    /// Every JPEG and PNG under --photo-dir
    Folder,
}

/// What to make.
#[derive(Debug, Args)]
pub(crate) struct SynthArgs {
    /// The data set's folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What the samples are
    #[arg(long, value_enum, default_value = "images")]
    kind: Kind,
    /// How many samples
    #[arg(long, default_value_t = 6000, value_parser = clap::value_parser!(u64).range(1..))]
    samples: u64,
    /// The same seed makes the same samples
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Which forms to make
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["files", "tar", "mds"])]
    forms: Vec<Form>,
    /// Where photographs come from
    #[arg(long, value_enum, default_value = "packaged")]
    photos: Photos,
    /// Photographs to cut from, or where Debian's are kept [default: `photos` beside the data set]
    #[arg(long, value_name = "DIR")]
    photo_dir: Option<PathBuf>,
    /// Interpreter with pillow and numpy, and scikit-image and scikit-learn for packaged photographs
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// Tokens in a sample
    #[arg(long, default_value_t = 2048)]
    length: usize,
    /// Largest tar file and largest raw MDS shard, bytes
    #[arg(long, default_value_t = 64 << 20)]
    shard_bytes_max: u64,
    /// Compression of MDS shards, such as zstd:3 [default: none]
    #[arg(long, value_name = "NAME")]
    compression: Option<String>,
    /// Hashes that the MDS index lists, such as xxh3_64 [default: none]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    hashes: Vec<String>,
}

/// A data set that has been made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DataSet {
    /// What the samples are.
    pub(crate) kind: Kind,
    /// How many.
    pub(crate) samples: u64,
    /// All samples together, without any form's overhead.
    pub(crate) bytes: u64,
    /// Tokens in a sample; 0 for images.
    pub(crate) length: usize,
    /// What made it.
    pub(crate) seed: u64,
    #[serde(skip)]
    root: PathBuf,
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
        // Children and forebay's cache may run in other folders.
        set.root = fs::canonicalize(root).map_err(|e| Error::from_io(e, "the data set's folder"))?;
        Ok(set)
    }

    /// The folder of one form, whether it exists or not.
    pub(crate) fn form(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The folders of the form `files`, in the order in which classes are numbered.
    ///
    /// # Errors
    ///
    /// The data set has no such form.
    pub(crate) fn classes(&self) -> Result<Vec<String>> {
        let files = self.form("files");
        let failed = |e| Error::from_io(e, "the class folders cannot be listed").with("folder", files.display());
        let entries = fs::read_dir(&files).map_err(failed)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        names.sort();
        Ok(names)
    }

    fn save(&self, root: &Path) -> Result<()> {
        let failed = |e| Error::from_io(e, "the data set's description cannot be written");
        let text = serde_json::to_string_pretty(self).expect("plain fields") + "\n";
        fs::write(root.join("dataset.json"), text).map_err(failed)
    }
}

/// Makes a data set, or what is missing of it.
pub(crate) fn run(args: &SynthArgs) -> Result<()> {
    if let Ok(set) = DataSet::open(&args.out)
        && (set.kind, set.seed, set.samples) != (args.kind, args.seed, args.samples)
    {
        return Err(
            Error::config("another data set is here already; name another --out").with("out", args.out.display())
        );
    }
    fs::create_dir_all(&args.out)
        .map_err(|e| Error::from_io(e, "the folder cannot be made").with("out", args.out.display()))?;
    let set = match args.kind {
        Kind::Images => images::make(args)?,
        Kind::Tokens => {
            let (samples, length, seed) = (args.samples, args.length, args.seed);
            mds::write(args, |into, options| data::tokens(into, samples, length, seed, options))?;
            let bytes = samples * 2 * length as u64;
            DataSet { kind: Kind::Tokens, samples, bytes, length, seed, root: args.out.clone() }
        }
    };
    set.save(&args.out)?;
    println!("{} samples, {:.1} MB, in {}", set.samples, set.bytes as f64 / 1e6, args.out.display());
    Ok(())
}

/// All plain files below `path`, sorted; `path` itself if it is one.
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

/// Brings everything below `path` into the page cache, so that whoever is measured starts from memory.
pub(crate) fn read_through(path: &Path) -> Result<()> {
    for path in files_below(path)? {
        let failed = |e| Error::from_io(e, "the data cannot be read").with("path", path.display());
        let mut file = fs::File::open(&path).map_err(failed)?;
        std::io::copy(&mut file, &mut std::io::sink()).map_err(failed)?;
    }
    Ok(())
}

/// Fisher-Yates, the same on every machine.
fn shuffle<T>(items: &mut [T], seed: u64) {
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
    fn a_folder_without_a_data_set_says_how_to_make_one() {
        let empty = tempfile::tempdir().expect("a folder");
        let e = DataSet::open(empty.path()).expect_err("nothing there");
        assert!(e.to_string().contains("forebay-bench synth"), "{e}");
    }
}
