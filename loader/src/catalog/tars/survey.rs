//! Survey of tars: by the counts that are there, or each is read once, and unpacked before if it is compressed.

use super::known::{SizedCount, fields_of, known_counts};
use crate::catalog::found_files::{FoundFile, names_of};
use crate::catalog::pass::{Survey, Surveyed};
use crate::catalog::unpacked_file::UnpackLimits;
use crate::error::{Context, Error, Result};
use crate::format::tar::{FieldCounts, count_fields};
use crate::format::{Compression, Index, Layout, ReadAt};
use crate::sources::tars::Packing;
use crate::store::Remote;
use std::collections::HashSet;

/// Survey of tars.
#[derive(Clone, Copy)]
pub(super) struct TarSurvey;

impl Survey for TarSurvey {
    type Counts = FieldCounts;

    const KIND: &'static str = "tar";
    const NOUN: &'static str = "tar";
    const HAS_INDEX: bool = true;
    const LIMITS: UnpackLimits = UnpackLimits { packed_bytes: 4 << 30, raw_bytes: 8 << 30 };

    fn known(
        &self,
        remote: &Remote,
        root: &str,
        files: &[FoundFile],
        ignore_counts: bool,
    ) -> Result<Vec<Option<Surveyed<FieldCounts>>>> {
        let (names, mut raw_names) = (names_of(files), HashSet::new());
        if let Some(name) = names.iter().map(|name| raw_name(name)).find(|name| !raw_names.insert(name.clone())) {
            let message =
                "a tar is in the list as it is and compressed, or compressed in two ways: leave one of them out";
            return Err(Error::config(message).with("tar", name));
        }
        // The bytes of an unpacked tar are known only when it has been read.
        if ignore_counts || !names.iter().all(|name| Packing::is_plain(name)) {
            return Ok(Vec::new());
        }
        let known = known_counts(remote, root, files)?;
        let with_samples = known.iter().zip(&names).find(|(known, _)| known.is_some_and(|known| known.samples > 0));
        let Some((Some(first), name)) = with_samples else { return Ok(Vec::new()) };
        // All have the fields of this one.
        let fields = fields_of(remote, name, first.samples).context("tar", || name)?;
        let tar = |(known, name): (&Option<SizedCount>, &String)| {
            let SizedCount { samples, bytes } = (*known)?;
            Some(Surveyed::known(self, name, bytes, fields.of_samples(samples)))
        };
        Ok(known.iter().zip(&names).map(tar).collect())
    }

    fn announced(count: usize, ignore_counts: bool) -> String {
        if ignore_counts {
            return format!("{count} tars are read once to find all their fields: ignore_counts");
        }
        format!(
            "{count} tars have no index and are read once to count their samples; `forebay index` makes one \
             that is kept next to them"
        )
    }

    fn compression(&self, name: &str, _: Option<&[u8]>) -> Result<Option<Compression>> {
        Ok(match Packing::of(name)? {
            Some(Packing::Compressed(compression)) => Some(compression),
            Some(Packing::Plain) | None => None,
        })
    }

    fn raw_name(&self, name: &str) -> String {
        raw_name(name)
    }

    fn count(&self, file: &dyn ReadAt, _: bool) -> Result<FieldCounts> {
        count_fields(file)
    }

    fn layout(&self, counts: &FieldCounts) -> (u64, Layout, bool) {
        (counts.samples, Layout::tar(counts), true)
    }

    fn is_of(&self, layout: &Layout) -> bool {
        layout.is_tar()
    }

    fn index(&self, files: Vec<Surveyed<FieldCounts>>) -> Result<Index> {
        let mut shards: Vec<_> = files.into_iter().map(|file| file.entry).collect();
        for number in 1..shards.len() {
            if shards[number].layout == shards[number - 1].layout {
                shards[number].layout = shards[number - 1].layout.clone();
            }
        }
        Ok(Index { shards })
    }
}

/// Name of a tar in the cache: "a.tar" for "a.tar", "a.tar.gz" and "a.tgz".
fn raw_name(name: &str) -> String {
    if Packing::is_plain(name) {
        return name.to_owned();
    }
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if stem.to_ascii_lowercase().ends_with(".tar") { stem.to_owned() } else { format!("{stem}.tar") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_tar_is_unpacked_under_the_name_without_its_compression() {
        for (name, raw) in [("a/0.tar.gz", "a/0.tar"), ("0.tar", "0.tar"), ("0.tgz", "0.tar"), ("0.TAR.zst", "0.TAR")] {
            assert_eq!(raw_name(name), raw);
        }
    }
}
