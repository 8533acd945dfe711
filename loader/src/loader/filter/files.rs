//! Answers for files that are samples, such as pictures in folders: from the values that their list has, such as paths,
//! classes and the columns of a manifest. Files with a text or a number are read, and no further files.

use super::answer::{Answer, Bits};
use super::columns::{ColumnValue, FilterColumn, find_of, reply_of};
use super::context::FilteredStream;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::Shard;
use crate::format::recipe::{FileGroup, ObjectRange, Piece};
use crate::io::read_regular;
use crate::pipeline::RangeFetch;
use crate::store::Encoded;
use std::path::Path;

/// Samples of lists of files.
pub(super) struct Files<'a> {
    of: &'a FilteredStream<'a>,
    /// Columns of the filter, each with its number in the layout.
    columns: Vec<(usize, FilterColumn)>,
    /// Columns with the content of a file, by their numbers.
    contents: Vec<usize>,
}

impl<'a> Files<'a> {
    /// Finds the columns of the filter in the list.
    ///
    /// # Errors
    ///
    /// As [`find`].
    pub(super) fn new(of: &'a FilteredStream<'a>) -> Result<Self> {
        let group = of.stream.index.shards.iter().find_map(group_of);
        let group = group.ok_or_else(|| Error::internal("files without a list"))?;
        let layout = group.columns.layout();
        let encoding = |name: &str| layout.column(name).map(|column| layout.columns[column].encoding.clone());
        let all = || layout.columns.iter().map(|column| (column.name.clone(), column.encoding.clone())).collect();
        let found = find_of(of, encoding, all)?;
        let columns: Vec<_> =
            found.into_iter().filter_map(|column| Some((layout.column(&column.name)?, column))).collect();
        let is_file = |number: usize| matches!(group.value(0, number, &mut [0; 8]), Piece::File { .. });
        // The list has the length of a file.
        let is_length = |column: &FilterColumn| of.question.is_length() && !column.has_values();
        let read = columns.iter().filter(|(number, column)| is_file(*number) && !is_length(column));
        let mut contents: Vec<usize> = read.map(|(number, _)| *number).collect();
        contents.sort_unstable();
        contents.dedup();
        Ok(Self { of, columns, contents })
    }

    /// Returns the contents of the files of a shard that are read: for each sample, in the order of `contents`.
    fn contents(&self, number: u32, group: &FileGroup, progress: &dyn Fn()) -> Result<Vec<Vec<u8>>> {
        let mut ranges = Vec::new();
        for sample in 0..group.samples() {
            for column in &self.contents {
                if let Piece::File { path, bytes } = group.value(sample, *column, &mut [0; 8]) {
                    ranges.push(ObjectRange { key: path.into(), start: 0, bytes, object_bytes: Some(bytes) });
                }
            }
        }
        let _memory = self.of.reserve(ranges.iter().map(|range| range.bytes).sum())?;
        match (self.of.stream.dir.folder_of_files(number), &self.of.stream.remote) {
            _ if ranges.is_empty() => Ok(Vec::new()),
            (Some(folder), _) => ranges.iter().map(|range| read(folder, range).inspect(|_| progress())).collect(),
            (None, Some(remote)) => {
                let file = &self.of.shard(number).raw_data;
                let (run, encoded) = (&self.of.run, Encoded::Refused);
                let fetch = RangeFetch { remote, run, file, encoded, watch: &|_| progress() };
                Ok(fetch.all(&ranges)?.into_iter().map(Vec::from).collect())
            }
            (None, None) => Err(Error::internal("files without a folder and a remote")),
        }
    }
}

impl Answer for Files<'_> {
    fn is_kept(&self) -> bool {
        // The list has the remaining values in memory.
        !self.contents.is_empty()
    }

    fn of_shard(&self, number: u32, progress: &dyn Fn()) -> Result<Bits> {
        let shard = self.of.shard(number);
        let group = group_of(shard).ok_or_else(|| Error::internal("a shard without files"))?;
        let contents = self.contents(number, group, progress)?;
        let mut bits = self.of.no_answers(number);
        for sample in 0..group.samples() {
            let mut numbers = vec![[0; 8]; self.columns.len()];
            let values = self.columns.iter().zip(&mut numbers).map(|((number, _), place)| {
                match self.contents.binary_search(number) {
                    Ok(content) => ColumnValue::Stored(&contents[sample * self.contents.len() + content]),
                    Err(_) => match group.value(sample, *number, place) {
                        Piece::Bytes(bytes) => ColumnValue::Stored(bytes),
                        Piece::File { bytes, .. } => ColumnValue::Length(bytes),
                    },
                }
            });
            let values: Vec<ColumnValue<'_>> = values.collect();
            let file = || group.files(sample).next().map_or_else(String::new, |(path, _)| path.to_owned());
            bits.add(reply_of(self.of.question, &self.columns, &values).context("file", file)?);
        }
        Ok(bits)
    }
}

fn group_of(shard: &Shard) -> Option<&FileGroup> {
    let group = shard.recipe.as_ref()?.as_files()?;
    (shard.samples > 0).then_some(group)
}

/// Reads a whole file of a folder.
fn read(folder: &Path, range: &ObjectRange) -> Result<Vec<u8>> {
    let path = folder.join(&*range.key);
    let content = read_regular(&path, range.bytes);
    let content = content.map_err(|e| Error::from_io(e, "a file of the list cannot be read"));
    let content = content.context("file", || path.display())?;
    if content.len() as u64 != range.bytes {
        let message = "a file has a different length than when its folder was listed: remove the list, so that the \
                       next loader makes it again";
        return Err(Error::new(ErrorKind::Stale, message).with("file", path.display()));
    }
    Ok(content)
}
