//! Completion of the command in shells.

use crate::Exit;
use crate::output::Output;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Print the completion script of a shell
///
/// For bash: forebay completion bash > ~/.local/share/bash-completion/completions/forebay
#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

impl CompletionArgs {
    /// Prints the script for the grammar.
    pub(crate) fn print(&self, mut grammar: Command, output: &Output) -> Exit {
        let mut script = Vec::new();
        generate(self.shell, &mut grammar, "forebay", &mut script);
        output.bytes(&script);
        output.finish(Exit::Success)
    }
}
