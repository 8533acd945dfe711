//! Step that each shard in progress has reached, for the report of a stall.

use crate::order::ShardId;
use crate::store::Progress;
use crate::sync::Mutex;
use std::collections::HashMap;

/// One step on a shard's way to local disk.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Waits for its claim, which a different thread, data set or process may have.
    Claimed,
    /// It is only prefetched, and a different loader's consumer waits for room.
    Postponed,
    /// Waits for memory.
    Memory,
    /// A file of it is being downloaded.
    Download {
        /// Key of the file in the store.
        key: String,
        /// Progress of the download when it was last read.
        progress: Progress,
    },
    /// It is in memory and waits for room on disk, for this reason.
    Room(String),
    /// It is being unpacked or written.
    Local,
}

/// Steps of the shards in progress, as many as the shard plane has threads.
#[derive(Debug, Default)]
pub(super) struct ShardStatuses {
    steps: Mutex<HashMap<ShardId, Step>>,
}

/// Status of one shard in progress; removed when dropped.
#[derive(Debug)]
pub(super) struct ShardStatus<'a> {
    statuses: &'a ShardStatuses,
    shard: ShardId,
}

impl ShardStatuses {
    /// Adds `shard`, which first waits for its claim.
    pub(super) fn begin(&self, shard: ShardId) -> ShardStatus<'_> {
        let status = ShardStatus { statuses: self, shard };
        status.set(Step::Claimed);
        status
    }

    /// True if `shard` waits for its claim or for room, which a different loader or process may have.
    pub(super) fn waits_for_others(&self, shard: ShardId) -> bool {
        self.waits_for_room(shard) || matches!(self.steps.lock().get(&shard), Some(Step::Claimed))
    }

    /// True if `shard` waits for room.
    pub(super) fn waits_for_room(&self, shard: ShardId) -> bool {
        matches!(self.steps.lock().get(&shard), Some(Step::Room(_)))
    }

    /// True if a shard that is read before `position` waits for memory. `next_read` returns the position at which a
    /// shard is read.
    pub(super) fn is_memory_needed_before(&self, position: u64, next_read: impl Fn(ShardId) -> Option<u64>) -> bool {
        let steps = self.steps.lock();
        let mut waiting = steps.iter().filter(|(_, step)| matches!(step, Step::Memory));
        waiting.any(|(shard, _)| next_read(*shard).is_some_and(|next| next < position))
    }

    /// Describes the step of `shard`, which is called `name`; `None` if it is not in progress.
    pub(super) fn describe(&self, shard: ShardId, name: &str) -> Option<String> {
        Some(match self.steps.lock().get(&shard)? {
            Step::Claimed => {
                format!("{name} is being fetched by a different process, or by a second loader of this one")
            }
            Step::Postponed => {
                format!("{name} waits because a second loader or process needs its room in the cache")
            }
            Step::Memory => format!("{name} waits for memory until earlier shards have been written to disk"),
            Step::Download { key, progress: p } => format!(
                "{key} is being downloaded: attempt {}, {} of {} bytes, no byte for {} s",
                p.attempt,
                p.bytes,
                p.len,
                p.idle.as_secs()
            ),
            Step::Room(why) => format!("{name} waits for room in the cache: {why}"),
            Step::Local => format!("{name} is being unpacked or written"),
        })
    }
}

impl ShardStatus<'_> {
    /// Sets the shard's current step.
    pub(super) fn set(&self, step: Step) {
        self.statuses.steps.lock().insert(self.shard, step);
    }
}

impl Drop for ShardStatus<'_> {
    fn drop(&mut self) {
        self.statuses.steps.lock().remove(&self.shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_needed_before_a_position_while_an_earlier_shard_waits_for_it() {
        let statuses = ShardStatuses::default();
        let next_read = |shard: ShardId| (shard.0 < 10).then_some(u64::from(shard.0));
        let (earlier, unread) = (statuses.begin(ShardId(3)), statuses.begin(ShardId(12)));
        let needed = |position| statuses.is_memory_needed_before(position, next_read);
        assert!(!needed(6), "it waits for its claim");
        earlier.set(Step::Memory);
        unread.set(Step::Memory);
        assert_eq!([2, 3, 4, 6].map(needed), [false, false, true, true]);
        earlier.set(Step::Local);
        assert!(!needed(6), "it has its memory, and no sample of the second one is read");
    }

    #[test]
    fn shards_of_one_name_in_two_streams_are_distinct() {
        let statuses = ShardStatuses::default();
        let first = statuses.begin(ShardId(0));
        let second = statuses.begin(ShardId(7));
        first.set(Step::Room("9 bytes over".to_owned()));
        second.set(Step::Local);
        let describe = |shard| statuses.describe(ShardId(shard), "shard.00000.mds");
        assert_eq!([0, 7, 9].map(|shard| statuses.waits_for_others(ShardId(shard))), [true, false, false]);
        assert_eq!(describe(0).expect("in progress"), "shard.00000.mds waits for room in the cache: 9 bytes over");
        assert_eq!(describe(7).expect("in progress"), "shard.00000.mds is being unpacked or written");
        drop(first);
        assert_eq!(describe(0), None);
        assert!(describe(7).is_some());
    }
}
