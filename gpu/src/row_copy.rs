//! Rows of a batch slot to the batch on the device: those that are not there already.

use crate::context::Stream;
use crate::memory::Block;
use crate::partial_batch::Done;
use forebay_loader::delivery::OutputLayout;
use forebay_loader::{Error, Result};
use std::ops::Range;

/// Starts copying those of the kept `rows` of `filled` that are not `done`: row after row of each output, as far as rows lie
/// side by side in both places.
///
/// # Errors
///
/// What the driver says; then copies may be under way.
///
/// # Safety
///
/// Nobody writes `filled` or frees it until the stream has done it. The block is the batch's.
pub(crate) unsafe fn copy_rows(
    stream: &Stream,
    filled: &[u8],
    block: &Block,
    outputs: &[OutputLayout],
    rows: &[usize],
    done: &Done,
) -> Result<()> {
    for (number, place) in outputs.iter().enumerate() {
        for (from, to) in runs(rows, |row| done.contains_key(&(number, row))) {
            let bytes = place.offset + from.start * place.row_bytes..place.offset + from.end * place.row_bytes;
            let source = filled.get(bytes).ok_or_else(|| Error::internal("an output lies behind its batch"))?;
            let target = block.address + (place.offset + to * place.row_bytes) as u64;
            // SAFETY: by the contract above.
            unsafe { stream.copy_in(target, source) }?;
        }
    }
    Ok(())
}

/// Runs of the kept `rows` that are not done: where they lie, and which row the first becomes.
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
    fn rows_are_copied_in_runs_round_those_that_are_done_and_gaps() {
        assert_eq!(runs(&[0, 1, 2, 3], |_| false), [(0..4, 0)]);
        assert_eq!(runs(&[0, 1, 3, 4], |_| false), [(0..2, 0), (3..5, 2)], "row 2 was given up");
        assert_eq!(runs(&[0, 1, 2, 3], |row| row == 1), [(0..1, 0), (2..4, 2)], "row 1 is done");
        assert_eq!(runs(&[1, 2], |_| true), []);
    }
}
