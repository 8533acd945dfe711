//! `forebay-bench`: forebay compared with its peers and with the machine's limits.
//!
//! Every scenario measures several ways of doing the same work in one run and returns one [`report::Report`], which
//! is printed as a table and saved as JSON and as a plot. Claims are ratios within one run.
//!
//! * `cli` has the commands, `report` the output formats, `machine` the description and load of the machine.
//! * `synth` makes data sets: JPEGs or tokens, as files, tar and MDS.
//! * `serve` runs the embedded object server on a folder.
//! * `scenario` has one file per measurement; `scenario/peers` runs the Python loaders as children of this binary
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
