//! The cache between processes: this test binary starts itself again as children that obey one command per line.

use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const CHILD: &str = "FOREBAY_CACHE_TEST_CHILD";

/// The moment at which this process kills itself, and how often it is passed before.
static KILL_AT: crate::sync::Mutex<Option<(String, u32)>> = crate::sync::Mutex::new(None);

/// Ends the process without any clean-up, if this is the moment that was set.
pub(in crate::cache) fn moment(name: &str) {
    if let Some((at, left)) = &mut *KILL_AT.lock()
        && at == name
    {
        if *left == 0 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        *left = left.wrapping_sub(1);
    }
}

/// A child and the conversation with it; killed when dropped.
struct Child {
    process: std::process::Child,
    tell: ChildStdin,
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
        let tell = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, tell, answers }
    }

    /// A child that has opened `dir`.
    fn open(dir: &Path, count: u32, bytes: u64, limit: Option<u64>) -> Self {
        let mut child = Self::start();
        let limit = limit.map_or("-".to_owned(), |l| l.to_string());
        assert_eq!(child.ask(&format!("open {count} {bytes} {limit} {}", dir.display())), "ok");
        child
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.tell, "{command}").unwrap();
    }

    /// The next answer; "dead" when there is none.
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
        self.tell(command);
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
#[ignore = "the body of the children that the other tests start"]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut state = Obedient::default();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let answer = state.obey(&line).unwrap_or_else(|e| format!("error {e:?}"));
        println!("@ {answer}");
    }
}

#[derive(Default)]
struct Obedient {
    dir: Option<Arc<CacheDir>>,
    claimed: HashMap<u32, Claimed>,
    admitted: HashMap<u32, Admitted>,
    open: HashMap<u32, Arc<OpenShard>>,
    needs: Option<RoomNeeded>,
}

impl Obedient {
    fn obey(&mut self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| words[i].parse::<u64>().unwrap();
        let said = |word: &str| Ok(word.to_owned());
        if words[0] == "open" {
            let shards = shards(number(1) as u32, number(2), false);
            let cache_limit = words[3].parse().ok();
            let config = CacheDirConfig { cache_limit, ..config(Path::new(words[4]), shards) };
            self.dir = Some(CacheDir::open(config, &Stats::default())?);
            return said("ok");
        }
        if words[0] == "fork" {
            let outlived = claim::tests::lock_outlives_its_process_in_a_child(Path::new(words[1]));
            return said(if outlived { "outlived" } else { "gone" });
        }
        let dir = self.dir.clone().unwrap();
        if words[0] == "named" {
            dir.directory.unnamed_files.store(false, Ordering::Relaxed);
            return said("ok");
        }
        if words[0] == "kill-at" {
            *KILL_AT.lock() = Some((words[1].to_owned(), number(2) as u32));
            return said("ok");
        }
        if words[0] == "work" {
            return work(&dir, number(1), number(2), number(3));
        }
        let shard = number(1) as u32;
        match words[0] {
            "claim" | "await" => {
                let claim = if words[0] == "claim" { dir.try_claim(shard)? } else { dir.claim(shard, patience())? };
                match claim {
                    Claim::Mine(claimed) => {
                        self.claimed.insert(shard, claimed);
                        said("mine")
                    }
                    Claim::Resident => said("resident"),
                    Claim::Busy => said("busy"),
                }
            }
            "admit" => match self.claimed.remove(&shard).unwrap().try_admit(&unplanned)? {
                Admit::Admitted(admitted) => {
                    self.admitted.insert(shard, admitted);
                    said("made")
                }
                Admit::Wait { claimed, .. } => {
                    self.claimed.insert(shard, claimed);
                    said("wait")
                }
            },
            "need" => {
                self.needs = Some(dir.need_room());
                said("ok")
            }
            "beat" => {
                dir.directory.table.lock().beat(&dir.directory, shard);
                said("ok")
            }
            "admit-wait" => {
                let admitted = self.claimed.remove(&shard).unwrap().admit(&unplanned, patience())?;
                self.admitted.insert(shard, admitted);
                said("made")
            }
            "publish" => publish(&dir, self.admitted.remove(&shard).unwrap()).map(|()| "ok".to_owned()),
            "read" => {
                dir.mark_read(shard);
                said("ok")
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
                said("ok")
            }
            other => panic!("{other}"),
        }
    }
}

/// Uses shards at random, fetching what is absent, and looks at the directory's size after every step. Answers how many
/// it fetched.
fn work(dir: &Arc<CacheDir>, seed: u64, rounds: u64, limit: u64) -> Result<String> {
    static FETCHED: AtomicU64 = AtomicU64::new(0);
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let count = dir.shards().len() as u64;
    for _ in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let shard = (random % count) as u32;
        if let Claim::Mine(claimed) = dir.claim(shard, patience())? {
            FETCHED.fetch_add(1, Ordering::Relaxed);
            publish(dir, claimed.admit(&unplanned, patience())?)?;
        }
        // Claimed or found, it is held: it must be here, and whole.
        let open = dir.open_shard(shard)?.expect("a held shard is not evicted");
        let content = std::fs::read(&open.files[0].path).expect("a held shard keeps its name");
        assert!(content.len() as u64 == open.files[0].bytes && content.iter().all(|b| *b == shard as u8));
        let bytes = bytes_on_disk(dir.path());
        assert!(bytes <= limit, "{bytes} bytes with a limit of {limit}");
        drop(open);
        dir.mark_read(shard);
    }
    Ok(FETCHED.load(Ordering::Relaxed).to_string())
}

#[test]
fn two_processes_fetch_a_shard_once() {
    let folder = folder();
    let mut a = Child::open(folder.path(), 2, 100, None);
    let mut b = Child::open(folder.path(), 2, 100, None);
    assert_eq!(a.ask("claim 0"), "mine");
    assert_eq!(b.ask("claim 0"), "busy");
    assert_eq!(b.ask("claim 1"), "mine", "another shard is free");
    b.tell("await 0");
    assert_eq!(a.ask("admit 0"), "made");
    assert_eq!(a.ask("publish 0"), "ok");
    assert_eq!(b.answer(), "resident");
    assert_eq!(b.ask("take 0"), "open");
}

#[test]
fn the_claim_of_a_killed_process_falls_to_one_that_waits() {
    let folder = folder();
    let mut a = Child::open(folder.path(), 1, 100, None);
    let mut b = Child::open(folder.path(), 1, 100, None);
    assert_eq!(a.ask("claim 0"), "mine");
    assert_eq!(a.ask("admit 0"), "made");
    b.tell("await 0");
    a.kill();
    assert_eq!(b.answer(), "mine");
    assert_eq!(b.ask("admit 0"), "made");
    assert_eq!(b.ask("publish 0"), "ok");
}

#[test]
fn who_waits_for_another_process_is_patient_while_bytes_come_in() {
    const BEATS: u64 = 4;
    let folder = folder();
    let clock = Clock::manual();
    let other = crate::sync::Mutex::new(Child::open(folder.path(), 1, 100, None));
    assert_eq!(other.lock().ask("claim 0"), "mine");
    let config = CacheDirConfig { clock: clock.clone(), ..config(folder.path(), shards(1, 100, false)) };
    let dir = CacheDir::open(config, &Stats::default()).unwrap();
    let (looks, moved) = (AtomicU64::new(0), AtomicU64::new(0));
    // Asked before every look at the time: 40 s of 60 pass, and bytes come in only in the beginning.
    let stop = || {
        if looks.fetch_add(1, Ordering::Relaxed) < BEATS {
            assert_eq!(other.lock().ask("beat 0"), "ok");
        }
        clock.advance(Duration::from_secs(40));
        false
    };
    let count = || {
        moved.fetch_add(1, Ordering::Relaxed);
    };
    let e = dir.claim(0, Patience::new(&stop, Duration::from_secs(60)).on_progress(&count)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Timeout, "{e}");
    assert_eq!(moved.load(Ordering::Relaxed), BEATS);
    assert_eq!(looks.load(Ordering::Relaxed), BEATS + 2, "60 s after the last byte it is enough");
}

#[test]
fn a_need_of_room_is_known_to_all_processes_and_ends_with_its_process() {
    let folder = folder();
    let mut other = Child::open(folder.path(), 1, 100, None);
    let dir = open(folder.path(), shards(1, 100, false));
    assert!(!dir.is_room_needed());
    assert_eq!(other.ask("need 0"), "ok");
    assert!(dir.is_room_needed());
    other.kill();
    assert!(!dir.is_room_needed());
    let second = open(folder.path(), shards(1, 100, false));
    let (one, two) = (dir.need_room(), dir.need_room());
    assert!(second.is_room_needed() && !dir.is_room_needed(), "one's own need is not another's");
    drop(one);
    assert!(second.is_room_needed());
    drop(two);
    assert!(!second.is_room_needed());
}

#[test]
fn the_strictest_limit_of_all_processes_holds_and_ends_with_its_process() {
    let folder = folder();
    let mut strict = Child::open(folder.path(), 4, 100, Some(250));
    let mut lax = Child::open(folder.path(), 4, 100, Some(1000));
    for shard in [0, 1] {
        assert_eq!(lax.ask(&format!("claim {shard}")), "mine");
        assert_eq!(lax.ask(&format!("admit {shard}")), "made");
    }
    assert_eq!(strict.ask("claim 2"), "mine");
    assert_eq!(strict.ask("admit 2"), "wait", "what others have reserved counts");
    for shard in [0, 1] {
        assert_eq!(lax.ask(&format!("publish {shard}")), "ok");
    }
    assert_eq!(strict.ask("admit 2"), "wait", "what others have not read yet stays");
    assert_eq!(lax.ask("read 0"), "ok");
    assert_eq!(strict.ask("admit 2"), "made");
    assert_eq!(strict.ask("publish 2"), "ok");
    assert_eq!(listing(folder.path()), [INDEX_NAME, "shard.00001.mds", "shard.00002.mds"]);
    assert_eq!(lax.ask("claim 3"), "mine");
    assert_eq!(lax.ask("admit 3"), "wait", "the other's limit holds for this process too");
    strict.kill();
    assert_eq!(lax.ask("admit 3"), "made");
}

#[test]
fn bytes_that_another_process_has_open_count_until_it_closes_them() {
    let folder = folder();
    let mut reader = Child::open(folder.path(), 3, 100, None);
    let mut writer = Child::open(folder.path(), 3, 100, Some(250));
    for shard in [0, 1] {
        for command in ["claim", "admit", "publish", "read"] {
            writer.ask(&format!("{command} {shard}"));
        }
    }
    assert_eq!(reader.ask("take 0"), "open");
    assert_eq!(writer.ask("claim 2"), "mine");
    assert_eq!(writer.ask("admit 2"), "made");
    assert_eq!(writer.ask("publish 2"), "ok");
    assert_eq!(
        listing(folder.path()),
        [INDEX_NAME, "shard.00000.mds", "shard.00002.mds"],
        "the one that nobody has open went, though it was used later"
    );
    assert_eq!(writer.ask("claim 1"), "mine");
    assert_eq!(writer.ask("admit 1"), "wait");
    assert_eq!(listing(folder.path()), [INDEX_NAME, "shard.00002.mds"], "it went, and its bytes are still there");
    writer.tell("admit-wait 1");
    assert_eq!(reader.ask("close 0"), "ok");
    assert_eq!(writer.answer(), "made");
}

#[test]
fn processes_that_use_a_small_cache_at_random_never_exceed_the_limit_and_never_read_a_torn_shard() {
    const LIMIT: u64 = 2 + 5 * 3000;
    let folder = folder();
    // At most 3 shards are held at a time, so 5 always leave room to go on.
    let mut children: Vec<Child> =
        (0..3).map(|i| Child::open(folder.path(), 9, 3000, (i != 1).then_some(LIMIT))).collect();
    for (seed, child) in children.iter_mut().enumerate() {
        child.tell(&format!("work {} 60 {LIMIT}", seed + 1));
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
            assert_eq!(child.ask("claim 0"), "mine");
            assert_eq!(child.ask("admit 0"), "made");
            assert_eq!(child.ask(&format!("kill-at {moment} {passes}")), "ok");
            assert_eq!(child.ask("publish 0"), "dead", "{moment}");
            let finished = moment == "named";
            let path = folder.path().join("shard.00000.mds");
            assert_eq!(path.exists(), finished, "{moment}, named {named}");
            assert_eq!(!named || finished, !folder.path().join("shard.00000.mds.tmp").exists(), "{moment}");
            // Whoever comes next takes over what was left.
            let mut next = Child::open(folder.path(), 1, bytes, None);
            if finished {
                assert_eq!(next.ask("claim 0"), "resident");
            } else {
                for (command, answer) in [("claim 0", "mine"), ("admit 0", "made"), ("publish 0", "ok")] {
                    assert_eq!(next.ask(command), answer, "{moment}");
                }
            }
            assert_eq!(std::fs::read(&path).unwrap(), vec![0; bytes as usize]);
            assert_eq!(listing(folder.path()), [INDEX_NAME, "shard.00000.mds"]);
        }
    }
}

#[test]
fn a_forked_child_does_not_keep_its_parent_s_locks() {
    let folder = folder();
    let mut child = Child::start();
    assert_eq!(child.ask(&format!("fork {}", folder.path().join(INDEX_NAME).display())), "gone");
}
