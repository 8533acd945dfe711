//! Housekeeping of the shard plane, in a separate thread.

use super::source::ShardSource;
use crate::error::Result;

impl ShardSource {
    /// Closes evicted shards, makes holds exact, and gives up room that a different loader or process needs now, until
    /// the run stops. Returns at once if shards cannot be evicted.
    ///
    /// This has a separate thread, which never waits for the shard plane: a different process may wait for the room of
    /// an evicted shard while every thread here waits for a shard that this process is to fetch. It works when
    /// something changes in the directories, and every quarter of a second.
    pub(crate) fn keep_house(&self) -> Result<()> {
        let Some(any) = self.catalog.streams().iter().find(|stream| stream.dir.has_remote()) else { return Ok(()) };
        self.catalog.streams().iter().for_each(|stream| stream.dir.watch_folders());
        loop {
            // Before the checks, so that a change during them, or a stop, ends the wait.
            let changes = any.dir.changes();
            if self.run.is_stopped() {
                return Ok(());
            }
            self.catalog.streams().iter().for_each(|stream| stream.dir.make_holds_exact_if_needed());
            // Under a limit, a shard stays open only while announced samples need it: other jobs evict open shards
            // last.
            let is_limited = any.dir.is_limited();
            self.open_shards.sweep(|shard| !is_limited || self.residency.next_read(shard).is_some());
            self.share_room();
            self.residency.notify_release();
            any.dir.wait_for_change(changes);
        }
    }
}
