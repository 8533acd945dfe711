//! Files that are samples, such as the pictures of a folder: groups of them are the shards of a stream.
//!
//! Their index is made of a listing, and stays in the stream's folder on local disk: `walk` lists a folder of this
//! machine, `listing` a remote one. A list of a folder of this machine is made again when a name in it has changed.
//! A list of a remote folder is kept until it is removed. `manifest` fetches a manifest. `listed` opens files by the
//! list that is next to them, and `kept_list` has the path of one that is kept.

mod kept_list;
mod listed;
mod listing;
mod manifest;
mod walk;

use super::kept_index::{Head, KeptFile, SurveyFiles, Surveyed};
use super::opening::{FileListing, Files, OpenFiles, Opening};
use super::parallel::in_parallel;
use super::remote_file::RemoteFile;
use super::stream::IndexedStream;
use crate::config::FilesAre;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::recipe::class_of;
use crate::format::{HashAlgo, Index};
use crate::sources::FileKind;
use crate::sources::files::{FileList, FileSet, Selection, StemColumns, first_manifest_in};
use crate::sources::folder_names::is_hidden;
use crate::store::{Destination, Remote};
use kept_list::{cache, made_as};
pub(super) use kept_list::{has_kept_list, has_list};
use manifest::{Fetched, ManifestFile};
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
pub(super) use walk::first_names;
use walk::{Walked, state_of, walk};

/// Opener of files that are samples, of a kind.
pub(super) struct Opener(pub(super) &'static FileKind);

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        match files {
            Files::OfKind => open_selected(at, Selection::OfKind(self.0)),
            Files::All => open_selected(at, Selection::Any),
            Files::ByList => listed::open(at),
            files => open_selected(at, Selection::Named(files.into_names()?)),
        }
    }

    fn listing(&self, at: &Opening<'_>, files: Files) -> Result<Option<FileListing>> {
        listed::listing(&self.open(at, files)?)
    }
}

fn open_selected(at: &Opening<'_>, selection: Selection) -> Result<IndexedStream> {
    let grouping = at.stream.files.as_ref();
    let by_stem = grouping == Some(&FilesAre::STEM);
    let columns = match grouping {
        Some(FilesAre::Columns(columns)) => Some(StemColumns::new(columns)?),
        _ => None,
    };
    if at.stream.manifest.is_some() {
        if by_stem {
            return Err(Error::config("`manifest` has a line for each sample of one file: leave files=\"stem\" out"));
        }
        if columns.is_some() {
            return Err(Error::config("`manifest` names the files of each sample: leave `files` out"));
        }
    }
    let open_other = |folder: &str| at.session.remote(at.stream, folder);
    let manifest = at.stream.manifest.as_deref().map(|name| ManifestFile { name, open: &open_other });
    let mut described = selection.describe();
    if by_stem {
        described.push_str("\nstem");
    }
    if let Some(FilesAre::Columns(columns)) = grouping {
        columns.iter().for_each(|(name, files)| described.push_str(&format!("\n{name}: {files}")));
    }
    if let Some(manifest) = &at.stream.manifest {
        described.push_str(&format!("\n{manifest}"));
    }
    let open = || at.destination();
    let (folder, cache) = (at.folder(), cache(at, &described));
    at.install(
        cache,
        &SampleFiles { described, selection, by_stem, columns, manifest, root: at.root, folder, open: &open },
    )
}

/// Files by a selection.
struct SampleFiles<'a> {
    /// Text that differs for different selections.
    described: String,
    selection: Selection,
    /// True if files of one stem are a sample.
    by_stem: bool,
    /// Columns of files that are paired, instead of the selection.
    columns: Option<StemColumns<'a>>,
    /// Manifest that has the files, instead of the selection.
    manifest: Option<ManifestFile<'a>>,
    /// Address of their folder.
    root: &'a str,
    /// That folder, if it is on this machine.
    folder: Option<PathBuf>,
    /// Opens their folder for a listing.
    open: &'a (dyn Fn() -> Result<Destination> + Sync),
}

impl SurveyFiles for SampleFiles<'_> {
    fn made_as(&self) -> String {
        made_as(&self.described)
    }

    fn needs_no_copy(&self) -> bool {
        true
    }

    fn survey(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Surveyed> {
        // First, since most mistakes are in it.
        let manifest = self.manifest.as_ref().map(|manifest| manifest.fetch(remote, self.folder.as_deref()));
        let manifest = manifest.transpose()?;
        let versions = remote.versions().map(|versions| &**versions);
        let Walked { files: list, mut folders } = match &self.folder {
            Some(folder) => walk(folder, versions, progress)?,
            None => Walked { files: listing::list(&(self.open)()?, versions, progress)?, folders: Vec::new() },
        };
        let set = match (&self.manifest, manifest) {
            (Some(source), Some(Fetched { manifest, changed })) => {
                folders.extend(changed);
                let numbers = manifest.find(&list, source.folder_below(self.root), self.root)?;
                let columns = manifest.file_columns();
                let mut set = FileSet::of_columns(&list, &numbers, &columns, manifest.columns.clone());
                set.classes = manifest.classes.clone();
                self.unpacked(set, remote, progress)?
            }
            _ if let Some(columns) = &self.columns => {
                let numbers = columns.find(&list)?;
                let set = FileSet::of_columns(&list, &numbers, &columns.names(), Vec::new());
                self.unpacked(set, remote, progress)?
            }
            _ => {
                let numbers = self.selection.choose(&list)?;
                if let Selection::OfKind(kind) = self.selection {
                    check_classes(kind, &list, &numbers, &folders)?;
                    if let Some(file) = first_manifest_in(&list) {
                        log::warn!(
                            "{file} in the folder of the {}s is not read: if it is their manifest, pass \
                             manifest=\"{file}\"",
                            kind.sample_noun()
                        );
                    }
                }
                if self.by_stem {
                    FileSet::of_stems(&list, &numbers)?
                } else {
                    self.unpacked(FileSet::of_files(&list, &numbers), remote, progress)?
                }
            }
        };
        Ok(Surveyed { document: set.to_bytes()?, files: folders, source: None })
    }

    fn check(&self, head: &Head) -> Result<()> {
        // A manifest of this machine has its whole path.
        let root = self.folder.as_deref().unwrap_or(Path::new("/"));
        let is_changed =
            |kept: &&KeptFile| !state_of(&root.join(&kept.name), &kept.name).is_ok_and(|now| now == **kept);
        match head.files.iter().find(is_changed) {
            Some(folder) => {
                let message = "files were added, removed or renamed after the folder was listed";
                Err(Error::format(message).with("folder", root.join(&folder.name).display()))
            }
            None => Ok(()),
        }
    }

    fn index(&self, document: &[u8]) -> Result<Index> {
        let set = FileSet::parse(document)?;
        if let Some(folder) = &self.folder
            && !set.stamp.is_empty()
            && set.stamp != stamp(folder, &set)?
        {
            return Err(Error::format("files were written again after the folder was listed"));
        }
        set.index()
    }

    fn identity(&self, _: &Index, mut document: Vec<u8>) -> Vec<u8> {
        document.truncate(FileSet::identity(&document).len());
        document
    }
}

impl SampleFiles<'_> {
    /// Returns `set` with the columns of its files, if they have several.
    fn unpacked(&self, mut set: FileSet, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<FileSet> {
        let Some((format, path)) = set.to_unpack() else { return Ok(set) };
        let surveyed = RemoteFile::open(remote, path, progress).and_then(|file| format.survey(&file));
        let surveyed = surveyed.context("file", || path)?;
        let stamp = self.folder.as_ref().map(|folder| stamp(folder, &set)).transpose()?;
        set.unpack(format, surveyed, stamp.unwrap_or_default());
        Ok(set)
    }
}

/// Returns a text that differs if one of the files of `set` is written again.
fn stamp(folder: &Path, set: &FileSet) -> Result<String> {
    let paths: Vec<&str> = set.paths().collect();
    let stamps = in_parallel(&paths, |path| {
        let found = std::fs::metadata(folder.join(path));
        let found = found.map_err(|e| Error::from_io(e, "a file of the list cannot be read").with("file", path))?;
        Ok((found.len(), found.mtime(), found.mtime_nsec()))
    })?;
    Ok(HashAlgo::Xxh3_64.hex(format!("{stamps:?}").as_bytes()))
}

/// Rejects folders of the first level without a file of `kind`, which would have a number in torchvision's
/// `ImageFolder` only if it is asked to allow them.
fn check_classes(kind: &FileKind, files: &FileList, numbers: &[usize], folders: &[KeptFile]) -> Result<()> {
    let used: HashSet<&str> = numbers.iter().filter_map(|number| class_of(files.paths.get(*number))).collect();
    if used.is_empty() {
        // All files are in the folder itself.
        return Ok(());
    }
    let classes = folders
        .iter()
        .filter_map(|folder| folder.name.strip_suffix('/'))
        .filter(|path| !path.contains('/') && !is_hidden(path));
    match classes.into_iter().find(|class| !used.contains(class)) {
        Some(class) => {
            let message = format!("the folder of a class has no {}: fill it or remove it", kind.sample_noun());
            Err(Error::new(ErrorKind::NotFound, message).with("folder", class))
        }
        None => Ok(()),
    }
}
