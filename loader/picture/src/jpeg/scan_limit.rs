//! Limit on the scans of a picture, since each scan costs a pass over it.

use crate::geometry::Size;

/// Upper bound of scans in any picture. Encoders write about ten.
const SCANS_MAX: u64 = 500;

/// Upper bound of pixels times scans, so that a small file cannot occupy a thread for minutes. A picture of any size
/// may have [`SCANS_USUAL`].
const SCANNED_PIXELS_MAX: u64 = 1 << 30;

/// Scans that a picture of any size may have; more than any encoder writes.
const SCANS_USUAL: u64 = 32;

/// Returns the number of scans that a picture of this size may have.
pub(super) fn scans_max(size: Size) -> u64 {
    (SCANNED_PIXELS_MAX / size.pixels().max(1)).clamp(SCANS_USUAL, SCANS_MAX)
}
