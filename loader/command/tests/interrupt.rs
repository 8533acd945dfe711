//! Ctrl-C of the binary, while a store does not answer any more.

use forebay_loader::format::writer::{LocalDir, Options, Writer};
use forebay_loader::format::{Encoding, Layout, Value};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Serves the files of `folder`. An answer with the byte `from` or a later one of a file that ends with `suffix` stops
/// after half of it, which the channel reports.
fn serve(folder: &Path, (suffix, from): (&'static str, u64)) -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stopped, stops) = channel();
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (folder, stopped) = (folder.clone(), stopped.clone());
            // A client that is gone is no failure.
            std::thread::spawn(move || answer(stream, &folder, (suffix, from), &stopped));
        }
    });
    (format!("http://{address}"), stops)
}

fn answer(stream: TcpStream, folder: &Path, (suffix, from): (&str, u64), stopped: &Sender<()>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let head = head.to_lowercase();
        let path = head.split([' ', '?']).nth(1)?;
        let found = File::open(folder.join(path.trim_start_matches('/')));
        let Ok(file) = found else {
            reader.get_mut().write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").ok()?;
            continue;
        };
        let range = head.lines().find_map(|line| line.strip_prefix("range: bytes="));
        let (first, last) = range.and_then(|range| range.split_once('-')).unwrap_or(("0", ""));
        let length = file.metadata().ok()?.len();
        let (first, last) = (first.parse().unwrap_or(0), last.parse().unwrap_or(u64::MAX).min(length - 1));
        let mut body = vec![0; (last + 1 - first) as usize];
        file.read_exact_at(&mut body, first).ok()?;
        let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
        let head_of_answer = format!(
            "HTTP/1.1 {status}\r\netag: \"1\"\r\naccept-ranges: bytes\r\ncontent-length: {}\r\n\
             content-range: bytes {first}-{last}/{length}\r\n\r\n",
            body.len()
        );
        let out = reader.get_mut();
        out.write_all(head_of_answer.as_bytes()).ok()?;
        if head.starts_with("head") {
            continue;
        }
        let stops = path.ends_with(suffix) && last >= from;
        out.write_all(if stops { &body[..body.len() / 2] } else { &body }).ok()?;
        if stops {
            let _ = stopped.send(());
            // Until the client has closed the connection.
            let _ = reader.read_to_end(&mut Vec::new());
            return None;
        }
    }
}

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

/// Sends Ctrl-C, and compares the end.
fn interrupt(child: Child, about: &str) {
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process runs");
    let Output { status, stdout, stderr } = child.wait_with_output().expect("the process ends");
    let texts = [stdout, stderr].map(|text| String::from_utf8(text).expect("text"));
    assert_eq!((status.code(), texts), (Some(130), [String::new(), "stopped\n".to_owned()]), "{about}");
}

/// Files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_copy_ends_with_the_code_of_an_interrupt_and_leaves_no_file() {
    let (source, target) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let file = File::create(source.path().join("a.bin")).expect("a file");
    file.set_len(100_000_000).expect("space");
    let (url, stops) = serve(source.path(), (".bin", 40 << 20));
    let child = start(&["cp", &format!("{url}/a.bin"), &format!("{}/copies/a.bin", target.path().display())]);
    stops.recv().expect("the copy has begun");
    while files(target.path()).is_empty() {
        std::thread::yield_now();
    }
    interrupt(child, "cp");
    assert_eq!(files(target.path()), Vec::<PathBuf>::new());
}

#[test]
fn commands_that_fetch_shards_end_with_the_code_of_an_interrupt_and_leave_no_part_of_one() {
    let source = tempfile::tempdir().expect("a folder");
    let layout = Layout::mds([("text".to_owned(), Encoding::Str)]).expect("a layout");
    let into = LocalDir::create(source.path(), false).expect("a folder");
    let mut writer = Writer::new(layout, Box::new(into), Options::default()).expect("a writer");
    for _ in 0..100 {
        writer.write(&[Value::Str("sample ".repeat(100).into())]).expect("written");
    }
    writer.finish().expect("an index");
    for command in [&["doctor", "--skip", "environment"][..], &["bench"], &["preview"]] {
        let local = tempfile::tempdir().expect("a folder");
        let (url, stops) = serve(source.path(), (".mds", 1));
        let folder = local.path().display().to_string();
        let child = start(&[command, &[&url, "--local", &folder]].concat());
        stops.recv().expect("a shard is fetched");
        interrupt(child, command[0]);
        let kept: Vec<PathBuf> = files(local.path());
        let is_part =
            |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "tmp" || extension == "mds");
        assert_eq!(kept.iter().filter(is_part).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "{command:?}");
        assert!(kept.contains(&local.path().join("index.json")), "{command:?}: {kept:?}");
    }
}
