//! Records by the indexes that other programs left next to the files.

use super::RecordFile;
use super::survey::RecordSurvey;
use crate::catalog::found_files::{FoundFile, sized};
use crate::catalog::parallel::in_threads;
use crate::catalog::pass;
use crate::catalog::requests::{DOCUMENTS_AT_ONCE, FileRange, document, fetch_ranges, peek};
use crate::error::{Context, Result};
use crate::format::tfrecord::{FeatureCounts, front_features, is_record};
use crate::sources::tfrecords::{RecordIndex, index_names};
use crate::store::Remote;
use std::ops::Range;

/// Bytes of a file whose first records show the features: at first, and at most.
const FRONT_BYTES: usize = 256 << 10;
const FRONT_BYTES_MAX: usize = 256 << 20;

/// Bytes of a record that show if an index is of its file: its head.
const PROBE_BYTES: u64 = pass::FRONT_BYTES as u64;

/// Returns the files by the indexes next to them; `None` for those without one, and for those that are other files than their
/// index is of.
pub(super) fn files(remote: &Remote, files: &[FoundFile]) -> Result<Option<Vec<Option<RecordFile>>>> {
    let Some(first) = files.first() else { return Ok(None) };
    // The first file shows which program was used.
    let forms = index_names(&first.name).into_iter().enumerate();
    let mut form = None;
    for (number, name) in forms {
        if document(remote, &name)?.is_some_and(|bytes| usable(&bytes).is_some()) {
            form = Some(number);
            break;
        }
    }
    let Some(form) = form else { return Ok(None) };
    let mut found = in_threads(DOCUMENTS_AT_ONCE, files, |file| {
        let Some(index) = index_names(&file.name).into_iter().nth(form) else { return Ok(None) };
        Ok(document(remote, &index)?.and_then(|bytes| usable(&bytes)))
    })?;
    drop_misfits(remote, files, &mut found)?;
    let with_records = found.iter().position(|index| index.as_ref().is_some_and(|index| index.records > 0));
    let features = match with_records.map(|number| &files[number].name) {
        Some(name) => front_of(remote, name).context("file", || name)?,
        None => return Ok(None),
    };
    let survey = RecordSurvey { is_in_place: true };
    let file = |(index, file): (Option<RecordIndex>, &FoundFile)| {
        let RecordIndex { records, bytes, .. } = index?;
        Some(RecordFile::known(&survey, &file.name, bytes, features.of_samples(records)))
    };
    Ok(Some(found.into_iter().zip(files).map(file).collect()))
}

/// Removes indexes that do not fit their files, which were written again: by the lengths of the files, and the heads of a few
/// records.
fn drop_misfits(remote: &Remote, files: &[FoundFile], indexes: &mut [Option<RecordIndex>]) -> Result<()> {
    let lengths = sized(remote, files)?;
    let misfits = |number: usize| {
        log::warn!("the index of {} is of another file and is not used", files[number].name);
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
    fetch_ranges(remote, &probes.iter().map(range).collect::<Vec<_>>(), |at, head| {
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
