//! Where a scan's rows of MCUs come from: from its data read one behind the other, or each from the place where a row
//! index says that it starts.

use super::super::fallback::Fallback;
use super::super::kernel::Kernels;
use super::super::markers::Scan;
use super::super::mcu::{Mcus, Rest};
use super::super::mcu_blocks::McuBlocks;
use super::super::row_index::{RowIndexReader, RowStart};
use super::super::unstuff::{Part, Segments};
use super::layout::Extent;

/// Gives the MCUs that a region needs, row by row.
pub(super) enum RowSource<'a> {
    ScanRows(ScanRows<'a>),
    IndexedRows(IndexedRows<'a>),
}

/// The scan from its start: what lies above the region and beside it is read over.
pub(super) struct ScanRows<'a> {
    mcus: Mcus<'a>,
    /// MCUs of a whole row, and of the region's part of it.
    width: usize,
    columns: usize,
    /// MCUs before the next that the region needs.
    ahead: usize,
}

/// Rows that are read each by itself: what lies left of the region is read over, what lies right of it is not looked at.
pub(super) struct IndexedRows<'a> {
    kernels: Kernels,
    file: &'a [u8],
    /// Of the current row.
    segments: &'a mut Segments,
    blocks: &'a McuBlocks<'a>,
    /// MCUs between restart markers; 0 means none.
    interval: u32,
    extent: &'a Extent,
    /// At the row behind the next one.
    index: RowIndexReader<'a>,
    /// The next row, and where it starts.
    row: u32,
    start: RowStart,
}

impl<'a> RowSource<'a> {
    /// Decodes the next row of the region's MCUs into `coefficients`, see [`McuBlocks::decode`].
    pub(super) fn decode(&mut self, coefficients: &mut [i16]) -> Result<(), Fallback> {
        match self {
            Self::ScanRows(source) => source.decode(coefficients),
            Self::IndexedRows(source) => source.decode(coefficients),
        }
    }

    /// What is there behind the last row of a whole picture; an index says where that ends.
    pub(super) fn rest(&self) -> Result<Rest, Fallback> {
        match self {
            Self::ScanRows(source) => source.mcus.rest(),
            Self::IndexedRows(_) => Ok(Rest::Nothing),
        }
    }

    /// Reads the bytes of all rows and decodes nothing, for measuring.
    pub(super) fn read(self) -> Result<(), Fallback> {
        match self {
            Self::ScanRows(_) => Ok(()),
            Self::IndexedRows(mut source) => source.extent.rows.clone().try_for_each(|_| source.read().map(drop)),
        }
    }
}

impl<'a> ScanRows<'a> {
    /// The rows of `mcus`, which are at the scan's first.
    pub(super) fn new(mcus: Mcus<'a>, extent: &Extent) -> Self {
        let (width, columns) = (extent.width as usize, extent.columns.len());
        let ahead = width * extent.rows.start as usize + extent.columns.start as usize;
        Self { mcus, width, columns, ahead }
    }

    fn decode(&mut self, coefficients: &mut [i16]) -> Result<(), Fallback> {
        self.mcus.skip(self.ahead)?;
        self.ahead = self.width - self.columns;
        self.mcus.decode(self.columns, coefficients)?;
        self.mcus.check()
    }
}

impl<'a> IndexedRows<'a> {
    /// The rows of the only scan of `file`, by the row index `stored`.
    #[expect(clippy::too_many_arguments, reason = "the parts of a picture, named one by one")]
    pub(super) fn new(
        kernels: Kernels,
        file: &'a [u8],
        scan: &Scan,
        stored: &'a [u8],
        segments: &'a mut Segments,
        blocks: &'a McuBlocks<'a>,
        interval: u32,
        extent: &'a Extent,
    ) -> Result<Self, Fallback> {
        let mut index = RowIndexReader::new(stored, file, scan)?;
        let row = extent.rows.start;
        let start = index.skip(row)?;
        Ok(Self { kernels, file, segments, blocks, interval, extent, index, row, start })
    }

    fn decode(&mut self, coefficients: &mut [i16]) -> Result<(), Fallback> {
        let first = self.first_mcu();
        let RowStart { place, predictors } = self.read()?;
        let first = (first, place.bit, predictors);
        let mut mcus = Mcus::new(self.kernels, self.blocks, self.segments, self.interval, first);
        mcus.skip(self.extent.columns.start as usize)?;
        mcus.decode(self.extent.columns.len(), coefficients)?;
        // The row's bytes end where the next row starts.
        mcus.check()
    }

    /// Takes the bytes of the next row, and says where it starts.
    fn read(&mut self) -> Result<RowStart, Fallback> {
        let start = self.start;
        // Behind FF lies its stuffing, or a marker's code.
        if self.file.get(..start.place.byte).is_none_or(|before| before.ends_with(&[0xff])) {
            return Err(Fallback("a row that starts within two bytes that belong together, or beyond the file"));
        }
        let restarts = self.first_mcu().checked_div(self.interval as usize).unwrap_or(0);
        self.row += 1;
        let mut end = None;
        if self.row < self.extent.height {
            self.start = self.index.skip(1)?;
            end = Some(self.start.place);
        }
        let part = Part { start: start.place.byte, restarts, end };
        self.segments.read(self.kernels, self.file, &part, self.interval > 0)?;
        Ok(start)
    }

    /// The number of the next row's first MCU.
    fn first_mcu(&self) -> usize {
        self.extent.width as usize * self.row as usize
    }
}
