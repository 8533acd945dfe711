//! The binary `forebay`: the commands that need no Python.

use forebay_command::{Exit, Request, Stop, parse};
use forebay_loader::sync::spawn;
use log::{LevelFilter, Log, Metadata, Record};
use signal_hook::consts::SIGINT;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // Fails only if there is a logger already.
    let _ = log::set_logger(&Warnings).map(|()| log::set_max_level(LevelFilter::Warn));
    let exit = match parse(std::env::args_os().skip(1)) {
        Request::Run(run) => {
            // Without it Ctrl-C ends the process where it is.
            if let Err(error) = stop_on_interrupt(run.stop()) {
                log::warn!("Ctrl-C leaves copies half done: {error}");
            }
            let exit = run.run(None, Vec::new());
            if exit == Exit::Stopped {
                eprintln!("stopped");
            }
            exit
        }
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

/// Stops a run at the first Ctrl-C. The second one ends the process.
fn stop_on_interrupt(stop: Stop) -> std::io::Result<()> {
    let is_stopped = Arc::default();
    signal_hook::flag::register_conditional_shutdown(SIGINT, Exit::Stopped as i32, Arc::clone(&is_stopped))?;
    signal_hook::flag::register(SIGINT, is_stopped)?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT])?;
    spawn("forebay-signals", move || signals.forever().for_each(|_| stop.set()))?;
    Ok(())
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
