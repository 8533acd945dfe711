//! Coefficients of a progressive picture while its scans are read, and the record of the bits that are known in
//! pictures of several scans.

use std::ops::Range;

use super::fallback::Fallback;
use super::frame::Component;
use super::markers::{Headers, Scan, Spectrum};
use super::order::BLOCK;
use crate::decode::geometry::Region;
use crate::decode::pixels::fit;

/// A component's coefficients in the region, and the histories of all blocks that are read.
///
/// Blocks are stored from the last coefficient to the first, see [`band`](super::band).
#[derive(Default)]
pub(super) struct Coefficients {
    /// The region's blocks, row by row.
    blocks: Vec<[i16; BLOCK]>,
    /// Histories of all blocks down to the region's last row, row by row.
    history: Vec<u64>,
    /// Blocks in a row of the component.
    pub width: u32,
    /// The blocks that the region needs.
    columns: Range<u32>,
    pub rows: Range<u32>,
}

/// Place of a block's DC coefficient.
const DC: usize = BLOCK - 1;

impl Coefficients {
    /// Resets all coefficients of the blocks that `region` needs to zero.
    pub(super) fn start(&mut self, component: &Component, region: Region) {
        (self.columns, self.rows) = component.needed(region);
        self.width = component.blocks().w;
        let kept = self.columns.len() * self.rows.len();
        fit(&mut self.blocks, kept, [0; BLOCK]);
        self.blocks[..kept].fill([0; BLOCK]);
        let read = self.width as usize * self.rows.end as usize;
        fit(&mut self.history, read, 0);
        self.history[..read].fill(0);
    }

    /// Returns the number of blocks from this one on, in its row, that are either all kept or all not kept.
    pub(super) fn run(&self, row: u32, column: u32) -> usize {
        let end = match self.rows.contains(&row) {
            true if column < self.columns.start => self.columns.start,
            true if column < self.columns.end => self.columns.end,
            _ => self.width,
        };
        (end - column) as usize
    }

    /// Returns the histories of the blocks of such a run, and the blocks if they are kept.
    pub(super) fn part(&mut self, row: u32, column: u32, run: usize) -> (&mut [u64], Option<&mut [[i16; BLOCK]]>) {
        let place = row as usize * self.width as usize + column as usize;
        let blocks = self.place(column, row).map(|place| &mut self.blocks[place..place + run]);
        (&mut self.history[place..place + run], blocks)
    }

    /// Adds bits to the DC coefficient of a block, if it is kept.
    #[inline(always)]
    pub(super) fn add_dc(&mut self, column: u32, row: u32, value: i16) {
        if let Some(place) = self.place(column, row) {
            // These bits were zero before.
            self.blocks[place][DC] |= value;
        }
    }

    /// Returns the kept blocks of a row.
    pub(super) fn blocks(&self, row: u32) -> &[[i16; BLOCK]] {
        let width = self.columns.len();
        &self.blocks[(row - self.rows.start) as usize * width..][..width]
    }

    #[inline(always)]
    fn place(&self, column: u32, row: u32) -> Option<usize> {
        let is_kept = self.columns.contains(&column) && self.rows.contains(&row);
        let x = || (column - self.columns.start) as usize;
        is_kept.then(|| (row - self.rows.start) as usize * self.columns.len() + x())
    }
}

/// Record of the known bits of each coefficient, by the frame's components.
pub(super) struct Coverage {
    /// Lowest known bit of each coefficient; [`NO_SCAN`] before its first scan.
    low: [[u8; BLOCK]; 3],
}

/// Marks a coefficient that no scan has contained yet.
const NO_SCAN: u8 = u8::MAX;

/// Result of [`Coverage::check_headers`] for scans with too few restart markers.
pub(super) const FEW_RESTARTS: Fallback = Fallback("a missing restart marker");

/// Largest shift of a scan that libjpeg accepts.
const LOW_MAX: u8 = 13;

impl Default for Coverage {
    fn default() -> Self {
        Self { low: [[NO_SCAN; BLOCK]; 3] }
    }
}

impl Coverage {
    /// Returns an error if the scans in `file` do not bring all bits, by their headers, or have too few restart markers.
    /// Their data is skipped.
    pub(super) fn check_headers(file: &[u8]) -> Result<(), Fallback> {
        let mut headers = Headers::new(file)?;
        let (mut coverage, mut components) = (Self::default(), 0);
        while let Some((frame, scan)) = headers.next_scan()? {
            coverage.add(&scan)?;
            components = frame.components().len();
            let data = &file[scan.data..];
            let is_end = |two: &[u8]| two[0] == 0xff && !matches!(two[1], 0 | 0xd0..=0xd7);
            let data = &data[..data.windows(2).position(is_end).unwrap_or(data.len())];
            headers.at = scan.data + data.len();
            let is_restart = |two: &&[u8]| two[0] == 0xff && matches!(two[1], 0xd0..=0xd7);
            let intervals = data.windows(2).filter(is_restart).count() as u64 + 1;
            let interval = u64::from(headers.restart_interval);
            if interval > 0 && intervals < scan.mcus(&frame).pixels().div_ceil(interval) {
                return Err(FEW_RESTARTS);
            }
        }
        coverage.check(components)
    }

    /// Adds a scan's bits.
    pub(super) fn add(&mut self, scan: &Scan) -> Result<(), Fallback> {
        let spectrum = scan.spectrum;
        let band = usize::from(spectrum.first)..usize::from(spectrum.last) + 1;
        let is_dc = spectrum.first == 0;
        let is_sequential = spectrum == Spectrum::ALL;
        if band.is_empty() || band.end > BLOCK || is_dc && band.end > 1 && !is_sequential || spectrum.low > LOW_MAX {
            return Err(Fallback("a band that does not exist"));
        }
        if spectrum.high > 0 && spectrum.high != spectrum.low + 1 {
            return Err(Fallback("a refinement by more than a bit"));
        }
        let expected = if spectrum.high == 0 { NO_SCAN } else { spectrum.high };
        for part in scan.components() {
            let low = &mut self.low[part.component];
            if !is_dc && low[0] == NO_SCAN || low[band.clone()].iter().any(|low| *low != expected) {
                return Err(Fallback("a scan out of order"));
            }
            low[band.clone()].fill(spectrum.low);
        }
        Ok(())
    }

    /// Returns an error if any bit is missing.
    pub(super) fn check(&self, components: usize) -> Result<(), Fallback> {
        let is_complete = self.low[..components].iter().flatten().all(|low| *low == 0);
        if is_complete { Ok(()) } else { Err(Fallback("a picture that is not complete")) }
    }
}
