//! Interface of the checks of `forebay doctor`.

use crate::Session;
use crate::doctor::finding::Findings;
use crate::doctor::source::Source;
use crate::doctor::values::{ColumnId, Sample, Value};
use forebay_loader::format::Shard;
use forebay_loader::order::SampleId;
use std::collections::BTreeMap;

/// Check of a data set.
pub(in crate::doctor) trait Check {
    /// Sees the next sample, in the order of their storage.
    fn sample(&mut self, _sample: &Sample, _run: &CheckRun<'_>, _findings: &mut Findings) {}

    /// Reports the findings that need all samples.
    fn end(&mut self, _run: &CheckRun<'_>, _findings: &mut Findings) {}
}

/// Data set and options of the checks.
pub(in crate::doctor) struct CheckRun<'a> {
    pub(in crate::doctor) session: &'a Session,
    pub(in crate::doctor) source: &'a Source,
    /// Threads for work at the end.
    pub(in crate::doctor) threads: usize,
    /// Ranks that will train on the data, if they are known.
    pub(in crate::doctor) ranks: Option<u32>,
    /// Number of classes, and of ids of tokens, if they are known.
    pub(in crate::doctor) classes: Option<u64>,
    pub(in crate::doctor) vocab: Option<u64>,
    /// Samples that the checks see.
    pub(in crate::doctor) samples: u64,
}

impl CheckRun<'_> {
    /// True if the checks see all samples.
    pub(in crate::doctor) fn is_whole(&self) -> bool {
        self.samples == self.source.data.shape().num_samples()
    }

    /// True if the samples of a stream are files, with the classes of their folders.
    pub(super) fn is_of_files(&self, stream: usize) -> bool {
        let is_file = |shard: &Shard| shard.recipe.as_ref().is_some_and(|recipe| recipe.path_of(0).is_some());
        self.source.shards(stream).iter().all(is_file)
    }

    /// Words for a column: "column `label`", and its data set if there are several.
    pub(in crate::doctor) fn column(&self, column: ColumnId) -> String {
        let name = format!("column `{}`", self.source.columns.name(column));
        if self.source.streams.len() == 1 {
            return name;
        }
        format!("{name} of {}", self.source.streams[column.stream as usize])
    }
}

/// Statistics of each column.
#[derive(Debug)]
pub(in crate::doctor) struct PerColumn<T>(pub(super) BTreeMap<ColumnId, T>);

impl<T> Default for PerColumn<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Default> PerColumn<T> {
    /// Calls `see` with each value of `sample`, and the statistics of its column.
    pub(super) fn each(&mut self, sample: &Sample, mut see: impl FnMut(&mut T, SampleId, &Value)) {
        for (column, value) in sample.values.iter().flat_map(|values| &values.columns) {
            see(self.0.entry(*column).or_default(), sample.id, value);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ColumnId, &T)> {
        self.0.iter().map(|(column, found)| (*column, found))
    }
}

/// True if `part` of the `whole` is too much for a mistake: a fifth, and more than two.
pub(super) fn is_usual(part: u64, whole: u64) -> bool {
    part > 2 && part * 5 >= whole
}

/// Share of `part` in `whole`, in percent.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    (part * 100).checked_div(whole).unwrap_or(0)
}
