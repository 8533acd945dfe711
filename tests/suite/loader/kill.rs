//! Processes that share a cache folder. One of them is killed in the middle of a download. This test binary starts
//! itself as those processes.

use super::remote::{serve, until};
use super::*;
use forebay_loader::config::EngineConfig;
use forebay_tests::server::{Fault, ObjectServer, Rule};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::{Child, Command, Stdio};

/// Address of the server and cache folder of a child, separated by a blank.
const CHILD: &str = "FOREBAY_TEST_KILL_CHILD";

/// Arguments of the children, which are jobs of one process each.
fn job(server: &str, cache: &Path) -> LoaderConfig {
    let engine = EngineConfig {
        predownload: Some(1000),
        fetch_threads: Some(1),
        // Every shard is ahead at once, so a download that hangs does not hold up the rest.
        prefetch: Some(100),
        ..EngineConfig::default()
    };
    LoaderConfig { engine, ..config(stream(Some(cache), Some(server))) }
}

fn digest(rows: &[Vec<u16>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    rows.hash(&mut hasher);
    hasher.finish()
}

#[test]
#[ignore = "the body of the processes that the second test starts"]
fn child() {
    let Ok(place) = std::env::var(CHILD) else { return };
    let (server, cache) = place.split_once(' ').expect("an address and a folder");
    let loader = Loader::new(job(server, Path::new(cache))).expect("a loader");
    println!("@ {}", digest(&rows(&epoch(&loader))));
}

/// Running child; killed when dropped.
struct Job(Option<Child>);

impl Job {
    fn start(server: &ObjectServer, cache: &Path) -> Self {
        let child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "kill::child", "--ignored", "--nocapture"])
            .env(CHILD, format!("{} {}", server.url(), cache.display()))
            .stdout(Stdio::piped())
            .spawn();
        Self(Some(child.expect("started")))
    }

    /// Waits for its end, and returns the digest of its samples.
    fn finish(mut self) -> u64 {
        let output = self.0.take().expect("running").wait_with_output().expect("ended");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let digest = text.lines().find_map(|line| line.split_once("@ ")?.1.trim().parse().ok());
        digest.unwrap_or_else(|| panic!("{text}"))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_process_killed_in_a_download_is_replaced_at_once_and_the_rest_have_every_sample() {
    for (shard, bytes) in [(0, 0), (3, 1), (5, 700)] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // Too few shards for a second request of the part that hangs, which may have a 20th of the bytes fetched.
        let counts = tokens(data.path(), 300, None);
        assert!((6..20).contains(&counts.len()), "{} shards", counts.len());
        let server = serve(data.path());
        let name = format!("shard.{shard:05}.mds");
        server.script(Rule::once(&*name, Fault::StallAfter(bytes)));
        let victim = Job::start(&server, cache.path());
        server.stalled(1);
        let others: Vec<_> = (0..2).map(|_| Job::start(&server, cache.path())).collect();
        let names = || std::fs::read_dir(cache.path()).map_or(0, Iterator::count);
        until("all shards but one are on disk", || names() == counts.len());
        assert!(!cache.path().join(&name).exists());
        drop(victim);
        let config = job(&server.url(), cache.path());
        let all = digest(&expected(&planned(&counts, &config, 0)));
        for other in others {
            assert_eq!(other.finish(), all, "{name} after {bytes} bytes");
        }
        let gets = |name: &str| server.seen().iter().filter(|seen| seen.path.contains(name)).count();
        assert_eq!(gets(&name), 2, "once by the killed process, and once by a second one");
        assert_eq!(gets("shard."), counts.len() + 1, "the remaining shards were fetched once");
        assert_eq!(names(), counts.len() + 1, "nothing but shards and the index");
    }
}
