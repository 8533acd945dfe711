//! From a claim to a resident shard: room, bytes, name.

use super::claim;
use super::dir::CacheDir;
use super::directory::{RAW, ZIP};
use super::evict::{self, Room};
use super::patience::Patience;
use super::write::{How, Linked, moment, tmp_path, write_file};
use crate::error::{Error, ErrorKind, Result};
use crate::format::hash::{HashAlgo, cheapest};
use crate::sync::{Arc, Mutex};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The answer to a claim.
#[derive(Debug)]
pub enum Claim {
    /// The caller fetches the shard.
    Mine(Claimed),
    /// It is here, and stays until [`CacheDir::mark_read`].
    Resident,
    /// Somebody else fetches it; see [`CacheDir::wait_resident`]. Never the answer of [`CacheDir::claim`].
    Busy,
}

/// The right and duty to fetch one shard; dropping it lets the next waiter try.
#[derive(Debug)]
pub struct Claimed {
    dir: Arc<CacheDir>,
    shard: u32,
    /// When the last beat was passed on.
    beaten: Mutex<Option<Duration>>,
}

/// Pulses turn this often at most, and whoever waits looks four times as often, so that no turn is missed.
const PULSE_EVERY: Duration = Duration::from_secs(1);

impl Claimed {
    pub(super) fn new(dir: Arc<CacheDir>, shard: u32) -> Self {
        Self { dir, shard, beaten: Mutex::default() }
    }

    /// The shard.
    pub fn shard(&self) -> u32 {
        self.shard
    }

    /// Bytes of the shard have come in: tells those who wait for it, in whichever process, not to give up.
    pub fn beat(&self) {
        let now = self.dir.clock.now();
        let mut beaten = self.beaten.lock();
        if beaten.is_none_or(|last| now >= last + PULSE_EVERY) && self.dir.directory.is_own_process() {
            *beaten = Some(now);
            self.dir.directory.table.lock().beat(&self.dir.directory, self.shard);
        }
    }

    /// The compressed files, when they are complete on disk and only have to be unpacked. In the order of the index.
    pub fn packed(&self) -> Option<Vec<PathBuf>> {
        let directory = &self.dir.directory;
        let packed = directory.look(self.shard) & ZIP != 0;
        packed.then(|| directory.shards[self.shard as usize].zip.iter().map(|f| directory.path_of(f)).collect())
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let directory = &self.dir.directory;
        if !directory.is_own_process() {
            return;
        }
        let mut table = directory.table.lock();
        table.stop_pulse(directory, self.shard);
        table.claims.remove(&self.shard);
        table.release(directory, claim::CLAIM + u64::from(self.shard));
        drop(table);
        directory.watch.wake();
    }
}

/// The answer to [`Claimed::try_admit`].
#[derive(Debug)]
pub enum Admit {
    /// There is room, and it is the caller's.
    Admitted(Admitted),
    /// Not yet: what is in the way is still needed.
    Wait {
        /// The claim, which comes back.
        claimed: Claimed,
        /// What is in the way, in words.
        why: String,
    },
}

/// A claim with room for its bytes; dropping it gives both back.
#[derive(Debug)]
pub struct Admitted {
    claimed: Claimed,
}

/// Compares bytes with what is recorded about them.
pub type Check<'a> = &'a dyn Fn(&[u8]) -> Result<()>;

/// The content of one file of a shard.
#[derive(Clone, Copy)]
pub struct PublishFile<'a> {
    /// Its name, as in [`ShardFiles`](super::ShardFiles).
    pub name: &'a str,
    /// All of it.
    pub bytes: &'a [u8],
    /// Compares `bytes` with the hash that the index has for them.
    check: Option<Check<'a>>,
    hashes: &'a [(HashAlgo, String)],
}

impl fmt::Debug for PublishFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishFile")
            .field("name", &self.name)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl<'a> PublishFile<'a> {
    /// The content of `name`. Its size is compared with the index; its hash was compared by the caller, or has none.
    pub fn new(name: &'a str, bytes: &'a [u8]) -> Self {
        Self { name, bytes, check: None, hashes: &[] }
    }

    /// Compares the cheapest of the recorded `hashes`, if there is one, before anything is written.
    #[must_use]
    pub fn hashed(self, hashes: &'a [(HashAlgo, String)]) -> Self {
        Self { hashes, ..self }
    }

    /// Runs `check` before anything is written.
    #[must_use]
    pub fn checked_by(self, check: Check<'a>) -> Self {
        Self { check: Some(check), ..self }
    }
}

impl Claimed {
    /// Reserves room for the shard, evicting others if the limit or the disk asks for it. Does not wait.
    ///
    /// `next_use` says when this node uses a shard next (numbered from `first_shard`), in any unit that grows with time;
    /// `None` for shards that the plan does not use any more or never knew. A shard that is fetched without being in the
    /// plan (random access) counts as wanted now.
    ///
    /// # Errors
    ///
    /// `Config` when the shard alone exceeds the limit, `Full` when the disk is full and nothing in the directory can
    /// go. The claim is given back.
    pub fn try_admit(self, next_use: &dyn Fn(u32) -> Option<u64>) -> Result<Admit> {
        match evict::make_room(&self.dir, self.shard, next_use)? {
            Room::Made => Ok(Admit::Admitted(Admitted { claimed: self })),
            Room::Wait(why) => Ok(Admit::Wait { claimed: self, why }),
        }
    }

    /// As [`try_admit`](Self::try_admit), but waits until there is room.
    ///
    /// # Errors
    ///
    /// As [`try_admit`](Self::try_admit); `Closed` when called off, `Full` when the time is over, with what is in the
    /// way.
    pub fn admit(self, next_use: &dyn Fn(u32) -> Option<u64>, patience: Patience<'_>) -> Result<Admitted> {
        let mut waiting = patience.start(&self.dir.clock);
        loop {
            let version = self.dir.directory.watch.version(&self.dir.directory.path);
            match evict::make_room(&self.dir, self.shard, next_use)? {
                Room::Made => return Ok(Admitted { claimed: self }),
                Room::Wait(why) => {
                    let what = || format!("room for {}: {why}", self.dir.name(self.shard));
                    let left = waiting
                        .left(what)
                        .map_err(|e| if e.kind() == ErrorKind::Timeout { e.of_kind(ErrorKind::Full) } else { e })?;
                    self.dir.directory.watch.wait(version, left);
                }
            }
        }
    }
}

impl Admitted {
    /// The shard.
    pub fn shard(&self) -> u32 {
        self.claimed.shard
    }

    /// As [`Claimed::beat`].
    pub fn beat(&self) {
        self.claimed.beat();
    }

    /// Writes the shard and makes it resident, held until [`CacheDir::mark_read`].
    ///
    /// `files` must have all raw files that are not on disk yet; compressed ones are written when `keep_zip` asks for
    /// them and ignored otherwise. Sizes and checks come first; nothing is visible before all of it is.
    ///
    /// # Errors
    ///
    /// `Checksum` for a wrong size, whatever a check returned, `Full`, `Permission` or `Io` from the disk; `Internal`
    /// for a name that is not the shard's. The shard is then absent and may be claimed again.
    pub fn publish(self, files: &[PublishFile<'_>]) -> Result<()> {
        let (dir, shard) = (&self.claimed.dir, self.claimed.shard);
        let directory = &dir.directory;
        directory.check_process()?;
        let all = &directory.shards[shard as usize];
        for file in files {
            check(dir, shard, file).map_err(|e| e.with("file", file.name).with("shard", shard))?;
        }
        // Held before it can be seen, so there is no moment in which an evictor could take it. Our claim keeps
        // evictors from the byte of the hold as well.
        dir.hold(shard);
        let alone = directory.table.lock().locks_work(directory);
        let how = How { sync: dir.sync, alone, unnamed_files: &directory.unnamed_files };
        // Compressed files first and the data file last: while the data file is missing, nobody takes the shard for
        // whole, whichever prefix of these steps was reached.
        let zips = all.zip.iter().filter(|_| dir.keep_zip || !dir.has_remote);
        for wanted in zips.chain(all.raw.iter().rev()) {
            let Some(file) = files.iter().find(|f| *f.name == *wanted.name) else { continue };
            match write_file(&directory.path_of(wanted), file.bytes, how) {
                Ok(Linked::Yes) => dir.counters.published_bytes.add(wanted.bytes),
                Ok(Linked::Already) => dir.counters.lost_races.add(1),
                Err(e) => {
                    dir.mark_read(shard);
                    return Err(e.with("shard", shard));
                }
            }
            moment("named");
            if alone && directory.unnamed_files.load(crate::sync::Ordering::Relaxed) {
                remove_quietly(&tmp_path(&directory.path_of(wanted)));
            }
        }
        let present = directory.look(shard);
        if !dir.suffices(shard, present) {
            dir.mark_read(shard);
            return Err(Error::internal("a shard was published without all of its files")
                .with("shard", shard)
                .with("directory", directory.path.display()));
        }
        if present == RAW | ZIP && !dir.keep_zip && dir.has_remote && !directory.table.lock().zips_stay(directory) {
            all.zip.iter().for_each(|zip| remove_quietly(&directory.path_of(zip)));
            directory.set_present(shard, RAW);
        }
        dir.counters.published.add(1);
        Ok(())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let directory = &self.claimed.dir.directory;
        if directory.is_own_process() {
            let mut table = directory.table.lock();
            table.reserved.remove(&self.claimed.shard);
            table.release(directory, claim::RESERVE + u64::from(self.claimed.shard));
        }
    }
}

/// Name, size and hash.
fn check(dir: &Arc<CacheDir>, shard: u32, file: &PublishFile<'_>) -> Result<()> {
    let directory = &dir.directory;
    let all = &directory.shards[shard as usize];
    let Some(wanted) = all.raw.iter().chain(&all.zip).find(|f| *f.name == *file.name) else {
        return Err(Error::internal("a file that does not belong to the shard"));
    };
    if file.bytes.len() as u64 != wanted.bytes {
        return Err(Error::new(ErrorKind::Checksum, "a file's size differs from the index")
            .with("bytes", file.bytes.len())
            .with("expected", wanted.bytes));
    }
    if let Some(algo) = cheapest(file.hashes.iter().map(|(algo, _)| *algo))
        && let Some((_, expected)) = file.hashes.iter().find(|(of, _)| *of == algo)
    {
        let found = algo.hex(file.bytes);
        if !found.eq_ignore_ascii_case(expected) {
            return Err(Error::new(ErrorKind::Checksum, "a file's content differs from its hash in the index")
                .with("hash", algo.name())
                .with("found", found)
                .with("expected", expected));
        }
    }
    file.check.map_or(Ok(()), |check| check(file.bytes))
}

/// Removes what may be there; what remains is looked at again by the next survey.
pub(super) fn remove_quietly(path: &std::path::Path) {
    if let Err(e) = std::fs::remove_file(path)
        && e.kind() != std::io::ErrorKind::NotFound
    {
        log::debug!("{} cannot be removed: {e}", path.display());
    }
}
