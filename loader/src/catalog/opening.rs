//! Opening of files of one kind: the seam between the rules that find them and the kinds.

use super::cache_folder::default_local;
use super::found_files::{self, FoundFile};
use super::index_origin::IndexOrigin;
use super::install::IndexFolders;
use super::session::Session;
use super::stream::IndexedStream;
use crate::config::StreamConfig;
use crate::error::{Error, Result};
use crate::format::HashAlgo;
use crate::sources::Names;
use crate::store::{Destination, ListedEntry, Remote, local_folder};
use std::path::{Path, PathBuf};

/// Files of a stream, which are below one folder and of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// Files by the names of a list.
    Named(Names),
    /// Some files of a folder, with all that its listing has.
    Listed {
        /// Paths of the files.
        names: Vec<String>,
        /// Files of the folder.
        entries: Vec<ListedEntry>,
    },
    /// All files of the kind in the folder.
    OfKind,
    /// All files in the folder, whatever their names.
    All,
    /// Files of the list that is next to them, as `index.json` of the folder.
    ByList,
}

/// Opener of the files of one kind.
pub(super) trait OpenFiles: Sync {
    /// Opens `files` as a stream.
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream>;

    /// Makes the list of `files` to be kept next to them; `None` for a kind that has none.
    fn listing(&self, _: &Opening<'_>, _: Files) -> Result<Option<FileListing>> {
        Ok(None)
    }
}

/// List of the files of a data set that has no index.
#[derive(Debug)]
pub struct FileListing {
    /// Address of their folder, with secrets.
    pub root: String,
    /// Name of the list in that folder.
    pub basename: &'static str,
    /// The list.
    pub document: Vec<u8>,
    /// Number of samples.
    pub samples: u64,
}

impl Files {
    /// Returns the names of files that are named or listed.
    pub(super) fn into_names(self) -> Result<Names> {
        match self {
            Self::Named(names) => Ok(names),
            Self::Listed { names, .. } => Ok(Names::Listed(names)),
            Self::OfKind | Self::All | Self::ByList => Err(Error::internal("files of this kind are opened by names")),
        }
    }
}

/// Stream of files that is being opened.
pub(super) struct Opening<'a> {
    pub(super) session: &'a Session<'a>,
    /// Stream, with absolute paths.
    pub(super) stream: &'a StreamConfig,
    /// Address of the folder of the files, with secrets.
    pub(super) root: &'a str,
}

impl Opening<'_> {
    /// Folder of the files, if it is on this machine.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        local_folder(self.root)
    }

    /// Folder for the index and the shards, if the user names one. Without a remote it names the files, which are read
    /// where they are.
    pub(super) fn local(&self) -> Option<&Path> {
        self.stream.local.as_deref().filter(|_| self.stream.remote.is_some())
    }

    /// Opens the folder of the files for reads.
    pub(super) fn remote(&self) -> Result<Remote> {
        self.session.remote(self.stream, self.root)
    }

    /// Opens the folder of the files for listings.
    pub(super) fn destination(&self) -> Result<Destination> {
        self.session.destination(self.stream, self.root)
    }

    /// Lists all files of the folder.
    pub(super) fn all(&self) -> Result<Vec<ListedEntry>> {
        self.destination()?.list_all("")
    }

    /// Returns the files that are named, as far as they are known without a request for each.
    pub(super) fn find(&self, files: Files) -> Result<Vec<FoundFile>> {
        let folder = self.folder();
        let found = match files {
            Files::Listed { names, entries } => found_files::listed(names, folder.as_deref(), &entries),
            files => found_files::find(files.into_names()?, folder.as_deref(), || self.all()),
        }?;
        let versions = self.session.versions(self.root);
        found.iter().for_each(|file| versions.expect(&file.name, &file.tag));
        Ok(found)
    }

    /// Returns the folder for the index of a list. Each list has its own: the numbers of its shards follow from its
    /// index.
    pub(super) fn list_cache(&self, described: &str) -> PathBuf {
        self.local().map_or_else(|| self.default_cache(described), Path::to_owned)
    }

    /// Returns the folder for shards that differ with `variant`: different columns of a file, or different files of its
    /// name.
    pub(super) fn variant_cache(&self, variant: &str) -> PathBuf {
        let name = || HashAlgo::Xxh3_64.hex(variant.as_bytes());
        self.local().map_or_else(|| self.default_cache(variant), |local| local.join(name()))
    }

    /// Returns the default folder for the files that `described` describes.
    pub(super) fn default_cache(&self, described: &str) -> PathBuf {
        default_local(&format!("{}\n{described}", self.root))
    }

    /// Opens the stream by the index of `origin`, which is kept in `folder`.
    pub(super) fn install(&self, folder: PathBuf, origin: &dyn IndexOrigin) -> Result<IndexedStream> {
        let remote = Some(self.remote()?);
        let files = self.folder().filter(|_| self.local().is_none() && origin.needs_no_copy());
        self.session.install(self.stream, IndexFolders { name: self.root, folder, files, remote }, origin)
    }
}
