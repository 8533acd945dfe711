//! Columns of files that have several, as they are kept.

use crate::error::{Error, Result};
use crate::format::recipe::{FileColumns, FileGroup, UnpackedColumns, UnpackedFiles};
use crate::format::{Encoding, SampleFormat, SurveyedFile};
use crate::sources::kinds::sample_format;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Columns of all files, by one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unpacked {
    /// Name of the format.
    format: String,
    /// Names and encodings of the columns.
    columns: Vec<(String, String)>,
    /// Bytes of the file by which the columns are known, and of its values: the sizes of the remaining files have about
    /// this relation.
    stored_bytes: u64,
    value_bytes: u64,
}

impl Unpacked {
    /// Columns of files of `format`, by a file of `stored_bytes` bytes.
    pub(super) fn new(format: &dyn SampleFormat, stored_bytes: u64, surveyed: SurveyedFile) -> Self {
        let columns = surveyed.columns.into_iter().map(|(name, encoding)| (name, encoding.to_string())).collect();
        Self { format: format.name().to_owned(), columns, stored_bytes, value_bytes: surveyed.bytes }
    }

    /// Estimate of the bytes of the values of files of `stored` bytes.
    pub(super) fn values_of(&self, stored: u64) -> u64 {
        let values = u128::from(stored) * u128::from(self.value_bytes) / u128::from(self.stored_bytes.max(1));
        u64::try_from(values).unwrap_or(u64::MAX)
    }

    /// Returns the columns of samples of these files, which have the columns `listed` of their list.
    pub(super) fn columns(&self, listed: &FileColumns) -> Result<Arc<UnpackedColumns>> {
        let format = sample_format(&self.format)
            .ok_or_else(|| Error::format("the list has files of an unknown format").with("format", &self.format))?;
        let encoded = |(name, encoding): &(String, String)| Ok((name.clone(), Encoding::parse_of_file(encoding)?));
        let columns = self.columns.iter().map(encoded).collect::<Result<Vec<_>>>()?;
        let columns = UnpackedColumns::new(format, &columns, listed);
        Ok(columns.map_err(|e| e.hinting("rename the column of the manifest"))?.into())
    }

    /// Returns the recipe of a shard of `group`, which has `columns`.
    pub(super) fn recipe(&self, group: FileGroup, columns: &Arc<UnpackedColumns>) -> UnpackedFiles {
        let stored = group.bytes.iter().copied().fold(0, u64::saturating_add);
        UnpackedFiles { group: group.into(), columns: columns.clone(), value_bytes: self.values_of(stored) }
    }
}
