//! Files of a store as they are: many objects that are listed and loaded, and texts that are read by lines, by the package
//! and by other readers of S3. The embedded server is another process.

use super::s3_clients::{S3Clients, Took};
use super::served::{Server, Serving};
use crate::report::{Better, Column, Report, Row};
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
    /// Workers of the DataLoader
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [0, 4])]
    workers: Vec<usize>,
    /// Lines of a batch
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [256])]
    batch_size: Vec<usize>,
    /// Threads of the clients that read with threads
    #[arg(long, default_value_t = 16)]
    threads: usize,
    /// Threads of the server
    #[arg(long, default_value_t = 1)]
    server_threads: usize,
    /// Rounds; the best one counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Interpreter with forebay, torch and the other clients
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
}

const SCRIPT: (&str, &str) = ("load.py", include_str!("../../scripts/store/load.py"));

/// Clients, by their names in `load.py`.
const CLIENTS: [&str; 6] = [
    "forebay",
    "s3torchconnector",
    "s3torchconnector, threads",
    "boto3, threads",
    "s3fs",
    "multi-storage-client, Rust, threads",
];

/// Task of every client.
struct Task {
    name: String,
    prefix: &'static str,
    workers: usize,
    /// Lines of a batch; 0 for whole objects.
    batch_size: usize,
    bytes: u64,
    /// Bytes of the objects, or lines.
    expected: u64,
}

/// Measures all clients at all tasks.
pub(crate) fn run(args: &FilesArgs) -> Result<Report> {
    make(args).map_err(|e| Error::from_io(e, "the files cannot be made").with("folder", args.data.display()))?;
    let text_bytes = (args.texts * args.lines * args.line_bytes) as u64;
    let object_bytes = (args.objects * args.object_bytes) as u64;
    let title = format!(
        "{} objects of {} kB, and {} texts of {:.0} MB, from loopback",
        args.objects,
        args.object_bytes / 1000,
        args.texts,
        text_bytes as f64 / 1e6 / args.texts.max(1) as f64
    );
    let columns = vec![
        Column::new("mib_per_s", "MiB/s", 0, Better::Higher).plotted(),
        Column::new("mib_per_cpu_s", "MiB per client CPU s", 0, Better::Higher).plotted(),
        Column::new("objects_per_s", "objects/s", 0, Better::Higher),
    ];
    let mut report = Report::new("files", title, columns);
    report.baseline = Some("forebay".to_owned());
    let mut tasks = Vec::new();
    for &workers in &args.workers {
        let name = |what: &str| if workers == 0 { what.to_owned() } else { format!("{what}, {workers} workers") };
        let (bytes, expected) = (object_bytes, object_bytes);
        tasks.push(Task { name: name("objects"), prefix: "objects/", workers, batch_size: 0, bytes, expected });
        for &batch_size in &args.batch_size {
            let (bytes, expected) = (text_bytes, (args.texts * args.lines) as u64);
            let name = name(&format!("lines, batches of {batch_size}"));
            tasks.push(Task { name, prefix: "texts/", workers, batch_size, bytes, expected });
        }
    }
    let clients = S3Clients::new(SCRIPT, &args.python)?;
    let serving = Serving { threads: args.server_threads, ..Serving::default() };
    let server = Server::embedded(&args.data, serving)?;
    for task in &tasks {
        let count = if task.batch_size == 0 { args.objects } else { args.texts };
        for client in CLIENTS {
            let settings = json!({
                "prefix": task.prefix, "threads": args.threads, "workers": task.workers, "batch_size": task.batch_size,
            });
            match clients.measure(client, &server.url, (args.rounds.max(1), task.expected), settings) {
                Ok((Took { seconds, cpu_seconds }, printed)) => {
                    report.add_versions(&printed);
                    let mib = task.bytes as f64 / f64::from(1 << 20);
                    let values = BTreeMap::from([
                        ("mib_per_s", mib / seconds),
                        ("mib_per_cpu_s", mib / cpu_seconds.max(1e-3)),
                        ("objects_per_s", count as f64 / seconds),
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
