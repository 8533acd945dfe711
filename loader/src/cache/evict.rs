//! Room for a shard: what is in the directory, what it may hold, and what has to go.
//!
//! One thread of one process makes room at a time (the admission lock), from a fresh listing of names. Sizes are those
//! of the index, since a name stands only for a whole file. What the listing cannot show is asked of the locks: room
//! that others have reserved, and evicted shards that others still have open. So the limit holds at every moment, and
//! the strictest limit of all live jobs is the one that holds.

use super::INDEX_NAME;
use super::claim;
use super::dir::CacheDir;
use super::directory::{Directory, RAW, Table, ZIP};
use super::open::OpenShard;
use super::publish::remove_quietly;
use super::write::tmp_path;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, Weak};
use std::collections::HashSet;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Disk space that is left alone, for what other programs write meanwhile.
const DISK_RESERVE_BYTES: u64 = 16 << 20;

/// Attempts to get the admission lock, [`ADMISSION_PAUSE`] apart. It is held for milliseconds.
const ADMISSION_ATTEMPTS: u32 = 20;
const ADMISSION_PAUSE: Duration = Duration::from_millis(1);

/// The answer to a wish for room.
#[derive(Debug)]
pub(super) enum Room {
    /// Reserved.
    Made,
    /// What is in the way, in words.
    Wait(String),
}

/// A shard that might go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) shard: u32,
    /// What its going frees.
    pub(super) bytes: u64,
    /// When the plan uses it next.
    pub(super) next_use: Option<u64>,
    /// When somebody last used it, for those the plan does not know.
    pub(super) accessed_ns: u128,
    /// Another process has it open: its bytes are freed only when that closes it.
    pub(super) open: bool,
}

/// Which of `candidates` go so that `need` bytes are freed, in order; `None` when they do not suffice.
///
/// `wanted` is the next use of the shard that is to come. Nothing that is used sooner goes. Those that the plan does not
/// use at all go first, the least recently used of them first; then those with the farthest next use. Shards whose
/// descriptors are open elsewhere come last, whatever their use, because their room is not free at once.
pub(super) fn choose(mut candidates: Vec<Candidate>, wanted: Option<u64>, need: u64) -> Option<Vec<Candidate>> {
    // A shard that is fetched without being in the plan is wanted now.
    let wanted = wanted.unwrap_or(0);
    candidates.retain(|c| c.next_use.is_none_or(|next| next >= wanted));
    candidates.sort_by_key(|c| {
        let farthest = std::cmp::Reverse(c.next_use.unwrap_or(u64::MAX));
        let oldest = if c.next_use.is_none() { c.accessed_ns } else { 0 };
        (c.open, c.next_use.is_some(), farthest, oldest, c.shard)
    });
    let mut freed = 0u64;
    let mut count = 0;
    while freed < need {
        freed = freed.saturating_add(candidates.get(count)?.bytes);
        count += 1;
    }
    candidates.truncate(count);
    Some(candidates)
}

/// What a listing of the directory shows.
#[derive(Debug, Default)]
struct Listing {
    /// Per shard, one bit for each of its files: raw first, then compressed.
    files: Vec<u8>,
    /// Bytes of everything of ours in it, by the index; left-over `.tmp` files as large as they are.
    bytes: u64,
    /// Shards with left-over `.tmp` files.
    unfinished: HashSet<u32>,
}

fn list(directory: &Directory) -> Result<Listing> {
    let mut listing = Listing { files: vec![0; directory.shards.len()], ..Listing::default() };
    for folder in directory.folders() {
        let prefix = folder.strip_prefix(&directory.path).unwrap_or(&folder).to_string_lossy().into_owned();
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => {
                return Err(
                    Error::from_io(e, "the cache directory cannot be listed").with("directory", folder.display())
                );
            }
        };
        for entry in entries {
            let entry = entry.map_err(|e| Error::from_io(e, "the cache directory cannot be listed"))?;
            let Ok(mut name) = entry.file_name().into_string() else { continue };
            if !prefix.is_empty() {
                name = format!("{prefix}/{name}");
            }
            if let Some(&(shard, place)) = directory.names.get(&*name) {
                listing.files[shard as usize] |= 1 << place;
                listing.bytes += file_bytes(directory, shard, place);
            } else if name == INDEX_NAME {
                listing.bytes += entry.metadata().map_or(0, |meta| meta.len());
            } else if let Some(&(shard, _)) = name.strip_suffix(".tmp").and_then(|name| directory.names.get(name)) {
                listing.bytes += entry.metadata().map_or(0, |meta| meta.len());
                listing.unfinished.insert(shard);
            }
        }
    }
    Ok(listing)
}

fn file_bytes(directory: &Directory, shard: u32, place: u8) -> u64 {
    let files = &directory.shards[shard as usize];
    files.raw.iter().chain(&files.zip).nth(place.into()).map_or(0, |f| f.bytes)
}

/// Bytes of `shard`'s files that `listing` lacks, of those that `with_zip` asks for.
fn missing_bytes(directory: &Directory, listing: &Listing, shard: u32, with_zip: bool) -> u64 {
    let files = &directory.shards[shard as usize];
    let raw = files.raw.len();
    let wanted = files.raw.iter().chain(&files.zip).enumerate().filter(|(i, _)| *i < raw || with_zip);
    wanted.filter(|(i, _)| listing.files[shard as usize] & (1 << i) == 0).map(|(_, f)| f.bytes).sum()
}

/// Looks at everything once, when the directory is opened: what is complete by name and size, and what a crash left.
pub(super) fn survey(dir: &CacheDir) {
    let directory = &dir.directory;
    let Ok(listing) = list(directory) else { return };
    for (shard, files) in listing.files.iter().enumerate() {
        if *files != 0 {
            directory.look(shard as u32);
        }
    }
    if !dir.has_remote {
        return;
    }
    let mut table = directory.table.lock();
    for &shard in &listing.unfinished {
        clear_unfinished(directory, &mut table, shard);
    }
    if !dir.keep_zip && !table.zips_stay(directory) && !table.nothing_may_go(directory) {
        for shard in 0..directory.shards.len() as u32 {
            if directory.present(shard) == RAW | ZIP && !table.claims.contains(&shard) {
                directory.shards[shard as usize].zip.iter().for_each(|zip| remove_quietly(&directory.path_of(zip)));
                directory.set_present(shard, RAW);
            }
        }
    }
}

/// Removes what a killed writer left, when nobody is writing it; what is freed.
fn clear_unfinished(directory: &Directory, table: &mut Table, shard: u32) -> u64 {
    let byte = claim::CLAIM + u64::from(shard);
    if !table.locks_work(directory) || table.claims.contains(&shard) || !table.exclusive(directory, byte) {
        return 0;
    }
    let files = &directory.shards[shard as usize];
    let mut freed = 0;
    for file in files.raw.iter().chain(&files.zip) {
        let tmp = tmp_path(&directory.path_of(file));
        if let Ok(meta) = std::fs::symlink_metadata(&tmp) {
            freed += meta.len();
            remove_quietly(&tmp);
        }
    }
    table.release(directory, byte);
    freed
}

/// Reserves room for `shard`, which the caller has claimed.
pub(super) fn make_room(dir: &CacheDir, shard: u32, next_use: &dyn Fn(u32) -> Option<u64>) -> Result<Room> {
    let directory = &dir.directory;
    directory.check_process()?;
    let _one_thread = directory.admission.lock();
    let Some(_one_process) = AdmissionLock::take(directory) else {
        return Ok(Room::Wait("another process is making room".to_owned()));
    };
    let mut table = directory.table.lock();
    let limit = table.strictest_limit(directory);
    // Taken before the listing: a shard that is published meanwhile is then seen twice rather than not at all. None is
    // added meanwhile, since we have the admission lock.
    let mut reserved: HashSet<u32> = table.reserved.clone();
    reserved.extend(shards_of(directory, &table.others(directory, region(claim::RESERVE)), claim::RESERVE));
    let free = free_bytes(directory, &reserved);
    let disk_suffices = |need| free.is_none_or(|free| free >= need);
    if limit.is_none() && disk_suffices(dir.disk_bytes(shard)) {
        reserve(directory, &mut table, shard);
        return Ok(Room::Made);
    }
    drop(table);
    if let Some(limit) = limit {
        check_limit(dir, shard, limit)?;
    }

    let mut listing = list(directory)?;
    // Readers that are dropped here lock the table, so they go last.
    let mut readers = Vec::new();
    let open = directory.open.lock();
    let mut table = directory.table.lock();
    for shard in std::mem::take(&mut listing.unfinished) {
        listing.bytes -= clear_unfinished(directory, &mut table, shard).min(listing.bytes);
    }
    let opened = shards_of(directory, &table.others(directory, region(claim::OPEN)), claim::OPEN);
    let need = missing_bytes(directory, &listing, shard, dir.keep_zip);
    let in_flight = in_flight_bytes(directory, &mut table, &listing, &reserved, &opened);
    let over_limit =
        limit.map_or(0, |limit| listing.bytes.saturating_add(in_flight).saturating_add(need).saturating_sub(limit));
    let over = over_limit.max(free.map_or(0, |free| need.saturating_sub(free)));
    if over == 0 {
        reserve(directory, &mut table, shard);
        return Ok(Room::Made);
    }
    if table.nothing_may_go(directory) {
        return Ok(Room::Wait(format!(
            "{over} bytes too many, and a data set without a remote uses {}, so nothing there is evicted",
            directory.path.display()
        )));
    }
    let candidates = candidates(directory, &mut table, &listing, shard, next_use, &opened);
    let resident = listing.bytes;
    let Some(victims) = choose(candidates, next_use(shard), over) else {
        if resident == 0 && in_flight == 0 && !disk_suffices(need) {
            return Err(Error::new(ErrorKind::Full, "the disk of the cache directory is full: free space on it")
                .with("directory", directory.path.display())
                .with("bytes_needed", need)
                .with("bytes_free", free.unwrap_or(0)));
        }
        let limit = limit.map_or("the disk's free space".to_owned(), |l| format!("cache_limit {l}"));
        return Ok(Room::Wait(format!(
            "{over} bytes over {limit}; {resident} bytes are on disk and {in_flight} in flight or evicted and still \
             open, all being fetched, not read yet, or needed sooner"
        )));
    };
    let mut freed = 0u64;
    for victim in victims {
        if let Some(going) = evict(dir, &mut table, victim, open.get(&victim.shard).and_then(Weak::upgrade)) {
            freed = freed.saturating_add(going.freed);
            readers.extend(going.reader);
        }
    }
    if freed < over {
        return Ok(Room::Wait(format!("{} bytes that are evicted and still open", over - freed)));
    }
    reserve(directory, &mut table, shard);
    Ok(Room::Made)
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
fn reserve(directory: &Directory, table: &mut Table, shard: u32) {
    table.reserved.insert(shard);
    // Nobody else can have it: the caller holds the shard's claim.
    table.exclusive(directory, claim::RESERVE + u64::from(shard));
}

/// What of the disk is free for shards: not what is promised and not written yet, and not the reserve. `None` when the
/// file system does not say.
fn free_bytes(directory: &Directory, reserved: &HashSet<u32>) -> Option<u64> {
    let stat = rustix::fs::statvfs(&directory.path).ok()?;
    let promised = reserved.iter().fold(0u64, |sum, &s| {
        let files = &directory.shards[s as usize];
        sum.saturating_add(files.raw_bytes()).saturating_add(files.zip_bytes())
    });
    // Some network file systems report no size at all.
    (stat.f_blocks > 0).then(|| {
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        free.saturating_sub(promised).saturating_sub(DISK_RESERVE_BYTES)
    })
}

/// Bytes that exist, or soon will, without standing in `listing`.
fn in_flight_bytes(
    directory: &Directory,
    table: &mut Table,
    listing: &Listing,
    reserved: &HashSet<u32>,
    opened: &HashSet<u32>,
) -> u64 {
    let with_zip = table.zips_stay(directory);
    let coming = reserved.iter().map(|&shard| missing_bytes(directory, listing, shard, with_zip));
    // Evicted shards that other processes have open: their lock is there and their name is not.
    let gone = opened.iter().filter(|&&shard| listing.files[shard as usize] == 0);
    let gone = gone.map(|&shard| directory.shards[shard as usize].raw_bytes());
    coming.chain(gone).fold(table.evicted_open_bytes, u64::saturating_add)
}

/// Everything that may go in favour of `shard`, whenever it is used next.
fn candidates(
    directory: &Directory,
    table: &mut Table,
    listing: &Listing,
    shard: u32,
    next_use: &dyn Fn(u32) -> Option<u64>,
    opened: &HashSet<u32>,
) -> Vec<Candidate> {
    let held = shards_of(directory, &table.others(directory, region(claim::HOLD)), claim::HOLD);
    let claimed = shards_of(directory, &table.others(directory, region(claim::CLAIM)), claim::CLAIM);
    let present = (0u32..).zip(&listing.files).filter(|(_, files)| **files != 0);
    let free = present.filter(|(s, _)| {
        *s != shard
            && !table.holds.contains_key(s)
            && !table.claims.contains(s)
            && !held.contains(s)
            && !claimed.contains(s)
    });
    free.map(|(s, &files)| {
        let next_use = next_use(s);
        let bytes = (0..8).filter(|i| files & (1 << i) != 0).map(|i| file_bytes(directory, s, i)).sum();
        let accessed_ns = if next_use.is_none() { accessed_ns(directory, s) } else { 0 };
        Candidate { shard: s, bytes, next_use, accessed_ns, open: opened.contains(&s) || table.opens.contains_key(&s) }
    })
    .collect()
}

/// When somebody last used `shard`, by its data file.
fn accessed_ns(directory: &Directory, shard: u32) -> u128 {
    let path = directory.path_of(&directory.shards[shard as usize].raw[0]);
    std::fs::metadata(path).map_or(0, |meta| {
        let seconds = u128::try_from(meta.atime()).unwrap_or(0);
        seconds * 1_000_000_000 + u128::try_from(meta.atime_nsec()).unwrap_or(0)
    })
}

/// An eviction that took place.
struct Going {
    freed: u64,
    reader: Option<Arc<OpenShard>>,
}

/// Removes `victim`'s files, unless another process has begun to fetch or to want it.
fn evict(dir: &CacheDir, table: &mut Table, victim: Candidate, reader: Option<Arc<OpenShard>>) -> Option<Going> {
    let directory = &dir.directory;
    let (claim, hold) = (claim::CLAIM + u64::from(victim.shard), claim::HOLD + u64::from(victim.shard));
    if !table.exclusive(directory, claim) {
        return None;
    }
    // Who wants to read a shard takes its hold first and looks whether it is there afterwards, so one of us sees the
    // other: either the hold is refused here, or the file is gone when the other looks.
    if !table.exclusive(directory, hold) {
        table.release(directory, claim);
        return None;
    }
    let files = &directory.shards[victim.shard as usize];
    // The data file first: without it nobody takes the rest for a shard.
    files.raw.iter().chain(&files.zip).for_each(|file| remove_quietly(&directory.path_of(file)));
    let gone = directory.look(victim.shard) & RAW == 0;
    table.release(directory, hold);
    table.release(directory, claim);
    if !gone {
        return None;
    }
    dir.counters.evicted.add(1);
    dir.counters.evicted_bytes.add(victim.bytes);
    if let Some(reader) = &reader
        && reader.set_evicted()
    {
        table.evicted_open_bytes = table.evicted_open_bytes.saturating_add(reader.bytes());
    }
    Some(Going { freed: if victim.open { 0 } else { victim.bytes }, reader })
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
                std::thread::sleep(ADMISSION_PAUSE);
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
