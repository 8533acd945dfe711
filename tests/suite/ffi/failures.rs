//! Failures of stores and data, as a C program gets them.

use crate::rig::{Rig, SAMPLES, Sanitizer, command, succeeded};
use forebay_loader::config::{LoaderConfig, StreamConfig};
use forebay_tests::server::{Fault, ObjectServer, Options, Root, Rule};
use serde_json::{Value, json};
use std::path::Path;

/// Runs an epoch of the rig's data behind a server with `rule`, with the options of `further`. Returns what the program
/// prints: the rows or the error.
fn epoch(rig: &Rig, program: &Path, rule: Option<Rule>, further: &Value) -> Value {
    let server = ObjectServer::start(Root::folder(rig.path("data")), Options::default()).expect("a server");
    if let Some(rule) = rule {
        server.script(rule);
    }
    let cache = tempfile::tempdir().expect("a folder");
    let local = Some(cache.path().join("cache"));
    let streams = vec![StreamConfig { remote: Some(server.url()), local, ..StreamConfig::default() }];
    let config = LoaderConfig { streams, batch_size: 16, download_retry: 2, ..LoaderConfig::default() };
    let mut config = json!(config);
    for (name, value) in further.as_object().expect("an object") {
        config[name] = value.clone();
    }
    let path = cache.path().join("config.json");
    std::fs::write(&path, config.to_string()).expect("written");
    serde_json::from_str(&succeeded(command(program).arg(path))).expect("JSON")
}

#[test]
fn failures_of_stores_and_data_have_a_status_and_name_the_place() {
    let rig = Rig::new();
    let program = rig.compile("tests/failure.c", Sanitizer::Address);
    let shard = "shard.00001";
    let always = |fault| Some(Rule::always(shard, fault));
    let none = json!({});
    // A closed connection is tried again; the program lives, although it does not ignore SIGPIPE.
    assert_eq!(epoch(&rig, &program, None, &none), SAMPLES);
    assert_eq!(epoch(&rig, &program, Some(Rule::once(shard, Fault::CutAfter(10))), &none), SAMPLES);

    let wrong_field = json!({"fields": [["x", {"kind": "tokens", "column": "tokens", "length": 4}]]});
    for (status, code, fact, rule, further) in [
        ("not_found", 4, "shard.00001", always(Fault::Status(404, None)), &none),
        ("permission", 5, "shard.00001", always(Fault::Status(403, None)), &none),
        ("network", 6, "shard.00001", always(Fault::CutAfter(10)), &none),
        ("checksum", 8, "shard.00001", always(Fault::FlipByte(100)), &none),
        ("decode", 10, "sample", None, &wrong_field),
        ("config", 3, "cache_limit", None, &json!({"cache_limit": 100})),
        ("config", 3, "shuffle_algo", None, &json!({"shuffle_algo": "py9"})),
    ] {
        let error = epoch(&rig, &program, rule, further);
        assert_eq!((&error["status"], &error["code"]), (&json!(status), &json!(code)), "{error}");
        assert!(error.to_string().contains(fact), "{error}");
    }
}
