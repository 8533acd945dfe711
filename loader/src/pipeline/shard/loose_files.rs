//! Files that are samples and are read where they are.
//!
//! Their shard has no data file. Its bytes would follow from the list of files (see [`FileGroup`]), so the sample plane
//! reads a range of it as of any shard: [`LooseFiles::read`] opens the files of the sample, reads them to their
//! position in the slot, and closes them. So no more files are open than are read at the same time.

use super::stored_rows::read_row;
use crate::catalog::Catalog;
use crate::decode::Row;
use crate::error::{Error, ErrorKind, Result};
use crate::format::recipe::{FileGroup, Piece};
use crate::format::{INDEX_BASENAME, OffsetTable, ReadAt};
use crate::io::{DirFeatures, ShardFile, compare, read_exact_at};
use crate::order::ShardId;
use crate::sync::Arc;
use crate::versions::Versions;
use std::ops::Range;
use std::path::PathBuf;

/// Files of a shard, one or several for each sample.
#[derive(Debug)]
pub(crate) struct LooseFiles {
    folder: PathBuf,
    /// Location of their list.
    list: PathBuf,
    group: Arc<FileGroup>,
    /// Versions of the files, if they are compared.
    versions: Option<Arc<Versions>>,
    /// Of the folder, learned from reads.
    features: Arc<DirFeatures>,
}

impl LooseFiles {
    /// Returns the files of shard `id`; `None` for a shard with a data file. `features` are the features of the folder.
    ///
    /// # Errors
    ///
    /// `Internal` for a shard that has neither.
    pub(crate) fn of(catalog: &Catalog, id: ShardId, features: &Arc<DirFeatures>) -> Result<Option<Self>> {
        let (stream, local) = catalog.locate(id);
        let Some(folder) = stream.dir.folder_of_files(local) else { return Ok(None) };
        let recipe = catalog.shard(id).recipe.as_ref();
        let Some(group) = recipe.and_then(|recipe| recipe.as_files()) else {
            return Err(Error::internal("a shard without a data file or files"));
        };
        let list = stream.dir.folder().join(INDEX_BASENAME);
        let (group, versions, features) = (group.clone(), stream.dir.versions().cloned(), features.clone());
        Ok(Some(Self { folder: folder.to_owned(), list, group, versions, features }))
    }

    /// Returns the offsets of the samples in the data file that the shard would have.
    ///
    /// # Errors
    ///
    /// `Config` for a file of more than 4 GiB.
    pub(crate) fn offsets(&self) -> Result<OffsetTable> {
        self.group.offsets()
    }

    /// Fills `into` with the stored bytes of sample `i`.
    ///
    /// # Errors
    ///
    /// `Stale` for a file that was removed or changed after it was listed; errors of the file system.
    pub(crate) fn read(&self, i: usize, into: &mut [u8]) -> Result<()> {
        self.fill(i, into, |file, _, place| read_exact_at(file, place, 0).map(|()| true), ShardFile::open).map(drop)
    }

    /// Fills `into` like [`read`](Self::read), without the bytes at `value`, which are a whole file: they go to `row`.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub(super) fn read_around(&self, i: usize, into: &mut [u8], value: &Range<usize>, row: &mut Row<'_>) -> Result<()> {
        let mut is_read = false;
        let read = |file: &ShardFile, start: usize, place: &mut [u8]| {
            if *value == (start..start + place.len()) {
                is_read = true;
                read_row(file, row, 0)?;
            } else {
                read_exact_at(file, place, 0)?;
            }
            Ok(true)
        };
        self.fill(i, into, read, ShardFile::open)?;
        if is_read { Ok(()) } else { Err(Error::internal("a value that is no file of its sample")) }
    }

    /// Returns sample `i`, of `bytes` bytes, as a file.
    pub(super) fn sample(&self, i: usize, bytes: u64) -> impl ReadAt {
        LooseSample { group: &self.group, i, bytes }
    }

    /// Fills `into` like [`read`](Self::read) without waiting for a disk. Returns false, with `into` unspecified, if
    /// the kernel does not have all of it in memory, and on errors, which `read` returns.
    pub(super) fn read_hot(&self, i: usize, into: &mut [u8]) -> bool {
        let open = |path: PathBuf, features: &Arc<DirFeatures>| {
            let known = ShardFile::open_known(path, features)?;
            known.ok_or_else(|| Error::new(ErrorKind::Io, "the file is not in memory"))
        };
        self.fill(i, into, |file, _, place| Ok(file.read_cached(0, place)), open).unwrap_or(false)
    }

    /// Fills `into`, as far as `read` returns true. It is called with each file, and its place in the sample.
    fn fill(
        &self,
        i: usize,
        into: &mut [u8],
        mut read: impl FnMut(&ShardFile, usize, &mut [u8]) -> Result<bool>,
        open: impl Fn(PathBuf, &Arc<DirFeatures>) -> Result<ShardFile>,
    ) -> Result<bool> {
        let (mut at, mut is_whole) = (0_usize, true);
        self.group.pieces(i, |piece| {
            let bytes = match piece {
                Piece::Bytes(bytes) => bytes.len(),
                Piece::File { bytes, .. } => usize::try_from(bytes).unwrap_or(usize::MAX),
            };
            let end = at.checked_add(bytes).filter(|end| *end <= into.len());
            let place = end.map(|end| &mut into[at..end]);
            let place = place.ok_or_else(|| Error::internal("a sample is longer than its range"))?;
            let start = at;
            at += bytes;
            match piece {
                Piece::Bytes(bytes) => place.copy_from_slice(bytes),
                Piece::File { path: name, bytes } => {
                    let file = open(self.folder.join(name), &self.features).map_err(unlisted)?;
                    if file.len() != bytes {
                        let message = "a file has a different length than when its folder was listed: remove the \
                                       list, so that the next loader makes it again";
                        return Err(Error::new(ErrorKind::Stale, message)
                            .with("bytes", file.len())
                            .with("listed", bytes)
                            .with("file", file.path().display())
                            .with("list", self.list.display()));
                    }
                    if let Some(versions) = &self.versions {
                        let compared = compare(versions, name, file.buffered());
                        compared.map_err(|e| e.with("file", file.path().display()))?;
                    }
                    is_whole = is_whole && (place.is_empty() || read(&file, start, place)?);
                }
            }
            Ok(())
        })?;
        if at == into.len() { Ok(is_whole) } else { Err(Error::internal("a sample is shorter than its range")) }
    }
}

/// Stored bytes of a sample that are not in its files: the sizes of its columns are.
struct LooseSample<'a> {
    group: &'a FileGroup,
    i: usize,
    bytes: u64,
}

impl ReadAt for LooseSample<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let (end, mut at) = (offset.saturating_add(into.len() as u64), 0);
        self.group.pieces(self.i, |piece| {
            let (bytes, stored) = match piece {
                Piece::Bytes(stored) => (stored.len() as u64, Some(stored)),
                Piece::File { bytes, .. } => (bytes, None),
            };
            let common = offset.max(at)..end.min(at + bytes);
            if !common.is_empty() {
                let stored = stored.ok_or_else(|| Error::internal("a part of a sample that is in its file"))?;
                into[(common.start - offset) as usize..(common.end - offset) as usize]
                    .copy_from_slice(&stored[(common.start - at) as usize..(common.end - at) as usize]);
            }
            at += bytes;
            Ok(())
        })?;
        if end <= at { Ok(()) } else { Err(Error::internal("a part of a sample that is after its end")) }
    }
}

/// Describes a failure to open a file.
fn unlisted(error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    Error::new(ErrorKind::Stale, "a file was removed after its folder was listed: make the loader again")
        .caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Encoding;
    use crate::format::recipe::FileColumns;

    #[test]
    fn a_sample_is_put_together_from_its_file_and_its_values() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/0"), b"content").unwrap();
        std::fs::write(folder.path().join("a/1"), b"").unwrap();
        let columns = FileColumns::new([(FileColumns::FILE.to_owned(), Encoding::Bytes)], [], None).unwrap();
        let layout = columns.layout().clone();
        let (paths, bytes) = (["a/0", "a/1"].iter().collect(), vec![7, 0]);
        let group = Arc::new(FileGroup { columns: columns.into(), paths, bytes, values: Vec::new() });
        let table = group.offsets().unwrap();
        let files = LooseFiles {
            folder: folder.path().to_owned(),
            list: folder.path().join("list"),
            group,
            versions: Some(Arc::default()),
            features: DirFeatures::buffered_only(),
        };
        let expected = [&b"\x07\0\0\0\x03\0\0\0contenta/0"[..], b"\0\0\0\0\x03\0\0\0a/1"];
        for (i, expected) in expected.iter().enumerate() {
            let mut into = vec![0; table.range(i).unwrap().1 as usize];
            files.read(i, &mut into).unwrap();
            assert_eq!(into, *expected);
            into.fill(9);
            // The kernel may not report the pages that it has.
            assert!(!files.read_hot(i, &mut into) || into == *expected);
            let place = layout.value_range(0, &files.sample(i, expected.len() as u64)).unwrap().unwrap();
            let place = place.start as usize..place.end as usize;
            let mut value = vec![0; place.len()];
            into.fill(0);
            let read = files.read_around(i, &mut into, &place, &mut Row::Fixed(&mut value));
            if !place.is_empty() {
                read.unwrap();
                assert!(into[place.clone()].iter().all(|byte| *byte == 0), "the value has a row");
                into[place].copy_from_slice(&value);
                assert_eq!(into, *expected);
            }
        }
        let mut into = [0; 18];
        std::fs::write(folder.path().join("new"), b"changed").unwrap();
        std::fs::rename(folder.path().join("new"), folder.path().join("a/0")).unwrap();
        let e = files.read(0, &mut into).unwrap_err();
        assert!(e.kind() == ErrorKind::Stale && e.to_string().contains("replaced or changed"), "{e}");
        assert!(e.to_string().contains("a/0") && !files.read_hot(0, &mut into), "{e}");
        std::fs::write(folder.path().join("a/0"), b"other content").unwrap();
        let e = files.read(0, &mut into).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Stale);
        assert!(["a/0", "bytes 13", "listed 7", "list)"].iter().all(|part| e.to_string().contains(part)), "{e}");
        assert!(!files.read_hot(0, &mut into));
        std::fs::remove_file(folder.path().join("a/0")).unwrap();
        let e = files.read(0, &mut into).unwrap_err();
        assert!(e.kind() == ErrorKind::Stale && e.to_string().contains("removed"), "{e}");
        assert!(files.read(0, &mut [0; 17]).is_err(), "a range that is too short");
    }
}
