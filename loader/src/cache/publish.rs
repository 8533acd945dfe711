//! Publication of a claimed shard: reserve room, write its files, link them under their names.

use super::claim;
use super::evict::{Room, make_room};
use super::listing::remove_zips;
use super::residency::ResidencyGuard;
use super::shards::{files_of, raw_files, zip_files};
use super::shared_dir::{RAW, ZIP};
use super::stream_cache::StreamCache;
use super::wait_policy::WaitPolicy;
use super::write::{FileContent, WriteMode, WriteOutcome, moment, remove_quietly, tmp_path, write_file};
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::{FileInfo, Shard};
use crate::sync::{Arc, Mutex, Ordering};
use rustix::io::Errno;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// Result of an attempt to claim a shard.
#[derive(Debug)]
pub(crate) enum ClaimOutcome {
    /// The caller fetches the shard.
    Claimed(ShardClaim),
    /// The shard is on disk, and stays there as long as the guard lives.
    Resident(ResidencyGuard),
    /// A different thread or process fetches the shard. [`StreamCache::claim`] never returns this.
    Busy,
}

impl StreamCache {
    /// Tries to become the one process and thread that fetches `shard`. Does not wait.
    ///
    /// # Errors
    ///
    /// `NotFound` when the shard is absent and there is no remote, `Permission` when the directory cannot be written,
    /// `Closed` in a forked child.
    pub(crate) fn try_claim(self: &Arc<Self>, shard: u32) -> Result<ClaimOutcome> {
        let dir = &self.dir;
        dir.check_process()?;
        dir.files(shard)?;
        let claim = claim::CLAIM + u64::from(shard);
        if self.is_complete(shard, dir.present(shard))
            && let Some(guard) = ResidencyGuard::of_resident(self, shard)
        {
            return Ok(ClaimOutcome::Resident(guard));
        }
        let mut locks = dir.locks.lock();
        let present = dir.refresh_present(shard);
        if !self.is_complete(shard, present) {
            self.check_fetchable(shard, present)?;
            if !locks.try_exclusive(claim) {
                return Ok(ClaimOutcome::Busy);
            }
            // Between the check and the lock a different process may have published the shard and released its claim.
            if !self.is_complete(shard, dir.refresh_present(shard)) {
                moment("claimed");
                let claim = ShardClaim { stream: self.clone(), shard, toggled: Mutex::default(), closing_since: None };
                return Ok(ClaimOutcome::Claimed(claim));
            }
            locks.release(claim);
        }
        drop(locks);
        // It was on disk, but not guarded: it may have been evicted since.
        Ok(ResidencyGuard::of_resident(self, shard).map_or(ClaimOutcome::Busy, ClaimOutcome::Resident))
    }

    /// Claims `shard` like [`try_claim`](Self::try_claim), but waits while a different thread or process fetches it.
    ///
    /// # Errors
    ///
    /// The errors of [`try_claim`](Self::try_claim) and of the wait.
    pub(crate) fn claim(self: &Arc<Self>, shard: u32, policy: WaitPolicy<'_>) -> Result<ClaimOutcome> {
        let dir = &self.dir;
        dir.files(shard)?;
        let data = dir.data_path(shard);
        let folder = data.parent().unwrap_or(&dir.path);
        let mut wait = policy.start(&self.config.clock);
        loop {
            let version = dir.watch.version(folder);
            match self.try_claim(shard)? {
                ClaimOutcome::Busy => {
                    wait.note_pulse(dir.locks.lock().is_pulse_up(shard));
                    let holder = || {
                        if dir.locks.lock().is_claimed(shard) { "a different thread" } else { "a different process" }
                    };
                    let awaited = || format!("{}, which {} fetches", self.name(shard), holder());
                    dir.watch.wait(version, wait.remaining(awaited)?);
                }
                outcome => return Ok(outcome),
            }
        }
    }

    /// Checks before a download that `shard` can be fetched.
    fn check_fetchable(&self, shard: u32, present: u8) -> Result<()> {
        if !self.has_remote() && present & ZIP == 0 {
            return Err(self.unusable_error(shard));
        }
        let access = match rustix::fs::access(&self.dir.path, rustix::fs::Access::WRITE_OK) {
            // Removed since the data set was opened: it is made again with the shard's file.
            Err(Errno::NOENT) => Ok(()),
            other => other,
        };
        access.map_err(|errno| {
            Error::from_io(
                errno.into(),
                "the cache directory lacks a shard and cannot be written: choose a different `local`, or complete it",
            )
            .with("shard", shard)
            .with("directory", self.dir.path.display())
        })
    }
}

/// Right and duty to fetch one shard. When it is dropped, the next waiter may try.
#[derive(Debug)]
pub(crate) struct ShardClaim {
    stream: Arc<StreamCache>,
    shard: u32,
    /// Time of the last toggle of the pulse.
    toggled: Mutex<Option<Duration>>,
    /// Time since which it waits for evicted shards to be closed.
    closing_since: Option<Duration>,
}

/// Longest wait for evicted shards to be closed, which takes milliseconds, before further shards are evicted.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Shortest time between two toggles of a pulse. Waiters look four times as often, so that they miss none.
const PULSE_EVERY: Duration = Duration::from_secs(1);

impl ShardClaim {
    /// Reports that bytes of the shard have arrived, so that waiters in all processes do not time out.
    pub(crate) fn report_progress(&self) {
        let now = self.stream.config.clock.now();
        let mut toggled = self.toggled.lock();
        if toggled.is_none_or(|last| now >= last + PULSE_EVERY) && self.stream.dir.is_own_process() {
            *toggled = Some(now);
            self.stream.dir.locks.lock().toggle_pulse(self.shard);
        }
    }

    /// Returns the paths of the compressed files, in the order of the index, if all of them are on disk and only have
    /// to be unpacked.
    pub(crate) fn packed_files(&self) -> Option<Vec<PathBuf>> {
        let dir = &self.stream.dir;
        let is_packed = dir.refresh_present(self.shard) & ZIP != 0;
        is_packed.then(|| zip_files(&dir.shards[self.shard as usize]).map(|f| dir.path_of(f)).collect())
    }

    /// Reserves room for the shard, evicting different shards if the limit or the disk requires it. Does not wait.
    ///
    /// `next_use` returns when this node uses a shard next (numbered from `first_shard`), in any unit that grows with
    /// time; `None` for shards that the plan does not use any more or never knew. A shard that is fetched without being
    /// in the plan (random access) counts as used now.
    ///
    /// # Errors
    ///
    /// `Config` when the shard alone exceeds the limit, `Full` when the disk is full and nothing in the directory can
    /// be evicted. The claim is released.
    pub(crate) fn try_admit(mut self, next_use: &dyn Fn(u32) -> Option<u64>) -> Result<AdmitOutcome> {
        Ok(match self.make_room(next_use)? {
            None => AdmitOutcome::Admitted(Admission { claim: self }),
            Some(reason) => AdmitOutcome::Wait { claim: self, reason },
        })
    }

    /// Reserves room; otherwise returns the reason why there is none yet.
    fn make_room(&mut self, next_use: &dyn Fn(u32) -> Option<u64>) -> Result<Option<String>> {
        let now = self.stream.config.clock.now();
        let is_late = self.closing_since.is_some_and(|since| now >= since + CLOSE_WITHIN);
        let room = make_room(&self.stream, self.shard, is_late, next_use)?;
        if matches!(room, Room::Reserved) {
            moment("admitted");
        }
        let is_closing = matches!(room, Room::Closing(_));
        self.closing_since = is_closing.then(|| self.closing_since.unwrap_or(now));
        Ok(match room {
            Room::Reserved => None,
            Room::Wait(reason) | Room::Closing(reason) => Some(reason),
        })
    }

    /// Reserves room like [`try_admit`](Self::try_admit), but waits for it.
    ///
    /// # Errors
    ///
    /// The errors of [`try_admit`](Self::try_admit); `Closed` when the wait is stopped; `Full` when its time is over,
    /// with the reason.
    pub(crate) fn admit(mut self, next_use: &dyn Fn(u32) -> Option<u64>, policy: WaitPolicy<'_>) -> Result<Admission> {
        let watch = self.stream.dir.watch.clone();
        let mut wait = policy.start(&self.stream.config.clock);
        loop {
            let version = watch.version(&self.stream.dir.path);
            let Some(reason) = self.make_room(next_use)? else { return Ok(Admission { claim: self }) };
            let awaited = || format!("room for {}: {reason}", self.stream.name(self.shard));
            let remaining = wait
                .remaining(awaited)
                .map_err(|e| if e.kind() == ErrorKind::Timeout { e.of_kind(ErrorKind::Full) } else { e })?;
            watch.wait(version, remaining);
        }
    }
}

impl Drop for ShardClaim {
    fn drop(&mut self) {
        let dir = &self.stream.dir;
        if !dir.is_own_process() {
            return;
        }
        let mut locks = dir.locks.lock();
        locks.release(claim::PULSE + u64::from(self.shard));
        locks.release(claim::CLAIM + u64::from(self.shard));
        drop(locks);
        dir.watch.wake();
        dir.wake_waiters();
    }
}

/// Result of [`ShardClaim::try_admit`].
#[derive(Debug)]
pub(crate) enum AdmitOutcome {
    /// The room is reserved for the caller.
    Admitted(Admission),
    /// There is no room yet.
    Wait {
        /// The caller's claim.
        claim: ShardClaim,
        /// The reason why there is no room.
        reason: String,
    },
}

/// Claim with reserved room for its bytes. When it is dropped, both are released.
#[derive(Debug)]
pub(crate) struct Admission {
    claim: ShardClaim,
}

/// Content of one file of a shard.
#[derive(Clone, Copy)]
pub(crate) struct PublishFile<'a> {
    /// File name, as in the index.
    pub(crate) name: &'a str,
    /// Whole content, which the caller has compared with its hash, if the index has one.
    pub(crate) content: FileContent<'a>,
}

impl Admission {
    #[cfg(test)]
    pub(super) fn shard(&self) -> u32 {
        self.claim.shard
    }

    /// Reports progress like [`ShardClaim::report_progress`].
    pub(crate) fn report_progress(&self) {
        self.claim.report_progress();
    }

    /// Writes the shard and makes it resident, as long as the returned guard lives.
    ///
    /// `files` must have all raw files that are not on disk yet; compressed ones are written if `keep_zip` is set and
    /// ignored otherwise. Sizes are checked before anything is written, and the shard is visible only when it is
    /// complete. Another program may remove it at any time, also before this returns: a reader then finds no file.
    ///
    /// # Errors
    ///
    /// `Checksum` for a wrong size, `Full`, `Permission` or `Io` from the disk; `Internal` for a name that is not the
    /// shard's. The shard is then absent and may be claimed again.
    pub(crate) fn publish(self, files: &[PublishFile<'_>]) -> Result<ResidencyGuard> {
        let (stream, shard) = (&self.claim.stream, self.claim.shard);
        let dir = &stream.dir;
        dir.check_process()?;
        let all = &dir.shards[shard as usize];
        for file in files {
            check_file(all, file).map_err(|e| e.with("file", file.name).with("shard", shard))?;
        }
        // Guarded before it is visible, so that no evictor can take it in between.
        let guard = ResidencyGuard::of_claimed(stream, shard);
        let is_alone = dir.locks.lock().is_available();
        // Compressed files first and the data file last: while the data file is missing, the shard does not look
        // complete, however many of these steps have been done.
        let zips = zip_files(all).filter(|_| stream.config.keep_zip || !stream.has_remote());
        for expected in zips.chain(raw_files(all).rev()) {
            let Some(file) = files.iter().find(|f| *f.name == *expected.basename) else { continue };
            let path = dir.path_of(expected);
            let label = |written: &File| stream.label(all, expected, written);
            let mode = WriteMode { is_alone, unnamed_files: &dir.unnamed_files, label: &label };
            match write_file(&path, file.content, mode).map_err(|e| e.with("shard", shard))? {
                WriteOutcome::New => stream.counters.published_bytes.add(expected.bytes),
                WriteOutcome::AlreadyThere => stream.counters.lost_races.add(1),
            }
            moment("named");
            if is_alone && dir.unnamed_files.load(Ordering::Relaxed) {
                remove_quietly(&tmp_path(&path));
            }
        }
        let present = dir.refresh_present(shard);
        let is_given = |expected: &FileInfo| files.iter().any(|file| *file.name == *expected.basename);
        if !stream.is_complete(shard, present) {
            if !raw_files(all).all(is_given) {
                return Err(Error::internal("a shard was published without all of its files")
                    .with("shard", shard)
                    .with("directory", dir.path.display()));
            }
            // Its reader finds no file and fetches it again, as it does for a shard that is removed a moment later.
            log::info!("{} was removed as soon as it was published", stream.name(shard));
        }
        if present == RAW | ZIP
            && !stream.config.keep_zip
            && stream.has_remote()
            && !dir.locks.lock().is_shared(claim::KEEP_ZIP)
        {
            remove_zips(dir, shard);
        }
        stream.counters.published.add(1);
        Ok(guard)
    }
}

/// Checks name and size of a file of the shard with the files `all`.
pub(super) fn check_file(all: &Shard, file: &PublishFile<'_>) -> Result<()> {
    let Some(expected) = files_of(all).find(|f| *f.basename == *file.name) else {
        return Err(Error::internal("a file that does not belong to the shard"));
    };
    if !all.accepts(expected, file.content.bytes()) {
        return Err(Error::new(ErrorKind::Checksum, "a file's size differs from the index")
            .with("bytes", file.content.bytes())
            .with("expected", expected.bytes));
    }
    Ok(())
}

impl Drop for Admission {
    fn drop(&mut self) {
        let dir = &self.claim.stream.dir;
        if dir.is_own_process() {
            dir.locks.lock().release(claim::RESERVE + u64::from(self.claim.shard));
        }
    }
}
