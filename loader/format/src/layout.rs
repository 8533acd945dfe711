//! Properties that the shards of a data set share: format and columns.

use super::columns::{Column, ColumnUse, FIELDS, OmittedColumn, SampleColumns, Scratch};
use super::read_at::ReadAt;
use super::shard_format::ShardFormat;
use forebay_core::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// Format and columns, shared by all shards with the same ones.
#[derive(Clone, Debug)]
pub struct Layout {
    /// File format.
    pub format: Arc<dyn ShardFormat>,
    /// Columns, in the order of their values; the columns of JSONL are sorted by name.
    pub columns: Vec<Column>,
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        (Arc::ptr_eq(&self.format, &other.format) || *self.format == *other.format) && self.columns == other.columns
    }
}

impl Eq for Layout {}

impl Layout {
    /// Makes a layout of these columns as they are.
    pub fn new(format: impl ShardFormat, columns: Vec<Column>) -> Self {
        Self { format: Arc::new(format), columns }
    }

    /// Returns the format if it is a `T`.
    pub fn format_as<T: ShardFormat>(&self) -> Option<&T> {
        self.format.downcast_ref()
    }

    /// Returns true if the columns are from some samples: the rest may lack any of them.
    pub fn is_sampled(&self) -> bool {
        self.format.is_sampled()
    }

    /// Returns the number of the column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns true if a field can read the column `name`: in tar files a name for one of several columns, too.
    pub fn has_column(&self, name: &str) -> bool {
        self.format.has_column(&self.columns, name)
    }

    /// Returns true if samples may have columns that are not known, and can be read.
    pub fn may_have_more_columns(&self) -> bool {
        self.format.may_have_more_columns()
    }

    /// Returns true if samples may lack the column `name`.
    pub fn may_lack(&self, name: &str) -> bool {
        if name == FIELDS && self.format.lists_fields() {
            return false;
        }
        let is_optional = self.format.optional().iter().any(|other| other == name);
        is_optional || self.column(name).is_none() || self.column(FIELDS).is_some()
    }

    /// Returns true if no sample has the column `name`, and its name does not show an encoding either, as with some
    /// files in tars: the type of its values is given only by a field's default.
    pub fn is_unknown(&self, name: &str) -> bool {
        self.format.is_unknown(&self.columns, name)
    }

    /// Returns the layout with the columns that a loader of the columns `wanted` reads, or of all without that; `None`
    /// if it is this one. Tar and TFRecord files have columns that some samples lack, and tar files names for one of
    /// several columns.
    pub fn projected(&self, wanted: Option<&[ColumnUse<'_>]>) -> Option<Self> {
        let (format, columns) = self.format.projected(&self.columns, wanted)?;
        Some(Self { format, columns })
    }

    /// Returns the bytes before and after the value of column `column` in every sample; `None` if they depend on the
    /// sample. A reader can then read the value into its destination, and the rest elsewhere.
    ///
    /// # Panics
    ///
    /// If the layout has no column `column`.
    #[inline]
    pub fn around(&self, column: usize) -> Option<(usize, usize)> {
        self.format.around(&self.columns, column)
    }

    /// Returns the offset of the value of column `column` in a sample of `sample_bytes` bytes, if it does not depend on
    /// the sample's bytes: for columns of fixed size with no column of variable size before them, or none after them.
    ///
    /// # Panics
    ///
    /// If the layout has no column `column`.
    #[inline]
    pub fn fixed_range(&self, column: usize, sample_bytes: usize) -> Option<Range<usize>> {
        self.format.fixed_range(&self.columns, column, sample_bytes)
    }

    /// Returns the range of the stored value of column `column` in `sample`. Reads only the parts of it that it needs;
    /// `None` if the value is not a part of the sample as it is stored, or the sample is damaged.
    ///
    /// # Errors
    ///
    /// Errors of the sample's storage, and of its format.
    pub fn value_range(&self, column: usize, sample: &dyn ReadAt) -> Result<Option<Range<u64>>> {
        self.format.value_range(&self.columns, column, sample)
    }

    /// Returns the bytes of every sample, if they are fixed.
    pub fn sample_bytes(&self) -> Option<usize> {
        self.format.sample_bytes(&self.columns)
    }

    /// Returns true if a sample is the bytes of its one column, such as token ids.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.format.is_plain()
    }

    /// Splits the bytes of one sample into its columns. `scratch` is overwritten and can be reused.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] with the column, if the bytes are not a sample of this layout.
    #[inline]
    pub fn split<'a>(&self, sample: &'a [u8], scratch: &'a mut Scratch) -> Result<SampleColumns<'a>> {
        scratch.clear();
        self.format.split(&self.columns, sample, scratch)?;
        Ok(SampleColumns::new(sample, scratch))
    }

    /// Splits a sample without the columns `omitted`, which become empty.
    ///
    /// # Errors
    ///
    /// As [`split`](Self::split); [`crate::ErrorKind::Internal`] for a layout without [`around`](Self::around).
    #[inline]
    pub fn split_around<'a>(
        &self,
        sample: &'a [u8],
        omitted: &[OmittedColumn],
        scratch: &'a mut Scratch,
    ) -> Result<SampleColumns<'a>> {
        scratch.clear();
        self.format.split_around(&self.columns, sample, omitted, scratch)?;
        Ok(SampleColumns::new(sample, scratch))
    }
}
