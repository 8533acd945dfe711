//! Samples of an archive: groups of files with one key.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use super::BLOCK;
use super::member::Members;
use super::name::{KEY, key_and_field};
use crate::columns::FIELDS;
use crate::read_at::ReadAt;
use crate::table::OffsetTable;
use forebay_core::error::{Error, Result};

/// Most bytes of one sample.
const SAMPLE_BYTES_MAX: u64 = u32::MAX as u64;

/// Most fields of the samples of an archive. There are more only where file names with dots are taken for fields.
const FIELDS_MAX: usize = 1_000;

/// Most bytes of a field's name, which is a column of the index. A long name in an archive may have a megabyte.
const FIELD_BYTES_MAX: usize = 1_000;

/// Most samples of an archive.
const SAMPLES_MAX: usize = u32::MAX as usize;

/// A sample, without the contents of its files.
#[derive(Debug, Default)]
struct Sample {
    key: Vec<u8>,
    /// From its first header to the end of its last file.
    range: Range<u64>,
    fields: Vec<String>,
}

/// Fields of an archive's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldCounts {
    /// Number of samples.
    pub samples: u64,
    /// Number of samples with each field.
    pub fields: BTreeMap<String, u64>,
    /// The fields are from some samples: the rest may lack any of them.
    pub is_sampled: bool,
}

impl FieldCounts {
    fn add(&mut self, fields: Vec<String>) -> Result<()> {
        self.samples += 1;
        for field in fields {
            *self.fields.entry(field).or_default() += 1;
        }
        if self.fields.len() > FIELDS_MAX {
            return Err(too_many_fields(self.fields.keys()));
        }
        Ok(())
    }

    /// Returns the counts of `samples` samples that have the same fields: those that all samples have here, and
    /// optional ones.
    pub fn of_samples(&self, samples: u64) -> Self {
        let count = |n: u64| if n == self.samples { samples } else { n.min(samples.saturating_sub(1)) };
        let fields = self.fields.iter().map(|(field, n)| (field.clone(), count(*n))).collect();
        Self { samples, fields, is_sampled: true }
    }
}

/// Counts the whole samples at the `front` of an archive that is cut off there.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for a front that is not one of a tar file.
pub fn front_fields(front: &[u8]) -> Result<FieldCounts> {
    let (mut counts, mut last) = (FieldCounts::default(), None);
    let counted = for_each(Members::of_part(front), |sample| {
        // The last one may have more files.
        if let Some(fields) = last.replace(std::mem::take(&mut sample.fields)) {
            counts.add(fields)?;
        }
        Ok(ControlFlow::Continue(()))
    });
    match counted {
        Err(e) if counts.samples == 0 && last.is_none() && front.len() < BLOCK as usize => Err(e),
        _ => Ok(counts),
    }
}

/// Counts only the first sample of `archive`.
///
/// # Errors
///
/// As [`count_fields`], up to the header after that sample.
pub fn first_fields<R: ReadAt + ?Sized>(archive: &R) -> Result<FieldCounts> {
    let mut counts = FieldCounts::default();
    for_each(Members::of_archive(archive), |sample| {
        counts.add(std::mem::take(&mut sample.fields))?;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(counts)
}

/// Counts the samples of `archive`, and those with each field.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] with the offset for a file that is no tar file or a damaged one, and with the key for a
/// sample with two files of one field.
pub fn count_fields<R: ReadAt + ?Sized>(archive: &R) -> Result<FieldCounts> {
    let mut counts = FieldCounts::default();
    for_each(Members::of_archive(archive), |sample| {
        counts.add(std::mem::take(&mut sample.fields)).map(ControlFlow::Continue)
    })?;
    Ok(counts)
}

/// Returns the offsets of the samples of `archive`; the index declares `samples` of them.
pub(super) fn offsets<R: ReadAt + ?Sized>(archive: &R, samples: u64) -> Result<OffsetTable> {
    // Each has at least one header, which bounds the memory by the archive's size.
    let mut ranges = Vec::with_capacity(samples.min(archive.bytes() / BLOCK) as usize);
    for_each(Members::of_archive(archive), |sample| {
        ranges.push((sample.range.start / BLOCK, sample.range.end.div_ceil(BLOCK)));
        Ok(ControlFlow::Continue(()))
    })?;
    if ranges.len() as u64 != samples {
        let found = ranges.len();
        return Err(Error::format(format!("the archive has {found} samples where the index declares {samples}"))
            .with("field", "samples")
            .hinting(
                "The tar was written again after its samples were counted: make the file with the numbers again \
                 (forebay index TARS --overwrite), or pass Stream(ignore_counts=True)",
            ));
    }
    OffsetTable::of_blocks(&ranges, BLOCK as u32, archive.bytes())
}

/// Calls `use_sample` for every sample of `members`, until it breaks.
fn for_each<R: ReadAt + ?Sized>(
    mut members: Members<'_, R>,
    mut use_sample: impl FnMut(&mut Sample) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut sample = Sample::default();
    let mut samples = 0;
    let mut end = |sample: &mut Sample| {
        samples += 1;
        if samples > SAMPLES_MAX || sample.range.end - sample.range.start > SAMPLE_BYTES_MAX {
            return Err(about(
                Error::format("a sample of more than 4 GiB, or more than 4 billion of them"),
                &sample.key,
            ));
        }
        use_sample(sample)
    };
    while let Some(member) = members.next_member()? {
        let Some((key, field)) = key_and_field(&member.name).filter(|_| member.is_file) else { continue };
        if sample.fields.is_empty() || sample.key != key {
            if !sample.fields.is_empty() && end(&mut sample)?.is_break() {
                return Ok(());
            }
            sample.key.clear();
            sample.key.extend_from_slice(key);
            sample.fields.clear();
            sample.range.start = member.start;
        }
        if sample.fields.contains(&field) || field == KEY || field == FIELDS {
            return Err(about(Error::format("a sample has two files of one field"), key).with("field", field));
        }
        if field.len() > FIELD_BYTES_MAX {
            return Err(about(Error::format(format!("a field's name has more than {FIELD_BYTES_MAX} bytes")), key));
        }
        if sample.fields.len() == FIELDS_MAX {
            return Err(about(too_many_fields(sample.fields.iter()), key));
        }
        sample.fields.push(field);
        sample.range.end = member.end;
    }
    if sample.fields.is_empty() { Ok(()) } else { end(&mut sample).map(drop) }
}

/// Error for more fields than a data set has; `fields` are some of them.
fn too_many_fields<'a>(fields: impl Iterator<Item = &'a String>) -> Error {
    let some = fields.take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    Error::format(format!(
        "more than {FIELDS_MAX} fields, such as {some}: a field is the part of a file's name after the first dot, so \
         the keys of the samples may not contain dots"
    ))
}

/// Returns the key of a `sample` without the end of its last file, if it begins with a whole header.
pub(super) fn key_of(sample: &[u8]) -> Option<String> {
    let mut members = Members::of_part(sample);
    while let Some(member) = members.next_member().ok()? {
        if let Some((key, _)) = key_and_field(&member.name).filter(|_| member.is_file) {
            return Some(String::from_utf8_lossy(&key[..key.len().min(200)]).into_owned());
        }
    }
    None
}

/// Adds the key of a sample to `error`.
pub(super) fn about(error: Error, key: &[u8]) -> Error {
    error.with("key", String::from_utf8_lossy(&key[..key.len().min(200)]))
}
