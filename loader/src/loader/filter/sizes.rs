//! Numbers of tokens that follow from the sizes of samples: of Megatron's files and windows, and of columns of ids in
//! MDS. No token is read.

use super::columns::FilterColumn;
use super::context::FilteredStream;
use super::counting::Counting;
use crate::error::{Error, Result};
use crate::format::recipe::ObjectRange;
use crate::format::{Layout, OffsetTable, Shard};
use crate::pipeline::RangeFetch;
use crate::store::{Encoded, FetchBuffer};
use crate::subsets::question::{NO_COUNT, Reply};
use crate::sync::Arc;

/// Numbers of tokens of the samples of a layout.
#[derive(Debug)]
pub(super) enum Sizes {
    /// Every sample has as many.
    Equal(u64),
    /// A sample has the bytes of its tokens, and as many bytes before and after them as every other sample.
    Around { before: usize, after: usize, counting: Arc<Counting> },
}

impl Sizes {
    /// Returns the numbers of the column `number` of `layout`; `None` if they do not follow from sizes.
    pub(super) fn of(layout: &Layout, number: usize, column: &FilterColumn) -> Option<Self> {
        let counting = column.tokens.as_ref()?;
        if layout.may_lack(&column.name) {
            return None;
        }
        if let Some(tokens) = layout.columns[number].size.and_then(|size| counting.column.count_of_bytes(size as usize))
        {
            return Some(Self::Equal(tokens));
        }
        counting.column.count_of_bytes(0)?;
        let (before, after) = layout.around(number)?;
        Some(Self::Around { before, after, counting: counting.clone() })
    }

    /// Returns the number of tokens of a sample of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// `Decode` for bytes that are no whole number of tokens, unless such samples are skipped.
    pub(super) fn reply(&self, bytes: u32) -> Result<Reply> {
        let count = |tokens| Reply::Count(u32::try_from(tokens).unwrap_or(NO_COUNT));
        let (before, after, counting) = match self {
            Self::Equal(tokens) => return Ok(count(*tokens)),
            Self::Around { before, after, counting } => (before, after, counting),
        };
        let stored = (bytes as usize).checked_sub(before + after);
        match stored.and_then(|stored| counting.column.count_of_bytes(stored)) {
            Some(tokens) => Ok(count(tokens)),
            None if counting.skips_errors => Ok(Reply::Count(NO_COUNT)),
            None => Err(Error::decode("the stored bytes are not a whole number of tokens").with("sample bytes", bytes)),
        }
    }
}

/// Fetches only the offsets of the samples of `shard`; `None` if they have to be fetched with the samples.
///
/// # Errors
///
/// Errors of the store; `Format` for a table that contradicts the index.
pub(super) fn fetch_table(of: &FilteredStream<'_>, shard: &Shard, progress: &dyn Fn()) -> Result<Option<OffsetTable>> {
    let Some(remote) = of.stream.remote.as_ref().filter(|_| of.stream.dir.has_remote()) else { return Ok(None) };
    let is_plain = shard.zip_data.is_none() && shard.raw_meta.is_none() && shard.slice.is_none();
    let ranges = match &shard.recipe {
        Some(recipe) => recipe.offset_ranges(),
        None if is_plain && shard.layout.format.has_table() && !shard.is_estimated() => {
            let file = &shard.raw_data;
            let (key, bytes) = (file.basename.clone().into(), shard.table_bytes());
            Some(vec![ObjectRange { key, start: 0, bytes, object_bytes: Some(file.bytes) }])
        }
        None => None,
    };
    let Some(ranges) = ranges else { return Ok(None) };
    let (file, encoded) = (&shard.raw_data, Encoded::Refused);
    let fetch = RangeFetch { remote, run: &of.run, file, encoded, watch: &|_| progress() };
    let parts: Vec<_> = fetch.all(&ranges)?.into_iter().map(FetchBuffer::freeze).collect();
    match (&shard.recipe, parts.first()) {
        (Some(recipe), _) => recipe.offsets_apart(&parts).map(Some),
        (None, Some(front)) => shard.offsets(front).map(Some),
        (None, None) => Err(Error::internal("a table without a range")),
    }
}
