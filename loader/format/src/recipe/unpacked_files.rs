//! Recipe of a shard of files that are a sample each, with several columns in one file.

use super::files::{FileColumn, FileColumns, FileGroup, Piece};
use super::texts::Texts;
use super::{MdsBuilder, ObjectRange, Recipe};
use crate::encoding::Encoding;
use crate::layout::Layout;
use crate::sample_format::SampleFormat;
use bytes::Bytes;
use forebay_core::error::{Error, Result};
use std::sync::Arc;

/// Columns of files that are unpacked.
#[derive(Clone, Debug)]
pub struct UnpackedColumns {
    format: &'static dyn SampleFormat,
    /// In the order of the layout.
    origins: Vec<Origin>,
    layout: Arc<Layout>,
}

/// Origin of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Column of the file, which has its name.
    File,
    /// Column of this number of the list of files.
    List(usize),
}

impl PartialEq for UnpackedColumns {
    fn eq(&self, other: &Self) -> bool {
        self.format.name() == other.format.name() && self.origins == other.origins && self.layout == other.layout
    }
}

impl Eq for UnpackedColumns {}

impl UnpackedColumns {
    /// Columns `columns` of files of `format`, and the columns of their list, `listed`. A column of the files replaces
    /// one of the path with its name.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a column of the files with the name of one of a manifest.
    pub fn new(
        format: &'static dyn SampleFormat,
        columns: &[(String, Encoding)],
        listed: &FileColumns,
    ) -> Result<Self> {
        let is_in_file = |name: &str| columns.iter().any(|(column, _)| column == name);
        let mut all: Vec<(String, Encoding, Origin)> =
            columns.iter().map(|(name, encoding)| (name.clone(), encoding.clone(), Origin::File)).collect();
        for (number, (column, origin)) in listed.layout().columns.iter().zip(&listed.origins).enumerate() {
            let is_replaced = match origin {
                // The content itself is not a column.
                FileColumn::File(_) => true,
                FileColumn::Path | FileColumn::Class | FileColumn::Label => is_in_file(&column.name),
                FileColumn::Value(_) => false,
            };
            if !is_replaced {
                all.push((column.name.clone(), column.encoding.clone(), Origin::List(number)));
            }
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let origins = all.iter().map(|(_, _, origin)| *origin).collect();
        let layout = Layout::mds(all.into_iter().map(|(name, encoding, _)| (name, encoding)))?;
        Ok(Self { format, origins, layout: layout.into() })
    }

    /// Layout of the samples.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }
}

/// Files that are unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedFiles {
    /// The files, one for each sample.
    pub group: Arc<FileGroup>,
    /// Columns of the samples.
    pub columns: Arc<UnpackedColumns>,
    /// Estimate of the bytes of all values.
    pub value_bytes: u64,
}

impl UnpackedFiles {
    /// Estimate of the shard's bytes.
    pub fn file_bytes(&self) -> u64 {
        MdsBuilder::file_bytes(&self.columns.layout, self.group.samples() as u64, self.value_bytes)
    }

    /// Adds the sample `i`, with the content of its file, to `shard`.
    fn push(&self, i: usize, content: &[u8], layout: &Layout, shard: &mut MdsBuilder<'_>) -> Result<()> {
        let file = self.columns.format.open(content)?;
        shard.push_with(|column, out| match self.columns.origins[column] {
            Origin::File => {
                let name = &layout.columns[column].name;
                file.append(name, out).map_err(|e| e.with("column", name))
            }
            Origin::List(number) => match self.group.value(i, number, &mut [0; 8]) {
                Piece::Bytes(bytes) => {
                    out.extend_from_slice(bytes);
                    Ok(())
                }
                Piece::File { .. } => Err(Error::internal("a value that is a file")),
            },
        })
    }
}

impl Recipe for UnpackedFiles {
    fn ranges(&self) -> Vec<ObjectRange> {
        self.group.ranges()
    }

    fn stored_bytes(&self) -> u64 {
        self.group.stored_bytes()
    }

    fn assemble(&self, layout: &Layout, samples: u64, parts: Vec<Bytes>) -> Result<Vec<u8>> {
        let bytes = usize::try_from(self.file_bytes()).unwrap_or(usize::MAX);
        let mut shard = MdsBuilder::new(layout, bytes)?;
        for (i, content) in parts.iter().take(self.group.samples()).enumerate() {
            self.push(i, content, layout, &mut shard).map_err(|e| e.with("file", self.group.paths.get(i)))?;
        }
        shard.finish(samples)
    }

    fn has_exact_size(&self) -> bool {
        false
    }

    fn classes(&self) -> Option<&Texts> {
        let label = self.columns.layout.column(FileColumns::LABEL)?;
        // Labels of the files may mean anything.
        (self.columns.origins[label] != Origin::File).then(|| self.group.columns.classes())?
    }

    fn key_column(&self) -> Option<&'static str> {
        let path = self.columns.layout.column(FileColumns::PATH)?;
        (self.columns.origins[path] != Origin::File).then_some(FileColumns::PATH)
    }

    fn path_of(&self, index: u32) -> Option<&str> {
        self.group.files(index as usize).next().map(|(path, _)| path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Values;
    use crate::{Digests, FileInfo, ReadAt, SampleFile, Scratch, Shard, SurveyedFile};
    use forebay_core::error::ErrorKind;

    /// Files of lines, each the name of a column, an equals sign and a value.
    #[derive(Debug)]
    struct Lines;

    struct Content<'a>(&'a [u8]);

    impl SampleFormat for Lines {
        fn name(&self) -> &'static str {
            "lines"
        }

        fn survey(&self, _: &dyn ReadAt) -> Result<SurveyedFile> {
            Err(Error::internal("not used"))
        }

        fn open<'a>(&self, content: &'a [u8]) -> Result<Box<dyn SampleFile + 'a>> {
            Ok(Box::new(Content(content)))
        }
    }

    impl SampleFile for Content<'_> {
        fn append(&self, name: &str, out: &mut Vec<u8>) -> Result<()> {
            let lines = std::str::from_utf8(self.0).unwrap().lines();
            let value = lines.filter_map(|line| line.split_once('=')).find(|(known, _)| *known == name);
            let (_, value) = value.ok_or_else(|| Error::format("the file has no such column"))?;
            out.extend_from_slice(value.as_bytes());
            Ok(())
        }
    }

    fn columns(names: &[&str], values: &[&str]) -> Result<UnpackedColumns> {
        let text = |name: &&str| ((*name).to_owned(), Encoding::Str);
        let classes = ["a", "b"].iter().collect();
        let file = [("lines".to_owned(), Encoding::Bytes)];
        let listed = FileColumns::new(file, values.iter().map(text), Some(classes)).unwrap();
        UnpackedColumns::new(&Lines, &names.iter().map(text).collect::<Vec<_>>(), &listed)
    }

    fn files() -> UnpackedFiles {
        let columns = columns(&["x", "label"], &["caption"]).unwrap();
        let file = [("lines".to_owned(), Encoding::Bytes)];
        let values = [("caption".to_owned(), Encoding::Str)];
        let listed = FileColumns::new(file, values, Some(["a", "b"].iter().collect())).unwrap();
        let group = FileGroup {
            columns: listed.into(),
            paths: ["b/0", "a/1"].iter().collect(),
            bytes: vec![11, 11],
            values: vec![Values::Texts(["one", "two"].iter().collect())],
        };
        UnpackedFiles { group: group.into(), columns: columns.into(), value_bytes: 50 }
    }

    #[test]
    fn a_sample_has_the_columns_of_its_file_and_of_the_list() {
        let (files, contents) = (files(), ["x=7\nlabel=q", "label=r\nx="]);
        let layout = files.columns.layout().clone();
        let names: Vec<_> = layout.columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names, ["caption", "class", "label", "path", "x"], "the label of the file replaces the folder's");
        let parts = contents.map(|content| Bytes::from_static(content.as_bytes())).to_vec();
        let made = files.assemble(&layout, 2, parts).unwrap();
        let info = FileInfo { basename: "0".into(), bytes: files.file_bytes(), hashes: Digests::default() };
        let shard = Shard { recipe: Some(Arc::new(files.clone())), ..Shard::new(layout.clone(), 2, info) };
        let (table, mut scratch) = (shard.offsets(&*made).unwrap(), Scratch::default());
        for (i, expected) in [["one", "b", "q", "b/0", "7"], ["two", "a", "r", "a/1", ""]].iter().enumerate() {
            let (start, len) = table.range(i).unwrap();
            let values = layout.split(&made[start as usize..][..len as usize], &mut scratch).unwrap();
            assert_eq!(values.iter().collect::<Vec<_>>(), expected.map(str::as_bytes));
        }
        assert_eq!((files.classes(), files.key_column(), files.path_of(1)), (None, Some("path"), Some("a/1")));
    }

    #[test]
    fn an_error_names_the_file_and_the_column() {
        let files = files();
        let parts = vec![Bytes::from_static(b"x=7\nlabel=q"), Bytes::from_static(b"x=7")];
        let e = files.assemble(files.columns.layout(), 2, parts).unwrap_err();
        assert_eq!(e.to_string(), "the file has no such column (column label, file a/1)");
    }

    #[test]
    fn a_column_of_a_manifest_cannot_be_one_of_the_files() {
        assert_eq!(columns(&["x"], &["x"]).unwrap_err().kind(), ErrorKind::Config);
        let path = columns(&["path"], &[]).unwrap();
        assert_eq!(path.origins[path.layout.column("path").unwrap()], Origin::File);
    }
}
