//! Data set that a command reads, by its address and the options of a stream.

use clap::Args;
use forebay_loader::Result;
use forebay_loader::config::{FilesAre, LoaderConfig, StreamConfig};
use forebay_loader::store::LibraryStores;
use forebay_loader::sync::Arc;
use forebay_loader::worker::DataSet;
use std::path::PathBuf;

/// Options of a data set, as a stream of a Loader has them.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DataArgs {
    /// Sub-folder such as "train", or split of a folder of files without an index
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// The files are samples: "each", "stem" for those that share a stem, or folders of columns:
    /// image=images,mask=masks
    #[arg(long, value_name = "ARE", value_parser = files)]
    files: Option<FilesAre>,
    /// CSV, TSV or JSON-lines file with a line for each sample, or annotations of COCO
    #[arg(long, value_name = "FILE")]
    manifest: Option<String>,
    /// Folder that holds the shards, or will [default: a folder in the user's cache directory]
    #[arg(long, value_name = "FOLDER")]
    local: Option<PathBuf>,
    /// Tokens of a sample, in files of token ids [default: documents are the samples]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
}

impl DataArgs {
    /// The sub-folder or split, if one is given.
    pub(crate) fn split(&self) -> Option<&str> {
        self.split.as_deref()
    }

    /// Returns the stream of the data set at `address`.
    pub(crate) fn stream(&self, address: &str) -> StreamConfig {
        StreamConfig {
            remote: Some(address.to_owned()),
            split: self.split.clone(),
            manifest: self.manifest.clone(),
            local: self.local.clone(),
            files: self.files.clone(),
            window: self.window.map(Into::into),
            ..StreamConfig::default()
        }
    }

    /// Opens the data set at `address`. `library` serves the remotes of schemes that the engine does not have.
    pub(crate) fn open(&self, address: &str, library: Option<LibraryStores>) -> Result<Arc<DataSet>> {
        let streams = vec![self.stream(address)];
        let config = LoaderConfig { streams, batch_size: 1, ..LoaderConfig::default() };
        config.validate()?;
        DataSet::of_loader(&config, library).map(Arc::new)
    }
}

/// Reads the relation of files to samples.
fn files(text: &str) -> Result<FilesAre, String> {
    match text {
        "each" => Ok(FilesAre::EACH),
        "stem" => Ok(FilesAre::STEM),
        columns => {
            let pair = |part: &str| part.split_once('=').map(|(name, folder)| (name.to_owned(), folder.to_owned()));
            let pairs: Option<Vec<_>> = columns.split(',').map(pair).collect();
            let message = "it is \"each\", \"stem\", or a folder for each column: image=images,mask=masks";
            pairs.map(FilesAre::Columns).ok_or_else(|| message.to_owned())
        }
    }
}
