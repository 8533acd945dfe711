//! What is being done about each shard that a thread of the shard plane has in hand: for the report of a stall.

use crate::order::ShardId;
use crate::store::Progress;
use crate::sync::Mutex;
use std::collections::HashMap;

/// One step of a shard's way to local disk.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Another thread, data set or process has claimed it.
    Elsewhere,
    /// It is fetched ahead only, and another loader's consumer waits for room.
    Postponed,
    /// Its turn to be held in memory has not come.
    Memory,
    /// A file of it is being downloaded.
    Download {
        /// The file's key in the store.
        key: String,
        /// How far the download is, as of the last look.
        progress: Progress,
    },
    /// It is in memory and has no room on disk.
    Room(String),
    /// It is being unpacked or written.
    Local,
}

/// The shards in hand, as many as the shard plane has threads.
#[derive(Debug, Default)]
pub(super) struct ShardStatuses {
    steps: Mutex<HashMap<ShardId, Step>>,
}

/// A shard in hand; put down when dropped.
#[derive(Debug)]
pub(super) struct ShardStatus<'a> {
    activity: &'a ShardStatuses,
    shard: ShardId,
}

impl ShardStatuses {
    /// `shard` is in hand, its way begins with waiting for the claim.
    pub(super) fn take(&self, shard: ShardId) -> ShardStatus<'_> {
        let in_hand = ShardStatus { activity: self, shard };
        in_hand.at(Step::Elsewhere);
        in_hand
    }

    /// Whether `shard` is in hand and waits for what another loader or process has: its claim, or room.
    pub(super) fn waits_for_others(&self, shard: ShardId) -> bool {
        matches!(self.steps.lock().get(&shard), Some(Step::Elsewhere | Step::Room(_)))
    }

    /// Whether a shard in hand waits for memory that is read before `position`, as `next_read` says.
    pub(super) fn is_memory_needed_before(&self, position: u64, next_read: impl Fn(ShardId) -> Option<u64>) -> bool {
        let steps = self.steps.lock();
        let mut waiting = steps.iter().filter(|(_, step)| matches!(step, Step::Memory));
        waiting.any(|(shard, _)| next_read(*shard).is_some_and(|next| next < position))
    }

    /// What is being done about `shard`, called `name`, in words; `None` when no thread has it in hand.
    pub(super) fn describe(&self, shard: ShardId, name: &str) -> Option<String> {
        Some(match self.steps.lock().get(&shard)? {
            Step::Elsewhere => format!("{name} is being fetched by another process, or by another loader of this one"),
            Step::Postponed => format!("{name} waits until the consumer of another loader or process has got its room"),
            Step::Memory => format!("{name} waits until other shards on their way to disk have left memory"),
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
    /// The shard is at `step` now.
    pub(super) fn at(&self, step: Step) {
        self.activity.steps.lock().insert(self.shard, step);
    }
}

impl Drop for ShardStatus<'_> {
    fn drop(&mut self) {
        self.activity.steps.lock().remove(&self.shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_needed_before_a_position_while_an_earlier_shard_waits_for_it() {
        let activity = ShardStatuses::default();
        let next_read = |shard: ShardId| (shard.0 < 10).then_some(u64::from(shard.0));
        let (earlier, unread) = (activity.take(ShardId(3)), activity.take(ShardId(12)));
        let needed = |position| activity.is_memory_needed_before(position, next_read);
        assert!(!needed(6), "it waits for its claim");
        earlier.at(Step::Memory);
        unread.at(Step::Memory);
        assert_eq!([2, 3, 4, 6].map(needed), [false, false, true, true]);
        earlier.at(Step::Local);
        assert!(!needed(6), "it has got its memory, and nobody reads the other one");
    }

    #[test]
    fn shards_of_one_name_in_two_streams_are_told_apart() {
        let activity = ShardStatuses::default();
        let first = activity.take(ShardId(0));
        let second = activity.take(ShardId(7));
        first.at(Step::Room("9 bytes over".to_owned()));
        second.at(Step::Local);
        let describe = |shard| activity.describe(ShardId(shard), "shard.00000.mds");
        assert_eq!([0, 7, 9].map(|shard| activity.waits_for_others(ShardId(shard))), [true, false, false]);
        assert_eq!(describe(0).expect("in hand"), "shard.00000.mds waits for room in the cache: 9 bytes over");
        assert_eq!(describe(7).expect("in hand"), "shard.00000.mds is being unpacked or written");
        drop(first);
        assert_eq!(describe(0), None);
        assert!(describe(7).is_some());
    }
}
