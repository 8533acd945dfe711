//! MDS file in memory, sample by sample.

use super::split::head_bytes;
use crate::layout::Layout;
use crate::table::{OffsetTable, offset_table};
use forebay_core::error::{Error, Result};

/// Most bytes of a file: its offsets have 32 bits.
const FILE_BYTES_MAX: u64 = u32::MAX as u64;

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
        let reserved = samples.try_reserve_exact(bytes.min(FILE_BYTES_MAX as usize));
        reserved.map_err(|_| Error::new(crate::ErrorKind::Full, format!("no memory for a shard of {bytes} bytes")))?;
        Ok(Self { layout, sizes: Vec::new(), bytes: samples })
    }

    /// Bytes of the samples so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Adds a sample with `values`, in the order of the layout's columns, each in its encoding.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a value of a different size than the column's, or of more than 4 GiB;
    /// [`crate::ErrorKind::Internal`] for a different number of values.
    pub fn push(&mut self, values: &[&[u8]]) -> Result<()> {
        if values.len() != self.layout.columns.len() {
            return Err(Error::internal("a sample with a different number of values than columns"));
        }
        self.push_with(|column, out| {
            out.extend_from_slice(values[column]);
            Ok(())
        })
    }

    /// Adds a sample: `append` appends its values, given the number of the column in the layout. After an error the
    /// file cannot be used.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push); the errors of `append`.
    pub fn push_with(&mut self, mut append: impl FnMut(usize, &mut Vec<u8>) -> Result<()>) -> Result<()> {
        let columns = &self.layout.columns;
        let start = self.bytes.len();
        // The sizes of columns of variable size, then all values.
        let mut head = start;
        self.bytes.resize(start + head_bytes(columns), 0);
        for (number, column) in columns.iter().enumerate() {
            let at = self.bytes.len();
            append(number, &mut self.bytes)?;
            let bytes = self.bytes.len() - at;
            let size = match column.size {
                Some(size) if size as usize == bytes => continue,
                Some(size) => {
                    let message = format!("a value of {bytes} bytes is in a column of {size} bytes");
                    return Err(Error::format(message).with("column", &column.name));
                }
                None => u32::try_from(bytes)
                    .map_err(|_| Error::format("a value has more than 4 GiB").with("column", &column.name))?,
            };
            self.bytes[head..head + 4].copy_from_slice(&size.to_le_bytes());
            head += 4;
        }
        let size =
            u32::try_from(self.bytes.len() - start).map_err(|_| Error::format("a sample has more than 4 GiB"))?;
        self.sizes.push(size);
        // `finish` rejects such a file: it need not be made.
        if self.bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(Error::config("a shard is larger than 4 GiB, the limit of a shard"));
        }
        Ok(())
    }

    /// Returns the whole file.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a different number of samples than `samples`, which the index declares;
    /// [`crate::ErrorKind::Config`] for a file of more than 4 GiB.
    pub fn finish(self, samples: u64) -> Result<Vec<u8>> {
        if self.sizes.len() as u64 != samples {
            let found = self.sizes.len();
            return Err(Error::format(format!("{found} samples were found where the index declares {samples}")));
        }
        let table = offset_table(&self.sizes, OffsetTable::bytes(samples), &[])?;
        let (mut file, bytes) = (self.bytes, table.len());
        let reserved = file.try_reserve_exact(bytes);
        reserved.map_err(|_| Error::new(crate::ErrorKind::Full, "no memory for a shard"))?;
        let end = file.len();
        file.resize(end + bytes, 0);
        file.copy_within(..end, bytes);
        file[..bytes].copy_from_slice(&table);
        Ok(file)
    }

    /// Bytes of a file of `samples` samples of `layout`, with values of `value_bytes` bytes together.
    pub fn file_bytes(layout: &Layout, samples: u64, value_bytes: u64) -> u64 {
        let heads = samples.saturating_mul(head_bytes(&layout.columns) as u64);
        OffsetTable::bytes(samples).saturating_add(heads).saturating_add(value_bytes)
    }
}
