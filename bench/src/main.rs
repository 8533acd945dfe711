//! `forebay-bench`: forebay beside its peers and beside the machine's limits.
//!
//! Every scenario measures several ways of doing the same work in one run and returns one [`report::Report`], which
//! goes out as a table, as JSON and as a plot; the claim is always a ratio within that run.
//!
//! * `cli` names the commands, `report` prints, `machine` says what the run ran on and who else was busy meanwhile.
//! * `synth` makes data sets: JPEGs or tokens, as files, tar and MDS.
//! * `serve` is the embedded object server on a folder.
//! * `scenario` holds one file per measurement; `scenario/peers` runs the Python loaders as children of this binary
//!   (`scripts/` is embedded; `--python` names the interpreter that has them installed).

mod cli;
mod folder;
mod machine;
mod python;
mod report;
mod scenario;
mod serve;
mod synth;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("forebay-bench: {e}");
            ExitCode::FAILURE
        }
    }
}
