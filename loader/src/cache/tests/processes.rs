//! The cache between processes: this test binary starts itself as children that execute one command per line.

use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const CHILD: &str = "FOREBAY_CACHE_TEST_CHILD";

/// Point at which this process kills itself, and the number of times that it is passed before.
static KILL_AT: crate::sync::Mutex<Option<(String, u32)>> = crate::sync::Mutex::new(None);

/// Files that are removed as soon as they are named, with the number of times.
static REMOVED: crate::sync::Mutex<Vec<(std::path::PathBuf, u32)>> = crate::sync::Mutex::new(Vec::new());

/// Removes the file `path` each of the next `times` times that it gets its name.
pub(crate) fn remove_when_named(path: &Path, times: u32) {
    REMOVED.lock().push((path.to_owned(), times));
}

/// Ends the process without any clean-up, if this is the configured point.
pub(in crate::cache) fn moment(name: &str) {
    if name == "named" {
        for (path, times) in &mut *REMOVED.lock() {
            if *times > 0 && std::fs::remove_file(path).is_ok() {
                *times -= 1;
            }
        }
    }
    if let Some((at, passes)) = &mut *KILL_AT.lock()
        && at == name
    {
        if *passes == 0 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        *passes = passes.wrapping_sub(1);
    }
}

/// Child process and its pipes; killed when dropped.
struct Child {
    process: std::process::Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Child {
    fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cache::tests::processes::child", "--ignored", "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, commands, answers }
    }

    /// Starts a child that has opened `dir`.
    fn open(dir: &Path, count: u32, bytes: u64, limit: Option<u64>) -> Self {
        let mut child = Self::start();
        let limit = limit.map_or("-".to_owned(), |l| l.to_string());
        assert_eq!(child.ask(&format!("open {count} {bytes} {limit} {}", dir.display())), "ok");
        child
    }

    fn send(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// Returns the next answer; "dead" if there is none.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            if self.answers.read_line(&mut line).unwrap() == 0 {
                return "dead".to_owned();
            }
            // The test harness of the child writes to the same pipe.
            if let Some(at) = line.find("@ ") {
                return line[at + 2..].trim_end().to_owned();
            }
        }
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    /// Kills it as the kernel would.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "the body of the children that the remaining tests start"]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut state = ChildState::default();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let answer = state.execute(&line).unwrap_or_else(|e| format!("error {e:?}"));
        println!("@ {answer}");
    }
}

#[derive(Default)]
struct ChildState {
    dir: Option<Arc<StreamCache>>,
    claims: HashMap<u32, ShardClaim>,
    admissions: HashMap<u32, Admission>,
    guards: HashMap<u32, ResidencyGuard>,
    open: HashMap<u32, Arc<OpenFiles>>,
    room_request: Option<RoomRequest>,
    common_hold: Option<CommonHold>,
}

impl ChildState {
    fn execute(&mut self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| words[i].parse::<u64>().unwrap();
        let answer = |word: &str| Ok(word.to_owned());
        if words[0] == "open" {
            let shards = shards(number(1) as u32, number(2), false);
            let group = CacheGroup::new(words[3].parse().ok());
            let config = StreamCacheConfig { group, ..config(Path::new(words[4]), shards) };
            self.dir = Some(StreamCache::open(config, &Stats::default())?);
            return answer("ok");
        }
        if words[0] == "become" {
            // This thread alone, which executes all commands.
            rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(number(1) as u32)).unwrap();
            return answer("ok");
        }
        if words[0] == "fork" {
            let outlived = claim::tests::lock_outlives_its_process_in_a_child(Path::new(words[1]));
            return answer(if outlived { "outlived" } else { "gone" });
        }
        let dir = self.dir.clone().unwrap();
        if words[0] == "named" {
            dir.dir.unnamed_files.store(false, Ordering::Relaxed);
            return answer("ok");
        }
        if words[0] == "kill-at" {
            *KILL_AT.lock() = Some((words[1].to_owned(), number(2) as u32));
            return answer("ok");
        }
        if words[0] == "work" {
            return work(&dir, number(1), number(2), number(3));
        }
        let shard = number(1) as u32;
        match words[0] {
            "claim" | "await" => {
                let claim = if words[0] == "claim" { dir.try_claim(shard)? } else { dir.claim(shard, long_wait())? };
                match claim {
                    ClaimOutcome::Claimed(claim) => {
                        self.claims.insert(shard, claim);
                        answer("claimed")
                    }
                    ClaimOutcome::Resident(guard) => {
                        self.guards.insert(shard, guard);
                        answer("resident")
                    }
                    ClaimOutcome::Busy => answer("busy"),
                }
            }
            "admit" => match self.claims.remove(&shard).unwrap().try_admit(&unplanned)? {
                AdmitOutcome::Admitted(admission) => {
                    self.admissions.insert(shard, admission);
                    answer("made")
                }
                AdmitOutcome::Wait { claim, .. } => {
                    self.claims.insert(shard, claim);
                    answer("wait")
                }
            },
            "need" => {
                self.room_request = Some(dir.request_room());
                answer("ok")
            }
            "common" => {
                self.common_hold = Some(dir.hold_in_common());
                answer("ok")
            }
            "exact" => {
                // As an epoch does.
                dir.watch_folders();
                loop {
                    let changes = dir.changes();
                    dir.make_holds_exact_if_needed();
                    if !dir.dir.locks.lock().has_common_hold() {
                        return answer("ok");
                    }
                    dir.wait_for_change(changes);
                }
            }
            "beat" => {
                dir.dir.locks.lock().toggle_pulse(shard);
                answer("ok")
            }
            "admit-wait" => {
                let admission = self.claims.remove(&shard).unwrap().admit(&unplanned, long_wait())?;
                self.admissions.insert(shard, admission);
                answer("made")
            }
            "publish" => {
                let guard = publish(&dir, self.admissions.remove(&shard).unwrap())?;
                self.guards.insert(shard, guard);
                answer("ok")
            }
            "read" => {
                self.guards.remove(&shard);
                answer("ok")
            }
            "take" => Ok(dir
                .open_shard(shard)?
                .map_or("absent", |open| {
                    self.open.insert(shard, open);
                    "open"
                })
                .to_owned()),
            "close" => {
                self.open.remove(&shard);
                answer("ok")
            }
            other => panic!("{other}"),
        }
    }
}

/// Uses shards at random, fetches absent ones, and checks the directory's size after every step. Returns how many it
/// fetched.
fn work(dir: &Arc<StreamCache>, seed: u64, rounds: u64, limit: u64) -> Result<String> {
    static FETCHED: AtomicU64 = AtomicU64::new(0);
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let count = dir.dir.shards.len() as u64;
    for _ in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let shard = (random % count) as u32;
        let guard = match dir.claim(shard, long_wait())? {
            ClaimOutcome::Claimed(claim) => {
                FETCHED.fetch_add(1, Ordering::Relaxed);
                publish(dir, claim.admit(&unplanned, long_wait())?)?
            }
            ClaimOutcome::Resident(guard) => guard,
            ClaimOutcome::Busy => panic!("a claim that waits is never busy"),
        };
        // Guarded, it must be on disk and complete.
        let open = dir.open_shard(shard)?.expect("a guarded shard is not evicted");
        let content = std::fs::read(&open.files[0].path).expect("a guarded shard keeps its name");
        assert!(content.len() as u64 == open.files[0].bytes && content.iter().all(|b| *b == shard as u8));
        let bytes = bytes_on_disk(&dir.dir.path);
        assert!(bytes <= limit, "{bytes} bytes with a limit of {limit}");
        drop((open, guard));
    }
    Ok(FETCHED.load(Ordering::Relaxed).to_string())
}

#[test]
fn two_processes_fetch_a_shard_once() {
    let folder = folder();
    let mut a = Child::open(folder.path(), 2, 100, None);
    let mut b = Child::open(folder.path(), 2, 100, None);
    assert_eq!(a.ask("claim 0"), "claimed");
    assert_eq!(b.ask("claim 0"), "busy");
    assert_eq!(b.ask("claim 1"), "claimed", "a different shard is free");
    b.send("await 0");
    assert_eq!(a.ask("admit 0"), "made");
    assert_eq!(a.ask("publish 0"), "ok");
    assert_eq!(b.answer(), "resident");
    assert_eq!(b.ask("take 0"), "open");
}

#[test]
fn the_claim_of_a_killed_process_goes_to_one_that_waits() {
    let folder = folder();
    let mut a = Child::open(folder.path(), 1, 100, None);
    let mut b = Child::open(folder.path(), 1, 100, None);
    assert_eq!(a.ask("claim 0"), "claimed");
    assert_eq!(a.ask("admit 0"), "made");
    b.send("await 0");
    a.kill();
    assert_eq!(b.answer(), "claimed");
    assert_eq!(b.ask("admit 0"), "made");
    assert_eq!(b.ask("publish 0"), "ok");
}

#[test]
fn a_wait_for_a_second_process_lasts_while_bytes_arrive() {
    const BEATS: u64 = 4;
    let folder = folder();
    let clock = Clock::manual();
    let other = crate::sync::Mutex::new(Child::open(folder.path(), 1, 100, None));
    assert_eq!(other.lock().ask("claim 0"), "claimed");
    let config = StreamCacheConfig { clock: clock.clone(), ..config(folder.path(), shards(1, 100, false)) };
    let dir = StreamCache::open(config, &Stats::default()).unwrap();
    let (checks, progress) = (AtomicU64::new(0), AtomicU64::new(0));
    // Called before every check of the time: 40 s of 60 pass, and bytes arrive only in the beginning.
    let stop = || {
        if checks.fetch_add(1, Ordering::Relaxed) < BEATS {
            assert_eq!(other.lock().ask("beat 0"), "ok");
        }
        clock.advance(Duration::from_secs(40));
        false
    };
    let count = || {
        progress.fetch_add(1, Ordering::Relaxed);
    };
    let e = dir.claim(0, WaitPolicy::new(&stop, Duration::from_secs(60)).on_progress(&count)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Timeout, "{e}");
    assert_eq!(progress.load(Ordering::Relaxed), BEATS);
    assert_eq!(checks.load(Ordering::Relaxed), BEATS + 2, "it ends 60 s after the last byte");
}

#[test]
fn a_request_for_room_is_known_to_all_processes_and_ends_with_its_process() {
    let folder = folder();
    let mut other = Child::open(folder.path(), 1, 100, None);
    let dir = open(folder.path(), shards(1, 100, false));
    assert!(!dir.is_room_requested());
    assert_eq!(other.ask("need 0"), "ok");
    assert!(dir.is_room_requested());
    other.kill();
    assert!(!dir.is_room_requested());
    let second = open(folder.path(), shards(1, 100, false));
    let (one, two) = (dir.request_room(), dir.request_room());
    assert!(second.is_room_requested() && !dir.is_room_requested(), "a data set ignores its own request");
    drop(one);
    assert!(second.is_room_requested());
    drop(two);
    assert!(!second.is_room_requested());
}

#[test]
fn shards_that_a_process_holds_in_common_stay_until_a_second_one_needs_to_know_those_in_use() {
    let folder = folder();
    let dir = open(folder.path(), shards(4, 100, false));
    (0..4).for_each(|shard| put(&dir, shard, &unplanned));
    let mut other = Child::open(folder.path(), 4, 100, None);
    assert_eq!((other.ask("common 0"), other.ask("claim 1")), ("ok".to_owned(), "resident".to_owned()));
    other.send("exact 0");
    assert!(!dir.evict(1).unwrap(), "it is in use");
    assert!(dir.evict(0).unwrap());
    assert_eq!(other.answer(), "ok");
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00001.mds", "shard.00002.mds", "shard.00003.mds"]);
    assert_eq!(other.ask("read 1"), "ok");
    assert!(dir.evict(1).unwrap());
    // From here on this process is known to need that.
    assert_eq!(other.ask("common 0"), "ok");
    assert!(dir.evict(2).unwrap());
}

#[test]
fn the_common_hold_of_a_killed_process_ends_with_it() {
    let folder = folder();
    let dir = open(folder.path(), shards(2, 100, false));
    put(&dir, 0, &unplanned);
    let mut other = Child::open(folder.path(), 2, 100, None);
    assert_eq!((other.ask("common 0"), other.ask("claim 0")), ("ok".to_owned(), "resident".to_owned()));
    other.kill();
    assert!(dir.evict(0).unwrap());
}

#[test]
fn copies_that_are_opened_under_a_common_hold_count_for_a_limit_that_comes_later() {
    let folder = folder();
    let mut reader = Child::open(folder.path(), 4, 100, None);
    let dir = open(folder.path(), shards(4, 100, false));
    (0..2).for_each(|shard| put(&dir, shard, &unplanned));
    assert_eq!((reader.ask("common 0"), reader.ask("take 0")), ("ok".to_owned(), "open".to_owned()));
    assert_eq!(reader.ask("claim 1"), "resident");
    drop(dir);
    let mut writer = Child::open(folder.path(), 4, 100, Some(2 + 250));
    assert_eq!(reader.ask("exact 0"), "ok");
    assert_eq!(writer.ask("claim 2"), "claimed");
    assert_eq!(writer.ask("admit 2"), "wait", "shard 1 is in use, and shard 0 is evicted and open");
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00001.mds"]);
    assert_eq!(reader.ask("close 0"), "ok");
    assert_eq!(writer.ask("admit 2"), "made");
}

/// Number of a user that no file belongs to.
const GUEST_USER: u32 = 65_534;

/// Folder with an index and `mode` for several users; `None` where this process cannot become a different user.
fn folder_of_users(mode: u32) -> Option<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become a different user");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    index::install(folder.path(), "x", Some(&mut || Ok(index::EMPTY.to_vec())), long_wait()).unwrap();
    Some(folder)
}

/// Child of a different user, and its answer to the command to open `dir`.
fn open_as_guest(dir: &Path, limit: Option<u64>) -> (Child, String) {
    let mut child = Child::start();
    assert_eq!(child.ask(&format!("become {GUEST_USER}")), "ok");
    let limit = limit.map_or("-".to_owned(), |l| l.to_string());
    let answer = child.ask(&format!("open 4 100 {limit} {}", dir.display()));
    (child, answer)
}

#[test]
fn users_without_the_right_to_remove_all_shards_have_no_limit_together() {
    let Some(folder) = folder_of_users(0o1777) else { return };
    let limit = Some(1_000);
    let guest = "one of them may not write its index.json: give each user a separate `local`";
    let first = Child::open(folder.path(), 4, 100, limit);
    for other in [limit, None] {
        let answer = open_as_guest(folder.path(), other).1;
        assert!(answer.contains(guest) && answer.contains("[permission]"), "{answer}");
    }
    drop(first);
    // Without a limit, both fetch, also the same shard at the same time.
    let mut first = Child::open(folder.path(), 4, 100, None);
    let (mut other, opened) = open_as_guest(folder.path(), None);
    assert_eq!(opened, "ok");
    for child in [&mut first, &mut other] {
        assert_eq!((child.ask("claim 0"), child.ask("admit 0")), ("claimed".to_owned(), "made".to_owned()));
    }
    assert_eq!((first.ask("publish 0"), other.ask("publish 0")), ("ok".to_owned(), "ok".to_owned()));
    // The limit of a third one comes later.
    let limited = StreamCache::open(
        StreamCacheConfig { group: CacheGroup::new(limit), ..config(folder.path(), shards(4, 100, false)) },
        &Stats::default(),
    );
    assert!(limited.unwrap_err().to_string().contains(guest));
}

#[test]
fn users_with_the_right_to_remove_all_shards_keep_a_limit_together() {
    let Some(folder) = folder_of_users(0o777) else { return };
    let limit = 230 + index::EMPTY.len() as u64;
    let mut first = Child::open(folder.path(), 4, 100, Some(limit));
    let (mut other, opened) = open_as_guest(folder.path(), Some(limit));
    assert_eq!(opened, "ok");
    for shard in [0, 1] {
        assert_eq!(first.ask(&format!("claim {shard}")), "claimed");
        assert_eq!(other.ask(&format!("claim {shard}")), "busy");
        assert_eq!(first.ask(&format!("admit {shard}")), "made");
        assert_eq!(first.ask(&format!("publish {shard}")), "ok");
        assert_eq!(first.ask(&format!("read {shard}")), "ok");
    }
    assert_eq!((other.ask("claim 2"), other.ask("admit 2")), ("claimed".to_owned(), "made".to_owned()));
    assert_eq!(other.ask("publish 2"), "ok");
    assert_eq!(bytes_on_disk(folder.path()), limit - 30);
}

#[test]
fn shards_of_a_second_user_that_fill_the_limit_are_an_error_at_once() {
    let Some(folder) = folder_of_users(0o1777) else { return };
    std::os::unix::fs::chown(folder.path().join(INDEX_BASENAME), Some(GUEST_USER), None).unwrap();
    // As an earlier job has left them.
    (0..2).for_each(|shard| std::fs::write(folder.path().join(raw_name(shard)), [shard as u8; 100]).unwrap());
    let limit = 230 + index::EMPTY.len() as u64;
    let (mut other, opened) = open_as_guest(folder.path(), Some(limit));
    assert_eq!(opened, "ok");
    assert_eq!(other.ask("claim 2"), "claimed");
    let mut answer = "wait".to_owned();
    while answer == "wait" {
        answer = other.ask("admit 2");
    }
    assert!(answer.contains("belong to a different user") && answer.contains("[permission]"), "{answer}");
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds", "shard.00001.mds"]);
}

#[test]
fn the_strictest_limit_of_all_processes_holds_and_ends_with_its_process() {
    let folder = folder();
    let mut strict = Child::open(folder.path(), 4, 100, Some(250));
    let mut lax = Child::open(folder.path(), 4, 100, Some(1000));
    for shard in [0, 1] {
        assert_eq!(lax.ask(&format!("claim {shard}")), "claimed");
        assert_eq!(lax.ask(&format!("admit {shard}")), "made");
    }
    assert_eq!(strict.ask("claim 2"), "claimed");
    assert_eq!(strict.ask("admit 2"), "wait", "a shard that the lax process has reserved counts");
    for shard in [0, 1] {
        assert_eq!(lax.ask(&format!("publish {shard}")), "ok");
    }
    assert_eq!(strict.ask("admit 2"), "wait", "a shard that the lax process has not read yet stays");
    assert_eq!(lax.ask("read 0"), "ok");
    assert_eq!(strict.ask("admit 2"), "made");
    assert_eq!(strict.ask("publish 2"), "ok");
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00001.mds", "shard.00002.mds"]);
    assert_eq!(lax.ask("claim 3"), "claimed");
    assert_eq!(lax.ask("admit 3"), "wait", "the strict process's limit holds for this process too");
    strict.kill();
    assert_eq!(lax.ask("admit 3"), "made");
}

#[test]
fn bytes_that_a_second_process_has_open_count_until_it_closes_them() {
    let folder = folder();
    let mut reader = Child::open(folder.path(), 3, 100, None);
    let mut writer = Child::open(folder.path(), 3, 100, Some(250));
    for shard in [0, 1] {
        for command in ["claim", "admit", "publish", "read"] {
            writer.ask(&format!("{command} {shard}"));
        }
    }
    assert_eq!(reader.ask("take 0"), "open");
    assert_eq!(writer.ask("claim 2"), "claimed");
    assert_eq!(writer.ask("admit 2"), "made");
    assert_eq!(writer.ask("publish 2"), "ok");
    assert_eq!(
        listing(folder.path()),
        [INDEX_BASENAME, "shard.00000.mds", "shard.00002.mds"],
        "the one that is not open was evicted, though it was used later"
    );
    assert_eq!(writer.ask("claim 1"), "claimed");
    assert_eq!(writer.ask("admit 1"), "wait");
    assert_eq!(
        listing(folder.path()),
        [INDEX_BASENAME, "shard.00002.mds"],
        "it was evicted, and its bytes are still there"
    );
    writer.send("admit-wait 1");
    assert_eq!(reader.ask("close 0"), "ok");
    assert_eq!(writer.answer(), "made");
}

#[test]
fn a_shard_that_a_second_process_evicts_counts_in_the_process_that_has_it_open() {
    let folder = folder();
    let limited =
        StreamCacheConfig { group: CacheGroup::new(Some(2 + 250)), ..config(folder.path(), shards(4, 100, false)) };
    let dir = StreamCache::open(limited, &Stats::default()).unwrap();
    put(&dir, 0, &unplanned);
    put(&dir, 1, &unplanned);
    let reader = dir.open_shard(0).unwrap().unwrap();
    let mut writer = Child::open(folder.path(), 4, 100, None);
    // Shard 2 stays, because it has not been read.
    for (command, answer) in [("claim 2", "claimed"), ("admit 2", "made"), ("publish 2", "ok"), ("claim 1", "claimed")]
    {
        assert_eq!(writer.ask(command), answer);
    }
    assert_eq!(writer.ask("admit 1"), "wait");
    assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00002.mds"]);
    let AdmitOutcome::Wait { claim, .. } = claimed(&dir, 3).try_admit(&unplanned).unwrap() else {
        panic!("one shard is on disk, one is evicted and open, and there is no room for a third")
    };
    drop(reader);
    assert!(matches!(claim.try_admit(&unplanned).unwrap(), AdmitOutcome::Admitted(_)));
}

#[test]
fn a_shard_counts_twice_while_it_is_fetched_again_and_an_evicted_copy_of_it_is_open() {
    let folder = folder();
    let mut reader = Child::open(folder.path(), 4, 100, None);
    let mut writer = Child::open(folder.path(), 4, 100, Some(2 + 350));
    let fetch = |writer: &mut Child, shard: u32| {
        for (command, answer) in [("claim", "claimed"), ("admit", "made"), ("publish", "ok"), ("read", "ok")] {
            assert_eq!(writer.ask(&format!("{command} {shard}")), answer);
        }
    };
    fetch(&mut writer, 0);
    assert_eq!(reader.ask("take 0"), "open");
    std::fs::remove_file(folder.path().join(raw_name(0))).unwrap();
    fetch(&mut writer, 0);
    fetch(&mut writer, 1);
    // Two copies of shard 0, and shard 1.
    assert_eq!(writer.ask("claim 2"), "claimed");
    assert_eq!(writer.ask("admit 2"), "wait");
    assert_eq!(reader.ask("close 0"), "ok");
    assert_eq!(writer.ask("admit 2"), "made");
    assert_eq!(listing(folder.path()).len(), 3, "the closed copy made room");
}

#[test]
fn while_an_evicted_shard_is_being_closed_no_further_one_is_evicted_for_the_same_room() {
    let folder = folder();
    let clock = Clock::manual();
    let limited = StreamCacheConfig {
        group: CacheGroup::new(Some(2 + 350)),
        clock: clock.clone(),
        ..config(folder.path(), shards(4, 100, false))
    };
    let dir = StreamCache::open(limited, &Stats::default()).unwrap();
    let mut reader = Child::open(folder.path(), 4, 100, None);
    for shard in 0..3 {
        put(&dir, shard, &unplanned);
        assert_eq!(reader.ask(&format!("take {shard}")), "open");
    }
    let wait = |claim: ShardClaim| match claim.try_admit(&unplanned).unwrap() {
        AdmitOutcome::Wait { claim, .. } => claim,
        AdmitOutcome::Admitted(_) => panic!("the evicted shard is still open"),
    };
    let mut claim = claimed(&dir, 3);
    for _ in 0..3 {
        claim = wait(claim);
        assert_eq!(listing(folder.path()).len(), 3, "one shard is evicted, and two stay");
    }
    clock.advance(Duration::from_secs(3));
    wait(claim);
    assert_eq!(listing(folder.path()).len(), 2, "its reader may be suspended");
}

#[test]
fn processes_that_use_a_small_cache_at_random_never_exceed_the_limit_and_never_read_a_torn_shard() {
    const LIMIT: u64 = 2 + 5 * 3000;
    let folder = folder();
    // At most 3 shards are guarded at a time, so a limit of 5 always leaves room.
    let mut children: Vec<Child> =
        (0..3).map(|i| Child::open(folder.path(), 9, 3000, (i != 1).then_some(LIMIT))).collect();
    for (seed, child) in children.iter_mut().enumerate() {
        child.send(&format!("work {} 60 {LIMIT}", seed + 1));
    }
    for child in &mut children {
        let answer = child.answer();
        assert!(answer.parse::<u64>().is_ok_and(|fetched| fetched > 0), "{answer}");
    }
}

#[test]
fn a_process_killed_at_any_moment_of_publishing_leaves_nothing_that_looks_finished() {
    for named in [false, true] {
        for (moment, passes) in [("created", 0), ("piece", 0), ("piece", 1), ("written", 0), ("named", 0)] {
            let folder = folder();
            let bytes = (1 << 20) + 5000;
            let mut child = Child::open(folder.path(), 1, bytes, None);
            if named {
                assert_eq!(child.ask("named"), "ok");
            }
            assert_eq!(child.ask("claim 0"), "claimed");
            assert_eq!(child.ask("admit 0"), "made");
            assert_eq!(child.ask(&format!("kill-at {moment} {passes}")), "ok");
            assert_eq!(child.ask("publish 0"), "dead", "{moment}");
            let finished = moment == "named";
            let path = folder.path().join("shard.00000.mds");
            assert_eq!(path.exists(), finished, "{moment}, named {named}");
            assert_eq!(!named || finished, !folder.path().join("shard.00000.mds.tmp").exists(), "{moment}");
            // The next process takes over the remaining files.
            let mut next = Child::open(folder.path(), 1, bytes, None);
            if finished {
                assert_eq!(next.ask("claim 0"), "resident");
            } else {
                for (command, answer) in [("claim 0", "claimed"), ("admit 0", "made"), ("publish 0", "ok")] {
                    assert_eq!(next.ask(command), answer, "{moment}");
                }
            }
            assert_eq!(std::fs::read(&path).unwrap(), vec![0; bytes as usize]);
            assert_eq!(listing(folder.path()), [INDEX_BASENAME, "shard.00000.mds"]);
        }
    }
}

#[test]
fn processes_continue_with_whole_shards_when_one_of_them_is_killed_at_any_moment() {
    const LIMIT: u64 = 2 + 5 * 3000;
    let moments = ["claimed", "admitted", "created", "piece", "written", "named"];
    for (named, passes) in [(false, 0), (false, 3), (true, 0), (true, 3)] {
        for moment in moments {
            let folder = folder();
            let mut all: Vec<Child> = (0..3).map(|_| Child::open(folder.path(), 9, 3000, Some(LIMIT))).collect();
            for child in all.iter_mut().filter(|_| named) {
                assert_eq!(child.ask("named"), "ok");
            }
            let mut victim = all.remove(0);
            assert_eq!(victim.ask(&format!("kill-at {moment} {passes}")), "ok");
            // It works until it is killed: nine shards do not fit, so there is always one to fetch.
            victim.send(&format!("work 1 {} {LIMIT}", u64::MAX));
            for (seed, child) in (2..).zip(&mut all) {
                child.send(&format!("work {seed} 20 {LIMIT}"));
            }
            for child in &mut all {
                let answer = child.answer();
                assert!(answer.parse::<u64>().is_ok(), "{moment} {passes}, named {named}: {answer}");
            }
            assert_eq!(victim.answer(), "dead");
            // Its claims and its room are free, and each shard on disk is whole.
            let last = all[0].ask(&format!("work 9 20 {LIMIT}"));
            assert!(last.parse::<u64>().is_ok(), "{moment} {passes}, named {named}: {last}");
        }
    }
}

#[test]
fn a_forked_child_does_not_keep_its_parent_s_locks() {
    let folder = folder();
    let mut child = Child::start();
    assert_eq!(child.ask(&format!("fork {}", folder.path().join(INDEX_BASENAME).display())), "gone");
}
