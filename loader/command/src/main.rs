//! The binary `forebay`: the commands that need no Python.

use forebay_command::{Exit, Request, parse};
use log::{LevelFilter, Log, Metadata, Record};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Fails only if there is a logger already.
    let _ = log::set_logger(&Warnings).map(|()| log::set_max_level(LevelFilter::Warn));
    let exit = match parse(std::env::args_os().skip(1)) {
        Request::Run(run) => run.run(None, Vec::new()),
        Request::Package { command, .. } => {
            eprintln!(
                "error: `forebay {command}` is a part of the Python package: install it by `pip install forebay`"
            );
            Exit::Failure
        }
        Request::Done(exit) => exit,
    };
    exit.into()
}

/// Warnings of the engine on the standard error.
struct Warnings;

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("forebay")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("{}: {}", record.level().as_str().to_lowercase(), record.args());
        }
    }

    fn flush(&self) {}
}
