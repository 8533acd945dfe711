//! Sizes of the memory pools within the limit of the process.

use crate::error::{Error, Result};

/// Upper bound of the default of `memory`: 2 GiB hold 3 batches of 256 images as float32 and 1 GiB of encoded images.
const DEFAULT_BYTES_MAX: u64 = 2 << 30;

/// Batches that must fit: one being filled, one ready, one held by the consumer.
const BATCHES_MIN: u64 = 3;

/// Smallest size of the read slots together: 64 images of 500 kB.
const READ_BYTES_MIN: u64 = 32 << 20;

/// Returns the default of `memory` for one rank: an eighth of its share of `limit_bytes` (the machine's or
/// container's), at most 2 GiB, raised to three batches where that is less than a quarter of the share.
///
/// # Errors
///
/// [`Config`](crate::error::ErrorKind::Config) when three batches are a quarter of the share or more, with the figures.
pub fn default_bytes(limit_bytes: u64, local_world_size: usize, batch_bytes: u64) -> Result<u64> {
    let share = limit_bytes / (local_world_size.max(1) as u64);
    let default = (share / 8).min(DEFAULT_BYTES_MAX);
    let batches = batch_bytes.saturating_mul(BATCHES_MIN);
    if batches <= default {
        return Ok(default);
    }
    if batches < share / 4 {
        return Ok(batches);
    }
    Err(Error::config(
        "three batches need a quarter of this rank's memory or more: set `memory`, or lower `batch_size`",
    )
    .with("three_batches_bytes", batches)
    .with("rank_bytes", share))
}

/// Division of `memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Bytes for read slots.
    pub read_bytes: u64,
    /// Bytes for batch slots.
    pub batch_bytes: u64,
}

/// Divides `memory_bytes` between read slots and batch slots: up to `batches` of `batch_bytes` each while a quarter
/// remains for reading, and at least three.
///
/// # Errors
///
/// [`Config`](crate::error::ErrorKind::Config) when three batches do not fit, with the size that is needed.
pub fn split(memory_bytes: u64, batch_bytes: u64, batches: u64) -> Result<Split> {
    let slot = batch_bytes.max(1).checked_next_multiple_of(super::BLOCK_BYTES as u64).unwrap_or(u64::MAX);
    let least = slot.saturating_mul(BATCHES_MIN);
    if least > memory_bytes {
        return Err(Error::config(
            "`memory` does not hold three batches, which is the minimum: raise it, or lower `batch_size`",
        )
        .with("memory_bytes", memory_bytes)
        .with("needed_bytes", least));
    }
    let requested = slot.saturating_mul(batches.max(BATCHES_MIN));
    let most = (memory_bytes / 4 * 3 / slot * slot).max(least);
    let batch_bytes = requested.min(most);
    // Three batches may take nearly all of it: the minimum for reading then comes on top.
    let read_bytes = (memory_bytes - batch_bytes).max(READ_BYTES_MIN);
    Ok(Split { read_bytes, batch_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    #[test]
    fn the_default_is_an_eighth_of_the_share_and_at_most_2_gib() {
        assert_eq!(default_bytes(64 * GIB, 1, MIB).unwrap(), 2 * GIB);
        assert_eq!(default_bytes(8 * GIB, 1, MIB).unwrap(), GIB);
        assert_eq!(default_bytes(64 * GIB, 8, MIB).unwrap(), GIB);
        assert_eq!(default_bytes(8 * GIB, 1, 500 * MIB).unwrap(), 1500 * MIB, "raised to three batches");
    }

    #[test]
    fn batches_that_would_take_too_much_memory_are_an_error_with_the_size() {
        let e = default_bytes(8 * GIB, 1, GIB).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains(&format!("three_batches_bytes {}", 3 * GIB)), "{e}");
        assert!(default_bytes(u64::MAX, 1, u64::MAX).is_err());
        assert!(default_bytes(0, 0, 1).is_err());
    }

    #[test]
    fn batches_get_their_size_while_a_quarter_remains_for_reading() {
        assert_eq!(split(GIB, 50 * MIB, 5).unwrap(), Split { read_bytes: GIB - 250 * MIB, batch_bytes: 250 * MIB });
        assert_eq!(split(GIB, 100 * MIB, 50).unwrap(), Split { read_bytes: GIB - 700 * MIB, batch_bytes: 700 * MIB });
        assert_eq!(split(GIB, 340 * MIB, 5).unwrap(), Split { read_bytes: 32 * MIB, batch_bytes: 1020 * MIB });
        assert!(split(GIB, 400 * MIB, 3).unwrap_err().to_string().contains("needed_bytes"));
        assert!(split(GIB, u64::MAX, 3).is_err());
    }
}
