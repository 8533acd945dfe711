//! Options of one stream.

use super::fetch::FetchConfig;
use super::json;
use super::limits::require;
use super::options::{OptionInfo, options};
use super::select::SelectConfig;
use super::window::{TokenWindow, window_or_null};
use crate::error::{Error, Result};
use crate::store::{is_url, redact};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

options! {
    /// One directory of shards, remote and local, and its weight in the mix.
    pub struct StreamConfig {
        /// URL or path of the shards' folder, or files, such as `s3://bucket/train-{000..146}.tar`. None: `local` has
        /// them.
        pub remote: Option<String> = None,
        /// Folder that holds the shards, or will. None: a stable folder in the user's cache directory.
        pub local: Option<PathBuf> = None,
        /// Sub-folder of both, such as "train", or split of a folder of files without an index.
        pub split: Option<String> = None,
        /// Files that `remote` names are samples, whatever their extensions: "each", or "stem" for those that share a
        /// stem. Or the folder or pattern of each column below `remote`, such as {"image": "images", "mask": "masks"}:
        /// a sample has the files of one stem.
        pub files: Option<FilesAre> = None,
        /// CSV, TSV or JSON-lines file with a line for each sample: its files below `remote`, in columns such as
        /// `file_name` and `mask_file_name`, and values. Or annotations of COCO, `instances_train2017.json`.
        pub manifest: Option<String> = None,
        /// Read tars and record files once to find their samples and all their fields, and use no counts that came
        /// with them.
        pub ignore_counts: bool = false,
        /// Samples to keep or draw.
        #[serde(deserialize_with = "json::object")]
        pub select: SelectConfig = SelectConfig::default(),
        /// Tokens of a sample, in files of token ids, or a window of tokens. None: the loader's `window`.
        #[serde(deserialize_with = "window_or_null")]
        pub window: Option<TokenWindow> = None,
        /// Share of an epoch, relative to the proportions of all streams.
        pub proportion: Option<f64> = None,
        /// Occurrences of each sample in an epoch: 0.5 takes every second sample.
        pub repeat: Option<f64> = None,
        /// Samples of this stream in an epoch.
        pub choose: Option<u64> = None,
        /// Fetches of this stream's shards. None: as in the loader's `fetch`.
        #[serde(deserialize_with = "json::object_or_null")]
        pub fetch: Option<FetchConfig> = None,
    }
}

/// Relation of the files of a stream to its samples.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(
    untagged,
    expecting = "`files` is \"each\", \"stem\", or a folder or pattern for each column, such as {\"image\": \
                 \"images\", \"mask\": \"masks\"}"
)]
pub enum FilesAre {
    /// One folder of files.
    Grouped(Grouping),
    /// Folder or pattern of each column, in the order of the columns.
    Columns(#[serde(with = "json::pairs")] Vec<(String, String)>),
}

/// Relation of the files of one folder to its samples.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Each file is a sample.
    Each,
    /// Files with equal paths up to the first dot of their names are a sample, with a column for each extension.
    Stem,
}

impl FilesAre {
    /// Each file is a sample.
    pub const EACH: Self = Self::Grouped(Grouping::Each);
    /// Files of one stem are a sample.
    pub const STEM: Self = Self::Grouped(Grouping::Stem);
}

impl StreamConfig {
    pub(super) fn validate(&self) -> Result<()> {
        require(self.remote.is_some() || self.local.is_some(), "the data has no address: pass remote, local or both")?;
        if let Some(local) = self.local.as_ref().and_then(|local| local.to_str()).filter(|local| is_url(local)) {
            let message = "`local` is a folder of this machine, and this is a URL: pass it as `remote`";
            return Err(Error::config(message).with("local", redact(local)));
        }
        let weights = [self.proportion.is_some(), self.repeat.is_some(), self.choose.is_some()];
        let is_one = weights.iter().filter(|w| **w).count() <= 1;
        require(is_one, "a stream takes only one of proportion, repeat and choose")?;
        for (name, weight) in [("proportion", self.proportion), ("repeat", self.repeat)] {
            let is_weight = weight.is_none_or(|w| w.is_finite() && w >= 0.0);
            require(is_weight, &format!("{name} must be a number of at least 0"))?;
        }
        self.window.as_ref().map_or(Ok(()), TokenWindow::validate)?;
        self.select.validate()?;
        self.fetch.as_ref().map_or(Ok(()), FetchConfig::validate)
    }
}
