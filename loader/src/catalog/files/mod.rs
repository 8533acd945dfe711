//! Files that are samples, such as the pictures of a folder: groups of them are the shards of a stream.
//!
//! Their index is made of a listing, and stays in the stream's folder on local disk: `walk` lists a folder of this machine,
//! `listing` a remote one. A list of a folder of this machine is made again when a name in it has changed. Another one is
//! kept until it is removed. `manifest` fetches a manifest.

mod listing;
mod manifest;
mod walk;

use super::index_origin::IndexOrigin;
use crate::cache::CachedIndex;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::recipe::class_of;
use crate::format::{INDEX_BASENAME, Index};
use crate::sources::files::{FileList, FileSet, Folder, Selection};
use crate::store::{Destination, Remote};
use manifest::Fetched;
pub(super) use manifest::ManifestFile;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
pub(super) use walk::first_names;
use walk::{Walked, changed_ns, walk};

/// Files by a selection.
pub(super) struct SampleFiles<'a> {
    pub(super) selection: Selection,
    /// True if files of one stem are a sample.
    pub(super) by_stem: bool,
    /// Manifest that has the files, in place of the selection.
    pub(super) manifest: Option<ManifestFile<'a>>,
    /// Address of their folder.
    pub(super) root: &'a str,
    /// That folder, if it is on this machine.
    pub(super) folder: Option<PathBuf>,
    /// Opens their folder for a listing.
    pub(super) open: &'a (dyn Fn() -> Result<Destination> + Sync),
}

impl IndexOrigin for SampleFiles<'_> {
    fn cached(&self) -> CachedIndex {
        CachedIndex::OfRemote
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn fetch(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<u8>> {
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
            return FileSet::of_files(&files, &numbers, manifest.columns, folders).to_bytes();
        }
        let numbers = self.selection.choose(&files)?;
        if self.selection == Selection::Pictures {
            check_classes(&files, &numbers, &folders)?;
        }
        let set = if self.by_stem {
            FileSet::of_stems(&files, &numbers, folders)?
        } else {
            FileSet::of_files(&files, &numbers, Vec::new(), folders)
        };
        set.to_bytes()
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
        set.index().context("remote", || name)
    }

    fn identity<'a>(&self, _: &Index, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        FileSet::identity(bytes).into()
    }
}

/// Returns true if the cache in `folder` has a list of files.
pub(super) fn has_list(folder: &Path) -> bool {
    let path = folder.join(INDEX_BASENAME);
    if !std::fs::metadata(&path).is_ok_and(|found| found.is_file()) {
        // The open of a pipe would wait for its writer.
        return false;
    }
    let mut start = [0; 32];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    read.is_ok_and(|bytes| FileSet::is_start(&start[..bytes]))
}

/// Returns the time of the last change of the list in `folder`.
pub(super) fn list_changed_ns(folder: &Path) -> Option<i64> {
    changed_ns(&folder.join(INDEX_BASENAME)).ok()
}

/// Rejects folders of the first level without a picture, which would have a number in torchvision's `ImageFolder` only if
/// it is asked to allow them.
fn check_classes(files: &FileList, numbers: &[usize], folders: &[Folder]) -> Result<()> {
    let used: HashSet<&str> = numbers.iter().filter_map(|number| class_of(files.paths.get(*number))).collect();
    if used.is_empty() {
        // All pictures are in the folder itself.
        return Ok(());
    }
    let classes = folders.iter().filter_map(|folder| folder.path.strip_suffix('/')).filter(|path| !path.contains('/'));
    match classes.into_iter().find(|class| !used.contains(class)) {
        Some(class) => Err(Error::new(ErrorKind::NotFound, "a folder of pictures has none: fill it or remove it")
            .with("folder", class)),
        None => Ok(()),
    }
}
