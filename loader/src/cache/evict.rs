//! Room for a shard: what is in the directory, what it may hold, and what has to go.
//!
//! One thread of one process makes room at a time (the admission lock), from a fresh listing of names. Sizes are those
//! of the index, since a name stands only for a whole file. What the listing cannot show is asked of the locks: room
//! that others have reserved, and evicted shards that others still have open. So the limit holds at every moment, and
//! the strictest limit of all live jobs is the one that holds.

use super::choose::{Candidate, choose};
use super::dir::CacheDir;
use super::directory::{Directory, RAW};
use super::listing::{Listing, clear_unfinished, file_bytes, list, missing_bytes};
use super::publish::remove_quietly;
use super::{INDEX_NAME, claim};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, Weak, sleep};
use std::collections::HashSet;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Disk space that is left alone, for what other programs write meanwhile.
pub(super) const DISK_RESERVE_BYTES: u64 = 16 << 20;

/// Attempts to get the admission lock, [`ADMISSION_PAUSE`] apart. It is held for milliseconds.
const ADMISSION_ATTEMPTS: u32 = 50;
const ADMISSION_PAUSE: Duration = Duration::from_millis(1);

/// The answer to a wish for room.
#[derive(Debug)]
pub(super) enum Room {
    /// Reserved.
    Made,
    /// What is in the way, in words.
    Wait(String),
}

impl CacheDir {
    /// Removes `shard` from the directory now, whatever the limit; false when it is held, being fetched, or not here.
    ///
    /// # Errors
    ///
    /// `Config` when this or another data set on the directory has no remote: the files may be the only copy.
    pub fn evict(&self, shard: u32) -> Result<bool> {
        let directory = &self.directory;
        directory.check_process()?;
        directory.files(shard)?;
        if directory.table.lock().nothing_may_go(directory) {
            return Err(Error::config(
                "a shard is not evicted where a data set has no remote: its files may be the only copy",
            )
            .with("shard", shard)
            .with("directory", directory.path.display()));
        }
        let was_here = directory.look(shard) != 0;
        let bytes = self.disk_bytes(shard);
        evict(self, Candidate { member: 0, shard, bytes, next_use: None, accessed_ns: 0, open: false });
        Ok(was_here && directory.look(shard) == 0)
    }

    /// The least recently used shard here and when that was, in nanoseconds since 1970; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When the directory cannot be listed.
    pub fn coldest(&self) -> Result<Option<(u128, u32)>> {
        let listing = list(&self.directory)?;
        let here = (0u32..).zip(&listing.files).filter(|(_, files)| **files != 0);
        Ok(here.map(|(shard, _)| (accessed_ns(&self.directory, shard), shard)).min())
    }

    /// Bytes of the index and of all shards here.
    ///
    /// # Errors
    ///
    /// When the directory cannot be listed.
    pub fn bytes_here(&self) -> Result<u64> {
        Ok(list(&self.directory)?.bytes)
    }
}

/// What is known of one directory while room is made.
struct Books {
    dir: Arc<CacheDir>,
    /// Shards that have room reserved, by anybody.
    reserved: HashSet<u32>,
    listing: Listing,
    /// Shards that other processes have open.
    opened: HashSet<u32>,
    in_flight: u64,
}

/// Reserves room for `shard`, which the caller has claimed.
pub(super) fn make_room(dir: &Arc<CacheDir>, shard: u32, next_use: &dyn Fn(u32) -> Option<u64>) -> Result<Room> {
    let directory = &dir.directory;
    directory.check_process()?;
    let members = dir.members();
    let _one_thread: Vec<_> = members.iter().map(|member| member.directory.admission.lock()).collect();
    let mut one_process = Vec::new();
    for member in &members {
        let Some(lock) = AdmissionLock::take(&member.directory) else {
            return Ok(Room::Wait("another process is making room".to_owned()));
        };
        one_process.push(lock);
    }
    let mut books: Vec<Books> = members.iter().map(Books::new).collect();
    // A member's directory may be another job's too; the smallest limit is right for all of them.
    let limits = members.iter().map(|member| member.directory.table.lock().strictest_limit(&member.directory));
    let limit = limits.flatten().min();
    let free = books.iter().find(|b| Arc::ptr_eq(&b.dir, dir)).and_then(|b| free_bytes(directory, &b.reserved));
    if limit.is_none() && free.is_none_or(|free| free >= dir.disk_bytes(shard)) {
        reserve(directory, shard);
        return Ok(Room::Made);
    }
    if let Some(limit) = limit {
        check_limit(dir, shard, limit)?;
    }

    for books in &mut books {
        books.look()?;
    }
    let own = books.iter().find(|b| Arc::ptr_eq(&b.dir, dir));
    let need = own.map_or(0, |b| missing_bytes(directory, &b.listing, shard, dir.keep_zip));
    let resident: u64 = books.iter().map(|b| b.listing.bytes).sum();
    let in_flight: u64 = books.iter().map(|b| b.in_flight).sum();
    let over_disk = free.map_or(0, |free| need.saturating_sub(free));
    let over_limit = limit.map_or(0, |limit| (resident + in_flight).saturating_add(need).saturating_sub(limit));
    let over = over_limit.max(over_disk);
    if over == 0 {
        reserve(directory, shard);
        return Ok(Room::Made);
    }
    // Other directories may lie on other disks: what goes there helps against the limit only.
    let evictable = books.iter().enumerate().filter(|(_, b)| over_disk == 0 || Arc::ptr_eq(&b.dir, dir));
    let candidates: Vec<Candidate> = evictable.flat_map(|(i, b)| b.candidates(i, dir, shard, next_use)).collect();
    let Some(victims) = choose(candidates, next_use(dir.first_shard + shard), over) else {
        let empty = own.is_none_or(|b| b.listing.files.iter().all(|files| *files == 0));
        if empty && in_flight == 0 && over_disk > 0 {
            let why = "the disk of the cache directory is full: free space on it, or choose a `local` on another disk";
            return Err(Error::new(ErrorKind::Full, why)
                .with("directory", directory.path.display())
                .with("bytes_needed", need)
                .with("bytes_free_for_shards", free.unwrap_or(0))
                .with("bytes_left_to_others", DISK_RESERVE_BYTES));
        }
        let limit = match limit {
            Some(limit) if over_disk == 0 => format!("cache_limit {limit}"),
            _ => "the disk's free space".to_owned(),
        };
        return Ok(Room::Wait(format!(
            "{over} bytes over {limit}; {resident} bytes are on disk and {in_flight} in flight or evicted and still \
             open, all being fetched, not read yet, needed sooner, or of a data set without a remote"
        )));
    };
    let freed = victims.into_iter().map(|v| evict(&books[v.member].dir, v)).fold(0, u64::saturating_add);
    if freed < over {
        return Ok(Room::Wait(format!("{} bytes that are evicted and still open", over - freed)));
    }
    reserve(directory, shard);
    Ok(Room::Made)
}

impl Books {
    fn new(dir: &Arc<CacheDir>) -> Self {
        let mut table = dir.directory.table.lock();
        // Taken before the listing: a shard that is published meanwhile is then seen twice rather than not at all.
        // None is added meanwhile, since we have the admission lock.
        let mut reserved = table.reserved.clone();
        let others = table.others(&dir.directory, region(claim::RESERVE));
        reserved.extend(shards_of(&dir.directory, &others, claim::RESERVE));
        let dir = dir.clone();
        drop(table);
        Self { dir, reserved, listing: Listing::default(), opened: HashSet::new(), in_flight: 0 }
    }

    /// Lists the directory and asks the locks for what the listing cannot show.
    fn look(&mut self) -> Result<()> {
        let directory = &self.dir.directory;
        self.listing = list(directory)?;
        let mut table = directory.table.lock();
        for shard in std::mem::take(&mut self.listing.unfinished) {
            self.listing.bytes -= clear_unfinished(directory, &mut table, shard).min(self.listing.bytes);
        }
        self.opened = shards_of(directory, &table.others(directory, region(claim::OPEN)), claim::OPEN);
        let with_zip = table.zips_stay(directory);
        let coming = self.reserved.iter().map(|&shard| missing_bytes(directory, &self.listing, shard, with_zip));
        // Evicted shards that other processes have open: their lock is there and their name is not.
        let gone = self.opened.iter().filter(|&&shard| self.listing.files[shard as usize] == 0);
        let gone = gone.map(|&shard| directory.shards[shard as usize].raw_bytes());
        self.in_flight = coming.chain(gone).fold(table.evicted_open_bytes, u64::saturating_add);
        Ok(())
    }

    /// Everything here that may go in favour of `shard` of `dir`, whenever it is used next.
    fn candidates(
        &self,
        member: usize,
        dir: &Arc<CacheDir>,
        shard: u32,
        next_use: &dyn Fn(u32) -> Option<u64>,
    ) -> Vec<Candidate> {
        let directory = &self.dir.directory;
        let mut table = directory.table.lock();
        if table.nothing_may_go(directory) {
            return Vec::new();
        }
        let mut kept = shards_of(directory, &table.others(directory, region(claim::HOLD)), claim::HOLD);
        kept.extend(shards_of(directory, &table.others(directory, region(claim::CLAIM)), claim::CLAIM));
        kept.extend(table.holds.keys().chain(&table.claims));
        let opened: HashSet<u32> = self.opened.iter().chain(table.opens.keys()).copied().collect();
        drop(table);
        if Arc::ptr_eq(&self.dir, dir) {
            kept.insert(shard);
        }
        let present = (0u32..).zip(&self.listing.files).filter(|(s, files)| **files != 0 && !kept.contains(s));
        present
            .map(|(s, &files)| {
                let next_use = next_use(self.dir.first_shard + s);
                let bytes = (0..8).filter(|i| files & (1 << i) != 0).map(|i| file_bytes(directory, s, i)).sum();
                let accessed_ns = if next_use.is_none() { accessed_ns(directory, s) } else { 0 };
                Candidate { member, shard: s, bytes, next_use, accessed_ns, open: opened.contains(&s) }
            })
            .collect()
    }
}

/// A limit that the shard alone exceeds is known to be wrong at once.
fn check_limit(dir: &CacheDir, shard: u32, limit: u64) -> Result<()> {
    let index_bytes = std::fs::metadata(dir.directory.path.join(INDEX_NAME)).map_or(0, |meta| meta.len());
    if dir.disk_bytes(shard).saturating_add(index_bytes) <= limit {
        return Ok(());
    }
    Err(Error::config("`cache_limit` is smaller than one shard and the index together: raise it")
        .with("cache_limit", limit)
        .with("shard", shard)
        .with("bytes", dir.disk_bytes(shard))
        .with("index_bytes", index_bytes))
}

/// Says to other processes that the room is taken.
fn reserve(directory: &Directory, shard: u32) {
    let mut table = directory.table.lock();
    table.reserved.insert(shard);
    // Nobody else can have it: the caller holds the shard's claim.
    table.exclusive(directory, claim::RESERVE + u64::from(shard));
}

/// What of the disk is free for shards: not what is promised and not written yet, and not the reserve. `None` when the
/// file system does not say.
fn free_bytes(directory: &Directory, reserved: &HashSet<u32>) -> Option<u64> {
    let promised = reserved.iter().fold(0u64, |sum, &s| {
        let files = &directory.shards[s as usize];
        sum.saturating_add(files.raw_bytes()).saturating_add(files.zip_bytes())
    });
    let available = directory.disk_available_bytes()?;
    Some(available.saturating_sub(promised).saturating_sub(DISK_RESERVE_BYTES))
}

/// When somebody last used `shard`, by its data file.
fn accessed_ns(directory: &Directory, shard: u32) -> u128 {
    let path = directory.path_of(&directory.shards[shard as usize].raw[0]);
    std::fs::metadata(path).map_or(0, |meta| {
        let seconds = u128::try_from(meta.atime()).unwrap_or(0);
        seconds * 1_000_000_000 + u128::try_from(meta.atime_nsec()).unwrap_or(0)
    })
}

/// Removes `victim`'s files, unless somebody has begun to fetch or to want it; what is free at once.
fn evict(dir: &CacheDir, victim: Candidate) -> u64 {
    let directory = &dir.directory;
    // Declared first and so dropped last: if it is the last reader, it locks the table.
    let reader;
    // Held until the end: nobody opens the shard between the look for readers and its going.
    let open = directory.open.lock();
    reader = open.get(&victim.shard).and_then(Weak::upgrade);
    let mut table = directory.table.lock();
    if table.holds.contains_key(&victim.shard) || table.claims.contains(&victim.shard) {
        return 0;
    }
    let (claim, hold) = (claim::CLAIM + u64::from(victim.shard), claim::HOLD + u64::from(victim.shard));
    if !table.exclusive(directory, claim) {
        return 0;
    }
    // Who wants to read a shard takes its hold first and looks whether it is there afterwards, so one of us sees the
    // other: either the hold is refused here, or the file is gone when the other looks.
    if !table.exclusive(directory, hold) {
        table.release(directory, claim);
        return 0;
    }
    let files = &directory.shards[victim.shard as usize];
    // The data file first: without it nobody takes the rest for a shard.
    files.raw.iter().chain(&files.zip).for_each(|file| remove_quietly(&directory.path_of(file)));
    let gone = directory.look(victim.shard) & RAW == 0;
    table.release(directory, hold);
    table.release(directory, claim);
    if !gone {
        return 0;
    }
    dir.counters.evicted.add(1);
    dir.counters.evicted_bytes.add(victim.bytes);
    if let Some(reader) = &reader
        && reader.set_evicted()
    {
        table.evicted_open_bytes = table.evicted_open_bytes.saturating_add(reader.bytes());
    }
    if victim.open || reader.is_some() { 0 } else { victim.bytes }
}

/// All positions of one kind.
fn region(start: u64) -> Range<u64> {
    start..start + (1 << 32)
}

/// The shards whose bytes lie in `ranges`; numbers that the index does not have are another program's.
fn shards_of(directory: &Directory, ranges: &[Range<u64>], start: u64) -> HashSet<u32> {
    let count = directory.shards.len() as u64;
    let shards = ranges.iter().flat_map(|r| (r.start - start).min(count)..(r.end - start).min(count));
    shards.map(|shard| shard as u32).collect()
}

/// The one process that makes room. Where locks do not work there may be several, each with its own view.
struct AdmissionLock<'a>(&'a Directory);

impl<'a> AdmissionLock<'a> {
    fn take(directory: &'a Directory) -> Option<Self> {
        for attempt in 0..ADMISSION_ATTEMPTS {
            if attempt > 0 {
                sleep(ADMISSION_PAUSE);
            }
            if directory.table.lock().exclusive(directory, claim::ADMISSION) {
                return Some(Self(directory));
            }
        }
        None
    }
}

impl Drop for AdmissionLock<'_> {
    fn drop(&mut self) {
        self.0.table.lock().release(self.0, claim::ADMISSION);
    }
}
