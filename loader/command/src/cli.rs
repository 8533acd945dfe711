//! The grammar: all commands and their arguments.

use crate::completion::CompletionArgs;
use crate::doctor::DoctorArgs;
use crate::info::InfoArgs;
use crate::ls::LsArgs;
use crate::output::{Output, OutputArgs};
use crate::package::{CheckpointArgs, ConvertArgs, DiffArgs, IndexArgs, VerifyArgs, WhichArgs};
use crate::preview::PreviewArgs;
use crate::top::TopArgs;
use crate::{Command, Exit, Request, Run};
use clap::{CommandFactory as _, Parser, Subcommand};
use serde::Serialize;
use serde_json::Value;
use std::ffi::OsString;

/// See a data set, check it, and copy it
#[derive(Debug, Parser)]
#[command(name = "forebay", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Info(InfoArgs),
    Preview(PreviewArgs),
    Doctor(DoctorArgs),
    Ls(LsArgs),
    Top(TopArgs),
    Verify(VerifyArgs),
    Which(WhichArgs),
    Diff(DiffArgs),
    Index(IndexArgs),
    Convert(ConvertArgs),
    Checkpoint(CheckpointArgs),
    Completion(CompletionArgs),
}

/// Reads the arguments of a command line, without the name of the program. Prints help, versions and errors.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Request {
    let given = std::iter::once(OsString::from("forebay")).chain(arguments);
    match Cli::try_parse_from(given) {
        Ok(cli) => cli.command.request(cli.output),
        Err(error) => {
            // The reader may be gone.
            let _ = error.print();
            Request::Done(if error.use_stderr() { Exit::Failure } else { Exit::Success })
        }
    }
}

impl Commands {
    fn request(self, output: OutputArgs) -> Request {
        match self {
            Self::Info(command) => run(command, output),
            Self::Preview(command) => run(command, output),
            Self::Doctor(command) => run(command, output),
            Self::Ls(command) => run(command, output),
            Self::Top(command) => run(command, output),
            Self::Verify(arguments) => package("verify", arguments, output),
            Self::Which(arguments) => package("which", arguments, output),
            Self::Diff(arguments) => package("diff", arguments, output),
            Self::Index(arguments) => package("index", arguments, output),
            Self::Convert(arguments) => package("convert", arguments, output),
            Self::Checkpoint(arguments) => package("checkpoint", arguments, output),
            Self::Completion(command) => Request::Done(command.print(Cli::command())),
        }
    }
}

/// A command of this crate.
fn run(command: impl Command + 'static, output: OutputArgs) -> Request {
    Request::Run(Run { command: Box::new(command), output: Output::new(output) })
}

/// A command of the Python package.
fn package(command: &'static str, arguments: impl Serialize, output: OutputArgs) -> Request {
    let mut arguments = match serde_json::to_value(arguments) {
        Ok(Value::Object(arguments)) => arguments,
        _ => serde_json::Map::new(),
    };
    arguments.insert("json".to_owned(), output.json.into());
    Request::Package { command, arguments }
}
