//! A sample as it was read.

use crate::decode::DirectColumn;
use crate::error::Result;
use crate::format::{OmittedColumn, SampleColumns, Scratch};
use crate::pipeline::device::direct_rows::DirectColumns;
use crate::pipeline::shard::open_shard::OpenShard;

/// Input of the decoder: stored bytes of a sample, without rows that are already in place.
#[derive(Clone, Copy)]
pub(crate) struct SampleBytes<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) placed: PlacedRows<'a>,
}

/// Rows of a sample that are already in place.
#[derive(Clone, Copy)]
pub(crate) enum PlacedRows<'a> {
    /// No row: the bytes are the whole sample.
    None,
    /// The row of this column, with its length, which was read directly into its place. Its bytes are missing here.
    Direct(DirectColumn, usize),
    /// Rows that the device has read. Their bytes are missing here.
    OnDevice(&'a DirectColumns),
    /// Rows that the device will copy. The bytes are the whole sample.
    CopiedByDevice(&'a DirectColumns),
}

impl<'a> SampleBytes<'a> {
    /// The whole sample.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, placed: PlacedRows::None }
    }

    /// Bytes of the sample that the host has read.
    pub(crate) fn len(&self) -> usize {
        match self.placed {
            PlacedRows::Direct(_, bytes) => self.bytes.len() + bytes,
            PlacedRows::None | PlacedRows::OnDevice(_) | PlacedRows::CopiedByDevice(_) => self.bytes.len(),
        }
    }

    /// True if the row of this output is already in place.
    pub(crate) fn has_placed(&self, output: usize) -> bool {
        match self.placed {
            PlacedRows::None => false,
            PlacedRows::Direct(direct, _) => direct.output == output,
            PlacedRows::OnDevice(columns) | PlacedRows::CopiedByDevice(columns) => columns.has_output(output),
        }
    }

    /// True if there is nothing to decode.
    pub(crate) fn is_done(&self) -> bool {
        match self.placed {
            PlacedRows::None | PlacedRows::Direct(..) => false,
            PlacedRows::OnDevice(columns) | PlacedRows::CopiedByDevice(columns) => !columns.needs_rest(),
        }
    }

    /// Splits the bytes into the sample's columns.
    pub(crate) fn split(self, open: &OpenShard, scratch: &'a mut Scratch) -> Result<SampleColumns<'a>> {
        match self.placed {
            PlacedRows::None | PlacedRows::CopiedByDevice(_) => open.split(self.bytes, scratch),
            PlacedRows::Direct(direct, bytes) => {
                open.split_around(self.bytes, &[OmittedColumn { column: direct.column, bytes }], scratch)
            }
            PlacedRows::OnDevice(columns) => open.split_around(self.bytes, columns.apart(), scratch),
        }
    }
}
