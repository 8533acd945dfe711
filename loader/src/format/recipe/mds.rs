//! MDS file in memory, sample by sample.

use crate::error::{Error, Result};
use crate::format::layout::Layout;
use crate::format::mds::head_bytes;
use crate::format::table::{OffsetTable, offset_table};

/// Builder of an MDS file from the stored bytes of its columns' values.
#[derive(Debug)]
pub struct MdsBuilder<'a> {
    layout: &'a Layout,
    sizes: Vec<u32>,
    bytes: Vec<u8>,
}

impl<'a> MdsBuilder<'a> {
    /// Creates a file without samples. Memory for `bytes` bytes of samples is reserved.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Full`] if there is not as much memory.
    pub fn new(layout: &'a Layout, bytes: usize) -> Result<Self> {
        let mut samples = Vec::new();
        let reserved = samples.try_reserve_exact(bytes);
        reserved.map_err(|_| Error::new(crate::ErrorKind::Full, format!("no memory for a shard of {bytes} bytes")))?;
        Ok(Self { layout, sizes: Vec::new(), bytes: samples })
    }

    /// Adds a sample with `values`, in the order of the layout's columns, each in its encoding.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a value of another size than the column's, or of more than 4 GiB;
    /// [`crate::ErrorKind::Internal`] for another number of values.
    pub fn push(&mut self, values: &[&[u8]]) -> Result<()> {
        let columns = &self.layout.columns;
        if values.len() != columns.len() {
            return Err(Error::internal("a sample with another number of values than columns"));
        }
        let start = self.bytes.len();
        for (column, value) in columns.iter().zip(values) {
            match column.size {
                Some(size) if size as usize == value.len() => {}
                Some(size) => {
                    let message = format!("a value of {} bytes is in a column of {size} bytes", value.len());
                    return Err(Error::format(message).with("column", &column.name));
                }
                None => {
                    let size = u32::try_from(value.len())
                        .map_err(|_| Error::format("a value has more than 4 GiB").with("column", &column.name))?;
                    self.bytes.extend(size.to_le_bytes());
                }
            }
        }
        values.iter().for_each(|value| self.bytes.extend_from_slice(value));
        let size =
            u32::try_from(self.bytes.len() - start).map_err(|_| Error::format("a sample has more than 4 GiB"))?;
        self.sizes.push(size);
        Ok(())
    }

    /// Returns the whole file.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for another number of samples than `samples`, which the index declares;
    /// [`crate::ErrorKind::Config`] for a file of more than 4 GiB.
    pub fn finish(self, samples: u64) -> Result<Vec<u8>> {
        if self.sizes.len() as u64 != samples {
            let found = self.sizes.len();
            return Err(Error::format(format!("{found} samples were found where the index declares {samples}")));
        }
        let first = OffsetTable::bytes(samples);
        let mut file = offset_table(&self.sizes, first, &[])?;
        file.try_reserve_exact(self.bytes.len())
            .map_err(|_| Error::new(crate::ErrorKind::Full, "no memory for a shard"))?;
        file.extend_from_slice(&self.bytes);
        Ok(file)
    }

    /// Bytes of a file of `samples` samples of `layout`, whose values have `value_bytes` bytes together.
    pub fn file_bytes(layout: &Layout, samples: u64, value_bytes: u64) -> u64 {
        let heads = samples.saturating_mul(head_bytes(&layout.columns) as u64);
        OffsetTable::bytes(samples).saturating_add(heads).saturating_add(value_bytes)
    }
}
