//! Files of a store as they are: many objects that are listed and loaded, texts that are read by lines, and tar files
//! that are read as streams, by the package and by rival readers of S3. The embedded server is a separate process.

use super::s3_clients::{ClientArgs, S3Clients, Took};
use super::served::{Server, Serving};
use crate::report::{Better, Column, Report, Row};
use crate::synth::tar;
use clap::Args;
use forebay_loader::{Error, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    /// Folder for the files, which are made if it does not exist
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Objects that are listed and loaded
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Bytes of each object
    #[arg(long, default_value_t = 100_000)]
    object_bytes: usize,
    /// Texts
    #[arg(long, default_value_t = 4)]
    texts: usize,
    /// Lines of each text
    #[arg(long, default_value_t = 100_000)]
    lines: usize,
    /// Bytes of each line
    #[arg(long, default_value_t = 1600)]
    line_bytes: usize,
    /// Tar files, of as many of the objects as fit
    #[arg(long, default_value_t = 2)]
    tars: usize,
    /// Bytes of each tar file, at most
    #[arg(long, default_value_t = 1_500_000_000)]
    tar_bytes: usize,
    /// Workers of the DataLoader
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [0, 4])]
    workers: Vec<usize>,
    /// Lines of a batch
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [256])]
    batch_size: Vec<usize>,
    /// Threads of the clients that read with threads
    #[arg(long, default_value_t = 16)]
    threads: usize,
    #[command(flatten)]
    clients: ClientArgs,
}

const SCRIPT: (&str, &str) = ("load.py", include_str!("../../scripts/store/load.py"));

/// Clients, by their names in `load.py`.
const CLIENTS: [&str; 7] = [
    "forebay",
    "s3torchconnector",
    "s3torchconnector, threads",
    "boto3, threads",
    "s3fs",
    "multi-storage-client, Rust, threads",
    "LitData, raw",
];

/// Clients that have no streams.
const WITHOUT_STREAMS: [&str; 2] = ["s3torchconnector, threads", "LitData, raw"];

/// Task of every client.
struct Task {
    name: String,
    /// Name in `load.py`.
    kind: &'static str,
    prefix: &'static str,
    workers: usize,
    /// Lines of a batch.
    batch_size: usize,
    /// Files that are opened.
    files: usize,
    bytes: u64,
    /// Bytes of the contents, or lines.
    expected: u64,
}

/// Measures all clients at all tasks.
pub(crate) fn run(args: &FilesArgs) -> Result<Report> {
    make(args).map_err(|e| Error::from_io(e, "the files cannot be made").with("folder", args.data.display()))?;
    let tasks = tasks(args);
    let title = format!(
        "{} objects of {} kB, {} texts of {:.0} MB, and {} tar files of {:.0} MB, from loopback",
        args.objects,
        args.object_bytes / 1000,
        args.texts,
        (args.lines * args.line_bytes) as f64 / 1e6,
        args.tars,
        (args.members() * args.object_bytes) as f64 / 1e6,
    );
    let columns = vec![
        Column::new("mib_per_s", "MiB/s", 0, Better::Higher).plotted(),
        Column::new("mib_per_cpu_s", "MiB per client CPU s", 0, Better::Higher).plotted(),
        Column::new("files_per_s", "files/s", 0, Better::Higher),
    ];
    let mut report = Report::new("files", title, columns);
    report.baseline = Some("forebay".to_owned());
    let clients = S3Clients::new(SCRIPT, &args.clients.python)?;
    let serving = Serving { threads: args.clients.server_threads, ..Serving::default() };
    let server = Server::embedded(&args.data, serving)?;
    for task in &tasks {
        let is_able = |client: &&str| task.kind != "members" || !WITHOUT_STREAMS.contains(client);
        for client in CLIENTS.into_iter().filter(is_able) {
            let settings = json!({
                "task": task.kind, "prefix": task.prefix, "threads": args.threads, "workers": task.workers,
                "batch_size": task.batch_size,
            });
            match clients.measure(client, &server.url, (args.clients.rounds.max(1), task.expected), settings) {
                Ok((Took { seconds, cpu_seconds }, printed)) => {
                    report.add_versions(&printed);
                    let mib = task.bytes as f64 / f64::from(1 << 20);
                    let values = BTreeMap::from([
                        ("mib_per_s", mib / seconds),
                        ("mib_per_cpu_s", mib / cpu_seconds.max(1e-3)),
                        ("files_per_s", task.files as f64 / seconds),
                    ]);
                    let (group, name) = (task.name.clone(), client.to_owned());
                    report.rows.push(Row { group, name, values, ..Row::default() });
                }
                Err(e) => report.skip(client, &e),
            }
        }
    }
    Ok(report)
}

/// Returns the tasks that have files, with each number of workers.
fn tasks(args: &FilesArgs) -> Vec<Task> {
    let mut tasks = Vec::new();
    for &workers in &args.workers {
        let mut add = |what: &str, kind, prefix, batch_size, files, bytes, expected| {
            let name = if workers == 0 { what.to_owned() } else { format!("{what}, {workers} workers") };
            if files > 0 {
                tasks.push(Task { name, kind, prefix, workers, batch_size, files, bytes, expected });
            }
        };
        let bytes = (args.objects * args.object_bytes) as u64;
        add("objects", "objects", "objects/", 0, args.objects, bytes, bytes);
        for &batch_size in &args.batch_size {
            let lines = args.texts * args.lines;
            let bytes = (lines * args.line_bytes) as u64;
            add(
                &format!("lines, batches of {batch_size}"),
                "lines",
                "texts/",
                batch_size,
                args.texts,
                bytes,
                lines as u64,
            );
        }
        let bytes = (args.tars * args.members() * args.object_bytes) as u64;
        add("tar files", "members", "tars/", 0, args.tars, bytes, bytes);
    }
    tasks
}

impl FilesArgs {
    /// Bytes of an object in a tar file, with its header.
    fn member_bytes(&self) -> usize {
        tar::BLOCK as usize + self.object_bytes.next_multiple_of(tar::BLOCK as usize)
    }

    /// Files in each tar file.
    fn members(&self) -> usize {
        self.tar_bytes.saturating_sub(2 * tar::BLOCK as usize) / self.member_bytes()
    }
}

/// Makes the files that are missing.
fn make(args: &FilesArgs) -> std::io::Result<()> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut letters = |len: usize| -> Vec<u8> {
        std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            b'a' + (random >> 59) as u8 % 26
        })
        .take(len)
        .collect()
    };
    let pattern = letters(1 << 20);
    let piece = |start: usize, len: usize| -> Vec<u8> {
        pattern.iter().cycle().skip(start % pattern.len()).take(len).copied().collect()
    };
    for number in 0..args.objects {
        // A thousand files per folder, as in a bucket of pictures.
        let path = args.data.join(format!("objects/{:03}/{number:06}.bin", number / 1000));
        write_missing(&path, args.object_bytes as u64, |file| file.write_all(&piece(number * 31, args.object_bytes)))?;
    }
    for number in 0..args.texts {
        let path = args.data.join(format!("texts/{number:03}.txt"));
        write_missing(&path, (args.lines * args.line_bytes) as u64, |file| {
            for line in 0..args.lines {
                let mut text = piece((number * args.lines + line) * 7, args.line_bytes.saturating_sub(1));
                text.push(b'\n');
                file.write_all(&text)?;
            }
            Ok(())
        })?;
    }
    for number in 0..args.tars {
        let path = args.data.join(format!("tars/{number:03}.tar"));
        let bytes = args.members() * args.member_bytes() + 2 * tar::BLOCK as usize;
        write_missing(&path, bytes as u64, |mut file| {
            for member in number * args.members()..(number + 1) * args.members() {
                tar::member(&mut file, &format!("{member:06}.bin"), &piece(member * 31, args.object_bytes))?;
            }
            tar::finish(file)
        })?;
    }
    Ok(())
}

fn write_missing(
    path: &Path,
    bytes: u64,
    write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    if path.metadata().is_ok_and(|meta| meta.len() == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    write(&mut file)?;
    file.flush()
}
