//! Writers killed in the middle of a file: the system kills a child process (SIGXFSZ) at the first byte of any file
//! past a limit, so the offset does not depend on chance.

use std::path::Path;
use std::process::{Command, ExitStatus};

use forebay_loader::format::writer::{LocalDir, Options};
use forebay_loader::format::{Encoding, INDEX_BASENAME, Index, Layout, Value, Writer};

const CHILD_DIR: &str = "FOREBAY_CRASH_DIR";
const CHILD_SIZE_LIMIT: &str = "FOREBAY_CRASH_SIZE_LIMIT";

/// Body of the child processes: writes 200 samples of 100 bytes in shards of the size in the environment.
#[test]
#[ignore = "the remaining tests call it in a separate process"]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let size_limit = std::env::var(CHILD_SIZE_LIMIT).unwrap().parse().unwrap();
    let layout = Layout::mds([("a".to_owned(), Encoding::Bytes)]).unwrap();
    let options = Options { size_limit: Some(size_limit), threads: 2, ..Options::default() };
    let mut writer = Writer::new(layout, Box::new(LocalDir::create(Path::new(&dir), false).unwrap()), options).unwrap();
    for i in 0..200u8 {
        writer.write(&[Value::Bytes(vec![i; 100].into())]).unwrap();
    }
    writer.finish().unwrap();
}

/// Runs the child with files limited to `blocks` of 512 bytes (as in POSIX).
fn run_child(dir: &Path, size_limit: u64, blocks: &str) -> ExitStatus {
    Command::new("sh")
        .args([
            "-c",
            "ulimit -c 0; ulimit -f \"$1\"; exec \"$0\" --ignored --exact crash::child --quiet >/dev/null 2>&1",
        ])
        .arg(std::env::current_exe().unwrap())
        .arg(blocks)
        .env(CHILD_DIR, dir)
        .env(CHILD_SIZE_LIMIT, size_limit.to_string())
        .status()
        .unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_writer_killed_while_writing_a_shard_leaves_no_shard_and_no_index() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!run_child(dir.path(), 16_000, "8").success(), "the child outlived its limit");
    let names = names(dir.path());
    assert!(!names.is_empty() && names.iter().all(|name| name.ends_with(".tmp")), "{names:?}");
}

#[test]
fn a_writer_killed_while_writing_the_index_leaves_no_index() {
    let dir = tempfile::tempdir().unwrap();
    // Some 60 shards below a kilobyte; their index is larger than any of them.
    assert!(!run_child(dir.path(), 600, "8").success(), "the child outlived its limit");
    let names = names(dir.path());
    assert!(names.contains(&format!("{INDEX_BASENAME}.tmp")), "{names:?}");
    assert!(!names.contains(&INDEX_BASENAME.to_owned()), "{names:?}");
    assert!(names.iter().filter(|name| name.ends_with(".mds")).count() > 50, "{names:?}");
}

#[test]
fn a_writer_that_is_not_killed_leaves_a_complete_data_set() {
    let dir = tempfile::tempdir().unwrap();
    assert!(run_child(dir.path(), 600, "unlimited").success());
    let index = Index::parse(&std::fs::read(dir.path().join(INDEX_BASENAME)).unwrap(), INDEX_BASENAME).unwrap();
    assert_eq!(index.samples(), 200);
    assert_eq!(names(dir.path()).len(), index.shards.len() + 1);
    for shard in &index.shards {
        let bytes = std::fs::read(dir.path().join(&*shard.raw_data.basename)).unwrap();
        assert_eq!(shard.offsets(&bytes).unwrap().len() as u64, shard.samples);
    }
}
