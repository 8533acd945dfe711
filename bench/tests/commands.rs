//! The commands as a user runs them, on data sets of a few kilobytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Fake loader with the protocol of the peers: ready, then one epoch per line of input. The line `convert` makes the
/// loader's form of the data set, with a line in a file for each time.
const FAKE_LOADER: &str = r#"#!/bin/sh
echo '{"event":"ready","versions":{"fake":"1.2"}}'
first='{"event":"first","seconds":0.25,"shape":[64,8],"dtype":"uint16","mean":1.5}'
while read -r line; do
    if [ "$line" = convert ]; then
        mkdir "FOLDER/ffcv.part" && echo made >> "FOLDER/conversions" && BROKEN && echo '{"event":"converted"}'
        continue
    fi
    if [ -n "$first" ]; then echo "$first"; first=; fi
    echo '{"event":"epoch","items":ITEMS,"seconds":0.5,"cpu_seconds":0.25}'
done
"#;

/// Fake loader of a package that is not installed.
const FAKE_ABSENT: &str = r#"#!/bin/sh
echo '{"event":"skip","reason":"ImportError: No module named ffcv; it needs this and that"}'
"#;

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_forebay-bench"))
}

fn tokens(folder: &Path, seed: u32) -> Output {
    let mut command = bench();
    command.args(["synth", "--kind", "tokens", "--samples", "100", "--length", "8", "--out"]).arg(folder);
    command.arg("--seed").arg(seed.to_string()).output().expect("synth runs")
}

fn loader(folder: &Path, items: u32) -> PathBuf {
    fake(folder, items, "true")
}

/// A loader that makes its form of the data set; the command `broken` runs in the middle of it.
fn converter(folder: &Path, broken: &str) -> PathBuf {
    fake(folder, 100, broken)
}

fn fake(folder: &Path, items: u32, broken: &str) -> PathBuf {
    let script = FAKE_LOADER.replace("FOLDER", &folder.display().to_string());
    program(folder, &script.replace("BROKEN", broken).replace("ITEMS", &items.to_string()))
}

fn program(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("python");
    std::fs::write(&path, text).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

fn peers(data: &Path, python: &Path, json: &Path) -> Output {
    some_peers("forebay,streaming", data, python, json)
}

fn some_peers(only: &str, data: &Path, python: &Path, json: &Path) -> Output {
    let mut command = bench();
    command.args(["peers", "--cpus", "1", "--epochs", "2", "--only", only, "--data"]).arg(data);
    command.arg("--python").arg(python).arg("--json").arg(json).output().expect("peers runs")
}

#[test]
fn a_data_set_is_made_once_and_another_seed_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let index = std::fs::read(folder.path().join("mds/index.json")).expect("an index");
    assert!(tokens(folder.path(), 7).status.success());
    assert_eq!(std::fs::read(folder.path().join("mds/index.json")).expect("an index"), index);
    let refused = tokens(folder.path(), 8);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a different data set is here already"));
}

#[test]
fn peers_reports_the_measurements_of_its_child_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let json = folder.path().join("report.json");
    let out = peers(folder.path(), &loader(folder.path(), 100), &json);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("a report")).expect("json");
    assert_eq!(report["versions"]["fake"], "1.2");
    let names: Vec<_> = report["rows"].as_array().expect("rows").iter().map(|r| r["name"].clone()).collect();
    assert_eq!(names, ["forebay", "MosaicML streaming"]);
    let values = &report["rows"][0]["values"];
    assert_eq!((&values["items_per_s"], &values["first_batch_s"]), (&200.0.into(), &0.25.into()));
    assert!(values["memory_mib_max"].as_f64().expect("a number") > 0.0);
    assert!(String::from_utf8_lossy(&out.stdout).contains("forebay is 1.00 times MosaicML streaming"));
}

#[test]
fn a_loader_that_loses_samples_is_not_in_the_table() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let out = peers(folder.path(), &loader(folder.path(), 99), &folder.path().join("report.json"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("skipped forebay: it delivered 99 of 100 samples"), "{text}");
}

#[test]
fn a_converted_data_set_is_made_once_and_its_differences_are_noted() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let python = converter(folder.path(), "true");
    for _ in 0..2 {
        let out = some_peers("ffcv", folder.path(), &python, &folder.path().join("report.json"));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success() && text.contains("note: FFCV resizes with OpenCV's INTER_AREA"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("conversions")).expect("it was made"), "made\n");
}

#[test]
fn a_converted_data_set_of_an_interrupted_run_is_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let report = folder.path().join("report.json");
    let out = some_peers("ffcv", folder.path(), &converter(folder.path(), "exit 1"), &report);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("skipped FFCV: it ended early"), "{text}");
    assert!(folder.path().join("ffcv.part").is_dir() && !folder.path().join("ffcv").exists());
    let out = some_peers("ffcv", folder.path(), &converter(folder.path(), "true"), &report);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!folder.path().join("ffcv.part").exists() && folder.path().join("ffcv").is_dir());
    assert_eq!(std::fs::read_to_string(folder.path().join("conversions")).expect("two"), "made\nmade\n");
}

#[test]
fn row_indexes_without_shards_to_copy_are_rejected_before_any_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("set");
    let refused = bench().args(["synth", "--forms", "mds-indexed", "--python", "/nowhere", "--out"]).arg(&out).output();
    let stderr = String::from_utf8_lossy(&refused.expect("synth runs").stderr).into_owned();
    assert!(
        stderr
            .contains("the form mds-indexed is a copy of mds, which is not there: make both, --forms mds,mds-indexed"),
        "{stderr}"
    );
    assert!(std::fs::read_dir(&out).map_or(true, |mut entries| entries.next().is_none()));
}

#[test]
fn a_loader_that_is_not_installed_is_named_with_its_requirements() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let python = program(folder.path(), FAKE_ABSENT);
    let out = some_peers("ffcv", folder.path(), &python, &folder.path().join("report.json"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let skipped = text.lines().find(|l| l.starts_with("skipped FFCV")).unwrap_or_else(|| panic!("{text}"));
    assert!(skipped.contains("it needs this and that"), "{skipped}");
    assert!(!text.contains("note: FFCV"), "nothing was measured, so nothing differs: {text}");
}

#[test]
fn dropin_compares_both_packages_and_the_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let mut command = bench();
    command.args(["dropin", "--samples", "8", "--shards", "3", "--epochs", "1", "--rounds", "1", "--workers", "0,1"]);
    command.args(["--start-workers", "0", "--only", "tokens 4 kB, 0", "--only", "tokens 4 kB, LocalDataset"]);
    command.args(["--only", "many shards", "--data"]);
    command.arg(folder.path().join("data")).arg("--python").arg(loader(folder.path(), 8)).arg("--json").arg(&json);
    let out = command.output().expect("dropin runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("a report")).expect("json");
    let rows = report["rows"].as_array().expect("rows");
    let of = |group: &str| rows.iter().filter(|row| row["group"] == group).collect::<Vec<_>>();
    assert_eq!(rows.len(), 7, "{rows:?}");
    assert_eq!(of("tokens 4 kB, 0 workers").len(), 3);
    let local = of("tokens 4 kB, LocalDataset[i]");
    assert_eq!(local.len(), 2);
    assert_eq!(local[0]["values"]["samples_per_s"], 16.0);
    assert!(local[0]["values"]["memory_mib_max"].as_f64().expect("a number") > 0.0);
    let start = of("many shards, 0 workers");
    assert_eq!(start[0]["values"]["first_batch_s"], 0.25);
    assert!(start[0]["values"].get("samples_per_s").is_none());
    assert!(folder.path().join("data/shards-30/shard.00002.mds").is_file());
}

#[test]
fn serve_prints_its_address_and_ends_with_its_input() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a"), "content").expect("a file");
    let mut command = bench();
    command.arg("serve").arg(folder.path()).arg("--until-eof");
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("serve runs");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let address = line.trim().rsplit_once("http://").expect("an address").1.trim_end_matches('/').to_owned();
    let mut stream = TcpStream::connect(&address).expect("it listens");
    write!(stream, "GET /a HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("content"), "{answer}");
    drop(server.stdin.take());
    assert!(server.wait().expect("it ends").success());
}

/// Runs a scenario and reads the JSON that it writes.
fn measured(scenario: &str, data: &Path, arguments: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let mut command = bench();
    command.arg(scenario).arg("--data").arg(data).args(arguments).arg("--json").arg(&json);
    let out = command.output().expect("the scenario runs");
    assert!(out.status.success(), "{scenario}: {}", String::from_utf8_lossy(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("a report")).expect("json");
    assert_eq!(report["scenario"], scenario);
    assert!(report["machine"]["cpus"].as_u64().expect("CPUs") > 0);
    let columns: Vec<_> = report["columns"].as_array().expect("columns").iter().map(|c| c["key"].clone()).collect();
    assert!(columns.contains(&report["primary"]));
    for row in report["rows"].as_array().expect("rows") {
        for (key, value) in row["values"].as_object().expect("values") {
            assert!(columns.contains(&key.as_str().into()), "{key} is no column");
            assert!(value.as_f64().is_some_and(|v| v.is_finite() && v >= 0.0), "{key}: {value}");
        }
    }
    report
}

/// Group and name of every row.
fn rows(report: &serde_json::Value) -> Vec<(String, String)> {
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().expect("text").to_owned();
    report["rows"].as_array().expect("rows").iter().map(|row| (text(row, "group"), text(row, "name"))).collect()
}

/// The value that `key` has for the row called `name` in `group`.
fn value(report: &serde_json::Value, group: &str, name: &str, key: &str) -> f64 {
    let all = report["rows"].as_array().expect("rows");
    let row = all.iter().find(|row| row["group"] == group && row["name"] == name).expect("a row of this name");
    row["values"][key].as_f64().expect("a value")
}

#[test]
fn disk_reads_hot_and_cold_and_reports_bytes_and_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("shard"), vec![7; 9 << 20]).expect("a file");
    let report = measured("disk", folder.path(), &["--reads", "64", "--read-bytes", "4096", "--depth", "4"]);
    let rows = rows(&report);
    for group in ["page cache", "disk"] {
        for name in ["plain pread", "forebay pread"] {
            assert!(rows.contains(&(group.to_owned(), name.to_owned())), "{group}: {name}");
            let reads = value(&report, group, name, "reads_per_s");
            let bytes = value(&report, group, name, "gib_per_s") * f64::from(1 << 30);
            assert!((bytes / reads / 4096.0 - 1.0).abs() < 1e-6, "{bytes} bytes in {reads} reads");
        }
    }
    assert_eq!(value(&report, "page cache", "forebay pread", "cached_percent"), 100.0);
    assert!(rows.iter().any(|(group, name)| group == "disk" && name.starts_with("limit")));
    assert_eq!(report["baseline"], "plain pread");
}

#[test]
fn store_fetches_with_every_client_over_every_kind_of_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let objects = folder.path().join("objects");
    std::fs::create_dir(&objects).expect("a folder");
    for name in ["a", "b", "c"] {
        std::fs::write(objects.join(name), vec![7; 100_000]).expect("an object");
    }
    let answer = r#"{"seconds": 0.5, "cpu_seconds": 0.25, "versions": {"fake": "1.2"}}"#;
    let python = program(folder.path(), &format!("#!/bin/sh\necho '{answer}'\n"));
    let python = python.to_str().expect("text");
    let few = ["--rounds", "1", "--objects", "2", "--server", "embedded", "--latency-ms", "1", "--python", python];
    let report = measured("store", &objects, &few);
    let (rows, skipped) = (rows(&report), report["skipped"].as_array().expect("the rest that did not run"));
    let groups = ["http, embedded server", "https, embedded server", "s3, embedded server", "latency of 1 ms"];
    for group in groups {
        assert!(value(&report, group, "forebay", "gib_per_s") > 0.0);
        assert!(value(&report, group, "forebay", "cpus") < 64.0);
        let has_curl = rows.contains(&(group.to_owned(), "curl".to_owned()));
        assert!(has_curl || group == groups[2] || skipped.iter().any(|s| s["name"] == "curl"), "{rows:?}");
    }
    for group in &groups[..2] {
        assert!(value(&report, group, "bare hyper", "gib_per_s") > 0.0);
    }
    for client in ["s3torchconnector", "boto3", "s3fs", "multi-storage-client", "multi-storage-client, Rust"] {
        let gib = 3e5 / f64::from(1 << 30);
        assert!((value(&report, groups[2], client, "gib_per_cpu_s") / (gib / 0.25) - 1.0).abs() < 1e-6, "{client}");
    }
    assert_eq!(report["versions"]["fake"], "1.2");
    assert!(report["title"].as_str().expect("a title").starts_with("3 objects"));
}

#[test]
fn checkpoints_are_saved_and_loaded_by_every_client_and_the_bare_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let answer = r#"{"seconds": 0.5, "cpu_seconds": 0.25, "versions": {"fake": "1.2"}}"#;
    let python = program(folder.path(), &format!("#!/bin/sh\necho '{answer}'\n"));
    let few = ["--rounds", "1", "--gib", "0.5", "--python", python.to_str().expect("text")];
    let report = measured("checkpoint", &folder.path().join("data"), &few);
    for group in ["save, S3", "load, S3", "save, a folder", "load, a folder"] {
        for client in ["bare client", "forebay", "forebay, torch.distributed.checkpoint"] {
            assert_eq!(value(&report, group, client, "mib_per_s"), 1024.0);
            assert_eq!(value(&report, group, client, "mib_per_cpu_s"), 2048.0);
        }
    }
    for client in ["forebay", "boto3", "s3torchconnector"] {
        assert_eq!(value(&report, "save, S3", client, "held_up_s"), 0.5);
    }
    assert_eq!(report["baseline"], "bare client");
    assert_eq!(report["skipped"].as_array().map(Vec::len), Some(0));
}

#[test]
fn pipeline_drains_every_kind_of_field_cached_and_cold() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let few = ["--threads", "1", "--batch", "16", "--epochs", "2", "--latency-ms", "0,1"];
    let report = measured("pipeline", folder.path(), &few);
    let group = "1 threads".to_owned();
    let names = ["tokens as uint16", "tokens as int64"].into_iter();
    let runs = ["cached", "cold", "cold, latency of 1 ms"];
    let expected = names.flat_map(|name| runs.map(|run| format!("forebay {name}, {run}")));
    assert_eq!(rows(&report), expected.map(|name| (group.clone(), name)).collect::<Vec<_>>());
    for row in report["rows"].as_array().expect("rows") {
        let values = &row["values"];
        let rate = values["items_per_s"].as_f64().expect("a rate");
        // 16 bytes a sample.
        let bytes = values["mb_per_s"].as_f64().expect("a rate") * 1e6;
        assert!((bytes / rate / 16.0 - 1.0).abs() < 1e-6, "{bytes} bytes in {rate} samples");
        assert!(values["first_batch_s"].as_f64().expect("a time") > 0.0);
        let stages = row["details"]["stages"].as_array().expect("stages");
        let decoded = stages.iter().find(|stage| stage["stage"] == "decode").expect("a stage");
        let epochs = if row["name"].as_str().expect("a name").ends_with("cached") { 3 } else { 1 };
        assert_eq!((&decoded["items"], &decoded["bytes"]), (&(100 * epochs).into(), &(1600 * epochs).into()));
    }
}

#[test]
fn every_way_of_tokens_delivers_the_same_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let report = measured("tokens", folder.path(), &["--threads", "2", "--batch", "16", "--rounds", "1"]);
    let names = ["uint16", "int64"].into_iter();
    let ways = [
        "forebay",
        "forebay, Megatron documents",
        "forebay, Megatron windows",
        "forebay, mmap",
        "limit: memcpy",
        "pread",
    ];
    let expected = names.flat_map(|group| ways.map(|name| (group.into(), name.into())));
    assert_eq!(rows(&report), expected.collect::<Vec<(String, String)>>());
    for group in ["uint16", "int64"] {
        let rate = value(&report, group, "forebay", "samples_per_s");
        // 16 bytes a sample.
        let bytes = value(&report, group, "forebay", "stored_gb_per_s") * 1e9;
        assert!((bytes / rate / 16.0 - 1.0).abs() < 1e-6, "{bytes} bytes in {rate} samples");
    }
    assert_eq!(report["baseline"], "pread");
    let refused = bench().args(["tokens", "--data"]).arg(folder.path().join("mds")).output().expect("tokens runs");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no data set here"));
}

#[test]
fn every_interface_takes_the_same_batches() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let python = folder.path().join("consumer");
    let answer = r#"{"ns": {"numpy": [3.0, 1.0, 2.0]}, "versions": {"fake": "1.2"}}"#;
    std::fs::write(&python, format!("#!/bin/sh\necho '{answer}'\n")).expect("a script");
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let test = std::env::current_exe().expect("the test's own path");
    let library = test.parent().expect("a folder").to_str().expect("text");
    let arguments = ["--batch", "5", "--batches", "20", "--rounds", "3", "--library", library, "--python"];
    let report = measured("ffi", folder.path(), &[&arguments[..], &[python.to_str().expect("text")]].concat());
    // The library is there if the whole workspace was built.
    let of_c = if Path::new(library).join("libforebay.so").exists() { &["C, dlpack", "C, view"][..] } else { &[] };
    let mut names: Vec<String> = rows(&report).into_iter().map(|(_, name)| name).collect();
    names.sort_unstable();
    assert_eq!(names, [of_c, &["Python, numpy", "Rust"]].concat());
    assert_eq!(value(&report, "a batch", "Python, numpy", "median_ns_per_batch"), 2.0);
    assert_eq!(report["skipped"].as_array().expect("a list").len(), usize::from(of_c.is_empty()));
    assert_eq!(report["versions"]["fake"], "1.2");
    let refused = bench().args(["ffi", "--batch", "200", "--data"]).arg(folder.path()).output().expect("ffi runs");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("lower --batch or --batches"));
}

#[test]
fn scaling_names_the_nearest_limit_at_every_step() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let python = folder.path().join("consumer");
    let answer = r#"{"items": 100, "cpu_s": 1e3, "versions": {"fake": "1.2"}}"#;
    std::fs::write(&python, format!("#!/bin/sh\necho '{answer}'\n")).expect("a script");
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let arguments = ["--threads", "3", "--batch", "16", "--rounds", "1", "--python"];
    let report = measured("scaling", folder.path(), &[&arguments[..], &[python.to_str().expect("text")]].concat());
    let group = "tokens as uint16";
    let names = ["1 thread", "2 threads", "3 threads"];
    assert_eq!(rows(&report), names.map(|name| (group.to_owned(), name.to_owned())));
    assert_eq!(value(&report, group, "1 thread", "efficiency_percent"), 100.0);
    assert_eq!(report["versions"]["fake"], "1.2");
    for (name, row) in names.iter().zip(report["rows"].as_array().expect("rows")) {
        for limit in ["decode_threads", "cpus", "memory", "page_cache"] {
            assert!(value(&report, group, name, &format!("limit_{limit}_per_s")) > 0.1);
        }
        // A tenth of a sample a second: nothing else is that slow.
        assert_eq!(value(&report, group, name, "limit_python_per_s"), 0.1);
        assert_eq!(row["details"]["nearest_limit"], "limit_python_per_s");
        assert!(row["remark"].as_str().expect("a remark").ends_with("of Python, the nearest limit"));
    }
}

#[test]
fn programs_with_different_ids_of_texts_are_not_in_the_table() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("jsonl")).expect("a folder");
    std::fs::write(folder.path().join("jsonl/a.jsonl"), "{\"text\": \"one\"}\n{\"text\": \"two \\u00e9\"}\n")
        .expect("texts");
    let script = r#"#!/bin/sh
echo '{"event":"ready","versions":{"fake":"1.2"}}'
ids=5
case "$2" in text_gigatoken) ids=6 ;; esac
first='{"event":"first","seconds":0.25,"shape":[2],"dtype":"ids","mean":0}'
while read -r line; do
    case "$line" in
        digest) echo '{"event":"digest","tokens":4,"documents":7,"ids":'$ids'}'; continue ;;
        convert) mkdir "FOLDER/mds.part" && echo '{"event":"converted"}'; continue ;;
    esac
    if [ -n "$first" ]; then echo "$first"; first=; fi
    echo '{"event":"epoch","items":2,"seconds":0.5,"cpu_seconds":0.25,"slots":8}'
done
"#;
    let python = program(folder.path(), &script.replace("FOLDER", &folder.path().display().to_string()));
    let python = python.to_str().expect("text");
    let report = measured("text", folder.path(), &["--tokenizer", "t.json", "--cpus", "1", "--python", python]);
    let (ids, packs) = ("ids, 1 CPU", "packs of 2048, 1 CPU");
    // "one" and "two \u{e9}" are 9 bytes.
    assert!((value(&report, ids, "forebay", "mb_per_cpu_s") - 9e-6 / 0.25).abs() < 1e-12);
    assert_eq!(value(&report, ids, "tokenizers 0.x in a DataLoader", "tokens_per_s"), 8.0);
    assert_eq!(value(&report, packs, "forebay, Pack", "padding_percent"), 50.0);
    assert_eq!(value(&report, packs, "MosaicML streaming, concatenated", "first_batch_s"), 0.25);
    let skipped = report["skipped"].as_array().expect("a list");
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert_eq!(skipped[0]["name"], "gigatoken, encode_files");
    assert_eq!(skipped[0]["reason"], "its 4 ids are not the ids of tokenizers 0.x in a DataLoader");
}
