//! Options of the fetches of shards.

use super::limits::{positive, require};
use super::options::{OptionInfo, Seconds, options};
use crate::error::Result;
use serde::{Deserialize, Serialize};

options! {
    /// Fetches of shards: attempts, time limit and check, and the files that remain.
    pub struct FetchConfig {
        /// Total attempts per download.
        pub retry: u32 = 2,
        /// Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
        pub timeout: Seconds = 60.0,
        /// Hash to match when a shard is fetched or unpacked, such as "xxh64". None: the cheapest in the index.
        pub validate_hash: Option<String> = None,
        /// Keep compressed shards next to the unpacked ones.
        pub keep_zip: bool = false,
    }
}

impl FetchConfig {
    pub(super) fn validate(&self) -> Result<()> {
        require(self.retry >= 1, "fetch.retry is the total number of attempts: at least 1")?;
        require(positive(self.timeout), "fetch.timeout must be a positive number of seconds")
    }
}
