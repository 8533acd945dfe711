//! Rules that choose how a stream is opened, by the facts that are known of it.
//!
//! A stream that names files is opened by [`NAMING`]. A stream without them names a folder, and [`FOLDER`] has the
//! rules for it. They are tried in their order, and the first one that applies decides. A rule asks for [`Facts`] only
//! if the rules before it did not apply, since the answers are requests to a store.

use super::opening::Files;
use super::stream_folders::{absolute_address, name_of};
use crate::config::{FilesAre, StreamConfig};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::sources::files::FILE;
use crate::sources::tables::folder::{self as tables, CARD, CARD_BYTES_MAX, FolderFiles};
use crate::sources::tars::TAR;
use crate::sources::tars::energon::{PREPARED, SPLIT_BYTES_MAX, SPLIT_FILES, tars_of};
use crate::sources::{FileKind, KINDS, Names, kind_of_folder, sample_names, shard_names};
use crate::store::{ListedEntry, local_folder};
use std::path::Path;

/// Way to open a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Data set with an `index.json` in the folder of the stream, or none that is known.
    DataSet,
    /// Files of one kind.
    Files {
        kind: &'static FileKind,
        /// Address of their folder, with secrets.
        root: String,
        files: Files,
    },
}

/// Facts about folders of stores and of this machine.
pub(super) trait Facts {
    /// Returns the form of the `index.json` in a folder of this machine; `None` if there is none.
    fn index_in(&self, folder: &Path) -> Option<IndexForm>;

    /// Returns true for a folder of this machine.
    fn is_folder(&self, path: &Path) -> bool;

    /// Returns true for a file of this machine.
    fn is_file(&self, path: &Path) -> bool;

    /// Returns true if a list of the pictures in the folder `name` of a store is kept on local disk.
    fn has_kept_list(&self, name: &str) -> bool;

    /// Returns the names by which the kind of a folder is known; `None` for one that does not exist, or cannot be
    /// listed.
    fn first_names(&self, folder: &str) -> Result<Option<Vec<String>>>;

    /// Lists all files of a folder.
    fn all(&self, folder: &str) -> Result<Vec<ListedEntry>>;

    /// Reads a small file of a folder.
    fn file(&self, folder: &str, name: &str, bytes_max: usize) -> Result<Vec<u8>>;
}

/// Form of an `index.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexForm {
    /// List of files that are samples.
    FileList,
    /// Index of a data set.
    DataSet,
}

/// Stream with the facts that are known of it.
pub(super) struct Known<'a> {
    pub(super) stream: &'a StreamConfig,
    /// True if a request has shown that the folder of the stream has no `index.json`.
    pub(super) has_no_index: bool,
    pub(super) facts: &'a dyn Facts,
}

/// Rule: the way to open a stream, or `None` if it does not apply.
pub(super) type Rule = fn(&Known<'_>) -> Result<Option<Source>>;

/// Rules for streams that name files.
pub(super) const NAMING: &[Rule] = &[list_of_files, files_in_folder];

/// Rules for streams that name folders, with absolute paths.
pub(super) const FOLDER: &[Rule] = &[
    path_like_an_address,
    index_on_this_machine,
    kept_list,
    index_of_store,
    tars_prepared_by_energon,
    tables_of_split,
    tables_that_the_hub_converted,
    files_of_one_kind,
    texts_of_split,
];

/// Rules for the list of a folder's files.
pub(super) const LISTING: &[Rule] = &[list_of_files, files_in_folder, all_tables, files_of_one_kind];

/// Returns the way to open a stream by the first of `rules` that applies.
///
/// # Errors
///
/// `Config` for lists with a mistake, for folders with files of several kinds and for splits that do not exist; errors
/// of the store.
pub(super) fn resolve(rules: &[Rule], known: &Known<'_>) -> Result<Option<Source>> {
    rules.iter().find_map(|rule| rule(known).transpose()).transpose()
}

impl Known<'_> {
    /// Text that names the files or the folder: the remote, or a path on this machine.
    fn named(&self) -> Option<&str> {
        self.stream.remote.as_deref().or_else(|| self.stream.local.as_deref()?.to_str())
    }

    /// Name of the folder of the stream, with its split.
    fn folder(&self) -> String {
        name_of(self.stream)
    }

    fn split(&self) -> &str {
        self.stream.split.as_deref().unwrap_or("")
    }

    /// Returns true if each file is a sample, or a part of one, whatever its name.
    fn are_samples(&self) -> bool {
        self.stream.files.is_some() || self.stream.manifest.is_some()
    }
}

/// `s3://b/{0..9}.tar`, `/data/*.parquet`, or the common start of pairs of files.
fn list_of_files(known: &Known<'_>) -> Result<Option<Source>> {
    let Some(named) = known.named() else { return Ok(None) };
    let list = if known.are_samples() {
        // The name of a folder may look like a file's name.
        let is_folder = local_folder(named).is_some_and(|folder| known.facts.is_folder(&folder));
        if is_folder { None } else { sample_names(named)? }
    } else {
        shard_names(prefix_of_pair(known, named).as_deref().unwrap_or(named))?
    };
    let Some(list) = list else { return Ok(None) };
    if known.stream.manifest.is_some() {
        return Err(Error::config("`manifest` names the files, so `remote` is the folder that they are in"));
    }
    if matches!(known.stream.files, Some(FilesAre::Columns(_))) {
        return Err(Error::config(
            "`files` names the files of each column, so `remote` is the folder that they are in",
        ));
    }
    if !known.split().is_empty() {
        return Err(Error::config("`split` is a folder of a data set: write it into the addresses of the files"));
    }
    let (root, files) = (absolute_address(list.root), Files::Named(list.names));
    Ok(Some(Source::Files { kind: list.kind, root, files }))
}

/// Returns the first file of the pair with the common start `named`, as Megatron's options have it, if there are such
/// files on this machine. A data set in a folder of that name comes first; Megatron itself makes a folder of that name,
/// for its cache.
fn prefix_of_pair(known: &Known<'_>, named: &str) -> Option<String> {
    let folder = local_folder(named)?;
    if known.facts.index_in(&folder).is_some() {
        return None;
    }
    let is_file = |name: &String| local_folder(name).is_some_and(|path| known.facts.is_file(&path));
    let mut pairs = KINDS.iter().filter_map(|kind| Some(kind.pair?.of_prefix(named)));
    pairs.find(|pair| pair.iter().all(is_file)).map(|[first, _]| first)
}

/// `files` or `manifest` with a folder.
fn files_in_folder(known: &Known<'_>) -> Result<Option<Source>> {
    let Some(named) = known.named().filter(|_| known.are_samples()) else { return Ok(None) };
    let named = StreamConfig { remote: Some(absolute_address(named.to_owned())), ..known.stream.clone() };
    Ok(Some(Source::Files { kind: &FILE, root: name_of(&named), files: Files::All }))
}

/// `local` is a path, even one that looks like an address.
fn path_like_an_address(known: &Known<'_>) -> Result<Option<Source>> {
    let is_path = known.stream.remote.is_none() && local_folder(&known.folder()).is_none();
    Ok(is_path.then_some(Source::DataSet))
}

/// Folder of this machine with an `index.json`.
fn index_on_this_machine(known: &Known<'_>) -> Result<Option<Source>> {
    let root = known.folder();
    let form = local_folder(&root).and_then(|folder| known.facts.index_in(&folder));
    Ok(form.map(|form| match form {
        IndexForm::FileList => Source::Files { kind: &FILE, root, files: Files::ByList },
        IndexForm::DataSet => Source::DataSet,
    }))
}

/// Folder of a store with pictures that were listed before.
fn kept_list(known: &Known<'_>) -> Result<Option<Source>> {
    let root = known.folder();
    if local_folder(&root).is_some() || known.has_no_index || !known.facts.has_kept_list(&root) {
        return Ok(None);
    }
    Ok(Some(Source::Files { kind: &FILE, root, files: Files::OfKind }))
}

/// Folder of a store that may have an `index.json`: a request shows it.
fn index_of_store(known: &Known<'_>) -> Result<Option<Source>> {
    Ok((local_folder(&known.folder()).is_none() && !known.has_no_index).then_some(Source::DataSet))
}

/// Folder that Megatron Energon has prepared.
fn tars_prepared_by_energon(known: &Known<'_>) -> Result<Option<Source>> {
    let Some(root) = known.named() else { return Ok(None) };
    // The names of Energon's files come first in a listing of a store.
    let is_prepared = |first: Vec<String>| first.iter().any(|name| name.starts_with(PREPARED));
    let first = known.facts.first_names(root)?;
    let may_be = match local_folder(root) {
        Some(folder) => known.facts.is_folder(&folder.join(PREPARED)),
        None => first.is_none_or(is_prepared),
    };
    if !may_be {
        return Ok(None);
    }
    for file in SPLIT_FILES {
        let splits = match known.facts.file(root, file, SPLIT_BYTES_MAX) {
            // Some stores answer a request for an absent object with an error of permission.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) => continue,
            splits => splits.context("file", || file)?,
        };
        let names = Names::Listed(tars_of(&splits, known.split()).context("file", || file)?);
        return Ok(Some(Source::Files { kind: &TAR, root: root.to_owned(), files: Files::Named(names) }));
    }
    Ok(None)
}

/// Folder of tables: the split may be one of the names of its files.
fn tables_of_split(known: &Known<'_>) -> Result<Option<Source>> {
    let Some(root) = known.named() else { return Ok(None) };
    // The listing of a folder of many pictures takes long, and finds no tables.
    if !known.facts.first_names(root)?.is_some_and(|first| tables::has_tables(&first)) {
        return Ok(None);
    }
    listed_tables(known, root, |paths| {
        let found = tables::files_of(paths, known.split(), || card(known, root))?;
        if let Some(text) = found.as_ref().and_then(|found| tables::unread_text(paths, found)) {
            let extension = text.rsplit('.').next().unwrap_or_default();
            log::warn!("{text} is not read, since tables are next to it: a list such as *.{extension} names the texts");
        }
        Ok(found)
    })
}

/// Folder of texts with a record in each line, and of nothing else that is read: the split is found as for tables.
fn texts_of_split(known: &Known<'_>) -> Result<Option<Source>> {
    let Some(root) = known.named() else { return Ok(None) };
    if !known.facts.first_names(root)?.is_some_and(|first| tables::has_texts(&first)) {
        return Ok(None);
    }
    listed_tables(known, root, |paths| tables::texts_of(paths, known.split(), || card(known, root)))
}

/// Reads the card of a data set.
fn card(known: &Known<'_>, root: &str) -> Result<String> {
    let card = known.facts.file(root, CARD, CARD_BYTES_MAX)?;
    Ok(String::from_utf8_lossy(&card).into_owned())
}

/// Data set of the hub in a form that is not read: the hub converts it to tables.
fn tables_that_the_hub_converted(known: &Known<'_>) -> Result<Option<Source>> {
    let Some(root) = known.named() else { return Ok(None) };
    let Some(converted) = tables::converted(root) else { return Ok(None) };
    let is_other = |first: Vec<String>| !tables::has_tables(&first) && matches!(kind_of_folder(&first), Ok(None));
    if !known.facts.first_names(root)?.is_some_and(is_other) {
        return Ok(None);
    }
    listed_tables(known, &converted, |paths| tables::converted_files_of(paths, known.split()))
}

fn listed_tables(
    known: &Known<'_>,
    root: &str,
    choose: impl FnOnce(&[String]) -> Result<Option<FolderFiles>>,
) -> Result<Option<Source>> {
    let entries = known.facts.all(root)?;
    let paths: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    let found = choose(&paths)?;
    Ok(found.map(|FolderFiles { kind, names }| Source::Files {
        kind,
        root: root.to_owned(),
        files: Files::Listed { names, entries },
    }))
}

/// Folder of tables, with all of them.
fn all_tables(known: &Known<'_>) -> Result<Option<Source>> {
    let Some(root) = known.named() else { return Ok(None) };
    let first = known.facts.first_names(root)?.unwrap_or_default();
    let Some(kind) = tables::kind_of_tables(&first) else { return Ok(None) };
    let paths: Vec<String> = known.facts.all(root)?.into_iter().map(|entry| entry.key).collect();
    let names = Names::Listed(tables::tables_of(&paths, kind));
    Ok(Some(Source::Files { kind, root: root.to_owned(), files: Files::Named(names) }))
}

/// Folder of files that have a kind by their names.
fn files_of_one_kind(known: &Known<'_>) -> Result<Option<Source>> {
    if known.named().is_none() {
        return Ok(None);
    }
    let root = known.folder();
    let Some(first) = known.facts.first_names(&root)? else { return Ok(None) };
    let kind = kind_of_folder(&first)?;
    Ok(kind.map(|kind| Source::Files { kind, root, files: Files::OfKind }))
}

#[cfg(test)]
mod tests;
