//! Failures of stores and data, as a C program gets them.

use crate::rig::{Rig, SAMPLES, Sanitizer, command, succeeded};
use forebay_loader::config::StreamConfig;
use forebay_tests::server::{Fault, ObjectServer, Options, Root, Rule};
use serde_json::{Value, json};
use std::path::Path;

/// Circumstances of an epoch of the rig's data behind a server.
#[derive(Default)]
struct Circumstances {
    rule: Option<Rule>,
    /// Options in addition.
    options: Value,
    /// The local index, if there is one.
    index: Option<LocalIndex>,
    /// Largest file that the program may write, in bytes.
    file_bytes_max: Option<u64>,
}

/// Index in the local folder before the loader is made.
enum LocalIndex {
    File(Vec<u8>),
    /// A folder instead of the file.
    Folder,
}

/// Runs an epoch. Returns the program's output: the rows or the error.
fn epoch(rig: &Rig, program: &Path, circumstances: Circumstances) -> Value {
    let server = ObjectServer::start(Root::folder(rig.path("data")), Options::default()).expect("a server");
    let Circumstances { rule, options, index, file_bytes_max } = circumstances;
    if let Some(rule) = rule {
        server.script(rule);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let local = folder.path().join("cache");
    let place = local.join("index.json");
    match index {
        None => {}
        Some(LocalIndex::File(bytes)) => {
            std::fs::create_dir(&local).and_then(|()| std::fs::write(place, bytes)).expect("written");
        }
        Some(LocalIndex::Folder) => std::fs::create_dir_all(place).expect("a folder"),
    }
    let streams = vec![StreamConfig { remote: Some(server.url()), local: Some(local), ..StreamConfig::default() }];
    let mut config = json!({"streams": streams, "batch_size": 16});
    for (name, value) in options.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    let path = folder.path().join("config.json");
    std::fs::write(&path, config.to_string()).expect("written");
    let mut command = command(program);
    command.arg(path).args(file_bytes_max.map(|bytes| bytes.to_string()));
    serde_json::from_str(&succeeded(&mut command)).expect("JSON")
}

/// Shard that is damaged, missing or slow.
const SHARD: &str = "shard.00001";

fn faulty(path: &str, fault: Fault) -> Circumstances {
    Circumstances { rule: Some(Rule::always(path, fault)), ..Circumstances::default() }
}

fn with(options: Value) -> Circumstances {
    Circumstances { options, ..Circumstances::default() }
}

#[test]
fn a_closed_connection_is_tried_again_and_the_program_lives() {
    let rig = Rig::new();
    let program = rig.compile("tests/failure.c", Sanitizer::Address);
    assert_eq!(epoch(&rig, &program, Circumstances::default()), SAMPLES);
    let cut = Circumstances { rule: Some(Rule::once(SHARD, Fault::CutAfter(10))), ..Circumstances::default() };
    assert_eq!(epoch(&rig, &program, cut), SAMPLES);
}

/// Every status that a store, a disk or data cause. The rest is in `mistakes.c`, but for `internal`: no input leads to
/// it, and the guard's own test in `ffi/src/status.rs` has a panic.
#[test]
fn failures_of_stores_and_data_have_a_status_and_name_the_file() {
    let rig = Rig::new();
    let program = rig.compile("tests/failure.c", Sanitizer::Address);
    let field = json!({"fields": [["x", {"kind": "tokens", "column": "tokens", "length": 4}]]});
    let slow = |path, options| Circumstances { options, ..faulty(path, Fault::StallAfter(0)) };
    let short = json!({"fetch": {"retry": 1, "timeout": 0.1}});
    let stalled = json!({"fetch": {"retry": 1}, "engine": {"stall_timeout": 0.1}});
    let index = |text: &str| faulty("index.json", Fault::Text(200, text.to_owned()));
    let local = |index| Circumstances { index: Some(index), ..Circumstances::default() };
    let other = Rig::with_samples(SAMPLES - 1);
    let other = std::fs::read(other.path("data/index.json")).expect("an index");
    for (status, code, message, fact, circumstances) in [
        ("config", 3, "cache_limit is 100 bytes", "shard", with(json!({"cache_limit": 100}))),
        ("config", 3, "Invalid shuffle_algo: py9", "", with(json!({"order": {"shuffle_algo": "py9"}}))),
        ("not_found", 4, "there is no such object", SHARD, faulty(SHARD, Fault::Status(404, None))),
        ("permission", 5, "check the credentials", SHARD, faulty(SHARD, Fault::Status(403, None))),
        ("network", 6, "the connection broke", SHARD, faulty(SHARD, Fault::CutAfter(10))),
        ("timeout", 7, "no byte arrived for 0.1 s", "index.json", slow("index.json", short)),
        ("timeout", 7, "nothing has moved for", "batch", slow(SHARD, stalled)),
        ("checksum", 8, "does not match its hash", SHARD, faulty(SHARD, Fault::FlipByte(100))),
        ("format", 9, "not valid JSON", "index.json", index("{")),
        ("decode", 10, "more tokens than a row", "sample", with(field)),
        ("unsupported", 11, "version 9 is not supported", "version", index(r#"{"version": 9, "shards": []}"#)),
        (
            "full",
            12,
            "no room to write a file",
            "index.json",
            Circumstances { file_bytes_max: Some(0), ..Circumstances::default() },
        ),
        ("stale", 14, "the remote index changed", "index.json", local(LocalIndex::File(other))),
        ("io", 15, "the index cannot be read", "index.json", local(LocalIndex::Folder)),
    ] {
        let error = epoch(&rig, &program, circumstances);
        assert_eq!((&error["status"], &error["code"]), (&json!(status), &json!(code)), "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(message)), "{error}");
        assert!(error["context"].to_string().contains(fact), "{error}");
    }
}
