//! The limit on scans, which each cost a pass over the picture.

#![forbid(unsafe_code)]

use crate::decode::geometry::Size;

/// Progressive files may have many scans, each of which costs a pass over the picture. Encoders write about ten.
const SCANS_MAX: u64 = 500;

/// Pixels times scans that one file may cost, so that a small file cannot keep a thread busy for minutes; a picture of
/// any size may have [`SCANS_USUAL`].
const SCANNED_PIXELS_MAX: u64 = 1 << 30;

/// More than any encoder writes.
const SCANS_USUAL: u64 = 32;

/// How many scans a picture may have.
pub(super) fn scans_max(size: Size) -> u64 {
    (SCANNED_PIXELS_MAX / (u64::from(size.w) * u64::from(size.h)).max(1)).clamp(SCANS_USUAL, SCANS_MAX)
}
