//! Files that are samples, such as the pictures of a folder: groups of them are the shards of a stream.
//!
//! Their index is made of a listing, and stays in the stream's folder on local disk: `walk` lists a folder of this machine,
//! `listing` a remote one. A list of a folder of this machine is made again when a name in it has changed. Another one is
//! kept until it is removed. `manifest` fetches a manifest. `listed` opens files by the list that is next to
//! them, and `kept_list` has the place of one that is kept.

mod kept_list;
mod listed;
mod listing;
mod manifest;
mod walk;

use super::index_origin::IndexOrigin;
use super::opening::{FileListing, Files, OpenFiles, Opening};
use super::parallel::in_parallel;
use super::remote_file::RemoteFile;
use super::stream::IndexedStream;
use crate::config::FilesAre;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::recipe::class_of;
use crate::format::{HashAlgo, Index};
use crate::sources::FileKind;
use crate::sources::files::{FileList, FileSet, Folder, Selection};
use crate::sources::folder_names::is_hidden;
use crate::store::{Destination, Remote};
use kept_list::cache;
pub(super) use kept_list::{has_kept_list, has_list};
use manifest::{Fetched, ManifestFile};
use std::borrow::Cow;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
pub(super) use walk::first_names;
use walk::{Walked, changed_ns, walk};

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
    let by_stem = at.stream.files == Some(FilesAre::Stem);
    if by_stem && at.stream.manifest.is_some() {
        return Err(Error::config("`manifest` has a line for each sample of one file: leave files=\"stem\" out"));
    }
    let open_other = |folder: &str| at.session.remote(at.stream, folder);
    let manifest = at.stream.manifest.as_deref().map(|name| ManifestFile { name, open: &open_other });
    let mut described = selection.describe();
    if by_stem {
        described.push_str("\nstem");
    }
    if let Some(manifest) = &at.stream.manifest {
        described.push_str(&format!("\n{manifest}"));
    }
    let open = || at.destination();
    let files = SampleFiles { selection, by_stem, manifest, root: at.root, folder: at.folder(), open: &open };
    at.install(cache(at, &described), &files)
}

/// Files by a selection.
struct SampleFiles<'a> {
    selection: Selection,
    /// True if files of one stem are a sample.
    by_stem: bool,
    /// Manifest that has the files, in place of the selection.
    manifest: Option<ManifestFile<'a>>,
    /// Address of their folder.
    root: &'a str,
    /// That folder, if it is on this machine.
    folder: Option<PathBuf>,
    /// Opens their folder for a listing.
    open: &'a (dyn Fn() -> Result<Destination> + Sync),
}

impl IndexOrigin for SampleFiles<'_> {
    fn reads_in_place(&self) -> bool {
        true
    }

    fn fetch(&self, remote: &Remote, _: &Path, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
        // First, since most mistakes are in it.
        let manifest = self.manifest.as_ref().map(|manifest| manifest.fetch(remote, self.folder.as_deref()));
        let manifest = manifest.transpose()?;
        let Walked { files, mut folders } = match &self.folder {
            Some(folder) => walk(folder, progress)?,
            None => Walked { files: listing::list(&(self.open)()?, progress)?, folders: Vec::new() },
        };
        if let (Some(source), Some(Fetched { manifest, changed })) = (&self.manifest, manifest) {
            folders.extend(changed);
            let numbers = manifest.find(&files, source.folder_below(self.root), self.root)?;
            let set = FileSet::of_files(&files, &numbers, manifest.columns, folders);
            return self.unpacked(set, remote, progress)?.to_bytes();
        }
        let numbers = self.selection.choose(&files)?;
        if let Selection::OfKind(kind) = self.selection {
            check_classes(kind, &files, &numbers, &folders)?;
        }
        if self.by_stem {
            return FileSet::of_stems(&files, &numbers, folders)?.to_bytes();
        }
        let set = FileSet::of_files(&files, &numbers, Vec::new(), folders);
        self.unpacked(set, remote, progress)?.to_bytes()
    }

    fn parse(&self, bytes: &[u8], name: &str) -> Result<Index> {
        let set = FileSet::parse(bytes).context("remote", || name)?;
        // A manifest of this machine has its whole path.
        let root = self.folder.as_deref().unwrap_or(Path::new("/"));
        let changed =
            set.folders.iter().find(|folder| changed_ns(&root.join(&folder.path)).ok() != Some(folder.changed_ns));
        if let Some(folder) = changed {
            let message = "files were added, removed or renamed after the folder was listed";
            return Err(Error::format(message).with("folder", root.join(&folder.path).display()));
        }
        if let Some(folder) = &self.folder
            && !set.stamp.is_empty()
            && set.stamp != stamp(folder, &set)?
        {
            return Err(Error::format("files were written again after the folder was listed").with("remote", name));
        }
        set.index().context("remote", || name)
    }

    fn identity<'a>(&self, _: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        FileSet::identity(bytes).into()
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

/// Rejects folders of the first level without a file of `kind`, which would have a number in torchvision's `ImageFolder` only if
/// it is asked to allow them.
fn check_classes(kind: &FileKind, files: &FileList, numbers: &[usize], folders: &[Folder]) -> Result<()> {
    let used: HashSet<&str> = numbers.iter().filter_map(|number| class_of(files.paths.get(*number))).collect();
    if used.is_empty() {
        // All files are in the folder itself.
        return Ok(());
    }
    let classes = folders
        .iter()
        .filter_map(|folder| folder.path.strip_suffix('/'))
        .filter(|path| !path.contains('/') && !is_hidden(path));
    match classes.into_iter().find(|class| !used.contains(class)) {
        Some(class) => {
            let message = format!("a folder of {}s has none: fill it or remove it", kind.sample_noun());
            Err(Error::new(ErrorKind::NotFound, message).with("folder", class))
        }
        None => Ok(()),
    }
}
