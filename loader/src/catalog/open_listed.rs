//! Opening of streams whose index is made of a listing: files by their names, and folders without an `index.json`.

use super::array_records::ArrayRecords;
use super::cache_folder::default_local;
use super::file_versions::Condition;
use super::files::{ManifestFile, SampleFiles, first_names, has_list, list_changed_ns};
use super::found_files::{self, FoundFile};
use super::index_origin::IndexOrigin;
use super::listed_files::ListedFiles;
use super::open::{NAMES_SEEN, Opener, Place, absolute, cache_folder, name_of};
use super::requests::document;
use super::stream::IndexedStream;
use super::tables::{TableFiles, TableKind, Wanted};
use super::tars::Tars;
use super::tfrecords::TfRecords;
use super::token_files::{TokenFiles, local_prefix, stamp};
use crate::config::{FilesAre, OnError, StreamConfig};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::HashAlgo;
use crate::sources::energon::{PREPARED, SPLIT_FILES, tars_of};
use crate::sources::files::Selection;
use crate::sources::folder::{self as tables_in_folder, CARD, CARD_BYTES_MAX, FolderFiles as TablesFound};
use crate::sources::{FileKind, Names, ShardNames, names_of_kind, sample_names, shard_names};
use crate::store::{Destination, Entry, local_folder};
use crate::sync::Mutex;
use std::path::{Path, PathBuf};

/// Text for the list of all tars of a folder.
const TARS_BELOW: &str = "**/*.tar";

impl Opener<'_> {
    /// Opens a stream that names files; `None` for one that names a folder of shards.
    pub(super) fn open_files_of(&self, stream: &StreamConfig) -> Result<Option<IndexedStream>> {
        // Files of this machine are read in place where that is possible, whichever of the two names them.
        let local = stream.local.as_deref().and_then(Path::to_str);
        let Some(named) = stream.remote.as_deref().or(local) else { return Ok(None) };
        let are_samples = stream.files.is_some() || stream.manifest.is_some();
        // The name of a folder may look like that of a file.
        let is_folder = are_samples && local_folder(named).is_some_and(|folder| folder.is_dir());
        let prefix = if are_samples { None } else { local_prefix(named) };
        let list = if is_folder {
            None
        } else if are_samples {
            sample_names(named)?
        } else {
            shard_names(prefix.as_deref().unwrap_or(named))?
        };
        let local = stream.local.clone().filter(|_| stream.remote.is_some());
        match list {
            Some(_) if stream.manifest.is_some() => {
                Err(Error::config("`manifest` names the files, so `remote` is the folder that they are in"))
            }
            Some(_) if stream.split.as_deref().is_some_and(|split| !split.is_empty()) => {
                Err(Error::config("`split` is a folder of a data set: write it into the addresses of the files"))
            }
            Some(ShardNames { kind, root, names }) => {
                let stream = StreamConfig { local, remote: Some(root), ..stream.clone() };
                self.open_names(&absolute(&stream), kind, names).map(Some)
            }
            None if are_samples => {
                let stream = absolute(&StreamConfig { local, remote: Some(named.to_owned()), ..stream.clone() });
                let name = name_of(&stream);
                self.open_samples(&stream, &name, Selection::Any).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Opens the folder `name`, which is that of `stream` with its split, without an `index.json`: as one that Energon has prepared, by
    /// its tables, or by its other files; `None` if it has none of a known kind.
    ///
    /// # Errors
    ///
    /// `Config` for a folder with files of several kinds, and for splits that there are not; errors of the store.
    pub(super) fn open_unindexed(&self, stream: &StreamConfig, name: &str) -> Result<Option<IndexedStream>> {
        let folder = stream.remote.clone().or_else(|| stream.local.as_ref()?.to_str().map(str::to_owned));
        let Some(root) = folder else { return Ok(None) };
        // Files of this machine are read in place, whichever of the two names them.
        let local = stream.local.clone().filter(|_| stream.remote.is_some());
        let stream = &StreamConfig { local, ..stream.clone() };
        let of_root = self.first_names(stream, &root)?;
        // The names of Energon's files come first in a listing of a store.
        let is_listed = |first: &Vec<String>| first.iter().any(|name| name.starts_with(PREPARED));
        if (local_folder(&root).is_some() || of_root.as_ref().is_none_or(is_listed))
            && let Some(prepared) = self.open_prepared(stream, &root)?
        {
            return Ok(Some(prepared));
        }
        // `split` may be one of the names of files.
        if let Some(first) = &of_root
            && let Some(tables) = self.open_tables(stream, &root, first)?
        {
            return Ok(Some(tables));
        }
        let first = if name == root { of_root } else { self.first_names(stream, name)? };
        first.map_or(Ok(None), |first| self.open_folder(stream, name, &first))
    }

    /// Opens the folder `name` without an `index.json` by its files that are no tables; `None` if they have no known kind.
    ///
    /// # Errors
    ///
    /// As [`open_unindexed`](Self::open_unindexed).
    pub(super) fn open_files_in(&self, stream: &StreamConfig, name: &str) -> Result<Option<IndexedStream>> {
        let first = self.first_names(stream, name)?;
        first.map_or(Ok(None), |first| self.open_folder(stream, name, &first))
    }

    /// Returns the names by which the kind of the folder `name` is known; `None` for one that does not exist, and that cannot be listed.
    fn first_names(&self, stream: &StreamConfig, name: &str) -> Result<Option<Vec<String>>> {
        if let Some(folder) = local_folder(name) {
            return folder.is_dir().then(|| first_names(&folder, NAMES_SEEN)).transpose();
        }
        let page = || self.destination(stream, name)?.list("", true)?.next_page();
        match page() {
            Ok(page) => Ok(Some(page.unwrap_or_default().into_iter().map(|entry| entry.key).collect())),
            // A store without listings, or without the permission.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission | ErrorKind::Unsupported) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Opens the folder `name`, of which `first` are some files, if they have a known kind.
    fn open_folder(&self, stream: &StreamConfig, name: &str, first: &[String]) -> Result<Option<IndexedStream>> {
        let Some(kind) = FileKind::of_folder(first)? else { return Ok(None) };
        match kind {
            FileKind::Sample => self.open_samples(stream, name, Selection::Pictures),
            FileKind::Tar => {
                let stream = StreamConfig { remote: Some(name.to_owned()), split: None, ..stream.clone() };
                let entries = self.destination(&stream, name)?.list_all("")?;
                let names = names_of_kind(kind, &entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>())?;
                let folder = local_folder(name);
                let files = found_files::find(Names::Listed(names), folder.as_deref(), (|| Ok(entries.clone()), true))?;
                // The folder of all lists of this folder: shards that it has stay when others are added.
                self.open_tars(&stream, TARS_BELOW, files)
            }
            FileKind::Megatron | FileKind::Parquet | FileKind::Arrow | FileKind::TfRecord | FileKind::ArrayRecord => {
                return Ok(None);
            }
        }
        .map(Some)
    }

    /// Opens the tars of a split in the folder `root` of `stream` that Megatron Energon has prepared; `None` for another folder.
    fn open_prepared(&self, stream: &StreamConfig, root: &str) -> Result<Option<IndexedStream>> {
        if local_folder(root).is_some_and(|folder| !folder.join(PREPARED).is_dir()) {
            return Ok(None);
        }
        let remote = self.remote(stream, root)?;
        for file in SPLIT_FILES {
            let Some(splits) = document(&remote, file)? else { continue };
            let names = tars_of(&splits, stream.split.as_deref().unwrap_or("")).context("file", || file)?;
            let stream = StreamConfig { remote: Some(root.to_owned()), split: None, ..stream.clone() };
            return self.open_names(&stream, FileKind::Tar, Names::Listed(names)).map(Some);
        }
        Ok(None)
    }

    /// Opens the tables of a split in the folder `root` of `stream`, of which `first` are some files; `None` if it has none.
    fn open_tables(&self, stream: &StreamConfig, root: &str, first: &[String]) -> Result<Option<IndexedStream>> {
        let split = stream.split.clone().unwrap_or_default();
        let stream = StreamConfig { split: None, ..stream.clone() };
        let opened = |root: &str, of: &dyn Fn(&[String]) -> Result<Option<TablesFound>>| {
            let entries = self.destination(&stream, root)?.list_all("")?;
            let paths: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
            let Some(found) = of(&paths)? else { return Ok(None) };
            let stream = StreamConfig { remote: Some(root.to_owned()), ..stream.clone() };
            self.open_table_files(&stream, found.kind, Names::Listed(found.names), Some(&entries)).map(Some)
        };
        // The listing of a folder of many pictures takes long, and finds no tables.
        if tables_in_folder::has_tables(first) {
            let card = || {
                let card = self.remote(&stream, root)?.get_small(CARD, CARD_BYTES_MAX)?.0;
                Ok(String::from_utf8_lossy(&card).into_owned())
            };
            return opened(root, &|paths| tables_in_folder::files_of(paths, &split, card));
        }
        // The hub converts data sets in other formats.
        match tables_in_folder::converted(root).filter(|_| matches!(FileKind::of_folder(first), Ok(None))) {
            Some(converted) => opened(&converted, &|paths| tables_in_folder::converted_files_of(paths, &split)),
            None => Ok(None),
        }
    }

    /// Makes the index of the tables of `stream`, a list of files or their folder, to be kept next to them. Returns the address of their
    /// folder, the index, and the number of rows; `None` for other files.
    pub(super) fn index_of_tables(&self, stream: &StreamConfig) -> Result<Option<(String, Vec<u8>, u64)>> {
        let named = stream.remote.as_deref().unwrap_or("");
        let is_table = |kind: FileKind| matches!(kind, FileKind::Parquet | FileKind::Arrow);
        let (kind, root, names) = match shard_names(named)?.filter(|list| is_table(list.kind)) {
            Some(ShardNames { kind, root, names }) => (kind, root, names),
            None => {
                let first = self.first_names(stream, named)?.unwrap_or_default();
                let Some(kind) = tables_in_folder::kind_of_tables(&first) else { return Ok(None) };
                let all = self.destination(stream, named)?.list_all("")?;
                let names = all.into_iter().map(|entry| entry.key).collect::<Vec<_>>();
                (kind, named.to_owned(), Names::Listed(tables_in_folder::tables_of(&names, kind)))
            }
        };
        let stream = absolute(&StreamConfig { remote: Some(root), split: None, local: None, ..stream.clone() });
        let root = stream.remote.clone().unwrap_or_default();
        let tables = self.table_files(&stream, kind, names, None, Wanted::default())?;
        let (document, rows) = tables.index_file(&self.remote(&stream, &root)?)?;
        Ok(Some((root, document, rows)))
    }

    /// Opens the tables `names` of the folder that is the remote of `stream`. `known` are the files of that folder, if they have
    /// been listed.
    fn open_table_files(
        &self,
        stream: &StreamConfig,
        kind: FileKind,
        names: Names,
        known: Option<&[Entry]>,
    ) -> Result<IndexedStream> {
        let name = stream.remote.as_deref().unwrap_or("");
        // The plan leaves out rows by their nulls.
        let may_lack_all = self.config.on_missing == OnError::Skip || stream.filter.is_some();
        // Otherwise a null is an error of all rows of its shard.
        let may_be_null = self.config.on_error == OnError::Skip;
        let wanted = Wanted::of(self.config.fields.as_deref(), may_lack_all, may_be_null);
        let tables = self.table_files(stream, kind, names, known, wanted)?;
        self.open_origin(stream, name, variant_cache(stream, name, &tables.variant())?, &tables)
    }

    fn table_files(
        &self,
        stream: &StreamConfig,
        kind: FileKind,
        names: Names,
        known: Option<&[Entry]>,
        wanted: Wanted,
    ) -> Result<TableFiles> {
        let name = stream.remote.as_deref().unwrap_or("");
        let kind = if kind == FileKind::Arrow { TableKind::Arrow } else { TableKind::Parquet };
        let list = || known.map_or_else(|| self.destination(stream, name)?.list_all(""), |known| Ok(known.to_vec()));
        TableFiles::find(kind, names, local_folder(name).as_deref(), (list, known.is_some()), wanted)
    }

    /// Opens the pictures of the folder `name` if a list of them has been kept.
    pub(super) fn open_kept_list(&self, stream: &StreamConfig, name: &str) -> Result<Option<IndexedStream>> {
        let folder = samples_cache(stream, name, &Selection::Pictures.describe())?;
        if has_list(&folder) { self.open_samples(stream, name, Selection::Pictures).map(Some) } else { Ok(None) }
    }

    /// Opens the files of the folder `name` of this machine by the list in it.
    pub(super) fn open_listed_files(&self, stream: &StreamConfig, name: &str) -> Result<IndexedStream> {
        let local = stream.local.clone().filter(|_| stream.remote.is_some());
        let stream = StreamConfig { local, ..stream.clone() };
        // A list that is made again has another folder.
        let made = local_folder(name).and_then(|folder| list_changed_ns(&folder));
        let cache = samples_cache(&stream, name, &format!("listed {made:?}"))?;
        self.open_origin(&stream, name, cache, &ListedFiles)
    }

    /// Opens the files `names` of the folder that is the remote of `stream`.
    fn open_names(&self, stream: &StreamConfig, kind: FileKind, names: Names) -> Result<IndexedStream> {
        let name = stream.remote.as_deref().unwrap_or("");
        let all = || self.destination(stream, name)?.list_all("");
        let (folder, ignore_counts) = (local_folder(name), stream.ignore_counts);
        match kind {
            FileKind::Sample => self.open_samples(stream, name, Selection::Named(names)),
            FileKind::Parquet | FileKind::Arrow => self.open_table_files(stream, kind, names, None),
            FileKind::Tar => {
                let described = names.listed().join("\n");
                self.open_tars(stream, &described, found_files::find(names, folder.as_deref(), (all, false))?)
            }
            FileKind::TfRecord => {
                let cache = list_cache(stream, name, &names.listed().join("\n"))?;
                let (root, files) = (name.to_owned(), found_files::find(names, folder.as_deref(), (all, false))?);
                let condition = self.condition(stream);
                let records = TfRecords { root, folder, files, cache: cache.clone(), condition };
                self.open_origin(stream, name, cache, &records)
            }
            FileKind::ArrayRecord => {
                let files = found_files::find(names, folder.as_deref(), (all, false))?;
                let mut variant = found_files::described(&files);
                if ignore_counts {
                    variant.push_str("\nignore_counts");
                }
                let cache = variant_cache(stream, name, &variant)?;
                self.open_origin(stream, name, cache, &ArrayRecords { files, reads_all: ignore_counts })
            }
            FileKind::Megatron => {
                let described = names.listed().join("\n");
                let names = names.found(|| Ok(all()?.into_iter().map(|entry| entry.key).collect()))?;
                let folder = folder.filter(|_| stream.local.is_none());
                let window = self.config.window_of(stream);
                // Files that are written again, and other windows, have another folder.
                let described = format!("{described}\n{window:?}\n{}", stamp(folder.as_deref(), &names));
                let tokens = TokenFiles { names, window, is_in_place: folder.is_some() };
                self.open_origin(stream, name, list_cache(stream, name, &described)?, &tokens)
            }
        }
    }

    /// Opens the tars `files` of the folder that is the remote of `stream`, by a list that `described` describes.
    fn open_tars(&self, stream: &StreamConfig, described: &str, files: Vec<FoundFile>) -> Result<IndexedStream> {
        let name = stream.remote.as_deref().unwrap_or("");
        let (cache, folder) = (list_cache(stream, name, described)?, local_folder(name));
        let (root, condition) = (name.to_owned(), self.condition(stream));
        let open = || self.remote(stream, name);
        let tars =
            Tars { root, folder, files, cache: cache.clone(), condition, open: &open, checked: Mutex::default() };
        self.open_origin(stream, name, cache, &tars)
    }

    fn condition(&self, stream: &StreamConfig) -> Condition {
        Condition { ignore_counts: stream.ignore_counts, is_verified: self.is_verified }
    }

    /// Opens the selected files of the folder `name` as samples.
    fn open_samples(&self, stream: &StreamConfig, name: &str, selection: Selection) -> Result<IndexedStream> {
        let by_stem = stream.files == Some(FilesAre::Stem);
        if by_stem && stream.manifest.is_some() {
            return Err(Error::config("`manifest` has a line for each sample of one file: leave files=\"stem\" out"));
        }
        let open_other = |folder: &str| self.remote(stream, folder);
        let manifest = stream.manifest.as_deref().map(|name| ManifestFile { name, open: &open_other });
        let mut described = selection.describe();
        if by_stem {
            described.push_str("\nstem");
        }
        if let Some(manifest) = &stream.manifest {
            described.push_str(&format!("\n{manifest}"));
        }
        let cache = samples_cache(stream, name, &described)?;
        let open = || self.destination(stream, name);
        let files = SampleFiles { selection, by_stem, manifest, root: name, folder: local_folder(name), open: &open };
        self.open_origin(stream, name, cache, &files)
    }

    fn open_origin(
        &self,
        stream: &StreamConfig,
        name: &str,
        folder: PathBuf,
        origin: &dyn IndexOrigin,
    ) -> Result<IndexedStream> {
        let remote = Some(self.remote(stream, name)?);
        let files = local_folder(name).filter(|_| stream.local.is_none() && origin.reads_in_place());
        self.opened(stream, Place { name, folder, files, remote }, origin)
    }

    fn destination(&self, stream: &StreamConfig, name: &str) -> Result<Destination> {
        self.stores.open_destination(name, self.store_config(stream), self.stats, &self.network.clock)
    }
}

/// Returns the folder for the index of a list. Each list has its own: the numbers of its shards follow from its index.
fn list_cache(stream: &StreamConfig, name: &str, described: &str) -> Result<PathBuf> {
    stream.local.clone().map_or_else(|| default_local(&format!("{name}\n{described}")), Ok)
}

/// Returns the folder for shards that differ with `variant`: other columns of a file, or other files of its name.
fn variant_cache(stream: &StreamConfig, name: &str, variant: &str) -> Result<PathBuf> {
    match &stream.local {
        Some(local) => Ok(local.join(HashAlgo::Xxh3_64.hex(variant.as_bytes()))),
        None => default_local(&format!("{name}\n{variant}")),
    }
}

/// Returns the folder for the list of samples, and for their shards.
fn samples_cache(stream: &StreamConfig, name: &str, described: &str) -> Result<PathBuf> {
    match &stream.local {
        Some(_) if stream.remote.is_some() => cache_folder(stream, name),
        _ => default_local(&format!("{name}\n{described}")),
    }
}
