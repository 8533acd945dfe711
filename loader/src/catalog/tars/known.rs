//! Samples of tars by the files that count them.

use crate::catalog::found_files::{FoundFile, names_of};
use crate::catalog::parallel::{in_parallel, in_threads};
use crate::catalog::remote_file::RemoteFile;
use crate::catalog::requests::{DOCUMENTS_AT_ONCE, FileRange, document, fetch_ranges, lengths, peek};
use crate::error::Result;
use crate::format::tar::{FieldCounts, count_fields, first_fields, front_fields, is_header};
use crate::sources::tars::counts::{Known, TarFacts, TarFormat, set_files, tar_files};
use crate::store::{Peek, Remote};

/// Bytes of a header.
const HEADER_BYTES: u64 = 512;

/// Bytes at the start of a tar with the samples that show its fields.
const FRONT_BYTES: usize = 256 << 10;

/// Returns the numbers of samples of the tars `files` in `remote`, which has the address `root`, with their lengths;
/// `None` for tars that no file has, and for tars that are not the ones that the file is about. A file that cannot be
/// read is not used.
///
/// # Errors
///
/// Errors of the store, but for files that do not exist.
pub(super) fn known_counts(remote: &Remote, root: &str, files: &[FoundFile]) -> Result<Vec<Option<SizedCount>>> {
    let names = names_of(files);
    let mut all: Vec<Option<Fact>> = vec![None; names.len()];
    let sets = set_files(&names);
    let found = in_parallel(&sets, |set| {
        let found = document(remote, &set.file)?.and_then(|bytes| usable(set.read(&bytes, root, &names)));
        Ok(found.unwrap_or_default())
    })?;
    for set in found {
        let of_set = |Known { samples, bytes }| Fact { bytes, tar: TarFacts { samples, ..TarFacts::default() } };
        all.iter_mut().zip(set).for_each(|(known, found)| *known = known.take().or(found.map(of_set)));
    }
    add_facts_of_tars(remote, &names, &mut all)?;
    sized_and_probed(remote, files, all)
}

/// Samples of a tar, by a file that counts them.
#[derive(Clone)]
struct Fact {
    bytes: Option<u64>,
    tar: TarFacts,
}

/// Samples of a tar, and its bytes.
#[derive(Clone, Copy)]
pub(super) struct SizedCount {
    pub(super) samples: u64,
    pub(super) bytes: u64,
}

/// Adds the facts in the files about single tars, for the tars of `names` that are not known.
fn add_facts_of_tars(remote: &Remote, names: &[String], all: &mut [Option<Fact>]) -> Result<()> {
    let Some(first) = all.iter().position(Option::is_none) else { return Ok(()) };
    let mut format: Option<TarFormat> = None;
    for probe in tar_files(&names[first]) {
        if document(remote, &probe.file)?.is_some_and(|bytes| usable(probe.read(&bytes)).is_some()) {
            format = Some(probe.format);
            break;
        }
    }
    let Some(format) = format else { return Ok(()) };
    let unknown: Vec<usize> = (0..names.len()).filter(|number| all[*number].is_none()).collect();
    let found = in_threads(DOCUMENTS_AT_ONCE, &unknown, |number| {
        let Some(file) = format.file_of(&names[*number]) else { return Ok(None) };
        Ok(document(remote, &file.file)?.and_then(|bytes| usable(file.read(&bytes))))
    })?;
    for (number, facts) in unknown.into_iter().zip(found) {
        all[number] = facts.map(|tar| Fact { bytes: None, tar });
    }
    Ok(())
}

/// Returns the facts in `all` that fit their files: by the lengths, and the headers of a few samples.
fn sized_and_probed(remote: &Remote, files: &[FoundFile], all: Vec<Option<Fact>>) -> Result<Vec<Option<SizedCount>>> {
    let is_requested = |(file, fact): &(&FoundFile, &Option<Fact>)| {
        fact.as_ref().is_some_and(|fact| file.bytes.is_none() && (fact.bytes.is_none() || fact.tar.end.is_some()))
    };
    let requested = files.iter().zip(&all).filter(is_requested).map(|(file, _)| &*file.name);
    let mut lengths = lengths(remote, &requested.collect::<Vec<_>>())?.into_iter();
    let misfit = |file: &FoundFile| {
        log::warn!("counts of samples are not used: {} differs from the tar that they belong to", file.name)
    };
    let (mut counts, mut probes) = (Vec::with_capacity(files.len()), Vec::new());
    for (number, (file, fact)) in files.iter().zip(&all).enumerate() {
        let found = if is_requested(&(file, fact)) { lengths.next() } else { file.bytes };
        let count = fact.as_ref().and_then(|fact| {
            let bytes = found.or(fact.bytes)?;
            let TarFacts { samples, headers, end } = &fact.tar;
            let is_inside = |place: &u64| place.checked_add(HEADER_BYTES).is_some_and(|end| end <= bytes);
            if fact.bytes.is_some_and(|declared| declared != bytes) || !headers.iter().chain(end).all(is_inside) {
                misfit(file);
                return None;
            }
            let probe = |start: u64| FileRange { name: &file.name, start, bytes: HEADER_BYTES, file_bytes: bytes };
            probes.extend(headers.iter().map(|start| (number, true, probe(*start))));
            probes.extend(end.map(|end| (number, false, probe(end))));
            Some(SizedCount { samples: *samples, bytes })
        });
        counts.push(count);
    }
    let ranges: Vec<FileRange<'_>> = probes.iter().map(|(_, _, range)| *range).collect();
    fetch_ranges(remote, &ranges, |at, block, _| {
        let (number, has_header, _) = probes[at];
        // No file follows the last sample.
        let is_same = if has_header { is_header(block) } else { block.iter().all(|byte| *byte == 0) };
        if counts[number].is_some() && !is_same {
            misfit(&files[number]);
            counts[number] = None;
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Returns the fields of the first samples of the tar `name`, as if all its `samples` samples were like them.
///
/// # Errors
///
/// Errors of the store; `Format` for a file that is no tar file.
pub(super) fn fields_of(remote: &Remote, name: &str, samples: u64) -> Result<FieldCounts> {
    let Peek { front, len, .. } = peek(remote, name, FRONT_BYTES)?;
    let fields = if front.len() as u64 == len {
        count_fields(&front)?
    } else {
        match front_fields(&front)? {
            fields if fields.samples > 0 => fields,
            // The first sample is larger than that. Its headers are enough.
            _ => first_fields(&RemoteFile::open(remote, name, &|| ())?)?,
        }
    };
    Ok(fields.of_samples(samples))
}

/// Logs the reason why a file is not used.
fn usable<T>(read: Result<T>) -> Option<T> {
    read.inspect_err(|e| log::warn!("counts of samples are not used: {e}")).ok()
}
