//! Rank of a process in the training job.

use super::options::{OptionInfo, options};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

options! {
    /// Rank of this process in the training job.
    #[derive(Copy, PartialEq, Eq)]
    pub struct WorldConfig {
        /// Number of this process among all processes.
        pub rank: u32 = 0,
        /// Number of processes.
        pub world_size: u32 = 1,
        /// Number of this process on its node.
        pub local_rank: u32 = 0,
        /// Number of processes of one node.
        pub local_world_size: u32 = 1,
    }
}

impl WorldConfig {
    /// Nodes of the job.
    pub fn nodes(&self) -> u32 {
        self.world_size / self.local_world_size
    }

    pub(super) fn validate(&self) -> Result<()> {
        let ok = self.local_world_size >= 1
            && self.world_size >= 1
            && self.world_size.is_multiple_of(self.local_world_size)
            && self.rank < self.world_size
            && self.local_rank < self.local_world_size;
        if ok {
            return Ok(());
        }
        Err(Error::config(
            "rank must be below world_size, local_rank below local_world_size, and world_size a multiple of \
             local_world_size",
        )
        .with("rank", self.rank)
        .with("world_size", self.world_size)
        .with("local_rank", self.local_rank)
        .with("local_world_size", self.local_world_size))
    }
}
