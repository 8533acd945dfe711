//! Records by the indexes next to the files.

use crate::catalog::found_files::{FoundFile, sized};
use crate::catalog::parallel::in_threads;
use crate::catalog::pass;
use crate::catalog::requests::{DOCUMENTS_AT_ONCE, FileRange, document, fetch_ranges, peek};
use crate::error::{Context, Result};
use crate::format::tfrecord::{FeatureCounts, front_features, is_record};
use crate::sources::tfrecords::{RecordIndex, index_names};
use crate::store::Remote;
use std::ops::Range;

/// Bytes at the start of a file with the records that show the features: at first, and at most.
const FRONT_BYTES: usize = 256 << 10;
const FRONT_BYTES_MAX: usize = 256 << 20;

/// Bytes of a record that show if an index belongs to its file: its head.
const PROBE_BYTES: u64 = pass::FRONT_BYTES as u64;

/// Returns the indexes next to `files`, with the features of the first records; `None` for files without one, and for
/// files that their index does not fit. Without any index the list is empty.
///
/// # Errors
///
/// Errors of the store; errors of the first records.
pub(super) fn find(remote: &Remote, files: &[FoundFile]) -> Result<(Vec<Option<RecordIndex>>, FeatureCounts)> {
    let none = || (Vec::new(), FeatureCounts::default());
    let Some(first) = files.first() else { return Ok(none()) };
    // The first file shows which program was used.
    let forms = index_names(&first.name).into_iter().enumerate();
    let mut form = None;
    for (number, name) in forms {
        if document(remote, &name)?.is_some_and(|bytes| usable(&bytes).is_some()) {
            form = Some(number);
            break;
        }
    }
    let Some(form) = form else { return Ok(none()) };
    let mut found = in_threads(DOCUMENTS_AT_ONCE, files, |file| {
        let Some(index) = index_names(&file.name).into_iter().nth(form) else { return Ok(None) };
        Ok(document(remote, &index)?.and_then(|bytes| usable(&bytes)))
    })?;
    drop_misfits(remote, files, &mut found)?;
    let mut with_records = found.iter().zip(files).filter(|(index, _)| index.as_ref().is_some_and(|i| i.records > 0));
    let Some((_, FoundFile { name, .. })) = with_records.next() else { return Ok(none()) };
    let features = front_of(remote, name).context("file", || name)?;
    Ok((found, features))
}

/// Removes indexes that do not fit their files, which were written again: by the lengths of the files, and the heads of
/// a few records.
fn drop_misfits(remote: &Remote, files: &[FoundFile], indexes: &mut [Option<RecordIndex>]) -> Result<()> {
    let lengths = sized(remote, files)?;
    let misfits = |number: usize| {
        log::warn!("the index of {} belongs to a different file and is not used", files[number].name);
    };
    for (number, (index, bytes)) in indexes.iter_mut().zip(&lengths).enumerate() {
        if index.as_ref().is_some_and(|index| index.bytes != *bytes) {
            misfits(number);
            *index = None;
        }
    }
    let probes = indexes.iter().enumerate().flat_map(|(number, index)| {
        index.iter().flat_map(move |index| index.probes.iter().map(move |probe| (number, probe.clone())))
    });
    let probes: Vec<(usize, Range<u64>)> = probes.collect();
    let range = |(number, probe): &(usize, Range<u64>)| FileRange {
        name: &files[*number].name,
        start: probe.start,
        bytes: PROBE_BYTES.min(lengths[*number] - probe.start),
        file_bytes: lengths[*number],
    };
    fetch_ranges(remote, &probes.iter().map(range).collect::<Vec<_>>(), |at, head, _| {
        let (number, probe) = &probes[at];
        if indexes[*number].is_some() && !is_record(head, probe.end - probe.start) {
            misfits(*number);
            indexes[*number] = None;
        }
        Ok(())
    })
}

/// Returns the features of the first records of the file `name`.
fn front_of(remote: &Remote, name: &str) -> Result<FeatureCounts> {
    let mut bytes = FRONT_BYTES;
    loop {
        let peek = peek(remote, name, bytes)?;
        let counts = front_features(&peek.front)?;
        if counts.samples > 0 || peek.front.len() as u64 == peek.len || bytes >= FRONT_BYTES_MAX {
            return Ok(counts);
        }
        bytes *= 8;
    }
}

/// Returns the records and bytes of a file by its index, and logs the reason why that is not used.
fn usable(index: &[u8]) -> Option<RecordIndex> {
    RecordIndex::parse(index).inspect_err(|e| log::warn!("an index is not used: {e}")).ok()
}
