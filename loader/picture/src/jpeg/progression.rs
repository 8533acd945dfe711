//! Progression of a picture's scans: the bits of each coefficient that they have brought, by spectral selection and
//! successive approximation.

use super::fallback::Fallback;
use super::markers::{Headers, Scan, Spectrum};
use super::order::BLOCK;

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
    /// Returns an error if the scans in `file` do not bring all bits, by their headers, or have too few restart
    /// markers. Their data is skipped.
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
