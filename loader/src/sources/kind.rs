//! Description of a kind of files. Each kind has one in its own folder; [`kinds`](super::kinds) lists them.

use crate::error::{ErrorKind, Result};
use crate::format::index::check_basename;
use crate::format::{Encoding, SampleFormat};
use std::fmt;

/// Kind of the files of a list, which are all of one kind.
pub struct FileKind {
    /// Name, by which kinds are compared.
    pub name: &'static str,
    /// Noun for one file, in messages.
    pub noun: &'static str,
    /// Form of the names of its files, in messages.
    pub(super) extensions: &'static str,
    /// Parts of a text that may be meant as a list of its files, whatever its form.
    pub(super) hints: &'static [&'static str],
    /// Returns true for the name of one of its files, in any case; an error for a form that cannot be read.
    pub(super) is_of: fn(&str) -> Result<bool>,
    /// Checks the path of a file below the folder of a list.
    pub(super) check_name: fn(&str) -> Result<()>,
    /// Use of a folder that has such files, and no index.
    pub in_folder: InFolder,
    /// Form of the files, for kinds with a file for each sample.
    pub samples: Option<SampleFiles>,
    /// Second file of each file, for kinds of pairs.
    pub pair: Option<Pair>,
    /// True if some of the records show the fields, unless `ignore_counts` is set: then all of them are read.
    pub is_sampled: bool,
}

/// Use of a folder without an index that has files of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFolder {
    /// All such files in it are the data set.
    All,
    /// All such files in it are the data set if it has no files of a different kind that are one: usually they are next
    /// to files of such a kind.
    Alone,
    /// Its splits are found by the names of the files, and by the card of the data set.
    Tables,
    /// As tables, if the folder has no files of different kinds.
    Texts,
    /// None: its files are named by a list.
    Named,
}

/// Form of files that are a sample each.
#[derive(Debug)]
pub struct SampleFiles {
    /// Noun for one of them in a folder, in messages.
    pub noun: &'static str,
    /// Contents that are known by the extension of a file; the bytes of a file with a different extension are
    /// its column `file`.
    pub contents: &'static [FileContent],
}

/// Content of files that are a sample each.
#[derive(Debug)]
pub struct FileContent {
    /// Extensions in lower case, with the dot.
    pub(super) extensions: &'static [&'static str],
    /// Column with the content.
    pub(super) column: &'static str,
    /// Encoding of the content.
    pub(super) encoding: Encoding,
    /// Format of files with several columns, which replace that column.
    pub(super) format: Option<&'static dyn SampleFormat>,
}

/// Extensions of two files that are read together. A list may have the common part of their names.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Extension of the file that is in lists.
    pub(super) first: &'static str,
    /// Extension of the file next to it.
    pub(super) second: &'static str,
}

impl FileKind {
    /// Kind of files in the cache by the names of lists, to be completed.
    pub(super) const LISTED: Self = Self {
        name: "",
        noun: "",
        extensions: "",
        hints: &[],
        is_of: |_| Ok(false),
        check_name,
        in_folder: InFolder::Named,
        samples: None,
        pair: None,
        is_sampled: false,
    };
}

impl Pair {
    /// Returns the names of both files with the common start `prefix`.
    pub fn of_prefix(&self, prefix: &str) -> [String; 2] {
        [self.first, self.second].map(|extension| format!("{prefix}{extension}"))
    }
}

impl FileKind {
    /// Noun for one of its files in a folder, in messages.
    pub fn sample_noun(&self) -> &'static str {
        self.samples.as_ref().map_or(self.noun, |samples| samples.noun)
    }

    /// Extension of its files, for examples.
    pub(super) fn sample_extension(&self) -> &'static str {
        let first = self.samples.as_ref().and_then(|samples| samples.contents.first()?.extensions.first());
        first.map_or("", |extension| extension)
    }
}

impl fmt::Debug for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for FileKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for FileKind {}

/// Applies the rules for the file names of an index, so that each file can be one of the cache.
pub(super) fn check_name(name: &str) -> Result<()> {
    check_basename(name)
        .map_err(|e| e.of_kind(ErrorKind::Config).hinting("the address of a file cannot have such a part"))
}
