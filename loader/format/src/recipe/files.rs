//! Shard of files that are samples, such as the pictures of a folder.
//!
//! A sample has the content of its files, and values that the list of files has: the path, its first folder and the
//! number of that folder, and the columns of a manifest. [`FileGroup::pieces`] puts a sample together. The recipe of a
//! shard and the readers of files that are read where they are both go by it, so the bytes of a sample are the same.

use super::texts::Texts;
use crate::encoding::Encoding;
use crate::layout::Layout;
use crate::table::{OffsetTable, offset_table};
use forebay_core::error::{Error, Result};
use std::sync::Arc;

/// Origin of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileColumn {
    /// Content of the sample's file of this number.
    File(usize),
    /// Path of its first file.
    Path,
    /// First folder of that path.
    Class,
    /// Number of the first folder among all first folders.
    Label,
    /// Values of this number.
    Value(usize),
}

/// Columns of all groups of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileColumns {
    /// In the order of the layout.
    pub(super) origins: Vec<FileColumn>,
    /// Files of each sample.
    pub(super) files: usize,
    /// First folders of all paths, sorted, if every path has one.
    classes: Option<Texts>,
    /// Names of the classes, where a manifest has them.
    class_names: Option<Texts>,
    layout: Arc<Layout>,
}

impl FileColumns {
    /// Name of the column with the content of the file, where samples have one.
    pub const FILE: &'static str = "file";
    /// Name of the column with its path.
    pub const PATH: &'static str = "path";
    /// Name of the column with the first folder of the path.
    pub const CLASS: &'static str = "class";
    /// Name of the column with its number.
    pub const LABEL: &'static str = "label";

    /// Columns `files` and `values`, each with its name and encoding, and the columns of the path that they do not
    /// have.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a name that is used twice.
    pub fn new(
        files: impl IntoIterator<Item = (String, Encoding)>,
        values: impl IntoIterator<Item = (String, Encoding)>,
        classes: Option<Texts>,
    ) -> Result<Self> {
        let numbered = |all: Vec<(String, Encoding)>, origin: fn(usize) -> FileColumn| {
            all.into_iter()
                .enumerate()
                .map(move |(n, (name, encoding))| (name, encoding, origin(n)))
                .collect::<Vec<_>>()
        };
        let files = numbered(files.into_iter().collect(), FileColumn::File);
        let count = files.len();
        let values = numbered(values.into_iter().collect(), FileColumn::Value);
        let of_path = [
            (Self::PATH, Encoding::Str, FileColumn::Path),
            (Self::CLASS, Encoding::Str, FileColumn::Class),
            (Self::LABEL, Encoding::Int, FileColumn::Label),
        ];
        let of_path = of_path.into_iter().take(if classes.is_some() { 3 } else { 1 });
        let of_path = of_path.filter(|(name, _, origin)| {
            *origin == FileColumn::Path || files.iter().chain(&values).all(|(own, _, _)| own != name)
        });
        let mut all: Vec<_> = of_path.map(|(name, encoding, origin)| (name.to_owned(), encoding, origin)).collect();
        all.extend(files);
        all.extend(values);
        // As the layout has them.
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let origins = all.iter().map(|(_, _, origin)| *origin).collect();
        let layout = Layout::mds(all.into_iter().map(|(name, encoding, _)| (name, encoding)))?;
        Ok(Self { origins, files: count, classes, class_names: None, layout: layout.into() })
    }

    /// Layout of the samples.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Sets the names of the classes, which are not the folders of the paths.
    #[must_use]
    pub fn with_class_names(self, class_names: Option<Texts>) -> Self {
        Self { class_names, ..self }
    }

    /// Names of the classes, each at its label: of a manifest, or the first folders of all paths, sorted.
    pub fn classes(&self) -> Option<&Texts> {
        self.class_names.as_ref().or(self.classes.as_ref())
    }
}

/// Values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Stored bytes of integers or of floating-point numbers.
    Numbers(Vec<[u8; 8]>),
    /// Texts.
    Texts(Texts),
}

/// Part of a sample's stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Content of a whole file.
    File {
        /// Its path below the folder of the list.
        path: &'a str,
        /// Its length when it was listed.
        bytes: u64,
    },
}

/// Files of a shard in the order of its samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileGroup {
    /// Columns.
    pub columns: Arc<FileColumns>,
    /// Paths of the files below the folder of the list: all paths of the first sample, then of the next one.
    pub paths: Texts,
    /// Bytes of each file.
    pub bytes: Vec<u64>,
    /// Values that are not of a file or its path.
    pub values: Vec<Values>,
}

impl FileGroup {
    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.paths.len() / self.columns.files.max(1)
    }

    /// Bytes of the shard's data file.
    pub fn file_bytes(&self) -> u64 {
        let samples = (0..self.samples()).map(|i| self.sample_bytes(i));
        samples.fold(OffsetTable::bytes(self.samples() as u64), u64::saturating_add)
    }

    /// Makes the table of the samples in the data file.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a file of more than 4 GiB.
    pub fn offsets(&self) -> Result<OffsetTable> {
        let sizes: Vec<u32> =
            (0..self.samples()).map(|i| u32::try_from(self.sample_bytes(i)).unwrap_or(u32::MAX)).collect();
        let first = OffsetTable::bytes(sizes.len() as u64);
        let table = offset_table(&sizes, first, &[])?;
        OffsetTable::parse(&table, sizes.len() as u64, first, self.file_bytes(), false)
    }

    /// Returns the paths and lengths of the files of sample `i`.
    pub fn files(&self, i: usize) -> impl Iterator<Item = (&str, u64)> {
        let files = self.columns.files;
        (i * files..(i + 1) * files).map(|file| (self.paths.get(file), self.bytes[file]))
    }

    /// Calls `each` with the parts of the stored bytes of sample `i`, in their order.
    ///
    /// # Errors
    ///
    /// The errors of `each`; [`crate::ErrorKind::Format`] for a value of more than 4 GiB.
    pub fn pieces(&self, i: usize, mut each: impl FnMut(Piece<'_>) -> Result<()>) -> Result<()> {
        let mut numbers = [0; 8];
        for origin in &self.columns.origins {
            let bytes = match self.piece(i, *origin, &mut numbers) {
                Piece::File { bytes, .. } => bytes,
                Piece::Bytes(_) if self.is_number(*origin) => continue,
                Piece::Bytes(bytes) => bytes.len() as u64,
            };
            let size = u32::try_from(bytes).map_err(|_| {
                Error::format("a file has more than 4 GiB").with("file", self.paths.get(i * self.columns.files))
            })?;
            each(Piece::Bytes(&size.to_le_bytes()))?;
        }
        self.columns.origins.iter().try_for_each(|origin| each(self.piece(i, *origin, &mut numbers)))
    }

    /// Returns the value of sample `i` of column number `column` of the layout; `number` has its bytes if it is
    /// computed.
    pub fn value<'a>(&'a self, i: usize, column: usize, number: &'a mut [u8; 8]) -> Piece<'a> {
        self.piece(i, self.columns.origins[column], number)
    }

    /// Returns the value of sample `i` of a column; `number` has its bytes if it is computed.
    pub(super) fn piece<'a>(&'a self, i: usize, origin: FileColumn, number: &'a mut [u8; 8]) -> Piece<'a> {
        let first = i * self.columns.files;
        match origin {
            FileColumn::File(n) => Piece::File { path: self.paths.get(first + n), bytes: self.bytes[first + n] },
            FileColumn::Path => Piece::Bytes(self.paths.get(first).as_bytes()),
            FileColumn::Class => Piece::Bytes(class_of(self.paths.get(first)).unwrap_or("").as_bytes()),
            FileColumn::Label => {
                let class = class_of(self.paths.get(first)).unwrap_or("");
                let label = self.columns.classes.as_ref().and_then(|classes| classes.find(class));
                *number = label.map_or(-1, |label| label as i64).to_le_bytes();
                Piece::Bytes(number)
            }
            FileColumn::Value(n) => match &self.values[n] {
                Values::Numbers(numbers) => Piece::Bytes(&numbers[i]),
                Values::Texts(texts) => Piece::Bytes(texts.get(i).as_bytes()),
            },
        }
    }

    fn is_number(&self, origin: FileColumn) -> bool {
        match origin {
            FileColumn::Label => true,
            FileColumn::Value(n) => matches!(self.values[n], Values::Numbers(_)),
            FileColumn::File(_) | FileColumn::Path | FileColumn::Class => false,
        }
    }

    fn sample_bytes(&self, i: usize) -> u64 {
        let of_column = |origin: &FileColumn| {
            if self.is_number(*origin) {
                return 8;
            }
            match self.piece(i, *origin, &mut [0; 8]) {
                Piece::Bytes(bytes) => 4 + bytes.len() as u64,
                Piece::File { bytes, .. } => bytes.saturating_add(4),
            }
        };
        self.columns.origins.iter().map(of_column).fold(0, u64::saturating_add)
    }
}

/// Returns the first folder of `path`, if it has one.
pub fn class_of(path: &str) -> Option<&str> {
    path.split_once('/').map(|(class, _)| class)
}

#[cfg(test)]
mod tests {
    use super::super::{FileSamples, Recipe};
    use super::*;
    use crate::encoding::DType;
    use crate::{Digests, FileInfo, Scratch, Shard};
    use bytes::Bytes;

    fn group() -> FileGroup {
        let classes: Texts = ["a", "b"].iter().collect();
        let values = [("caption".to_owned(), Encoding::Str), ("width".to_owned(), Encoding::Int)];
        let files = [("jpg".to_owned(), Encoding::Jpeg), ("txt".to_owned(), Encoding::Str)];
        FileGroup {
            columns: FileColumns::new(files, values, Some(classes)).unwrap().into(),
            paths: ["b/0.jpg", "b/0.txt", "a/c/1.jpg", "a/c/1.txt"].iter().collect(),
            bytes: vec![3, 0, 1, 2],
            values: vec![
                Values::Texts(["x", "yy"].iter().collect()),
                Values::Numbers(vec![7_i64.to_le_bytes(), (-1_i64).to_le_bytes()]),
            ],
        }
    }

    const CONTENTS: [&[u8]; 4] = [b"jpg", b"", b"j", b"tx"];

    fn contents() -> Vec<Bytes> {
        CONTENTS.map(Bytes::from_static).into()
    }

    #[test]
    fn a_sample_has_its_files_its_path_its_class_and_its_values() {
        let group = group();
        let layout = group.columns.layout().clone();
        let names: Vec<_> = layout.columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names, ["caption", "class", "jpg", "label", "path", "txt", "width"]);
        let made = FileSamples(group.clone().into()).assemble(&layout, 2, contents()).unwrap();
        assert_eq!(made.len() as u64, group.file_bytes());
        let info = FileInfo { basename: "0".into(), bytes: group.file_bytes(), hashes: Digests::default() };
        let table = Shard::new(layout.clone(), 2, info).offsets(&*made).unwrap();
        assert_eq!(table, group.offsets().unwrap(), "the table follows from the lengths");
        let mut scratch = Scratch::default();
        let expected: [[&[u8]; 7]; 2] = [
            [b"x", b"b", b"jpg", &1_i64.to_le_bytes(), b"b/0.jpg", b"", &7_i64.to_le_bytes()],
            [b"yy", b"a", b"j", &0_i64.to_le_bytes(), b"a/c/1.jpg", b"tx", &(-1_i64).to_le_bytes()],
        ];
        for (i, values) in expected.iter().enumerate() {
            let (start, len) = table.range(i).unwrap();
            let columns = layout.split(&made[start as usize..][..len as usize], &mut scratch).unwrap();
            assert_eq!(columns.iter().collect::<Vec<_>>(), values);
        }
    }

    #[test]
    fn the_pieces_of_a_sample_are_its_bytes_in_the_file_that_is_made() {
        let group = group();
        let made = FileSamples(group.clone().into()).assemble(group.columns.layout(), 2, contents()).unwrap();
        let mut joined = Vec::new();
        for i in 0..2 {
            let mut files = group.files(i).zip(&CONTENTS[2 * i..]);
            let joining = group.pieces(i, |piece| {
                match piece {
                    Piece::Bytes(bytes) => joined.extend_from_slice(bytes),
                    Piece::File { path, bytes } => {
                        let (file, content) = files.next().unwrap();
                        assert_eq!((path, bytes), file);
                        joined.extend_from_slice(content);
                    }
                }
                Ok(())
            });
            joining.unwrap();
        }
        assert_eq!(joined, &made[OffsetTable::bytes(2) as usize..]);
    }

    #[test]
    fn a_column_of_the_values_replaces_the_one_of_the_folders() {
        let columns = |name: &str| {
            let value = [(name.to_owned(), Encoding::Scalar(DType::Float64))];
            FileColumns::new([(FileColumns::FILE.to_owned(), Encoding::Bytes)], value, Some(Texts::default()))
        };
        let label = columns("label").unwrap();
        assert!(!label.origins.contains(&FileColumn::Label) && label.origins.contains(&FileColumn::Class));
        let files = [("image".to_owned(), Encoding::Jpeg), ("label".to_owned(), Encoding::Bytes)];
        let label = FileColumns::new(files, None, Some(Texts::default())).unwrap();
        assert!(!label.origins.contains(&FileColumn::Label) && label.origins.contains(&FileColumn::File(1)));
        assert_eq!(columns("file").unwrap_err().kind(), crate::ErrorKind::Config);
        assert_eq!(columns("path").unwrap_err().kind(), crate::ErrorKind::Config);
    }

    #[test]
    fn a_file_that_passes_the_offsets_is_an_error() {
        let mut group = group();
        group.bytes[2] = 1 << 33;
        assert!(group.pieces(1, |_| Ok(())).is_err());
        assert!(group.offsets().is_err());
    }
}
