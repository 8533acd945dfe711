//! Entries of an index, in sequence. Most are equal to the one before but for names, sizes and hashes: these are
//! taken from the text by a [`Template`], and the remaining text is compared.

use super::entry::shard;
use super::shard::Shard;
use super::template::Template;
use crate::json;
use forebay_core::error::{Context, Error, ErrorKind, Result};

/// Entries of an index.
#[derive(Default)]
pub(super) struct Entries {
    shards: Vec<Shard>,
    samples: u64,
    /// The first error.
    failed: Option<Error>,
    /// Form of the last entry, unless it is unusual.
    template: Option<Template>,
}

impl Entries {
    /// Adds the entry at the start of `text` if it is like the last one, and returns its bytes.
    pub(super) fn add_like(&mut self, text: &[u8]) -> Option<usize> {
        if self.failed.is_some() {
            return None;
        }
        let (shard, bytes) = self.template.as_ref()?.find(text, self.shards.last()?)?;
        self.push(shard);
        Some(bytes)
    }

    /// Adds the entry `text`, which is JSON. After an error it does nothing.
    pub(super) fn add(&mut self, text: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        match json::parse(text).and_then(|entry| shard(&entry, self.shards.last())) {
            Ok(shard) => {
                self.template = Template::of(text, &shard);
                self.push(shard);
            }
            Err(e) => self.fail(e),
        }
    }

    fn push(&mut self, shard: Shard) {
        self.samples = self.samples.saturating_add(shard.samples);
        if i64::try_from(self.samples).is_err() {
            self.fail(Error::format("the shards hold more samples than can be counted"));
        } else if let Err(e) = self.shards.try_reserve(1) {
            self.fail(Error::new(ErrorKind::Full, "the memory does not hold the index of the data set").caused_by(e));
        } else {
            self.shards.push(shard);
        }
    }

    fn fail(&mut self, error: Error) {
        let number = self.shards.len();
        self.failed = Err::<(), _>(error).context("shard", || number).err();
    }

    /// Returns the shards.
    ///
    /// # Errors
    ///
    /// The error of the first entry that has one.
    pub(super) fn finish(mut self) -> Result<Vec<Shard>> {
        self.shards.shrink_to_fit();
        match self.failed {
            None => Ok(self.shards),
            Some(e) => Err(e),
        }
    }
}
