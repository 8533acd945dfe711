//! The format, and its entry in an index.

use super::split::{around, fixed_bytes, fixed_range, head_bytes, split, value_range};
use crate::columns::{Column, OmittedColumn, Scratch, sorted};
use crate::encoding::{Encoding, Value};
use crate::index::{IndexedFormat, JsonObject, expected, names_of, sizes_of};
use crate::layout::Layout;
use crate::read_at::ReadAt;
use crate::shard_format::ShardFormat;
use forebay_core::error::{Context, Error, Result};
use serde_json::Value as Json;
use std::ops::Range;

/// Entry of a shard in an index.
pub(crate) const INDEXED: IndexedFormat = IndexedFormat {
    name: "mds",
    keys: &["column_names", "column_encodings", "column_sizes"],
    layout: |entry| Ok(Layout::new(Mds, columns(entry)?)),
    foreign: None,
};

/// Binary samples, offsets at the front of the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mds;

impl Layout {
    /// Makes a layout of MDS with these columns, which the format sorts by name.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a repeated column.
    pub fn mds(columns: impl IntoIterator<Item = (String, Encoding)>) -> Result<Self> {
        let columns = columns.into_iter().map(|(name, encoding)| Column::new(name, encoding));
        Ok(Self::new(Mds, sorted(columns.map(Ok))?))
    }
}

impl ShardFormat for Mds {
    fn name(&self) -> &'static str {
        INDEXED.name
    }

    fn describe(&self, columns: &[Column], put: &mut dyn FnMut(&str, Json)) {
        put("column_encodings", columns.iter().map(|column| column.encoding.to_string()).collect());
        put("column_names", names_of(columns));
        put("column_sizes", sizes_of(columns));
    }

    fn has_trailer(&self) -> bool {
        true
    }

    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
        split(columns, sample, &[], scratch)
    }

    fn split_around(
        &self,
        columns: &[Column],
        sample: &[u8],
        omitted: &[OmittedColumn],
        scratch: &mut Scratch,
    ) -> Result<()> {
        split(columns, sample, omitted, scratch)
    }

    fn around(&self, columns: &[Column], column: usize) -> Option<(usize, usize)> {
        around(columns, column)
    }

    fn fixed_range(&self, columns: &[Column], column: usize, sample_bytes: usize) -> Option<Range<usize>> {
        fixed_range(columns, column, sample_bytes)
    }

    fn value_range(&self, columns: &[Column], column: usize, sample: &dyn ReadAt) -> Result<Option<Range<u64>>> {
        value_range(columns, column, sample)
    }

    fn sample_bytes(&self, columns: &[Column]) -> Option<usize> {
        fixed_bytes(columns)
    }

    fn encode(&self, columns: &[Column], values: &[Value<'_>], _: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        let mut size_at = out.len();
        out.resize(size_at + head_bytes(columns), 0);
        for (column, value) in columns.iter().zip(values) {
            let start = out.len();
            column.encoding.encode(value, out).context("column", || &column.name)?;
            if column.size.is_none() {
                let size = u32::try_from(out.len() - start).map_err(|_| {
                    Error::config("a value of 4 GiB or more cannot be stored").with("column", &column.name)
                })?;
                out[size_at..size_at + 4].copy_from_slice(&size.to_le_bytes());
                size_at += 4;
            }
        }
        Ok(())
    }
}

fn columns(entry: &JsonObject<'_>) -> Result<Vec<Column>> {
    let names = entry.texts("column_names")?;
    let encodings = entry.texts("column_encodings")?;
    let sizes = entry.list("column_sizes")?;
    if encodings.len() != names.len() || sizes.len() != names.len() {
        let what = format!("{} names, {} encodings, {} sizes", names.len(), encodings.len(), sizes.len());
        return Err(Error::format(what).with("field", "column_names"));
    }
    let mut columns = Vec::with_capacity(names.len());
    for ((name, encoding), size) in names.into_iter().zip(encodings).zip(sizes) {
        let size = match size {
            Json::Null => None,
            // The reference treats a size of 0 as no size.
            size => Some(
                size.as_u64()
                    .and_then(|size| u32::try_from(size).ok())
                    .filter(|&size| size > 0)
                    .ok_or_else(|| expected("column_sizes", &format!("a number from 1 to {} or null", u32::MAX), size))
                    .context("column", || name)?,
            ),
        };
        // Users may register encodings, under known names as well: an unknown name or a different size means such a
        // one, and its bytes can be read. Pickles remain unsafe whatever their size.
        let known = Encoding::parse(encoding).ok().filter(|known| known.fixed_size() == size || !known.is_safe());
        let encoding = known.unwrap_or_else(|| Encoding::Custom(encoding.to_owned()));
        columns.push(Column { name: name.to_owned(), encoding, size });
    }
    Ok(columns)
}
