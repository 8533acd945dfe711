//! Samples of tars by the files that other programs have written next to them.

use crate::catalog::parallel::in_parallel;
use crate::catalog::remote_file::RemoteFile;
use crate::catalog::requests::{document, peek};
use crate::error::Result;
use crate::format::tar::{FieldCounts, count_fields, first_fields, front_fields};
use crate::sources::counts::{Known, TarFormat, set_files, tar_files};
use crate::store::{Peek, Remote};

/// Bytes of a tar whose samples show its fields.
const FRONT_BYTES: usize = 256 << 10;

/// Returns the numbers of samples of the tars `names` in `remote`, whose address is `root`; `None` for those that no file
/// has. A file that cannot be read is not used.
///
/// # Errors
///
/// Errors of the store, but for files that do not exist.
pub(super) fn known_counts(remote: &Remote, root: &str, names: &[String]) -> Result<Vec<Option<Known>>> {
    let mut all: Vec<Option<Known>> = vec![None; names.len()];
    let sets = set_files(names);
    let found = in_parallel(&sets, |set| {
        let found = document(remote, &set.file)?.and_then(|bytes| usable(set.read(&bytes, root, names)));
        Ok(found.unwrap_or_default())
    })?;
    for set in found {
        all.iter_mut().zip(set).for_each(|(known, found)| *known = known.or(found));
    }
    let Some(first) = all.iter().position(Option::is_none) else { return Ok(all) };
    let mut format: Option<TarFormat> = None;
    for probe in tar_files(&names[first]) {
        if document(remote, &probe.file)?.is_some_and(|bytes| usable(probe.read(&bytes)).is_some()) {
            format = Some(probe.format);
            break;
        }
    }
    let Some(format) = format else { return Ok(all) };
    let unknown: Vec<usize> = (0..names.len()).filter(|number| all[*number].is_none()).collect();
    let found = in_parallel(&unknown, |number| {
        let Some(file) = format.file_of(&names[*number]) else { return Ok(None) };
        Ok(document(remote, &file.file)?.and_then(|bytes| usable(file.read(&bytes))))
    })?;
    unknown.into_iter().zip(found).for_each(|(number, known)| all[number] = known);
    Ok(all)
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
    read.inspect_err(|e| log::warn!("numbers of samples are not used: {e}")).ok()
}
