//! The grammar: all commands and their arguments.

use crate::bench::BenchArgs;
use crate::cat::CatArgs;
use crate::completion::CompletionArgs;
use crate::cp::CpArgs;
use crate::diff::DiffArgs;
use crate::doctor::DoctorArgs;
use crate::info::InfoArgs;
use crate::ls::LsArgs;
use crate::output::{Output, OutputArgs};
use crate::package::{CheckpointArgs, ConvertArgs, IndexArgs, VerifyArgs};
use crate::preview::PreviewArgs;
use crate::top::TopArgs;
use crate::which::WhichArgs;
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
    Bench(BenchArgs),
    Ls(LsArgs),
    Cat(CatArgs),
    Cp(CpArgs),
    Top(TopArgs),
    Verify(VerifyArgs),
    Which(WhichArgs),
    Diff(DiffArgs),
    Index(Box<IndexArgs>),
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
            Self::Bench(command) => run(command, output),
            Self::Ls(command) => run(command, output),
            Self::Cat(command) => run(command, output),
            Self::Cp(command) => run(command, output),
            Self::Top(command) => run(command, output),
            Self::Verify(arguments) => package("verify", arguments, output),
            Self::Which(command) => run(command, output),
            Self::Diff(command) => run(command, output),
            Self::Index(arguments) => package("index", arguments, output),
            Self::Convert(arguments) => package("convert", arguments, output),
            Self::Checkpoint(arguments) => package("checkpoint", arguments, output),
            Self::Completion(command) => Request::Done(command.print(Cli::command(), &Output::new(output))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(line: &str) -> Request {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_of_the_package_have_their_arguments_by_name() {
        for (line, name, some) in [
            (
                "verify a --remote b --repair --json",
                "verify",
                json!({"source": "a", "remote": "b", "repair": true, "complete": false, "threads": null, "json": true}),
            ),
            (
                "convert a b --columns x,y",
                "convert",
                json!({"columns": ["x", "y"], "hashes": ["xxh64"], "size_limit": "64mb"}),
            ),
            (
                "index a --files stem",
                "index",
                json!({"out": null, "files": "stem", "column": "text", "errors": "strict"}),
            ),
            ("checkpoint a", "checkpoint", json!({"prefix": "a", "remove_incomplete": false, "age": 86400.0})),
        ] {
            let Request::Package { command, arguments } = parsed(line) else { panic!("{line}") };
            assert_eq!(command, name);
            for (argument, value) in some.as_object().expect("an object") {
                assert_eq!(arguments.get(argument), Some(value), "{line}: {argument}");
            }
        }
    }

    #[test]
    fn commands_of_the_crate_name_the_addresses_that_they_open() {
        for (line, addresses) in [
            ("ls -rl s3://a sftp://b/c", &["s3://a", "sftp://b/c"][..]),
            ("cat a --range 0-9", &["a"]),
            ("cp a b c --skip-existing", &["a", "b", "c"]),
        ] {
            let Request::Run(run) = parsed(line) else { panic!("{line}") };
            assert_eq!(run.addresses(), addresses);
        }
    }

    #[test]
    fn wrong_arguments_are_a_failure_and_help_is_none() {
        for line in ["", "unknown", "ls", "cp a", "cat a --range 9-1", "convert a b --window 0", "verify a --repair"] {
            assert!(matches!(parsed(line), Request::Done(Exit::Failure)), "{line}");
        }
        for line in ["--help", "help cp", "ls -h", "--version", "completion fish"] {
            assert!(matches!(parsed(line), Request::Done(Exit::Success)), "{line}");
        }
    }
}
