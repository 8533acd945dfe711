//! The commands as a user runs them, on data sets of a few kilobytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A loader that speaks the protocol of the peers and does nothing: ready, then one epoch per line of input.
const FAKE_LOADER: &str = r#"#!/bin/sh
echo '{"event":"ready","versions":{"fake":"1.2"}}'
first='{"event":"first","seconds":0.25,"shape":[64,8],"dtype":"uint16","mean":1.5}'
while read -r line; do
    if [ -n "$first" ]; then echo "$first"; first=; fi
    echo '{"event":"epoch","items":ITEMS,"seconds":0.5,"cpu_seconds":0.25}'
done
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
    let path = folder.join("python");
    std::fs::write(&path, FAKE_LOADER.replace("ITEMS", &items.to_string())).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

fn peers(data: &Path, python: &Path, json: &Path) -> Output {
    let mut command = bench();
    command.args(["peers", "--cpus", "1", "--epochs", "2", "--only", "forebay,streaming", "--data"]).arg(data);
    command.arg("--python").arg(python).arg("--json").arg(json).output().expect("peers runs")
}

#[test]
fn a_data_set_is_made_once_and_another_seed_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let index = std::fs::read(folder.path().join("mds/index.json")).expect("an index");
    assert!(tokens(folder.path(), 7).status.success());
    assert_eq!(std::fs::read(folder.path().join("mds/index.json")).expect("an index"), index);
    let refused = tokens(folder.path(), 8);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another data set is here already"));
}

#[test]
fn peers_reports_what_the_children_say() {
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
fn a_loader_that_loses_samples_is_out_of_the_table() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tokens(folder.path(), 7).status.success());
    let out = peers(folder.path(), &loader(folder.path(), 99), &folder.path().join("report.json"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("skipped forebay: it delivered 99 of 100 samples"), "{text}");
}

#[test]
fn serve_says_where_it_listens_and_ends_with_its_input() {
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
