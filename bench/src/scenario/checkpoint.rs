//! Checkpoints: a state dict that is saved and loaded, on the embedded S3 server and in a folder, by the package, by
//! rival libraries, and by a bare client that has the same connections and no format. The server is a separate process.

use super::s3_clients::{ClientArgs, S3Clients, Took};
use super::served::{Server, Serving};
use crate::report::{Better, Column, Report, Row};
use clap::Args;
use forebay_loader::{Error, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// Empty folder for the files, one at a time; the server keeps the parts of an upload in memory
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// GiB of the tensors, which have 64 MiB each
    #[arg(long, default_value_t = 4.0)]
    gib: f64,
    /// Connections of the bare client, and threads of the clients that have them
    #[arg(long, default_value_t = 16)]
    threads: usize,
    #[command(flatten)]
    clients: ClientArgs,
}

const SCRIPT: (&str, &str) = ("checkpoint.py", include_str!("../../scripts/store/checkpoint.py"));

/// Client that all are compared with.
const BARE: &str = "bare client";

/// Clients of the server, and clients of the folder, by their names in `checkpoint.py`.
const CLIENTS: [(&str, &[&str]); 2] = [
    ("S3", &[BARE, "forebay", "forebay, torch.distributed.checkpoint", "s3torchconnector", "boto3"]),
    ("a folder", &[BARE, "forebay", "forebay, torch.distributed.checkpoint", "torch.save"]),
];

/// Measures all clients at all tasks.
pub(crate) fn run(args: &CheckpointArgs) -> Result<Report> {
    let bytes = (args.gib * f64::from(1 << 30)) as u64 / 4 * 4;
    if bytes == 0 || args.threads == 0 {
        return Err(Error::config("there is nothing to save: give more than 0 --gib and --threads"));
    }
    std::fs::create_dir_all(&args.data).map_err(|e| Error::from_io(e, "the folder cannot be made"))?;
    let columns = vec![
        Column::new("mib_per_s", "MiB/s", 0, Better::Higher).plotted(),
        Column::new("mib_per_cpu_s", "MiB per client CPU s", 0, Better::Higher),
        Column::new("held_up_s", "seconds that training is held up", 3, Better::Lower),
    ];
    let mut report = Report::new("checkpoint", format!("A state dict of {} GiB saved and loaded", args.gib), columns);
    report.baseline = Some(BARE.to_owned());
    let clients = S3Clients::new(SCRIPT, &args.clients.python)?;
    let serving = Serving { threads: args.clients.server_threads, opaque_tags: true, ..Serving::default() };
    let server = Server::embedded(&args.data, serving)?;
    for (place, names) in CLIENTS {
        for client in names {
            let measure = |task: &str| {
                let settings = json!({
                    "task": task, "threads": args.threads, "is_folder": place != "S3", "folder": args.data,
                });
                clients.measure(client, &server.url, (args.clients.rounds.max(1), bytes), settings)
            };
            for task in ["save", "load"] {
                let outcome = measure(task).and_then(|(took, printed)| {
                    // A client that only saves while training waits holds it up for the whole save.
                    let is_behind = task == "save" && *client == "forebay";
                    let held_up = if is_behind { Some(measure("held up")?.0.seconds) } else { None };
                    Ok((took, printed, held_up))
                });
                match outcome {
                    Ok((Took { seconds, cpu_seconds }, printed, held_up)) => {
                        report.add_versions(&printed);
                        let mib = bytes as f64 / f64::from(1 << 20);
                        let mut values = BTreeMap::from([
                            ("mib_per_s", mib / seconds),
                            ("mib_per_cpu_s", mib / cpu_seconds.max(1e-3)),
                        ]);
                        if task == "save" {
                            values.insert("held_up_s", held_up.unwrap_or(seconds));
                        }
                        let (group, name) = (format!("{task}, {place}"), (*client).to_owned());
                        report.rows.push(Row { group, name, values, ..Row::default() });
                    }
                    Err(e) => report.skip(&format!("{client}: {task}, {place}"), &e),
                }
            }
        }
    }
    Ok(report)
}
