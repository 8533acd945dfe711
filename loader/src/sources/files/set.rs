//! List of files as it is kept, and its shards.

use super::deal::{dealt, hands, shards};
use super::list::FileList;
use super::manifest::ValueColumn;
use super::stems::Stems;
use super::unpacked::Unpacked;
use crate::error::{Error, Result};
use crate::format::recipe::{FileColumns, FileGroup, FileSamples, Recipe, Texts, UnpackedColumns, class_of};
use crate::format::{Digests, Encoding, FileInfo, HashAlgo, Index, Layout, SampleFormat, Shard, SurveyedFile};
use crate::sources::kinds::content_of;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Version of the document.
const VERSION: u32 = 1;

/// Start of the last part of every such document.
const FOLDERS: &[u8] = b",\"folders\":";

/// Samples of files: the document that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    #[serde(rename = "forebay_files")]
    version: u32,
    /// Part of the document, so that a later version divides it into the same shards.
    hands: usize,
    /// Names of the columns with the files of a sample.
    columns: Vec<String>,
    /// Encodings of these columns.
    encodings: Vec<String>,
    /// Paths of all files of the first sample, then of the next one.
    paths: Texts,
    /// Length of each file.
    bytes: Vec<u64>,
    /// Columns of files that have several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unpacked: Option<Unpacked>,
    /// Values of each sample.
    values: Vec<ValueColumn>,
    /// Names of the classes of a manifest, instead of the folders' names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<Texts>,
    /// Empty. In indexes of earlier versions the folders that were listed. Only [`stamp`](Self::stamp) may be after it,
    /// see [`identity`](Self::identity).
    folders: [(); 0],
    /// Text that differs for files of this machine that were written again, if their content is copied.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stamp: String,
}

impl FileSet {
    /// Start of every such document.
    pub const START: &[u8] = b"{\"forebay_files\":";

    /// Set of samples of one file each, in their order.
    pub fn of_files(list: &FileList, numbers: &[usize]) -> Self {
        Self::of_columns(list, numbers, &[None], Vec::new())
    }

    /// Set of samples of a file for each of `columns`, in their order, with their `values`: `numbers` are the files of
    /// the first sample, then of the next one. A column without a name has the usual one.
    pub fn of_columns(list: &FileList, numbers: &[usize], columns: &[Option<&str>], values: Vec<ValueColumn>) -> Self {
        let files = list.select(numbers);
        let column = |(number, name): (usize, &Option<&str>)| {
            let paths: Texts = files.paths.iter().skip(number).step_by(columns.len()).collect();
            // The columns of a file that has several can be read only where a sample has no further file.
            let content = content_of(&paths).filter(|content| content.format.is_none() || columns.len() == 1);
            let (usual, encoding) = match content {
                Some(content) => (content.column, content.encoding.clone()),
                None => (FileColumns::FILE, Encoding::Bytes),
            };
            (name.unwrap_or(usual).to_owned(), encoding)
        };
        let columns = columns.iter().enumerate().map(column).collect();
        Self::new(files, columns, values)
    }

    /// Set of samples of several files, in the order of their first ones.
    ///
    /// # Errors
    ///
    /// As [`Stems::new`].
    pub fn of_stems(list: &FileList, numbers: &[usize]) -> Result<Self> {
        let Stems { numbers, columns } = Stems::new(list, numbers)?;
        Ok(Self::new(list.select(&numbers), columns, Vec::new()))
    }

    fn new(files: FileList, columns: Vec<(String, Encoding)>, values: Vec<ValueColumn>) -> Self {
        let FileList { paths, bytes } = files;
        let all = bytes.iter().copied().fold(0, u64::saturating_add);
        let (columns, encodings): (Vec<_>, Vec<_>) =
            columns.into_iter().map(|(name, encoding)| (name, encoding.to_string())).unzip();
        let hands = hands(bytes.len() / columns.len().max(1), all);
        let (unpacked, stamp) = (None, String::new());
        let classes = None;
        Self {
            version: VERSION,
            hands,
            columns,
            encodings,
            paths,
            bytes,
            unpacked,
            values,
            classes,
            folders: [],
            stamp,
        }
    }

    /// Returns the format of the files, if they have several columns, and the path of the file by which they are known.
    pub fn to_unpack(&self) -> Option<(&'static dyn SampleFormat, &str)> {
        let format = content_of(&self.paths)?.format.filter(|_| self.columns.len() == 1 && !self.paths.is_empty())?;
        Some((format, self.paths.get(0)))
    }

    /// Sets the columns of files of `format`, by the first file. `stamp` differs for files that were written again.
    pub fn unpack(&mut self, format: &dyn SampleFormat, surveyed: SurveyedFile, stamp: String) {
        let unpacked = Unpacked::new(format, self.bytes.first().copied().unwrap_or(0), surveyed);
        let all = self.bytes.iter().copied().fold(0, u64::saturating_add);
        self.hands = hands(self.bytes.len(), unpacked.values_of(all));
        (self.unpacked, self.stamp) = (Some(unpacked), stamp);
    }

    /// Paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter()
    }

    /// Returns true if `bytes` begin as the document does.
    pub fn is_start(bytes: &[u8]) -> bool {
        bytes.starts_with(Self::START)
    }

    /// Returns the part of a document that is the same wherever the files are: without times.
    pub fn identity(document: &[u8]) -> &[u8] {
        // In a path the quotation marks would have backslashes before them.
        let end = document.windows(FOLDERS.len()).rposition(|part| part == FOLDERS);
        &document[..end.unwrap_or(document.len())]
    }

    /// Returns the document.
    ///
    /// # Errors
    ///
    /// None that can be expected.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::internal("a list of files cannot be written").caused_by(e))
    }

    /// Parses the document.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for anything else.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let set: Self =
            serde_json::from_slice(bytes).map_err(|e| Error::format("the file is not a list of files").caused_by(e))?;
        let columns = set.columns.len();
        let is_whole = set.version == VERSION
            && columns > 0
            && columns == set.encodings.len()
            && (columns == 1 || set.unpacked.is_none())
            && set.paths.len() == set.bytes.len()
            && set.paths.len().is_multiple_of(columns)
            && set.values.iter().all(|values| values.len() == set.paths.len() / columns)
            && (1..=(set.paths.len() / columns).max(1)).contains(&set.hands);
        if is_whole {
            Ok(set)
        } else {
            Err(Error::format("the list of files has a different version, or is not whole"))
        }
    }

    /// Returns the index of the shards that the samples are divided into.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for files that are too large for a sample.
    pub fn index(&self) -> Result<Index> {
        let files = self.columns.len();
        let samples = self.bytes.len() / files.max(1);
        let encodings = self.encodings.iter().map(|name| Encoding::parse_of_file(name)).collect::<Result<Vec<_>>>()?;
        let fields = self.columns.iter().cloned().zip(encodings);
        let values = self.values.iter().map(|column| (column.name.clone(), column.encoding()));
        let folders = if self.classes.is_none() { classes(&self.paths, files) } else { None };
        let columns =
            FileColumns::new(fields, values, folders).map_err(|e| e.hinting("rename the column of the manifest"))?;
        let columns = Arc::new(columns.with_class_names(self.classes.clone()));
        let unpacked = match &self.unpacked {
            Some(unpacked) => Some((unpacked, unpacked.columns(&columns)?)),
            None => None,
        };
        let of_sample = |sample: usize| sample * files..(sample + 1) * files;
        let order = dealt(samples, self.hands);
        let sum = |bytes: &[u64]| bytes.iter().copied().fold(0, u64::saturating_add);
        let values_of = |stored| self.unpacked.as_ref().map_or(stored, |unpacked| unpacked.values_of(stored));
        let bytes: Vec<u64> = order.iter().map(|sample| values_of(sum(&self.bytes[of_sample(*sample)]))).collect();
        let shard = |(number, range): (usize, std::ops::Range<usize>)| {
            let files = || order[range.clone()].iter().flat_map(|sample| of_sample(*sample));
            let group = FileGroup {
                columns: columns.clone(),
                paths: files().map(|file| self.paths.get(file)).collect(),
                bytes: files().map(|file| self.bytes[file]).collect(),
                values: self.values.iter().map(|values| values.select(&order[range.clone()])).collect(),
            };
            let shard = match &unpacked {
                None => listed_shard(number, group),
                Some((unpacked, columns)) => self.unpacked_shard(number, group, unpacked, columns),
            };
            if shard.raw_data.bytes > u64::from(u32::MAX) {
                // Samples of this length are alone in their shards.
                let message = "a sample has more than 4 GiB: leave the file out with a pattern, or store it in parts";
                return Err(Error::config(message).with("file", self.paths.get(of_sample(order[range.start]).start)));
            }
            Ok(shard)
        };
        let shards = shards(&bytes, self.hands).into_iter().enumerate().map(shard).collect::<Result<_>>()?;
        Ok(Index { shards })
    }

    fn unpacked_shard(
        &self,
        number: usize,
        group: FileGroup,
        unpacked: &Unpacked,
        columns: &Arc<UnpackedColumns>,
    ) -> Shard {
        // Names of different files differ: a shard of files that were replaced is never taken for one of the new ones.
        let described = format!("{:?} {:?} {:?} {}", group.paths, group.bytes, columns.layout().columns, self.stamp);
        let hash = HashAlgo::Xxh3_64.hex(described.as_bytes());
        let samples = group.samples();
        let recipe = unpacked.recipe(group, columns);
        let (basename, bytes) = (format!("files.{number:05}.{}.mds", &hash[..8]), recipe.file_bytes());
        shard(&basename, bytes, samples, columns.layout(), Arc::new(recipe))
    }
}

fn listed_shard(number: usize, group: FileGroup) -> Shard {
    let (bytes, samples, layout) = (group.file_bytes(), group.samples(), group.columns.layout().clone());
    shard(&format!("files.{number:05}.mds"), bytes, samples, &layout, Arc::new(FileSamples(group.into())))
}

fn shard(basename: &str, bytes: u64, samples: usize, layout: &Arc<Layout>, recipe: Arc<dyn Recipe>) -> Shard {
    let raw_data = FileInfo { basename: basename.into(), bytes, hashes: Digests::default() };
    Shard { recipe: Some(recipe), ..Shard::new(layout.clone(), samples as u64, raw_data) }
}

/// Returns the sorted first folders of the first files of samples of as many `files`, if all have one.
fn classes(paths: &Texts, files: usize) -> Option<Texts> {
    let mut classes = paths.iter().step_by(files.max(1)).map(class_of).collect::<Option<Vec<_>>>()?;
    classes.sort_unstable();
    classes.dedup();
    Some(classes.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> FileSet {
        let mut list = FileList::default();
        paths.iter().zip(1..).for_each(|(path, bytes)| list.push(path, bytes));
        FileSet::of_files(&list, &(0..paths.len()).collect::<Vec<_>>())
    }

    fn columns(set: &FileSet) -> Vec<(String, String)> {
        let index = FileSet::parse(&set.to_bytes().unwrap()).unwrap().index().unwrap();
        let columns = &index.shards[0].layout.columns;
        columns.iter().map(|column| (column.name.clone(), column.encoding.to_string())).collect()
    }

    #[test]
    fn columns_follow_from_the_files() {
        let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(name, encoding)| ((*name).to_owned(), (*encoding).to_owned())).collect()
        };
        let classes = [("class", "str"), ("file", "jpeg"), ("label", "int"), ("path", "str")];
        assert_eq!(columns(&set(&["a/0.jpg", "b/c/1.JPEG"])), pairs(&classes));
        assert_eq!(columns(&set(&["0.jpg", "1.png"])), pairs(&[("file", "bytes"), ("path", "str")]));
        assert_eq!(columns(&set(&["0.png", "a/1.png"])), pairs(&[("file", "png"), ("path", "str")]));
    }

    #[test]
    fn samples_of_files_in_two_folders_have_the_class_of_the_first_one() {
        let mut list = FileList::default();
        ["i/a/0.jpg", "i/a/1.jpg", "m/0.png", "m/1.png"].iter().for_each(|path| list.push(path, 1));
        let set = FileSet::of_columns(&list, &[0, 2, 1, 3], &[None, Some("mask")], Vec::new());
        let names: Vec<String> =
            columns(&set).into_iter().map(|(name, encoding)| format!("{name}:{encoding}")).collect();
        assert_eq!(names, ["class:str", "file:jpeg", "label:int", "mask:png", "path:str"]);
        let index = FileSet::parse(&set.to_bytes().unwrap()).unwrap().index().unwrap();
        assert_eq!(index.samples(), 2);
        let recipe = index.shards[0].recipe.as_ref().unwrap();
        assert_eq!(recipe.classes().map(|classes| classes.iter().collect::<Vec<_>>()), Some(vec!["i"]));
        assert_eq!(recipe.path_of(1), Some("i/a/1.jpg"));
    }

    #[test]
    fn the_document_divides_into_the_same_shards_again() {
        let paths: Vec<String> = (0..3000).map(|n| format!("{}/{n}.jpg", n / 1000)).collect();
        let set = set(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        let bytes = set.to_bytes().unwrap();
        assert!(FileSet::is_start(&bytes));
        assert_eq!(FileSet::parse(&bytes).unwrap(), set);
        let index = set.index().unwrap();
        assert_eq!(index, FileSet::parse(&bytes).unwrap().index().unwrap());
        assert_eq!((index.shards.len(), index.samples()), (3, 3000));
        for shard in &index.shards {
            let group = shard.recipe.as_ref().and_then(|recipe| recipe.as_files()).expect("files");
            let of_class = |class: &str| group.paths.iter().filter(|path| class_of(path) == Some(class)).count();
            assert!(["0", "1", "2"].iter().all(|class| of_class(class).abs_diff(333) <= 1), "each class has its share");
        }
    }

    #[test]
    fn the_identity_of_a_document_has_no_versions_of_files() {
        let mut set = set(&["a/\"folders\":.jpg", "a/,\"folders\":"]);
        let before = set.to_bytes().unwrap();
        set.stamp = ",\"folders\":".to_owned();
        let after = set.to_bytes().unwrap();
        assert_ne!(before, after);
        assert_eq!(FileSet::identity(&before), FileSet::identity(&after));
        assert!(FileSet::identity(&before).ends_with(b"\"values\":[]"));
    }

    #[test]
    fn documents_that_are_not_whole_are_rejected() {
        let whole = String::from_utf8(set(&["a/0.jpg"]).to_bytes().unwrap()).unwrap();
        for (from, to) in [
            ("\"forebay_files\":1", "\"forebay_files\":2"),
            ("\"hands\":1", "\"hands\":0"),
            ("\"hands\":1", "\"hands\":2"),
            ("\"hands\":1", "\"hands\":18446744073709551615"),
            ("[\"a/0.jpg\"]", "[]"),
            ("[\"a/0.jpg\"]", "[1]"),
            ("[\"file\"]", "[]"),
            ("\"hands\"", "\"second\""),
        ] {
            assert!(whole.contains(from), "{whole}");
            let e = FileSet::parse(whole.replace(from, to).as_bytes()).unwrap_err();
            assert_eq!(e.kind(), crate::ErrorKind::Format, "{from} {to}");
        }
        assert!(FileSet::parse(b"").is_err());
    }

    #[test]
    fn a_file_above_the_bound_of_a_sample_is_named() {
        let mut list = FileList::default();
        list.push("a/0.jpg", 1 << 32);
        let e = FileSet::of_files(&list, &[0]).index().unwrap_err();
        assert!(e.to_string().contains("a/0.jpg") && e.to_string().contains("pattern"), "{e}");
    }
}
