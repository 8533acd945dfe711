//! Copies of rows from a batch slot to the batch on the device.

use crate::context::Stream;
use crate::memory::Block;
use forebay_loader::delivery::OutputLayout;
use forebay_loader::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Rows that are complete on the device, by output and row of the slot.
pub(crate) type CompletedRows = BTreeMap<(usize, usize), RowSource>;

/// Origin of a row on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowSource {
    /// Copied or read as a direct row.
    Direct,
    /// Decoded by the device's cores.
    Cores,
    /// Decoded by the device's JPEG engines.
    Engines,
}

/// Starts copying the kept `rows` of `filled` that are not `done`. Rows of an output that are adjacent on both sides
/// are copied together.
///
/// # Errors
///
/// Errors of the driver; then copies may be in flight.
///
/// # Safety
///
/// `filled` is neither written nor freed until the stream has done the copies. The block is the batch's.
pub(crate) unsafe fn copy_rows(
    stream: &Stream,
    filled: &[u8],
    block: &Block,
    outputs: &[OutputLayout],
    rows: &[usize],
    done: &CompletedRows,
) -> Result<()> {
    for (number, layout) in outputs.iter().enumerate() {
        for (from, to) in runs(rows, |row| done.contains_key(&(number, row))) {
            let bytes = layout.offset + from.start * layout.row_bytes..layout.offset + from.end * layout.row_bytes;
            let source =
                filled.get(bytes).ok_or_else(|| Error::internal("an output is beyond the end of its batch"))?;
            let target = block.address + (layout.offset + to * layout.row_bytes) as u64;
            // SAFETY: by the contract above.
            unsafe { stream.copy_in(target, source) }?;
        }
    }
    Ok(())
}

/// Returns the runs of kept `rows` that are not done: their rows in the slot, and the new row of the first.
fn runs(rows: &[usize], is_done: impl Fn(usize) -> bool) -> Vec<(Range<usize>, usize)> {
    let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
    for (to, row) in rows.iter().copied().enumerate().filter(|(_, row)| !is_done(*row)) {
        match runs.last_mut() {
            Some((from, first)) if from.end == row && *first + from.len() == to => from.end += 1,
            _ => runs.push((row..row + 1, to)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn runs_skip_finished_rows_and_end_at_gaps() {
        assert_eq!(runs(&[0, 1, 2, 3], |_| false), [(0..4, 0)]);
        assert_eq!(runs(&[0, 1, 3, 4], |_| false), [(0..2, 0), (3..5, 2)], "row 2 was skipped");
        assert_eq!(runs(&[0, 1, 2, 3], |row| row == 1), [(0..1, 0), (2..4, 2)], "row 1 is done");
        assert_eq!(runs(&[1, 2], |_| true), []);
    }
}
