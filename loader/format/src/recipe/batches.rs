//! Recipe of a shard of rows of an Arrow file.

use super::table::{RowPosition, TableRow, TableRows, append_row, for_each_row, position_in};
use super::{MdsBuilder, ObjectRange, Recipe, Texts};
use crate::arrow::{CLASSES_NOTE, ClassNames, TableColumn, class_names};
use crate::ipc::{Batch, Dictionary, TableHead};
use crate::layout::Layout;
use arrow_schema::Fields;
use bytes::Bytes;
use forebay_core::error::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// File with the rows to read, with the columns that are wanted of it.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchFile {
    /// Key relative to the remote.
    pub key: Arc<str>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Columns of the file.
    pub head: Arc<TableHead>,
    /// Columns of the shards, in the order of their layout.
    pub columns: Arc<[TableColumn]>,
    /// Numbers of the columns at the root that these need.
    pub roots: Arc<[usize]>,
    /// Dictionaries of these columns, in order.
    pub dictionaries: Arc<[Dictionary]>,
    /// Columns that are parts of its path, also those that are not read.
    pub partitions: Arc<[TableColumn]>,
    /// Names of the classes of its labels, if the writer has noted them.
    pub classes: Option<Arc<Texts>>,
}

/// Rows of neighbouring batches of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowBatches {
    /// The file.
    pub file: Arc<BatchFile>,
    /// The batches.
    pub batches: Arc<[Batch]>,
    /// Number of the first batch in the file.
    pub first: usize,
    /// The rows, counted from the first of the first batch.
    pub rows: Range<u64>,
}

impl RowBatches {
    /// Estimate of the shard's bytes.
    pub fn file_bytes(&self, layout: &Layout) -> u64 {
        MdsBuilder::file_bytes(layout, self.rows.end - self.rows.start, self.stored_bytes())
    }

    /// Dictionaries that the batches need, in order: those before the first one that count for it, and all between.
    fn dictionaries(&self) -> Vec<Dictionary> {
        let end = (self.first + self.batches.len()) as u64;
        let of_batches = self.file.dictionaries.iter().filter(|dictionary| dictionary.before < end);
        let mut needed: Vec<Dictionary> = Vec::new();
        for dictionary in of_batches {
            if dictionary.before <= self.first as u64 && !dictionary.is_delta {
                needed.retain(|older| older.id != dictionary.id);
            }
            needed.push(*dictionary);
        }
        needed
    }

    fn visit(&self, contents: Vec<Bytes>, mut each: impl FnMut(&TableRow<'_>) -> Result<()>) -> Result<()> {
        self.read(contents, &mut each).map_err(|e| e.with("file", &self.file.key))
    }

    fn read(&self, contents: Vec<Bytes>, each: &mut impl FnMut(&TableRow<'_>) -> Result<()>) -> Result<()> {
        let BatchFile { head, columns, roots, .. } = &*self.file;
        let mut dictionaries = self.dictionaries().into_iter().peekable();
        let mut contents = contents.into_iter();
        let read: Vec<Bytes> = contents.by_ref().take(dictionaries.len()).collect();
        let (mut reader, mut read, mut first) = (head.reader(roots), read.into_iter(), 0);
        for ((batch, content), number) in self.batches.iter().zip(contents).zip(self.first..) {
            while dictionaries.next_if(|dictionary| dictionary.before <= number as u64).is_some()
                && let Some(content) = read.next()
            {
                reader.add_dictionary(content).map_err(|e| e.with("batch", number))?;
            }
            let rows = reader.read(content).map_err(|e| e.with("batch", number))?;
            if rows.num_rows() as u64 != batch.rows {
                return Err(Error::format("a batch has a different number of rows than the index declares"));
            }
            let own = self.rows.start.saturating_sub(first)..(self.rows.end - first).min(batch.rows);
            let place = |e: Error, row: u64| e.with("batch", number).with("row", row);
            for_each_row(columns, &rows, own, place, each)?;
            first += batch.rows;
        }
        Ok(())
    }
}

impl Recipe for RowBatches {
    fn ranges(&self) -> Vec<ObjectRange> {
        let range = |(start, bytes)| ObjectRange {
            key: self.file.key.clone(),
            start,
            bytes,
            object_bytes: Some(self.file.bytes),
        };
        let dictionaries = self.dictionaries().into_iter().map(|dictionary| (dictionary.start, dictionary.bytes));
        dictionaries.chain(self.batches.iter().map(|batch| (batch.start, batch.bytes))).map(range).collect()
    }

    fn stored_bytes(&self) -> u64 {
        self.ranges().iter().map(|range| range.bytes).fold(0, u64::saturating_add)
    }

    fn assemble(&self, layout: &Layout, samples: u64, parts: Vec<Bytes>) -> Result<Vec<u8>> {
        let bytes = usize::try_from(self.file_bytes(layout)).unwrap_or(usize::MAX);
        let mut file = MdsBuilder::new(layout, bytes).map_err(|e| e.with("file", &self.file.key))?;
        self.visit(parts, |row| append_row(&mut file, row))?;
        file.finish(samples)
    }

    fn has_exact_size(&self) -> bool {
        false
    }

    fn as_table(&self) -> Option<&dyn TableRows> {
        Some(self)
    }

    fn classes(&self) -> Option<&Texts> {
        self.file.classes.as_deref()
    }
}

impl TableRows for RowBatches {
    fn fields(&self) -> &Fields {
        self.file.head.fields()
    }

    fn class_names(&self) -> Cow<'_, ClassNames> {
        Cow::Owned(class_names(self.file.head.note(CLASSES_NOTE)))
    }

    fn partitions(&self) -> &[TableColumn] {
        &self.file.partitions
    }

    fn position_of(&self, index: u64) -> RowPosition {
        let (number, row) = position_in(self.rows.start + index, self.batches.iter().map(|batch| batch.rows));
        RowPosition { file: self.file.key.clone(), group: self.first + number, row }
    }

    fn for_each_row(&self, parts: Vec<Bytes>, each: &mut dyn FnMut(&TableRow<'_>) -> Result<()>) -> Result<()> {
        self.visit(parts, each)
    }
}
