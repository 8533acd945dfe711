//! Interface of the formats of shards.
//!
//! A format is a folder or a file next to this one with an implementation of [`ShardFormat`], its entry in an index
//! (`index::IndexedFormat`) and its tests. The registry lists all of them; nothing else in the engine names one.
//! The columns of a shard are no part of its format, so all methods that depend on them take them.

use super::columns::{Column, ColumnUse, OmittedColumn, Scratch};
use super::encoding::Value;
use super::identity::Identity;
use super::read_at::ReadAt;
use super::table::OffsetTable;
use forebay_core::error::{Error, Result};
use serde_json::Value as Json;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Format and columns.
pub(super) type Projection = (Arc<dyn ShardFormat>, Vec<Column>);

/// File format of a shard, with its options. Two of one type with the same options are equal.
pub trait ShardFormat: Identity + fmt::Debug + Send + Sync {
    /// Name in the index and in file names.
    fn name(&self) -> &'static str;

    /// Calls `put` with each key of the format in a shard's entry of an index, and its value.
    fn describe(&self, columns: &[Column], put: &mut dyn FnMut(&str, Json));

    /// Returns true if data sets of this format have the index of another program, which becomes ours when it is read.
    fn has_foreign_index(&self) -> bool {
        false
    }

    /// Returns true if the offsets are in a separate `.meta` file.
    fn is_split(&self) -> bool {
        false
    }

    /// Returns true if a table lists the offsets, in the shard's file or in its `.meta` file.
    fn has_table(&self) -> bool {
        true
    }

    /// Returns true if there may be a [`Trailer`](super::Trailer) after the last sample.
    fn has_trailer(&self) -> bool {
        false
    }

    /// Least bytes of the file with the offsets of `samples` samples.
    fn file_bytes_min(&self, samples: u64) -> u64 {
        OffsetTable::bytes(samples)
    }

    /// Most bytes of a file. Offsets in a table have 32 bits.
    fn file_bytes_max(&self) -> u64 {
        u32::MAX.into()
    }

    /// Reads the offsets of the samples of `file`; the index declares `samples` of them; `None` if the file begins with
    /// an [`OffsetTable`] that needs no checks of this format.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a file that is damaged or contradicts the index; errors of its storage.
    fn offsets(&self, _columns: &[Column], _file: &dyn ReadAt, _samples: u64) -> Option<Result<OffsetTable>> {
        None
    }

    /// Returns true if samples have checksums, which [`check`](Self::check) compares.
    fn has_checksums(&self) -> bool {
        false
    }

    /// Compares the checksums that the samples of a whole `file` have, which are at these `places`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a sample that is damaged, with its offset.
    fn check(&self, _file: &dyn ReadAt, _places: &OffsetTable) -> Result<()> {
        Ok(())
    }

    /// Reads the [`offsets`](Self::offsets) of `file` and [compares](Self::check) its checksums on the way, for a file
    /// that is made while it is read. Returns the offsets with the first damage; `None` for a format without checksums.
    ///
    /// # Errors
    ///
    /// As [`offsets`](Self::offsets).
    fn offsets_checked(&self, _file: &dyn ReadAt, _samples: u64) -> Option<Result<(OffsetTable, Option<Error>)>> {
        None
    }

    /// Splits `sample` into `columns`: adds a span for each to `scratch`, which is empty.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] with the column, if the bytes are not a sample of these columns.
    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()>;

    /// Splits a sample without the columns `omitted`, which become empty.
    ///
    /// # Errors
    ///
    /// As [`split`](Self::split); [`crate::ErrorKind::Internal`] for omitted columns of a format without
    /// [`around`](Self::around).
    fn split_around(
        &self,
        columns: &[Column],
        sample: &[u8],
        omitted: &[OmittedColumn],
        scratch: &mut Scratch,
    ) -> Result<()> {
        match omitted {
            [] => self.split(columns, sample, scratch),
            _ => Err(Error::internal("a column of a format that is not MDS was omitted")),
        }
    }

    /// Returns the bytes before and after the value of column number `column` in every sample; `None` if they depend on
    /// the sample.
    fn around(&self, _columns: &[Column], _column: usize) -> Option<(usize, usize)> {
        None
    }

    /// Returns the range of the value of column number `column` in a sample of `sample_bytes` bytes, if it does not
    /// depend on the sample's bytes.
    fn fixed_range(&self, _columns: &[Column], _column: usize, _sample_bytes: usize) -> Option<Range<usize>> {
        None
    }

    /// Returns the range of the stored value of column number `column` in `sample`. Reads only the parts of it that it
    /// needs; `None` if the value is not a part of the sample as it is stored, or the sample is damaged.
    ///
    /// # Errors
    ///
    /// Errors of the sample's storage, and of its format.
    fn value_range(&self, columns: &[Column], column: usize, sample: &dyn ReadAt) -> Result<Option<Range<u64>>> {
        let place = self.around(columns, column).and_then(|(before, after)| {
            let end = sample.bytes().checked_sub(after as u64)?;
            (before as u64 <= end).then_some(before as u64..end)
        });
        Ok(place)
    }

    /// Returns the bytes of every sample, if they are fixed.
    fn sample_bytes(&self, _columns: &[Column]) -> Option<usize> {
        None
    }

    /// Returns true if a sample is the bytes of its one column, such as token ids.
    fn is_plain(&self) -> bool {
        false
    }

    /// Names of columns that some samples lack.
    fn optional(&self) -> &[String] {
        &[]
    }

    /// Returns true if the columns are from some samples: the rest may lack any of them.
    fn is_sampled(&self) -> bool {
        false
    }

    /// Returns true if each sample has the columns that its own bytes name, so that further shards of the data set may
    /// have different columns, and all may lack any.
    fn has_free_columns(&self) -> bool {
        false
    }

    /// Returns true if a field can read the column [`FIELDS`](super::FIELDS) of every sample, whatever the index has.
    fn lists_fields(&self) -> bool {
        false
    }

    /// Returns the key of a sample of these bytes, if samples have one.
    fn key_of(&self, _sample: &[u8]) -> Option<String> {
        None
    }

    /// Returns the column with the key of each sample.
    fn key_column(&self) -> Option<&'static str> {
        None
    }

    /// Returns true if a field can read the column `name`, which may be a name for one of several columns.
    fn has_column(&self, columns: &[Column], name: &str) -> bool {
        columns.iter().any(|column| column.name == name)
    }

    /// Returns true if samples may have columns that are not known, and can be read.
    fn may_have_more_columns(&self) -> bool {
        false
    }

    /// Returns true if no sample has the column `name`, and its name does not show an encoding either: the type of its
    /// values is given only by a field's default.
    fn is_unknown(&self, _columns: &[Column], _name: &str) -> bool {
        false
    }

    /// Returns the format and columns for a loader that reads the columns `wanted`, or all without that; `None` if they
    /// are the same.
    fn projected(&self, _columns: &[Column], _wanted: Option<&[ColumnUse<'_>]>) -> Option<Projection> {
        None
    }

    /// Returns the JSON object that `sample` is, for formats in which a value may be null or absent in it.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] if the bytes are not a sample.
    fn document<'a>(&self, _sample: &'a [u8]) -> Result<Option<&'a [u8]>> {
        Ok(None)
    }

    /// Returns true if the text of a number may be empty: there is no value then.
    fn has_empty_numbers(&self) -> bool {
        false
    }

    /// Appends the bytes of a sample with `values`, one for each column. `scratch` is overwritten. After an error `out`
    /// may have more bytes than before.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] with the column, for a value that its column does not accept, and for formats that
    /// are read only.
    fn encode(
        &self,
        _columns: &[Column],
        _values: &[Value<'_>],
        _scratch: &mut Scratch,
        _out: &mut Vec<u8>,
    ) -> Result<()> {
        Err(Error::config("files of this format are read only: write MDS, JSONL or CSV"))
    }

    /// Returns the bytes of a data file before its first sample, in formats with the offsets in a separate file.
    fn head(&self, _columns: &[Column]) -> Vec<u8> {
        Vec::new()
    }
}

impl dyn ShardFormat {
    /// Returns the format if it is a `T`.
    pub fn downcast_ref<T: ShardFormat>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}

impl PartialEq for dyn ShardFormat {
    fn eq(&self, other: &Self) -> bool {
        self.is_equal(other)
    }
}

impl Eq for dyn ShardFormat {}
