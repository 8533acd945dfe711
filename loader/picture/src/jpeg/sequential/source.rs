//! Sources of a scan's rows of MCUs: the scan's data from its start, or a row index with the start of each row.

use super::super::fallback::Fallback;
use super::super::kernel::Kernels;
use super::super::mcu::Mcus;
use super::super::mcu_blocks::{Extent, McuBlocks};
use super::super::row_index::{RowIndexReader, RowStart};
use super::super::unstuff::{ScanPart, Segments};

/// Source of the MCUs that a region needs, row by row.
pub(super) enum RowSource<'a> {
    Scan(ScanRows<'a>),
    Index(IndexedRows<'a>),
}

/// Rows of a scan that is read from its start. MCUs above and next to the region are skipped.
pub(super) struct ScanRows<'a> {
    mcus: Mcus<'a>,
    /// MCUs in a row, and in the region's part of it.
    width: usize,
    columns: usize,
    /// Number of MCUs before the next one that the region needs.
    skipped: usize,
}

/// Rows that are each read from their start in the index. MCUs left of the region are skipped, those right of it are
/// not read.
pub(super) struct IndexedRows<'a> {
    pub kernels: Kernels,
    pub file: &'a [u8],
    /// Data of the current row.
    pub segments: &'a mut Segments,
    pub blocks: &'a McuBlocks<'a>,
    pub interval: u32,
    pub extent: &'a Extent,
    /// Index, at the row after the next.
    pub index: RowIndexReader<'a>,
    /// The next row and its start.
    pub row: u32,
    pub start: RowStart,
}

impl<'a> RowSource<'a> {
    /// Decodes the next row of the region's MCUs into `coefficients`, see [`McuBlocks::decode`].
    pub(super) fn decode(&mut self, coefficients: &mut [i16]) -> Result<(), Fallback> {
        match self {
            Self::Scan(source) => source.decode(coefficients),
            Self::Index(source) => source.decode(coefficients),
        }
    }

    /// Returns an error if a whole picture must not end after the last row. With an index, its end is known.
    pub(super) fn check_end(&self, is_before_end: bool) -> Result<(), Fallback> {
        match self {
            Self::Scan(source) => source.mcus.check_end(is_before_end),
            Self::Index(_) => Ok(()),
        }
    }

    /// Reads the bytes of all rows without decoding them, to measure this stage.
    pub(super) fn read(self) -> Result<(), Fallback> {
        match self {
            Self::Scan(_) => Ok(()),
            Self::Index(mut source) => source.extent.rows.clone().try_for_each(|_| source.read().map(drop)),
        }
    }
}

impl<'a> ScanRows<'a> {
    /// Returns the rows of `mcus`, which is at the scan's first MCU.
    pub(super) fn new(mcus: Mcus<'a>, extent: &Extent) -> Self {
        let (width, columns) = (extent.width as usize, extent.columns.len());
        let skipped = width * extent.rows.start as usize + extent.columns.start as usize;
        Self { mcus, width, columns, skipped }
    }

    fn decode(&mut self, coefficients: &mut [i16]) -> Result<(), Fallback> {
        self.mcus.skip(self.skipped)?;
        self.skipped = self.width - self.columns;
        self.mcus.decode(self.columns, coefficients)?;
        self.mcus.check()
    }
}

impl<'a> IndexedRows<'a> {
    fn decode(&mut self, coefficients: &mut [i16]) -> Result<(), Fallback> {
        let first = self.first_mcu();
        let RowStart { position, predictors } = self.read()?;
        let first = (first, position.bit, predictors);
        let mut mcus = Mcus::new(self.kernels, self.blocks, self.segments, self.interval, first);
        mcus.skip(self.extent.columns.start as usize)?;
        mcus.decode(self.extent.columns.len(), coefficients)?;
        // The row's bytes end at the start of the next row.
        mcus.check()
    }

    /// Reads the bytes of the next row, and returns its start.
    fn read(&mut self) -> Result<RowStart, Fallback> {
        let start = self.start;
        // FF is followed by its stuffing or by a marker's code.
        if self.file.get(..start.position.byte).is_none_or(|before| before.ends_with(&[0xff])) {
            return Err(Fallback("a row that starts within two bytes that belong together, or beyond the file"));
        }
        let restarts = self.first_mcu().checked_div(self.interval as usize).unwrap_or(0);
        self.row += 1;
        let mut end = None;
        if self.row < self.extent.height {
            self.start = self.index.skip(1)?;
            end = Some(self.start.position);
        }
        let part = ScanPart { start: start.position.byte, restarts, end };
        self.segments.read(self.kernels, self.file, &part, self.interval > 0)?;
        Ok(start)
    }

    fn first_mcu(&self) -> usize {
        self.extent.width as usize * self.row as usize
    }
}
